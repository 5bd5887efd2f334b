"""The place map: one file to deploy, to locate with and to update."""

from displace.maps.building import build
from displace.maps.place_map import PlaceMap
from displace.maps.updating import Update

__all__ = ["PlaceMap", "Update", "build"]
