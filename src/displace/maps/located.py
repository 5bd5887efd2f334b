"""Located: images with their matches in a map, as tables, exports and `--json` read them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors
from displace.descriptors.store import DescriptorStore, Queries
from displace.errors import InputError
from displace.manifest.table import Manifest
from displace.maps.place_map import PlaceMap
from displace.maps.remote import RemoteMap
from displace.matches import Matches, joined
from displace.progress import Stage

FRAME = ("frame", "timestamp")
LIKELY = 0.5
"""Probability from which on an image counts as in the map, unless another is given: more likely right than not."""


@dataclass(frozen=True, eq=False)
class Located:
    """Images with their best places in a map."""

    place_map: PlaceMap | RemoteMap
    """The map."""
    manifest: Manifest
    """The images, with time stamps and frame numbers where they are known."""
    matches: Matches
    """What `place_map.locate` found for them; images that could not be read have no score (NaN) and no place."""
    vectors: Vectors | None = None
    """Shape (q, D). Their descriptors; only the export `vme` needs them."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Images that could not be read, and why."""
    min_confidence: float | None = None
    """Below this probability an image counts as not in the map; 0.5 where none is given."""
    adapted: bool = False
    """Whether the matching was adapted to the images, so that each alone would score differently."""
    followed: bool = False
    """Whether frames were located as drives, by the sequence model."""

    def __post_init__(self) -> None:
        if len(self.manifest) != len(self.matches):
            raise InputError(
                f"manifest has {len(self.manifest)} images, matches has {len(self.matches)}: one for each is needed"
            )
        _ = self.reached  # raises where min_confidence is invalid

    @classmethod
    def of(
        cls,
        place_map: PlaceMap | RemoteMap,
        queries: Queries,
        k: int = 5,
        *,
        search: str = "auto",
        adapt: str = "none",
        **others: Any,
    ) -> Self:
        """Locate described images, such as ``store.queries("night")``, with their `k` best places."""
        matches = place_map.locate(queries.vectors, k, search=search, adapt=adapt)
        return cls(place_map, queries.manifest, matches, queries.vectors, adapted=matches.adapted, **others)

    @classmethod
    def of_store(
        cls,
        place_map: PlaceMap | RemoteMap,
        store: DescriptorStore,
        traversal: str | None = None,
        k: int = 5,
        *,
        search: str = "auto",
        adapt: str = "none",
        min_confidence: float | None = None,
        follow: bool = False,
    ) -> Self:
        """Locate the images of a store, or of one of its traversals; the map's model must have described it.

        With `adapt` "auto", images of several traversals, hence of several conditions, do not adapt the matching. With
        `follow` each traversal is a drive, its images in the order of their names.
        """
        place_map.check_model(store.model)
        skipped = store.skipped
        if traversal is None and not follow and adapt == "auto" and len(store.manifest.traversal_names()) > 1:
            adapt = "none"
        if traversal is None:
            queries = Queries(store.vectors(), store.places, store.manifest)
        else:
            listed = {*store.index.manifest.select_traversals([traversal]).images}
            skipped = {image: why for image, why in skipped.items() if image in listed}
            queries = store.queries(traversal)
        if follow:
            drives = _traversals(queries.manifest)
            matches = along_drives(place_map, queries.vectors, drives, k, adapt=adapt)
            return cls(
                place_map, queries.manifest, matches, queries.vectors, skipped, min_confidence, followed=True
            )
        others = {"skipped": skipped, "min_confidence": min_confidence}
        return cls.of(place_map, queries, k, search=search, adapt=adapt, **others)

    def __len__(self) -> int:
        return len(self.manifest)

    @property
    def whole_map(self) -> PlaceMap:
        """The map itself; an error where a server holds it."""
        if isinstance(self.place_map, PlaceMap):
            return self.place_map
        raise InputError("the images were located by a server; this form needs the map's own file")

    @property
    def reached(self) -> NDArray[np.bool_]:
        """Which images reach `min_confidence`; all that could be read where there is none."""
        return self.accepted(self.min_confidence or 0.0)

    @property
    def in_map(self) -> list[bool | None]:
        """Whether each image is in the map; None where it has no confidence."""
        limit = LIKELY if self.min_confidence is None else self.min_confidence
        sure = np.full(len(self), np.nan) if self.matches.confidence is None else self.matches.confidence
        readable = self.accepted()
        return [
            None if known and math.isnan(value) else known and value >= limit
            for known, value in zip(readable.tolist(), sure.tolist(), strict=True)
        ]

    def accepted(self, min_confidence: float = 0.0) -> NDArray[np.bool_]:
        """Which images are in the map with at least this probability; for 0 all that could be read (have a score)."""
        check_limit(min_confidence, known=self.matches.confidence is not None)
        if min_confidence == 0 or self.matches.confidence is None:
            return np.isfinite(self.matches.scores[:, 0])
        return self.matches.confidence >= min_confidence

    def to_json(self) -> list[dict[str, Any]]:
        """Make a record of each image, for other programs."""
        numbers = self.manifest.numbers
        names = [name for name in FRAME if name in numbers]
        stale = {"confidence_is_stale": True} if self.place_map.calibration_is_stale else {}
        return [
            {
                "image": image,
                **{name: _or_none(name, numbers[name][row]) for name in names},
                "in_map": in_map,
                **match,
                **stale,
            }
            for row, (image, in_map, match) in enumerate(
                zip(self.manifest.images, self.in_map, self.matches.to_json(), strict=True)
            )
        ]


