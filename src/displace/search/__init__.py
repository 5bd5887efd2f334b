"""Search backends: one file each, found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from displace.registry import Registry

if TYPE_CHECKING:
    from displace.search.base import Index

INDEXES: Registry[Index] = Registry("search backend", "displace.search", "Index")
