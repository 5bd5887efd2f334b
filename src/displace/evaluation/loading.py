"""Descriptors and questions of one query traversal, in memory or, where they are large, in a file that is mapped."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, blocks, check_finite
from displace.datasets.base import Protocol
from displace.descriptors.store import DescriptorStore
from displace.errors import InputError
from displace.evaluation.correct_places import correct_places
from displace.evaluation.random_projection import random_projection
from displace.evaluation.rankings import Questions
from displace.neighbours import is_sequence, sample
from displace.references import view_groups

IN_MEMORY = 2**30
"""Bytes of descriptors up to which they are held in memory; more are mapped from a file without a name."""


@dataclass(frozen=True, eq=False)
class Split:
    """The rows of a store that are references and queries, and what is asked."""

    store: DescriptorStore
    references: NDArray[np.bool_]
    queries: NDArray[np.bool_]
    """Masks over the store's rows."""
    places: Indices
    """Shape (m,). Index of each reference's place in ``questions.place_ids``."""
    traversals: NDArray[np.str_]
    """Shape (m,). Traversal of each reference."""
    questions: Questions
    groups: Indices | None = None
    """Shape (m,). View of each reference, where cameras or headings tell."""

    @classmethod
    def of(cls, store: DescriptorStore, protocol: Protocol, query: str, folder: Path) -> Split:
        """Split a store as the protocol says; image names become relative to the results' `folder`."""
        manifest = store.manifest
        references, queries = protocol.mapped(manifest, query), protocol.asked(manifest, query)
        if not references.any():
            raise InputError(
                f"query={query!r} leaves no references with a place in {store.folder}; it has the traversals "
                f"{', '.join(manifest.traversal_names())}"
            )
        place_ids, first, index = np.unique(
            manifest.places[references], return_index=True, return_inverse=True
        )
        correct = correct_places(protocol.truth(manifest, query), place_ids)
        images = np.array(manifest.images)
        questions = Questions(
            place_ids,
            images[references][first],
            images[queries],
            manifest.places[queries],
            correct.starts,
            correct.places,
            np.array(_relative(manifest.root, folder)),
            _order(store, protocol, query),
        )
        chosen = manifest.select(references)
        groups = view_groups(index, chosen.traversals, chosen.camera, chosen.heading)
        return cls(store, references, queries, index, chosen.traversals, questions, groups)

    def route(self) -> Indices:
        """The places in the order of the route, which the references' column `frame` tells."""
        frames = self.store.manifest.numbers.get("frame")
        known = None if frames is None else frames[self.references]
        if known is None or not np.isfinite(known).all():
            raise InputError(
                "sequences need the order of the places along the route: a column `frame` of the "
                "manifest with a number for every reference"
            )
        first = np.full(len(self.questions.place_ids), np.inf)
        np.minimum.at(first, self.places, known)
        return np.argsort(first, kind="stable")

    def in_time(self) -> Indices:
        """The queries in the order in which they were taken."""
        return self.store.manifest.select(self.queries).in_time()

    def vectors(self, rows: NDArray[np.bool_], projection: int | None, seed: int) -> Vectors:
        """Descriptors of the rows of a mask, projected at random where a dimension is given."""
        wanted = np.flatnonzero(rows)
        R = None if projection is None else random_projection(self.store.dim, projection, seed)
        out = _empty((len(wanted), self.store.dim if R is None else R.shape[1]))
        for part in blocks(len(wanted), row_bytes=4 * self.store.dim):
            vectors = self.store.vectors(wanted[part])
            check_finite(vectors, f"descriptors of {self.store.folder}")
            out[part] = vectors if R is None else vectors @ R
        return out


def store_digest(store: DescriptorStore) -> str:
    """Hash of the model and of every row's content, place, traversal and position."""
    manifest = store.manifest
    total = hashlib.sha256(json.dumps([store.model, store.dim, str(store.dtype)], sort_keys=True).encode())
    for column in (store.contents, manifest.places.tolist(), manifest.traversals.tolist()):
        total.update(json.dumps(column).encode())
    for name, values in manifest.numbers.items():
        total.update(name.encode() + values.tobytes())
    return total.hexdigest()[:16]


def _order(store: DescriptorStore, protocol: Protocol, query: str) -> NDArray[np.float64] | None:
    """Where each query is along its drive, NaN where unknown; None where the queries are no drive.

    Their times tell, where all have one. Frame numbers do where the protocol counts in them, or where neighbours look
    alike: webcams whose files are numbered have such numbers, too.
    """
    queries = store.manifest.select(protocol.asked(store.manifest, query))
    if queries.timestamp is not None and np.isfinite(queries.timestamp).all():
        return queries.timestamp
    if queries.frame is None or not np.isfinite(queries.frame).any():
        return None
    if protocol.tolerance.kind == "frames":
        return queries.frame
    placed = bool((queries.places != "").any())
    return queries.frame if placed and is_sequence(sample(store.stream([query]))) else None


def _empty(shape: tuple[int, int]) -> Vectors:
    """Room for descriptors: memory, or a mapped file whose pages the system can drop and read again."""
    if 4 * shape[0] * shape[1] <= IN_MEMORY:
        return np.empty(shape, np.float32)
    # The mapping keeps the file alive; it has no name, so that nothing is left behind after a crash.
    with tempfile.TemporaryFile(prefix="displace-") as file:
        mapped: np.memmap[Any, Any] = np.memmap(file, np.float32, "w+", shape=shape)
    return mapped


def _relative(root: Path, folder: Path) -> str:
    """Path from the results folder to the images, absolute where there is no other way."""
    try:
        return Path(os.path.relpath(root.resolve(), folder.resolve())).as_posix()
    except ValueError:  # another drive
        return root.resolve().as_posix()
