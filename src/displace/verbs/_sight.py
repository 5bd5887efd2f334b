"""Whether equal file names are equal places, by sight: frames of two drives have equal numbers and other places."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from displace.errors import InputError

if TYPE_CHECKING:
    from displace.descriptors.store import DescriptorStore
    from displace.manifest.table import Manifest
    from displace.references import ReferenceSet
    from displace.verbs.base import Progress

ROUTE = 30
"""Images of a recording from which on it is refused where it shows another route: fewer may look so by chance."""
KEEP = "--layout names keeps the names"


def names_looked_at(
    store: DescriptorStore, refs: ReferenceSet, table: Path, progress: Progress | None
) -> list[str]:
    """Line recordings up where sight finds that equal names are not equal places; returns what there is to say.

    Names that sight confirms are kept, and so are those of which it cannot tell.

    Parameters
    ----------
    store : DescriptorStore
        Its places are told by names. It gets others where they are contradicted.
    refs : ReferenceSet
        Of the recordings that are used, as many as tell.
    table : Path
        Manifest that is written where places change.
    progress : callable, optional

    Raises
    ------
    InputError
        Where names are contradicted, and the recordings cannot be lined up: they show different routes.
    """
    from displace.neighbours import FEW, OFTEN, unconfirmed
    from displace.sequence.equal_names import CONTRADICTED, elsewhere
    from displace.verbs.align import Sighted

    counts = [int((refs.traversals == name).sum()) for name in refs.traversal_ids]
    long = [count for count in counts if count >= FEW]
    if len(long) < 2:
        said = f"equal numbers are taken for equal places: of fewer than {FEW} images sight cannot tell"
        return [said] if _end_in_numbers(store.manifest) else []
    doubt = unconfirmed(refs)
    if not doubt:
        return []
    names = ", ".join(map(str, doubt))
    try:
        sighted = Sighted.of(store, [str(name) for name in refs.traversal_ids], None, progress)
    except InputError as error:
        if min(long) < ROUTE or min(doubt.values()) >= OFTEN:
            return [f"equal file names are taken for equal places, which sight does not confirm ({names})"]
        raise InputError(
            f"equal file names are not equal places ({names}), and the recordings cannot be lined up by sight: "
            f"{error}. --exclude leaves recordings out, {KEEP}"
        ) from error
    shares = elsewhere(sighted.alignment, {name: store.places[rows] for name, rows in sighted.rows.items()})
    worst = max(shares, key=lambda name: shares[name])
    if shares[worst] < CONTRADICTED:
        return []
    said = (
        f"equal file names are not equal places ({shares[worst]:.0%} of the frames of {worst} were taken elsewhere): "
        f"the recordings are lined up by sight; {KEEP}"
    )
    return [said, *sighted.kept(table, others=False).found()]


def _end_in_numbers(manifest: Manifest) -> bool:
    return all(re.search(r"\d$", Path(image).stem) for image in manifest.images)
