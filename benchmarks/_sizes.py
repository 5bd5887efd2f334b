"""The four data sets' sizes, and generated references of these sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from displace.arrays import Vectors, l2_normalize


class Size(NamedTuple):
    """Places and references of each."""

    n_places: int
    n_references: int


SIZES = {
    "robotcar": Size(3876, 5),
    "nordland": Size(27592, 3),
    "pittsburgh30k": Size(417, 24),
    "gldv2_micro": Size(3103, 8),  # 7 to 9 each, 23,294 in all: 7.5 on average
}


def traversals(size: Size, dim: int, seed: int = 0) -> Iterator[Vectors]:
    """Unit descriptors, one traversal at a time: places, nuisance of rank 64 shared by all, noise.

    The places' spectrum falls faster than the noise's, so that about half of the dimensions are kept at D = 512,
    τ = 0.95, as the paper reports for RobotCar.
    """
    rng = np.random.default_rng(seed)
    spectrum = (1 + np.arange(dim) * (16 / dim)).astype(np.float32)
    own = rng.standard_normal((size.n_places, dim), np.float32) / spectrum**2
    directions = rng.standard_normal((64, dim), np.float32) / np.float32(8)
    for _ in range(size.n_references):
        traversal = rng.standard_normal((size.n_places, dim), np.float32)
        traversal *= np.float32(0.2) / np.sqrt(spectrum)
        traversal += own
        traversal += rng.standard_normal((size.n_places, 64), np.float32) @ directions
        yield l2_normalize(traversal)