def check_limit(min_confidence: float, known: bool) -> None:
    """Refuse a limit that is no probability, or above 0 where the map has no confidence."""
    if not 0 <= min_confidence <= 1:
        raise InputError(f"min_confidence={min_confidence} must be a probability, 0 to 1")
    if min_confidence > 0 and not known:
        raise InputError(
            f"min_confidence={min_confidence} needs a map with a confidence, and this one has none: build it again "
            "without --no-calibration, or leave --min-confidence out"
        )


def _or_none(name: str, value: float) -> float | None:
    if np.isnan(value):
        return None
    return int(value) if name == "frame" else round(float(value), 6)


def along_drives(
    place_map: PlaceMap | RemoteMap,
    vectors: Vectors,
    drives: Mapping[str, Sequence[int]],
    k: int,
    good: NDArray[np.bool_] | None = None,
    *,
    search: str = "auto",
    adapt: str = "auto",
    pictures: Sequence[Any] | None = None,
    progress: Stage | None = None,
) -> Matches:
    """Matches of images: the frames of each drive are smoothed together, the others located one by one.

    `drives` are the rows of each drive's frames, in the order in which they were taken. Images that are not `good`
    could not be read, and get neither place nor score. `pictures` are the images themselves, where they are at hand;
    `progress` tells how many of them were compared.
    """
    good = np.ones(len(vectors), bool) if good is None else good
    followed = [[row for row in rows if good[row]] for rows in drives.values()]
    alone = np.setdiff1d(np.flatnonzero(good), [row for rows in followed for row in rows])

    def shown(rows: Iterable[int]) -> list[Any] | None:
        return None if pictures is None else [pictures[row] for row in rows]

    parts: list[tuple[NDArray[np.intp], Matches]] = []

    def step(done: int, _: int) -> None:
        if progress is not None:
            progress(sum(len(rows) for rows, _ in parts) + done, int(good.sum()))

    for rows in followed:
        if rows:
            found = place_map.smoothed(vectors[rows], k, adapt=adapt, pictures=shown(rows), progress=step)
            parts.append((np.array(rows), found))
    if len(alone):
        found = place_map.locate(
            vectors[alone], k, search=search, adapt=adapt, pictures=shown(alone), progress=step
        )
        parts.append((alone, found))
    order = np.argsort(np.concatenate([rows for rows, _ in parts]))
    return joined([matches for _, matches in parts]).take(order).spread(good)


def _traversals(manifest: Manifest) -> dict[str, list[int]]:
    """Rows of each traversal's images, in the order of their names."""
    from displace.images import natural_key  # brings Pillow, which maps do without

    return {
        name: sorted(
            np.flatnonzero(manifest.traversals == name).tolist(),
            key=lambda row: natural_key(str(manifest.images[row])),
        )
        for name in manifest.traversal_names()
    }
