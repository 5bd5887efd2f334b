"""The place map: one file to deploy, to locate with and to update."""

from displace.place_map.building import build
from displace.place_map.place_map import PlaceMap
from displace.place_map.updating import Update

__all__ = ["PlaceMap", "Update", "build"]
