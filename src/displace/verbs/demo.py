"""`displace demo`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from displace.verbs.base import PathLike, Progress

if TYPE_CHECKING:
    from displace.demo import Demo

RESUMES = True


def demo(folder: PathLike = "displace-demo", *, places: int = 200, progress: Progress | None = None) -> Demo:
    """Draw a town in six conditions, map five, locate the night, compare all fusions.

    Takes about a minute and no download. Writes demo.html, a page with a map and pictures, and demo.md, its tables.
    Run again, it keeps what is drawn.

    Parameters
    ----------
    folder : path-like
        Where the pictures, the map and the page go.
    places : int
        Places along the route, 20 to 2000.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Examples
    --------
    ::

        displace demo
        displace demo --folder town --places 400
    """
    from displace.demo import run

    return run(folder, places, progress)
