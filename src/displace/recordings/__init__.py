"""Whatever people recorded (folders, videos, ROS bags) as folders of frames."""
