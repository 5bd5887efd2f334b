from __future__ import annotations

import numpy as np
import pytest

from displace.errors import InputError
from displace.evaluation.random_projection import random_projection


def test_entries_are_normal_with_variance_one_over_d():
    R = random_projection(2000, 100, seed=1)
    assert R.shape == (2000, 100)
    assert R.dtype == np.float32
    assert R.mean() == pytest.approx(0, abs=1e-3)
    assert R.std() == pytest.approx(0.1, rel=0.01)
    kurtosis = np.mean(R**4) / np.mean(R**2) ** 2
    assert kurtosis == pytest.approx(3, abs=0.1)  # normal, not uniform or ±1


def test_lengths_are_kept_on_average_and_seeds_differ():
    X = np.random.default_rng(0).normal(size=(50, 500)).astype(np.float32)
    ratio = np.linalg.norm(X @ random_projection(500, 200), axis=1) / np.linalg.norm(X, axis=1)
    assert ratio.mean() == pytest.approx(1, abs=0.05)
    np.testing.assert_array_equal(random_projection(5, 3, 4), random_projection(5, 3, 4))
    assert not np.array_equal(random_projection(5, 3, 4), random_projection(5, 3, 5))


def test_no_components():
    with pytest.raises(InputError, match="n_components=0 must be a whole number of at least 1"):
        random_projection(5, 0)
