"""A rendered town: a drive of some two hundred places in six conditions, drawn on the spot and free of any licence.

It is for demonstrations and tests: streets with depth, seen from a car, the same pixels on every machine of a kind.
``docs/town.md`` says how it was designed and shows it.
"""

from __future__ import annotations

from displace.datasets.base import Protocol
from displace.datasets.town.looks import TRAVERSALS
from displace.datasets.town.plan import MAX_PLACES
from displace.datasets.town.render import SIZE, position, render
from displace.datasets.town.writing import PLACES, DrawnTown, write
from displace.truth import Tolerance

__all__ = ["MAX_PLACES", "PLACES", "SIZE", "TRAVERSALS", "Town", "position", "render", "write"]


class Town(DrawnTown):
    """Rendered streets in sun, overcast, rain, dusk, night and snow; place and frame are the same number."""

    name = "town"
    title = "the rendered town"
    obtain = "Draw it first: `from displace.datasets import town; town.write(FOLDER)`"
    protocols = (
        Protocol("town-exact", Tolerance("exact"), note="each traversal in turn against all others"),
        Protocol(
            "town-1", Tolerance("frames", 1), note="the neighbouring place, 5.5 to 8.5 m away, is right too"
        ),
        Protocol("town-25m", Tolerance("metres", 25), note="the usual tolerance of street images"),
    )
