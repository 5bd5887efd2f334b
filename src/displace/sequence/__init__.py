"""Sequences of frames: drives followed along a map's route, and recordings aligned with each other.

ARCHITECTURE.md says in which order to read the files. `engine` defines the model that all of them share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from displace.registry import Registry

if TYPE_CHECKING:
    from displace.sequence.methods.base import SequenceMethod

SEQUENCES: Registry[SequenceMethod] = Registry(
    "sequence method", "displace.sequence.methods", "SequenceMethod"
)
