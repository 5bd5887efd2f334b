"""Interface of a sequence method: it ranks places by a frame and those before (and after) it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from displace.arrays import Indices, Vectors, top_k
from displace.sequence.engine import Blocks


class SequenceMethod(ABC):
    """Ranks places for each frame of a drive; a file ``methods/NAME.py`` with a subclass is all that a new one needs.

    Parameters
    ----------
    length : int, optional
        Frames of the window, for methods that have one.
    """

    name: ClassVar[str]
    default_length: ClassVar[int | None] = None

    def __init__(self, length: int | None = None) -> None:
        self.length = length if length is not None else self.default_length

    @property
    def label(self) -> str:
        """Name for tables, with the length where there is one."""
        return self.name if self.length is None else f"{self.name} L={self.length}"

    @abstractmethod
    def rank(self, similarity: Blocks, k: int) -> tuple[Indices, Vectors]:
        """Return the k best places of each frame and their scores, both (q, k), best first.

        Frames are in the order in which they were taken, places in the order of the route. Going through `similarity`
        gives the scores of one frame after the other, (N,) each; `Best` collects what is returned.
        """


class Best:
    """Collects the k best places of each frame, in arrays of so many frames and places."""

    def __init__(self, shape: tuple[int, int], k: int) -> None:
        self.k = min(k, shape[1])
        self.places = np.zeros((shape[0], self.k), np.intp)
        self.scores = np.zeros((shape[0], self.k), np.float64)

    def keep(self, frame: int, scores: Vectors) -> None:
        """Take the best of one frame's scores."""
        best = top_k(scores[None], self.k)[0]
        self.places[frame], self.scores[frame] = best, scores[best]

    @property
    def found(self) -> tuple[Indices, Vectors]:
        """Places and scores."""
        return self.places, self.scores
