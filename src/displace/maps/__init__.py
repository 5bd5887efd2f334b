"""The place map: one file to deploy, to locate with and to update."""

from displace.maps.place_map import PlaceMap

__all__ = ["PlaceMap"]
