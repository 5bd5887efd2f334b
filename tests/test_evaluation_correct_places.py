"""All correct places of each query: the short ways against asking the rule about every place."""

from __future__ import annotations

import numpy as np
import pytest
from memory import set_block_bytes

from displace.evaluation.correct_places import correct_places
from displace.truth import PlaceSets, SamePlace, WithinFrames, WithinMetres

IDS = np.array([f"p{i:02d}" for i in range(20)])
RNG = np.random.default_rng(0)
POINTS = np.column_stack([np.arange(20) * 3.0, RNG.normal(size=20)])
FRAMES = RNG.permutation(20) * 2.0
RULES = {
    "same place": SamePlace(np.array(["p03", "p99", "", "p19", "p00"])),
    "frames": WithinFrames(np.array([0.0, 7.0, 100.0, -3.0, np.nan]), 3, IDS, FRAMES),
    "several frames a place": WithinFrames(
        np.array([0.0, 7.0, 100.0, -3.0, np.nan, 51.0]),
        1,
        np.concatenate([IDS, IDS[::2], IDS[:3], IDS]),
        np.concatenate([FRAMES, FRAMES[::2] + 1, [50.0, np.nan, 51.0], FRAMES]),
    ),
    "fractions of frames": WithinFrames(np.array([1.3, 0.7, 1.9]), 1, IDS, np.arange(20) / 10),
    "frames are ids": WithinFrames(np.array([4, 0, 40]), 2),
    "frames are unsigned ids": WithinFrames(np.array([4, 0, 40], np.uint8), 2),
    "metres": WithinMetres(
        np.array([[0.0, 0.0], [30.0, 0.5], [900.0, 0.0], [np.nan, np.nan], POINTS[4] + [6, 0]]),
        6.0,
        IDS,
        POINTS,
    ),
    "metres, unknown places": WithinMetres(
        np.array([[0.0, 0.0], [30.0, 0.0]]), 9.0, IDS, np.where(np.arange(20)[:, None] % 3, POINTS, np.nan)
    ),
}


def test_sets_are_taken_as_they_are(monkeypatch):
    """Places that are not in the map have no index; blocks of a few places give the same as one."""
    sets = PlaceSets([{"p01", "p05"}, set(), {"p19", "elsewhere"}, {"elsewhere"}])
    for n_bytes in (2**26, 16 * len(sets) * 3):
        set_block_bytes(monkeypatch, n_bytes)
        starts, places = correct_places(sets, IDS)
        assert starts.tolist() == [0, 2, 2, 3, 3]
        assert places.tolist() == [1, 5, 19]


@pytest.mark.parametrize("name", RULES)
def test_truth_is_what_the_rule_says_of_every_place(name):
    rule = RULES[name]
    ids = np.arange(20, dtype=np.uint8 if "unsigned" in name else int) if name.endswith(" ids") else IDS
    starts, places = correct_places(rule, ids)
    expected = [np.flatnonzero(row) for row in rule.correct(np.broadcast_to(ids, (len(rule), len(ids))))]
    assert starts[0] == 0
    assert len(starts) == len(rule) + 1
    for query, right in enumerate(expected):
        np.testing.assert_array_equal(places[starts[query] : starts[query + 1]], right)
    assert sum(map(len, expected)) == len(places) > 0
