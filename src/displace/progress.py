"""Progress of long work, which reports to a callable and prints nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Progress = Callable[[str, int, int], None]
"""Called as ``progress(stage, done, total)``."""
Stage = Callable[[int, int], None]
"""Called as ``progress(done, total)``, for work of one stage."""
Item = TypeVar("Item")


def part(progress: Progress | None, stage: str) -> Stage | None:
    """Make a callback for one stage of a longer work."""
    if progress is None:
        return None
    return lambda done, total: progress(stage, done, total)


def counted(items: Sequence[Item], steps: Stage | None) -> Iterator[Item]:
    """Iterate over items, and report each when it is done.

    >>> [item for item in counted("ab", lambda done, total: print(done, "of", total))]
    1 of 2
    2 of 2
    ['a', 'b']
    """
    for done, item in enumerate(items, 1):
        yield item
        if steps is not None:
            steps(done, len(items))
