"""Gaussian random projection of descriptors, shared by references and queries."""

from __future__ import annotations

import numpy as np
from sklearn.random_projection import GaussianRandomProjection

from displace.arrays import Vectors, check_count


def random_projection(dim: int, n_components: int, seed: int = 0) -> Vectors:
    """Matrix of shape (dim, n_components) with entries from N(0, 1/n_components), float32.

    Apply the same matrix to references and queries: ``X @ R``, ``Q @ R``.
    """
    check_count(n_components, "n_components")
    sketch = GaussianRandomProjection(n_components, random_state=seed).fit(np.zeros((1, dim), np.float32))
    return np.ascontiguousarray(sketch.components_.T, dtype=np.float32)
