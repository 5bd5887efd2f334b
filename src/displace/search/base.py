"""What a search backend is: the best rows by inner product."""

from __future__ import annotations

from abc import ABC, abstractmethod

from displace.arrays import Indices, Vectors


class Index(ABC):
    """Rows to be searched by inner product.

    Parameters
    ----------
    vectors : array of shape (R, n)
        Rows, float16 or float32.
    """

    @abstractmethod
    def __init__(self, vectors: Vectors) -> None: ...

    @abstractmethod
    def search(self, queries: Vectors, k: int) -> tuple[Indices, Vectors]:
        """Return the k best rows of each query and their scores, both (q, k), best first; k ≤ R."""
