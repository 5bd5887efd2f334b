"""Descriptors of images: extracted resumably, kept in a folder."""

from displace.descriptors.store import DescriptorStore, Queries, is_store

__all__ = ["DescriptorStore", "Queries", "is_store"]
