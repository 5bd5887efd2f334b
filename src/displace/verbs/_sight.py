"""Check by sight whether equal names or numbers of images are equal places: in two drives they are not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from displace.errors import InputError

if TYPE_CHECKING:
    from displace.descriptors.store import DescriptorStore
    from displace.manifest.table import Manifest
    from displace.progress import Progress
    from displace.references import ReferenceSet


ROUTE = 30
"""Recordings of at least this many images are refused if they show another route: fewer may look so by chance."""
EQUAL = {"names": "equal file names", "order": "images of equal number"}
"""What counts as equal places, by layout."""


def check_names(
    store: DescriptorStore, refs: ReferenceSet, table: Path, progress: Progress | None, alike: bool
) -> list[str]:
    """Line recordings up if the images show that equal names are not equal places; return messages about it.

    Names are kept if the images of `refs`, a sample, confirm them or are inconclusive. Otherwise the store's places are
    replaced and the manifest `table` is written. InputError if the recordings cannot be lined up: they show different
    routes.
    """
    from displace.neighbours import FEW, OFTEN, unconfirmed
    from displace.sequence.equal_names import CONTRADICTED, elsewhere
    from displace.verbs.align import Sighted

    counts = [int((refs.traversals == name).sum()) for name in refs.traversal_ids]
    long = [count for count in counts if count >= FEW]
    if len(counts) > 1 and len(long) < 2:
        message = f"equal numbers are taken as equal places: fewer than {FEW} images are too few to check that by sight"
        numbered = all(re.search(r"\d$", Path(image).stem) for image in store.manifest.images)
        return [message] if numbered else []
    doubt = unconfirmed(refs)
    if not doubt:
        return []
    names, layout = ", ".join(map(str, doubt)), _layout(store.manifest)
    equal, keep = EQUAL[layout], f"--layout {layout} keeps the {layout}"
    try:
        sighted = Sighted.of(store, [str(name) for name in refs.traversal_ids], None, progress, alike)
    except InputError as error:
        if min(long) < ROUTE or min(doubt.values()) >= OFTEN:
            return [f"{equal} are taken as equal places, but the images do not confirm it ({names})"]
        raise InputError(
            f"{equal} are not equal places ({names}), and the recordings cannot be lined up by sight: {error}. "
            f"If {equal} are equal places after all, {keep}"
        ) from error
    shares = elsewhere(sighted.alignment, {name: store.places[rows] for name, rows in sighted.rows.items()})
    worst = max(shares, key=lambda name: shares[name])
    if shares[worst] < CONTRADICTED:
        return []
    message = (
        f"{equal} are not equal places ({shares[worst]:.0%} of the frames of {worst} were taken elsewhere): the "
        f"recordings are lined up by sight; {keep}"
    )
    return [message, *sighted.kept(table, others=False).found()]


def _layout(manifest: Manifest) -> str:
    """The layout that gives these places: "names" of images, or their numbers in "order"."""
    images = ("/" + Path(image).with_suffix("").as_posix() for image in manifest.images)
    named = (
        image.endswith(f"/{place}") for image, place in zip(images, manifest.places.tolist(), strict=True)
    )
    return "names" if all(named) else "order"
