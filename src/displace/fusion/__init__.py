"""Fusions: one file each, found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from displace.registry import Registry

if TYPE_CHECKING:
    from displace.fusion.base import Fusion

FUSIONS: Registry[Fusion] = Registry("fusion", "displace.fusion", "Fusion")

DEFAULT = "displace"
"""Name of the default fusion."""


def get_fusion(name: str) -> type[Fusion]:
    """Return the fusion class called `name`.

    >>> get_fusion("hops")().__class__.__name__
    'Hops'
    """
    return FUSIONS.get(name)
