"""Drives: places followed along a route, and recordings lined up with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from displace.registry import Registry

if TYPE_CHECKING:
    from displace.sequence.methods.base import SequenceMethod

SEQUENCES: Registry[SequenceMethod] = Registry(
    "sequence method", "displace.sequence.methods", "SequenceMethod"
)
