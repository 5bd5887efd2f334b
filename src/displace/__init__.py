"""Multi-reference visual place recognition."""

from displace._version import __version__

__all__ = ["__version__"]
