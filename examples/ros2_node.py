"""A ROS 2 node: the place of each camera frame, followed along the drive.

Run it where ROS 2 is sourced: ``python examples/ros2_node.py town.displace /camera/image_raw/compressed``. It publishes
a JSON text on ``/place`` for each frame: place, probability that it is right, probability of being off the map.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from displace import PlaceMap


class Locator:
    """Turns compressed camera frames into texts; needs no ROS.

    Parameters
    ----------
    place_map : PlaceMap
        With an order along the route, it is followed; without, every frame is located by itself.
    """

    def __init__(self, place_map: PlaceMap) -> None:
        self.place_map = place_map
        self.follower = None if place_map.places.order is None else place_map.follow()

    def __call__(self, frame: bytes) -> str:
        """Return the JSON record of one JPEG or PNG."""
        if self.follower is None:
            (record,) = self.place_map.locate(frame, k=1).to_json()
            return json.dumps({"place": record["places"][0], "probability": record.get("confidence")})
        fix = self.follower.step(frame)
        place = fix.place.item() if hasattr(fix.place, "item") else fix.place
        return json.dumps(
            {"place": place, "probability": float(fix.probability), "off_map": float(fix.off_map)}
        )


def main(map_file: str, topic: str) -> None:
    """Subscribe to a camera and publish places until ROS shuts down."""
    import rclpy
    from rclpy.node import Node
    from sensor_msgs.msg import CompressedImage
    from std_msgs.msg import String

    rclpy.init()
    node = Node("displace")
    locate = Locator(PlaceMap.load(map_file))
    publisher = node.create_publisher(String, "place", 10)

    def received(message: Any) -> None:
        publisher.publish(String(data=locate(bytes(message.data))))

    node.create_subscription(CompressedImage, topic, received, 10)
    rclpy.spin(node)


if __name__ == "__main__":
    main(*sys.argv[1:3])
