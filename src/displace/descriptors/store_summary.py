"""Summary of a descriptor store, made without reading vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from displace.descriptors.store import DescriptorStore
from displace.manifest.summary import Traversal
from displace.manifest.table import Manifest
from displace.truth import Truth

SIGHT_TOLERANCE = "2 frames"
"""Tolerance for places found by sight, which are only as exact as the alignment, and for the frames of one video."""


@dataclass(frozen=True)
class StoreSummary:
    """Counts of a descriptor store."""

    folder: str
    model: dict[str, Any]
    """Fingerprint of the model."""
    dim: int
    dtype: str
    n_listed: int
    """Images in its manifest."""
    n_described: int
    n_places: int
    traversals: list[Traversal]
    """Described images of each traversal."""
    skipped: dict[str, str]
    """Images that could not be read, and why."""
    n_pending: int
    """Images that a run has not reached yet."""
    n_shards: int
    n_bytes: int
    """Bytes of all vectors."""
    n_unused: int
    """Vectors of contents that the manifest lists no more."""
    damaged: list[str]
    """Shards that cannot be used; their images will be described again."""
    tolerance: str | None = None
    """Default tolerance between its places; None if no image has a place."""


def by_sight(store: DescriptorStore) -> bool:
    """Whether places were found by sight."""
    return "alignment" in store.manifest.numbers and store.manifest.frame is not None


def own_tolerance(*stores: DescriptorStore) -> str | None:
    """Default tolerance: two frames for places without positions found by sight or in one video or bag, else None."""
    frames = any(by_sight(store) for store in stores) or (len(stores) == 1 and _one_drive(stores[0].manifest))
    return SIGHT_TOLERANCE if frames and all(store.manifest.geo is None for store in stores) else None


def _one_drive(manifest: Manifest) -> bool:
    """Whether images are those of one recording by time: the next frame shows nearly the same."""
    timed = manifest.frame is not None and manifest.timestamp is not None
    return timed and len(manifest.traversal_names()) == 1


def summarize_store(store: DescriptorStore, tolerance: str | None = None) -> StoreSummary:
    """Count images, places, traversals and bytes of a store; its places must allow the tolerance."""
    counted = store.manifest.summary()
    tolerance = own_tolerance(store) if tolerance is None else tolerance
    return StoreSummary(
        folder=str(store.folder),
        model=store.model,
        dim=store.dim,
        dtype=str(store.dtype),
        n_listed=len(store.index.manifest),
        n_described=len(store),
        n_places=counted.places,
        traversals=counted.traversals,
        skipped=store.skipped,
        n_pending=store.n_pending,
        n_shards=store.shards.n_files,
        n_bytes=store.shards.nbytes,
        n_unused=store.shards.n_rows - len(set(store.contents)),
        damaged=store.shards.damaged,
        tolerance=str(Truth.of(store.stream().info, tolerance).tolerance) if counted.places else None,
    )
