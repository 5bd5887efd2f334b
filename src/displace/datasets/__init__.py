"""Data sets: one file each, found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from displace.registry import Registry

if TYPE_CHECKING:
    from displace.datasets.base import Dataset

DATASETS: Registry[Dataset] = Registry("data set", "displace.datasets", "Dataset", packages=True)
