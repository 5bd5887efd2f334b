"""`displace align`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from displace.errors import InputError
from displace.progress import Progress, part
from displace.verbs.base import Output, PathLike, StorePath, Traversals, beside, check_output, whole_store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from displace.arrays import Vectors
    from displace.descriptors.store import DescriptorStore
    from displace.manifest.table import Manifest
    from displace.sequence.alignment import Alignment

BEFORE = "before-align.csv"
"""File in the store with the manifest as it was, for `undo`."""
LEAST_CONFIDENCE = 0.3
"""Frames whose place has a lower probability are not used as references."""
FAR = 50.0
"""Metres from the position of its place beyond which an image's position contradicts what it shows."""


@dataclass(frozen=True, eq=False)
class Lined:
    """Result of `align`; `str()` of it is a readable text."""

    store: DescriptorStore
    """The store with the new places."""
    alignment: Alignment | None = None
    """None after `undo`."""
    page: Path | None = None
    """The check page, if one was written."""

    def found(self) -> list[str]:
        """Lines about the result: places, the share of each recording that was found, and notes."""
        if self.alignment is None:
            return []
        found = self.alignment
        width = max(map(len, found.tracks))
        lines = [f"{found.n_places:,} places along {found.anchor!r}"]
        for name, track in found.tracks.items():
            seen = track.places >= 0
            if name == found.anchor:
                lines.append(f"  {name:<{width}}  {len(seen):>7,} frames  the anchor")
                continue
            sure = float(track.confidence[seen].mean()) if seen.any() else 0.0
            lines.append(
                f"  {name:<{width}}  {len(seen):>7,} frames  {seen.mean():4.0%} on the route, "
                f"{track.references.sum():,} references, mean probability of being right {sure:.2f}"
            )
        notes = [*found.notes, *_apart(self.store.manifest)]
        return [*lines, *(f"  {note}" for note in notes)]

    def __str__(self) -> str:
        if self.alignment is None:
            return f"{self.store.folder}: earlier places restored"
        lines = self.found()
        if self.page is not None:
            lines.append(str(self.page))
        lines.append(f"next: {shlex.join(['displace', 'build', str(self.store.folder)])}")
        return "\n".join(lines)


