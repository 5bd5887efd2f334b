"""`displace advise`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from displace.progress import Progress, part
from displace.verbs.base import StorePath, Traversals, check_threads, look_at_neighbours, whole_store

if TYPE_CHECKING:
    from displace.advise import Advice


def advise(
    store: StorePath,
    *,
    traversals: Traversals = None,
    exclude: Sequence[str] | None = None,
    tolerance: str | None = None,
    threads: int | None = None,
    partial: bool = False,
    progress: Progress | None = None,
) -> Advice:
    """Recommend a fusion and say which recordings help, by leaving out one traversal at a time.

    Parameters
    ----------
    store : path-like
        A folder made by `extract`.
    traversals : sequence of str, optional
        Traversals to use; by default all.
    exclude : sequence of str, optional
        Traversals to leave out.
    tolerance : str, optional
        What counts as right: 25m if places have positions, "2 frames" if they have an order along the route, or exact.
        By default 25 m; without positions "2 frames" if places were found by sight or are frames of one video or bag,
        else the exact place.
    threads : int, optional
        Cores to use; by default one for small stores, else all. On a busy machine 1 is often faster.
    partial : bool
        Accept a store whose extraction is unfinished.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Examples
    --------
    ::

        displace advise route.desc
        displace advise route.desc --exclude fog --json
    """
    from displace import advise as advising
    from displace.descriptors.store_summary import own_tolerance
    from displace.threads import limit_threads, threads_for

    check_threads(threads)
    described = whole_store(store, partial)
    refs = described.references(traversals, exclude or ())
    tolerance = own_tolerance(described) if tolerance is None else tolerance
    look_at_neighbours(refs, tolerance)
    with limit_threads(threads_for(threads, *refs.vectors.shape)):
        return advising.advise(refs, tolerance=tolerance, progress=part(progress, "comparing"))
