"""Manifests: which image shows which place in which traversal."""

from displace.manifest.table import Manifest

__all__ = ["Manifest"]