def align(
    store: StorePath,
    output: Output = None,
    *,
    anchor: str | None = None,
    traversals: Traversals = None,
    alike: bool = False,
    check: bool = False,
    undo: bool = False,
    partial: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Lined:
    """Find the places of recordings by sight, without positions or names.

    One recording, the anchor, defines the places; the frames of the others are lined up with it, whatever their speed,
    stops and detours. Frames taken where the anchor never was get no place, and only one frame of a stop gets one.
    Recordings of different routes, in opposite directions or with a second lap are refused.

    Parameters
    ----------
    store : path-like
        A folder made by `extract`.
    output : path-like, optional
        Also write the new manifest as CSV.
    anchor : str, optional
        Recording whose frames become the places; by default the one that the others fit best, among those with
        positions if there are any.
    traversals : sequence of str, optional
        Recordings to use; by default all. The others keep their places.
    alike : bool
        The route has parts that look alike, such as aisles or floors of a car park: accept recordings that seem to
        drive a part of it twice.
    check : bool
        Write a page beside the store to check the result: similarity matrix with the path, pairs of frames, weakest
        stretches first.
    undo : bool
        Restore the places that the images had before.
    partial : bool
        Accept a store whose extraction is unfinished: images without a descriptor get no place.
    overwrite : bool
        Replace existing places of the images, and an existing output.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    Lined
        The store, and where each recording was.

    Examples
    --------
    ::

        displace align route.desc
        displace align route.desc --anchor sun --check
        displace align route.desc --undo
    """
    from displace.descriptors.store import DescriptorStore

    if output is not None:
        check_output(output, overwrite)
    described = DescriptorStore(store)
    if undo:
        return _undone(described)
    described = whole_store(store, partial)
    names = list(traversals) if traversals else described.manifest.traversal_names()
    if not os.access(described.folder, os.W_OK):
        raise InputError(
            f"cannot write to {store}, which keeps the places that are found: copy it to a disk that can be written to"
        )
    _check_blank(described, names, overwrite)
    sighted = Sighted.of(described, names, anchor, progress, alike)
    lined = sighted.kept(output)
    return replace(lined, page=_check_page(sighted)) if check else lined


@dataclass(frozen=True, eq=False)
class Sighted:
    """Recordings of a store lined up by sight; nothing is written yet."""

    store: DescriptorStore
    rows: dict[str, NDArray[np.intp]]
    """Rows of each recording, in the order in which they were taken."""
    vectors: dict[str, Vectors]
    alignment: Alignment

    @classmethod
    def of(
        cls,
        store: DescriptorStore,
        names: Sequence[str],
        anchor: str | None,
        progress: Progress | None,
        alike: bool,
    ) -> Sighted:
        """Line recordings up; raises InputError if that is not possible."""
        from displace.models import grid_of
        from displace.sequence.alignment import align as line_up
        from displace.threads import limit_threads, threads_for

        rows = {name: in_time(store.manifest, name) for name in names}
        located = None if store.manifest.geo is None else store.manifest.geo.known
        candidates = [n for n in names if located is not None and located[rows[n]].mean() > 0.8]
        vectors = {name: store.vectors(taken) for name, taken in rows.items()}
        with limit_threads(threads_for(None, len(store), store.dim)):
            found = line_up(
                vectors,
                anchor,
                candidates or None,
                part(progress, "aligning"),
                grid=grid_of(store.model),
                alike=alike,
            )
        return cls(store, rows, vectors, found)

    def kept(self, output: PathLike | None, *, others: bool = True) -> Lined:
        """Write the places that were found to the store, and to a manifest `output`; `undo` restores the old ones.

        Recordings that were not lined up keep their places if `others`, and lose them otherwise.
        """
        from displace.descriptors.store_writing import relabel

        listed = self.store.index.manifest
        labelled = labels(listed, self.store.manifest, self.rows, self.alignment, others=others)
        before = self.store.folder / BEFORE
        if not before.exists() or "alignment" not in listed.numbers:
            listed.write(before)
        lined = relabel(self.store.folder, labelled)
        if output is not None:
            labelled.write(output)
        return Lined(lined, self.alignment)


def in_time(manifest: Manifest, traversal: str) -> NDArray[np.intp]:
    """Rows of a recording in the order in which they were taken."""
    import numpy as np

    rows = np.flatnonzero(manifest.traversals == traversal)
    if len(rows) == 0:
        known = ", ".join(manifest.traversal_names())
        raise InputError(f"no recording {traversal!r} in the store; it has: {known}")
    return rows[manifest.select(rows).in_time()]


def labels(
    listed: Manifest,
    described: Manifest,
    rows: dict[str, NDArray[np.intp]],
    found: Alignment,
    *,
    others: bool = True,
) -> Manifest:
    """Return the store's manifest with the places that were found; images without descriptors get none."""
    import numpy as np

    from displace.manifest.table import Manifest

    at = {image: row for row, image in enumerate(listed.images)}
    places = listed.places.astype(object)
    columns = {
        name: listed.numbers.get(name, np.full(len(listed), np.nan)).copy()
        for name in ("frame", "alignment", "lo", "hi")
    }
    aligned = np.isin(listed.traversals, list(rows)) if others else np.ones(len(listed), bool)
    places[aligned] = ""
    for values in columns.values():
        values[aligned] = np.nan
    width = len(str(found.n_places - 1))
    for name, taken in rows.items():
        track = found.tracks[name]
        keep = track.references & (track.confidence >= LEAST_CONFIDENCE)
        for frame in np.flatnonzero(track.places >= 0):
            row = at[described.images[taken[frame]]]
            if keep[frame]:
                places[row] = f"{track.places[frame]:0{width}d}"
            columns["frame"][row] = track.places[frame]
            columns["alignment"][row] = round(float(track.confidence[frame]), 4)
            columns["lo"][row], columns["hi"][row] = track.low[frame], track.high[frame]
    numbers = {**listed.numbers, **columns}
    return Manifest(listed.images, places.tolist(), listed.traversals, listed.root, **numbers)


def _apart(manifest: Manifest) -> list[str]:
    """Note places whose images have positions far apart: the mean, which is the place's position, is wrong there."""
    import numpy as np

    from displace.manifest.place_assignment import metres_from_place

    away = metres_from_place(manifest)
    far = away > FAR
    if not far.any():
        return []
    names = dict.fromkeys(manifest.traversals[far].tolist())
    return [
        f"positions contradict the images at {len(np.unique(manifest.places[far])):,} places: images lie up to "
        f"{away[far].max():,.0f} m from their mean, which is the place's position ({', '.join(names)}). If the GPS "
        "receiver jumped, as in a tunnel, leave those positions blank in the file beside the recording, and run again "
        "with --overwrite"
    ]


def _check_blank(store: DescriptorStore, names: list[str], overwrite: bool) -> None:
    """Refuse to replace places that `align` did not make."""
    import numpy as np

    mine = np.isin(store.traversals, names)
    given = mine & (store.places != "")
    made_here = (store.folder / BEFORE).exists()
    if given.any() and not overwrite and not made_here:
        raise InputError(
            f"{int(given.sum()):,} of {int(mine.sum()):,} images in {store.folder} already have places; "
            "replace them with --overwrite (--undo restores them)"
        )


def _undone(store: DescriptorStore) -> Lined:
    from displace.descriptors.store_writing import relabel
    from displace.manifest.table import Manifest

    before = store.folder / BEFORE
    if not before.exists():
        raise InputError(f"{store.folder} has nothing to undo: it was undone already, or never aligned")
    restored = relabel(store.folder, Manifest.read(before).relative_to(store.manifest.root))
    before.unlink()
    return Lined(restored)


def _check_page(sighted: Sighted) -> Path:
    from displace.report.html.alignment_page import write_alignment_page

    paths = sighted.store.manifest.paths()
    images = {name: [paths[row] for row in taken] for name, taken in sighted.rows.items()}
    page = beside(sighted.store.folder, ".align.html")
    write_alignment_page(page, sighted.alignment, sighted.vectors, images)
    return page
