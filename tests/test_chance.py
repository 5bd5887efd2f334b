"""How far wrong matches stand out, which tells a map of one traversal how sure it is."""

from __future__ import annotations

import numpy as np
import pytest

from displace.arrays import l2_normalize
from displace.sequence.adaptation import MapRows
from displace.sequence.chance import Chance, apart

ROWS = l2_normalize(np.random.default_rng(0).normal(1, 1, (60, 16))).astype(np.float32)
STARTS = np.arange(0, 60, 2)


def near(place: int) -> slice:
    """A place and its neighbours, of 30."""
    return slice(max(0, place - 1), place + 2)


def naive(scores: np.ndarray) -> list[float]:
    """Distance of the best score from the mean and from the highest of the others, in their deviations."""
    best = int(np.argmax(scores))
    others = np.array([s for i, s in enumerate(scores) if abs(i - best) > 1 and np.isfinite(s)])
    return [(scores[best] - others.mean()) / others.std(), (scores[best] - others.max()) / others.std()]


def test_the_best_is_compared_with_places_elsewhere() -> None:
    scores = np.random.default_rng(1).normal(0, 1, (20, 30))
    np.testing.assert_allclose(apart(scores, near), [naive(row) for row in scores])


def test_places_may_be_chosen_by_a_function() -> None:
    scores = np.random.default_rng(1).normal(0, 1, (20, 30))
    chosen = apart(scores, lambda place: lambda some: some[np.abs(some - place) <= 1])
    np.testing.assert_array_equal(chosen, apart(scores, near))


def test_chance_is_what_wrong_places_reach() -> None:
    """Naively: each place's first row, among the best rows of all places that are not near it."""
    centred = ROWS - ROWS.mean(axis=0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    found = []
    for place in range(30):
        scores = (centred @ centred[2 * place]).reshape(30, 2).max(axis=1)
        scores[near(place)] = -np.inf
        found.append(naive(scores))
    chance = Chance.of(MapRows(ROWS, STARTS), near)
    np.testing.assert_allclose(chance.mean, np.mean(found, axis=0), rtol=1e-4)
    np.testing.assert_allclose(chance.spread, np.std(found, axis=0), rtol=1e-4)


def test_deviations_are_bounded() -> None:
    scores = np.random.default_rng(1).normal(0, 1e-3, (2, 30))
    scores[0, 7] = 1e3
    found = Chance(np.array([3.0, 0.3]), np.array([0.5, 0.2])).deviations(scores, near)
    assert found[0].tolist() == [4.0, 6.0]
    assert (found[1] > -3).all()


@pytest.mark.parametrize("n_places", [1, 3, 4])
def test_a_few_places_tell_nothing_and_raise_nothing(n_places: int) -> None:
    rows = MapRows(ROWS[:n_places], np.arange(n_places))
    chance = Chance.of(rows, near)
    assert np.isfinite(chance.deviations(np.ones((2, n_places)), near)).all()
