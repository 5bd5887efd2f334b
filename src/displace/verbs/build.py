"""`displace build`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from displace.verbs.base import (
    MAP_ENDING,
    Output,
    PathLike,
    Progress,
    StorePath,
    Traversals,
    check_map_output,
    part,
)

if TYPE_CHECKING:
    from displace.fusion.base import Fusion
    from displace.maps import PlaceMap


def build(
    store: StorePath,
    output: Output = None,
    *,
    fusion: str = "displace",
    traversals: Traversals = None,
    exclude: Sequence[str] | None = None,
    dtype: str = "float16",
    calibration: bool = True,
    tolerance: str | None = None,
    keep_references: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PlaceMap:
    """Build a map: one file to deploy, and beside it one that an update needs.

    Parameters
    ----------
    store : path-like
        A folder made by `extract`.
    output : path-like, optional
        The map; by default the store's name with ``.displace``.
    fusion : str
        How references are fused (see: displace list fusions), or auto: what `advise` recommends.
    traversals : sequence of str, optional
        Use this traversal (repeat); by default all.
    exclude : sequence of str, optional
        Leave this traversal out (repeat).
    dtype : str
        How rows are stored: float16, float32 or int8.
    calibration : bool
        Learn from held-out traversals how sure a match is; needs three.
    tolerance : str, optional
        What counts as right for the confidence: 25m where places have positions, "2 frames" where they have an order
        along the route, or exact; by default 25 m, without positions the exact place.
    keep_references : bool
        Keep what is needed to remove a traversal by name later.
    overwrite : bool
        Replace the map where it exists.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Examples
    --------
    ::

        displace build route.desc -o town.displace
        displace build route.desc --exclude night --dtype int8
        displace build route.desc --fusion auto
    """
    from displace import maps
    from displace.advise import advise
    from displace.descriptors.store import DescriptorStore
    from displace.files.lock import exclusive

    output = map_output(store, output)
    check_map_output(output, overwrite)
    with exclusive(output):
        described = DescriptorStore(store)
        refs = described.references(traversals, exclude or ())
        chosen: str | Fusion = fusion
        if fusion == "auto":
            comparing = part(progress, "comparing")
            found = advise(refs, tolerance=tolerance, progress=comparing)
            chosen = found.recommended.make()
        place_map = maps.build(
            refs,
            chosen,
            described.model,
            dtype=dtype,
            calibration=calibration,
            tolerance=tolerance,
            keep_references=keep_references,
            progress=part(progress, "calibrating"),
        )
        place_map.save(output)
    return place_map


def map_output(store: PathLike, output: PathLike | None) -> Path:
    """Where the map of a store goes."""
    return Path(store).with_suffix(MAP_ENDING) if output is None else Path(output)
