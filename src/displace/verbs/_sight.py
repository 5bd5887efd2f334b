"""Whether equal file names are equal places, by sight: frames of two drives have equal numbers and other places."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from displace.errors import InputError

if TYPE_CHECKING:
    from displace.descriptors.store import DescriptorStore
    from displace.manifest.table import Manifest
    from displace.references import ReferenceSet
    from displace.verbs.align import Sighted
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
    from displace.neighbours import FEW, HOLDS, is_sequence, unconfirmed
    from displace.sequence.equal_names import elsewhere

    fewest = min(int((refs.traversals == name).sum()) for name in refs.traversal_ids)
    if fewest < FEW:
        said = f"equal numbers are taken for equal places: of fewer than {FEW} images sight cannot tell"
        return [said] if _end_in_numbers(store.manifest) else []
    doubt = unconfirmed(refs)
    if not doubt or (fewest >= ROUTE and not is_sequence(refs)):
        return []
    sighted = _sighted(store, [str(name) for name in refs.traversal_ids], doubt, fewest, progress)
    if sighted is None:
        names = ", ".join(map(str, doubt))
        return [f"equal file names are taken for equal places, which sight does not confirm ({names})"]
    shares = elsewhere(sighted.alignment, {name: store.places[rows] for name, rows in sighted.rows.items()})
    worst = max(shares, key=lambda name: shares[name])
    if shares[worst] < 1 - HOLDS:
        return []
    said = (
        f"equal file names are not equal places ({shares[worst]:.0%} of the frames of {worst} were taken elsewhere): "
        f"the recordings are lined up by sight; {KEEP}"
    )
    return [said, *sighted.kept(table, others=False).found()]


def _sighted(
    store: DescriptorStore,
    names: list[str],
    doubt: Mapping[Any, float],
    fewest: int,
    progress: Progress | None,
) -> Sighted | None:
    """Line recordings up; None where they cannot be and that says little, as with few images or at night."""
    from displace.neighbours import OFTEN
    from displace.verbs.align import Sighted

    try:
        return Sighted.of(store, names, None, progress)
    except InputError as error:
        if fewest < ROUTE or min(doubt.values()) >= OFTEN:
            return None
        listed = ", ".join(map(str, doubt))
        raise InputError(
            f"equal file names are not equal places ({listed}), and the recordings cannot be lined up by sight: "
            f"{error}. --exclude leaves recordings out, {KEEP}"
        ) from error


def _end_in_numbers(manifest: Manifest) -> bool:
    return all(re.search(r"\d$", Path(image).stem) for image in manifest.images)
