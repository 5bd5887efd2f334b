"""Reading ahead: order, bounds and batches."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tiny import HeavyTinyModel, TinyModel, make_route

from displace.descriptors import preparation
from displace.descriptors.preparation import Failure, attempt, in_batches, in_order, preparing
from displace.errors import DisplaceError, ImageError


def test_answers_keep_the_order_of_the_items_whoever_is_first():
    gate = threading.Event()

    def slow_first(number):
        if number == 0:
            gate.wait()
        else:
            gate.set()
        return number * number

    with ThreadPoolExecutor(3) as pool:
        answers = list(in_order(pool, slow_first, ((n, n) for n in range(20)), ahead=6))
    assert answers == [(n, n * n) for n in range(20)]


def test_no_more_than_the_bound_is_taken_ahead_of_the_consumer():
    taken = []

    def items():
        for number in range(1000):
            taken.append(number)
            yield number, number

    with ThreadPoolExecutor(2) as pool:
        answers = in_order(pool, lambda n: n, items(), ahead=8)
        for consumed in range(1, 50):
            next(answers)
            assert len(taken) <= consumed + 8


def test_batches_have_one_shape_and_lose_nothing():
    rng = np.random.default_rng(0)
    images = [(i, np.full((1 + rng.integers(3), 2), i, np.float32)) for i in range(100)]
    seen = {}
    for keys, batch in in_batches(images, 4):
        assert 1 <= len(keys) <= 4
        seen |= dict(zip(keys, batch, strict=True))
    assert sorted(seen) == list(range(100))
    assert all((seen[i] == array).all() and seen[i].shape == array.shape for i, array in images)


def test_images_that_are_all_of_different_size_do_not_pile_up():
    taken = 0

    def images():
        nonlocal taken
        for i in range(50):
            taken += 1
            yield i, np.zeros((i + 1, 1), np.float32)

    for emitted, _ in enumerate(in_batches(images(), 4)):
        assert taken - emitted <= 8


def test_what_is_wrong_with_a_file_is_an_answer(tmp_path):
    def too_large(_path):
        raise MemoryError

    def unreadable(path):
        raise ImageError(f"{path} is no image")

    assert isinstance(attempt(too_large, tmp_path / "x.png"), Failure)
    assert "does not fit into memory" in attempt(too_large, tmp_path / "x.png")
    assert attempt(unreadable, "x.png") == "x.png is no image"
    with pytest.raises(ZeroDivisionError):  # a bug is not an answer
        attempt(lambda _: 1 / 0, "x.png")


@pytest.mark.parametrize("model", [TinyModel(), HeavyTinyModel()], ids=["threads", "processes"])
def test_threads_and_processes_prepare_alike(tmp_path, monkeypatch, model):
    monkeypatch.setattr(preparation, "WORTH_PROCESSES", 1)
    route = make_route(tmp_path, n_places=3)
    (tmp_path / "empty.png").touch()
    files = [*enumerate(route.paths()), (6, tmp_path / "empty.png")]
    with preparing(model, files, 7, workers=2, ahead=4) as answers:
        prepared = dict(answers)
    assert sorted(prepared) == list(range(7))
    assert isinstance(prepared[6], Failure)
    assert prepared[0].shape == (8, 10, 3)


class DyingModel(HeavyTinyModel):
    """Ends its process, as running out of memory does."""

    def prepare(self, image):
        import os

        os._exit(3)


def test_a_worker_that_dies_is_explained(tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "WORTH_PROCESSES", 1)
    route = make_route(tmp_path, n_places=3)
    with (
        pytest.raises(DisplaceError, match=r"worker process ended unexpectedly.*__main__.*--threads 1"),
        preparing(DyingModel(), enumerate(route.paths()), 6, workers=2, ahead=4) as answers,
    ):
        list(answers)
