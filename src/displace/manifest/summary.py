"""What a manifest holds, counted: places, traversals, coverage, duplicates, missing and unreadable files."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from displace.errors import ImageError
from displace.images import read_image
from displace.progress import Stage

_SHOWN, _LISTED = 5, 50
_BATCH = 256


@dataclass(frozen=True)
class Traversal:
    """One traversal's share of the places."""

    name: str
    images: int
    """Images in all."""
    places: int
    """Different places that it shows."""
    coverage: float
    """`places` as a share of all places."""
    blank: int
    """Images without a place: queries, off-route frames."""


@dataclass(frozen=True)
class Summary:
    """Result of `Manifest.summary`; `str()` of it is a readable text."""

    images: int
    places: int
    traversals: list[Traversal]
    duplicates: dict[tuple[str, str], int]
    """(place, traversal) with more than one image, and how many; allowed."""
    missing: list[str]
    """Images listed without a file."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Images that cannot be decoded, and why."""
    checked: bool = False
    """Whether the images were decoded."""
    known: int | None = None
    """Places that exist already and were to be found, of which `coverage` is a share then."""
    apart: bool = False
    """Whether several traversals show places, and no two of them the same one."""

    @property
    def ok(self) -> bool:
        """Whether each image is there and, as far as checked, can be read."""
        return not self.missing and not self.unreadable

    def against(self, known: int) -> Summary:
        """Return the same counts, with the places that exist already as the whole."""
        share = [replace(t, coverage=t.places / max(1, known)) for t in self.traversals]
        return replace(self, traversals=share, known=known, apart=False)

    @property
    def _all(self) -> str:
        return "all places" if self.known is None else f"the {self.known:,} known places"

    def __str__(self) -> str:
        width = max((len(t.name) for t in self.traversals), default=0)
        counts = {"image": self.images, "place": self.places, "traversal": len(self.traversals)}
        lines = [", ".join(f"{n:,} {name}{'s' * (n != 1)}" for name, n in counts.items())]
        lines += [
            f"  {t.name:<{width}}  {t.images:>8,} image{_s(t.images)}  {t.places:>8,} place{_s(t.places)}  "
            f"{t.coverage:6.1%} of {self._all}" + (f"  {t.blank:,} without a place" if t.blank else "")
            for t in self.traversals
        ]
        if self.duplicates:
            pairs = [f"{place} in {traversal}: {n}" for (place, traversal), n in self.duplicates.items()]
            lines.append(f"{len(pairs):,} places seen more than once in one traversal ({_some(pairs)})")
        if self.apart:
            lines.append(
                "no place is shown by two traversals, so that there is nothing to fuse: give the folder that holds the "
                "traversals of one route, or the folder of each"
            )
        if self.places and any(t.blank for t in self.traversals):
            lines.append("images without a place stay in the table; build and update leave them out")
        if self.images and not self.places and self.known is None:
            lines.append("no place is known yet; next: displace extract, then displace align")
        lines.append(
            f"{len(self.missing):,} files missing ({_some(self.missing)})"
            if self.missing
            else "no file missing"
        )
        if self.missing and "\\" in self.missing[0]:
            lines.append("paths with backslashes are read on Windows only: write / instead")
        if self.unreadable:
            lines.append(f"{len(self.unreadable):,} images unreadable:")
            lines += [f"  {reason}" for reason in list(self.unreadable.values())[:_LISTED]]
            if len(self.unreadable) > _LISTED:
                lines.append(f"  … and {len(self.unreadable) - _LISTED:,} more")
        elif self.checked:
            lines.append(f"every image {'that is there ' * bool(self.missing)}can be read")
        return "\n".join(lines)


def summarize(
    images: list[str],
    paths: list[Path],
    places: list[str],
    traversals: list[str],
    check_images: bool = False,
    progress: Stage | None = None,
) -> Summary:
    """Count the rows of a manifest; see `Manifest.summary`."""
    pairs = Counter(zip(places, traversals, strict=True))
    n_images, n_places = Counter(traversals), len(set(places) - {""})
    seen = Counter(traversal for place, traversal in pairs if place)
    there = _are_files(paths)
    shown = sum(n > 0 for n in seen.values())
    return Summary(
        images=len(images),
        places=n_places,
        traversals=[
            Traversal(name, n_images[name], seen[name], seen[name] / max(1, n_places), pairs["", name])
            for name in n_images
        ],
        duplicates={pair: n for pair, n in pairs.items() if n > 1 and pair[0]},
        missing=[image for image, found in zip(images, there, strict=True) if not found],
        unreadable=_unreadable(images, paths, there, progress) if check_images else {},
        checked=check_images,
        apart=shown > 1 and sum(seen.values()) == n_places,
    )


def _s(n: int) -> str:
    """Make a plural, as wide as the singular."""
    return " " if n == 1 else "s"


def _are_files(paths: list[Path]) -> list[bool]:
    """Tell which files are there; listing each folder once is much faster than asking for each file."""
    listed: dict[Path, set[str]] = {}
    found = []
    for path in paths:
        folder = path.parent
        if folder not in listed:
            entries = os.scandir(folder) if folder.is_dir() else ()
            listed[folder] = {entry.name for entry in entries if entry.is_file()}
        found.append(path.name in listed[folder])
    return found


def _unreadable(
    images: list[str], paths: list[Path], there: list[bool], progress: Stage | None
) -> dict[str, str]:
    """Decode every file that is there; return those that fail, and why."""
    todo = [(image, path) for image, path, found in zip(images, paths, there, strict=True) if found]
    failed: dict[str, str] = {}
    with ThreadPoolExecutor() as pool:
        for start in range(0, len(todo), _BATCH):
            batch = todo[start : start + _BATCH]
            reasons = pool.map(_why_unreadable, [path for _, path in batch])
            failed |= {image: why for (image, _), why in zip(batch, reasons, strict=True) if why}
            if progress:
                progress(start + len(batch), len(todo))
    return failed


def _why_unreadable(path: Path) -> str:
    try:
        read_image(path)
    except ImageError as error:
        return str(error)
    return ""


def _some(names: list[str]) -> str:
    """Name the first few of `names`."""
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
