"""A ROS 2 node: the place of each camera frame, followed along the drive.

Run it where ROS 2 is sourced: ``python examples/ros2_node.py town.displace /camera/image_raw/compressed``. It publishes
a JSON text on ``/place`` for each frame: when it was taken, place, probability that it is right, probability of being
off the map. A frame that cannot be read is said in the log and left out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from displace import PlaceMap
from displace.errors import DisplaceError


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

    def __call__(self, frame: bytes) -> dict[str, Any]:
        """Return the record of one JPEG or PNG."""
        if self.follower is None:
            (record,) = self.place_map.locate(frame, k=1).to_json()
            return {"place": record["places"][0], "probability": record.get("confidence")}
        fix = self.follower.step(frame)
        place = fix.place.item() if hasattr(fix.place, "item") else fix.place
        return {"place": place, "probability": float(fix.probability), "off_map": float(fix.off_map)}


def receiver(
    locate: Locator, publish: Callable[[str], None], warn: Callable[[str], None]
) -> Callable[[Any], None]:
    """Return what takes a `CompressedImage`: one that is damaged must not end the node."""

    def received(message: Any) -> None:
        stamp = message.header.stamp
        try:
            record = locate(bytes(message.data))
        except DisplaceError as error:
            warn(f"the frame of {stamp.sec}.{stamp.nanosec:09d} is left out: {error}")
        else:
            publish(json.dumps({"stamp": {"sec": stamp.sec, "nanosec": stamp.nanosec}, **record}))

    return received


def main(map_file: str, topic: str) -> None:
    """Subscribe to a camera and publish places until ROS shuts down."""
    import rclpy
    from rclpy.executors import ExternalShutdownException
    from rclpy.node import Node
    from rclpy.qos import qos_profile_sensor_data
    from sensor_msgs.msg import CompressedImage
    from std_msgs.msg import String

    rclpy.init()
    node = Node("displace")
    publisher = node.create_publisher(String, "place", 10)
    received = receiver(
        Locator(PlaceMap.load(map_file)),
        lambda text: publisher.publish(String(data=text)),
        node.get_logger().warning,
    )
    # Cameras send without waiting for receipts ("best effort"): a subscription that asks for these gets no frame.
    node.create_subscription(CompressedImage, topic, received, qos_profile_sensor_data)
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python ros2_node.py MAP TOPIC [--ros-args …]")
    main(*sys.argv[1:3])
