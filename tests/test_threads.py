"""Limits on the threads of linear algebra: they hold, they end, and the libraries are looked for once."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import displace
from displace import threads


@pytest.fixture
def walks(monkeypatch):
    """Count the walks through the loaded libraries, starting with none made."""
    made = []

    class Counted(threads.ThreadpoolController):
        def __init__(self):
            made.append(self)
            super().__init__()

    monkeypatch.setattr("threadpoolctl.ThreadpoolController", Counted)  # for `threadpool_limits` as well
    monkeypatch.setattr(threads, "ThreadpoolController", Counted)
    monkeypatch.setattr(threads, "_known", None)
    return made


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_fits_look_for_libraries_once(walks):
    rng = np.random.default_rng(0)
    X, y, names = rng.normal(size=(240, 24)), np.tile(np.arange(60), 4), np.repeat(np.arange(4), 60)

    def fits():
        displace.DisPlace().fit(X, y, names)
        displace.DisPlace(ridge=0.0, center=False).fit(X, y)
        return len(walks)

    first = fits()
    assert fits() == first <= 2  # the first ones may import something on their way


def test_libraries_are_looked_for_again_after_an_import(walks, monkeypatch):
    known = threads.controller()
    assert threads.controller() is known
    monkeypatch.setitem(sys.modules, "displace_test_of_threads", types.ModuleType("displace_test_of_threads"))
    assert threads.controller() is not known
    assert len(walks) == 2


def test_limits_hold_inside_the_block_only():
    with threads.limit_threads(2):
        before = blas_threads()
        with threads.one_blas_thread():
            assert blas_threads() == {1}
            assert threads.n_threads() >= 1
        assert blas_threads() == before == {2}
        with threads.one_blas_thread(False), threads.limit_threads(None):
            assert blas_threads() == before


def test_limits_that_overlap_leave_none_behind():
    """Two fits at a time, of two threads, left one thread for the rest of the process."""
    with threads.limit_threads(2):
        one, other = threads.one_blas_thread(), threads.one_blas_thread()
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        assert blas_threads() == {1}
        other.__exit__(None, None, None)
        assert blas_threads() == {2}
