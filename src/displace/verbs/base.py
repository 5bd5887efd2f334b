"""Parameter types that the verbs share, and checks made before any work.

A verb is a typed function. The command line is derived from it: options and defaults from the signature, help from the
docstring. An annotation on a parameter says how the command line spells it, if not by its name.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from displace.errors import InputError, ManifestError, RouteWarning
from displace.files.reading import PathLike as PathLike
from displace.files.reading import Sources as Sources

if TYPE_CHECKING:
    from displace.descriptors.store import DescriptorStore
    from displace.manifest.table import Manifest
    from displace.references import ReferenceSet

MAP_ENDING = ".displace"


@dataclass(frozen=True)
class Argument:
    """A positional parameter of the command line, and its name in usage lines."""

    metavar: str


@dataclass(frozen=True)
class Option:
    """How the command line spells an option if not as ``--its-name``."""

    flag: str = ""
    """A short flag to add (``-o``), or a long one to use instead (``--traversal`` for `traversals`)."""
    metavar: str | None = None
    """Name of its value; by default its type."""
    commas: bool = False
    """Whether a sequence is given as one comma-separated text rather than by repeating the option."""


StorePath = Annotated[PathLike, Argument("STORE")]
MapPath = Annotated[PathLike, Argument("MAP")]
Output = Annotated[PathLike | None, Option("-o")]
Traversals = Annotated[Sequence[str] | None, Option("--traversal")]


def listed(sources: Sources) -> list[Path]:
    """One source or several, as a list."""
    return [Path(part) for part in ([sources] if isinstance(sources, str | os.PathLike) else sources)]


def beside(source: PathLike, ending: str) -> Path:
    """Name of a file made from a source, beside it: ``route.csv`` and ``route.desc`` become ``route.displace``.

    A dot in the name of any other folder begins no ending: ``route.north`` becomes ``route.north.displace``.
    """
    path = Path(source)
    if path.name in ("", ".."):
        path = path.resolve()  # the name of . or ..
    if not path.name:
        raise InputError(f"cannot derive a file name from {source}; choose one with -o")
    strip = path.is_file() or path.suffix in (".csv", ".desc")
    return path.with_name(f"{path.stem if strip else path.name}{ending}")


def check_threads(threads: int | None) -> None:
    """Refuse fewer than one thread."""
    if threads is not None and threads < 1:
        raise InputError(f"threads={threads} must be at least 1")


def check_folder_of(output: PathLike) -> None:
    """Refuse a name in a folder that does not exist or is not writable, before anything is computed."""
    folder = Path(output).parent
    if not folder.is_dir():
        raise InputError(
            f"cannot write {output}: there is no folder {folder}; create it, or choose another name with -o"
        )
    if not os.access(folder, os.W_OK):
        raise InputError(
            f"cannot write {output}: no permission to write to {folder}; choose another name with -o"
        )


def check_output(output: PathLike, overwrite: bool) -> None:
    """Refuse a file that cannot be written, or exists without `overwrite`, before anything is computed."""
    if Path(output).is_dir():
        raise InputError(f"cannot write {output}: it is a folder; choose another name with -o")
    check_folder_of(output)
    check_unused(output, overwrite)


def check_unused(output: PathLike, overwrite: bool) -> None:
    """Refuse to replace an existing file without `overwrite`."""
    if Path(output).exists() and not overwrite:
        raise InputError(f"{output} exists; choose another name with -o, or replace it with --overwrite")


def check_own_output(output: PathLike, marks: Sequence[str], what: str) -> None:
    """Refuse a file that cannot be written, or that no earlier run wrote, with one of `marks` near its beginning."""
    from displace.files.atomic import check_file

    path = Path(output).resolve()
    check_output(output, overwrite=True)
    check_file(path)
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(4096)
        if head and not any(mark.encode() in head for mark in marks):
            raise InputError(
                f"{output} exists and is not a {what} written by displace: choose another name with -o, or remove it"
            )


def read_manifest(path: PathLike) -> Manifest:
    """Read a manifest file, with a hint if a folder or a recording is given instead."""
    from displace.descriptors.store import is_store
    from displace.manifest.table import Manifest

    if Path(path).is_dir():
        what = "is a descriptor store" if is_store(path) else "is a folder"
        raise ManifestError(
            f"{path} {what}, but a manifest is a CSV file; make one with: displace manifest FOLDER"
        )
    try:
        return Manifest.read(path)
    except ManifestError:
        from displace.recordings.sources import is_video_or_bag

        if not is_video_or_bag(Path(path)):
            raise
        raise ManifestError(
            f"{path} is a video or a bag, but a manifest is a CSV file; make one with: displace manifest "
            f"{quote(str(path))}"
        ) from None


def whole_store(folder: PathLike, partial: bool) -> DescriptorStore:
    """Open a store; refuse an unfinished one unless `partial`."""
    from displace.descriptors.store import DescriptorStore

    store = DescriptorStore(folder)
    if store.n_pending and not partial:
        raise InputError(f"{_pending(store)}, or use what there is with --partial")
    return store


def unfinished_store(folder: PathLike) -> DescriptorStore:
    """Open a store; say what an unfinished one lacks."""
    from displace.descriptors.store import DescriptorStore

    store = DescriptorStore(folder)
    if store.n_pending:
        warnings.warn(_pending(store), RouteWarning, stacklevel=3)
    return store


def _pending(store: DescriptorStore) -> str:
    return (
        f"{store.folder} is not finished: {store.n_pending} of {len(store.index.manifest)} images are not described "
        "yet. Run displace extract again to resume"
    )


def showing(
    store: DescriptorStore, traversals: Sequence[str] | None = None, exclude: Sequence[str] = ()
) -> DescriptorStore:
    """The store without places of images that show nothing; say how many of the chosen traversals there are."""
    import numpy as np

    shown = store.showing()
    lost = Counter(store.traversals[store.places != shown.places].tolist())
    chosen = [
        name
        for name in store.manifest.traversal_names()
        if name not in exclude and (traversals is None or name in traversals)
    ]
    if told := [name for name in chosen if lost[name]]:
        if not (np.isin(shown.traversals, chosen) & (shown.places != "")).any():
            names = ", ".join(map(repr, told))
            raise InputError(
                f"all images of {names} look the same (black, covered or of one colour), so places cannot be told apart"
            )
        counted = ", ".join(f"{lost[name]:,} of {name!r}" for name in told)
        warnings.warn(
            f"images that show nothing (black, covered or of one colour) are no references: {counted}",
            RouteWarning,
            stacklevel=3,
        )
    return shown


def look_at_neighbours(refs: ReferenceSet, tolerance: str | None, *, exact: bool = False) -> None:
    """Warn of traversals that show nothing or do not line up, and if neighbours of a sequence count as wrong.

    If no traversal shows anything, that is an `InputError`. `tolerance` is as given by the user; with `exact`, only the
    exact place is correct by default even if places have positions.
    """
    from displace.neighbours import featureless, is_sequence, misaligned

    blank = featureless(refs)
    if blank:
        names = ", ".join(repr(str(name)) for name in blank)
        message = f"all images of {names} look the same (black, covered or of one colour)"
        if len(blank) == len(refs.traversal_ids):
            raise InputError(f"{message}, so places cannot be told apart")
        warnings.warn(f"{message}: leave such recordings out with --exclude", RouteWarning, stacklevel=3)
    for sentence in misaligned(refs):
        warnings.warn(f"{sentence}; displace align lines recordings up by sight", RouteWarning, stacklevel=3)
    known = refs.info.positions is not None
    if tolerance is None and (exact or not known) and is_sequence(refs):
        wider = "25m" if known else '"2 frames"'
        warnings.warn(
            "the places look like consecutive frames of a drive, but the next frame counts as wrong: "
            f"--tolerance {wider} counts neighbours as right",
            RouteWarning,
            stacklevel=3,
        )


def look_at_order(refs: ReferenceSet) -> None:
    """Warn if places count as a drive but do not look like one: their order alone would give the answers."""
    from displace.neighbours import ENOUGH, is_sequence

    if refs.info.order is not None and len(refs.place_ids) >= ENOUGH and not is_sequence(refs):
        warnings.warn(
            "places that follow each other look no more alike than others: unless they are places along one route, "
            "recalls of sequences tell only that queries and places were listed in the same order",
            RouteWarning,
            stacklevel=3,
        )
