"""hloc (Hierarchical-Localization): its file of image pairs.

One ``query_image reference_image`` a line, best first for each query; hloc matches local features of those pairs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from displace.errors import FormatError, InputError
from displace.interop.locations import Locations
from displace.interop.outputs import PathLike, read_text, write_text
from displace.manifest.table import Manifest


def write_pairs(
    locations: Locations,
    path: PathLike,
    *,
    references: Manifest | None = None,
    query_prefix: str = "",
    reference_prefix: str = "",
    min_confidence: float = 0.0,
) -> list[Path]:
    """Write the pairs file of located images, each with the reference images of its best places.

    Parameters
    ----------
    locations : Locations
        Its number of places for each image (`k`) is what hloc calls ``num_matched``.
    path : path-like
        By custom ``pairs-*.txt``.
    references : Manifest, optional
        Take all images that it has of a place; by default the one image that the map has.
    query_prefix, reference_prefix : str
        Put before the images' names, so that they start from hloc's image folder (``"query/"``, ``"db/"``).
    min_confidence : float
        Leave images below it out: not in the map.

    Returns
    -------
    list of Path
        The file.
    """
    images = _images_of_places(locations, references)
    accepted = locations.accepted(min_confidence)
    lines = []
    for query, places, kept in zip(
        locations.manifest.images, locations.matches.places.tolist(), accepted, strict=True
    ):
        if kept:
            found = [image for place in places for image in images.get(place, ())]
            lines += [_line(query_prefix + query, reference_prefix + image) for image in found]
    if not lines:
        raise InputError("no pair to write: no image is located at a place with a reference image")
    write_text(path, "\n".join(lines) + "\n")
    return [Path(path)]


def read_pairs(path: PathLike) -> dict[str, list[str]]:
    """Read a pairs file: reference images of each query image, in the file's order."""
    pairs: dict[str, list[str]] = {}
    for number, line in enumerate(read_text(path, "a pairs file").split("\n"), start=1):
        names = line.split()
        if not names:
            continue
        if len(names) != 2:
            raise FormatError(
                f"{path} is not a pairs file: line {number} has {len(names)} names, not 2: {line[:80]!r}"
            )
        pairs.setdefault(names[0], []).append(names[1])
    return pairs


def _images_of_places(locations: Locations, references: Manifest | None) -> dict[Any, list[str]]:
    """Reference images of each place of the map."""
    ids = locations.town.place_ids.tolist()
    if references is not None:
        # Manifests call places by text; maps of bare vectors may count them.
        named: dict[str, list[str]] = {}
        for place, image in zip(references.places.tolist(), references.images, strict=True):
            named.setdefault(place, []).append(image)
        return {place: named.get(str(place), []) for place in ids}
    if locations.town.images is None:
        raise InputError(
            "the map has no reference images to pair with: build it with images, or give the manifest of its references"
        )
    return {place: [image] if image else [] for place, image in zip(ids, locations.town.images, strict=True)}


def _line(query: str, reference: str) -> str:
    line = f"{query} {reference}"
    if line.split() != [query, reference]:
        raise InputError(
            f"hloc separates names by blanks, and one of {query!r}, {reference!r} has blanks: rename it"
        )
    return line
