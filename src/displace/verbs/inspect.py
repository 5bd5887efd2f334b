"""`displace inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from displace.errors import InputError
from displace.verbs.base import MAP_ENDING, Argument, PathLike

if TYPE_CHECKING:
    from displace.descriptors.store_summary import StoreSummary
    from displace.maps import PlaceMap


def inspect(
    source: Annotated[PathLike, Argument("STORE|MAP")], *, tolerance: str | None = None
) -> PlaceMap | StoreSummary:
    """Show what a descriptor store or a map holds.

    Of a store no vector is read; of a map every byte is checked. A map shows its settings and why, its size, what
    rounding costs, and how sure its matches are.

    Parameters
    ----------
    source : path-like
        A descriptor store, or a map: a file, or the address of one in a database (postgresql://host/database#name).
    tolerance : str, optional
        What counts as right: "25m" if places have positions, "2 frames" if they have an order, or exact. For a map that
        keeps its references (displace build --keep-references), show the confidence as learned with this tolerance.

    Examples
    --------
    ::

        displace inspect route.desc
        displace inspect town.displace
        displace inspect town.displace --json
        displace inspect town.displace --tolerance "2 frames"
    """
    if str(source).startswith(("http://", "https://")):
        raise InputError(
            f"{source} is the address of a server, but inspect reads files and databases (postgresql://…): give the "
            "map's file, or open the address in a browser"
        )
    is_map = Path(source).is_file() or (Path(source).suffix == MAP_ENDING and not Path(source).exists())
    if "://" in str(source) or is_map:
        from displace.maps import PlaceMap

        place_map = PlaceMap.load(source)
        return place_map if tolerance is None else place_map.with_tolerance(tolerance)

    from displace.descriptors.store import DescriptorStore
    from displace.descriptors.store_summary import summarize_store

    return summarize_store(DescriptorStore(source), tolerance)
