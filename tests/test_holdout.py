"""Which references are held out, and which of them are asked: small routes by hand."""

from __future__ import annotations

import numpy as np
import pytest

from displace.holdout import folds, folds_of_quarters, folds_with_a_gap, spread, thinned


def repeated(n_places, names):
    """Every place in every traversal, traversal after traversal."""
    return np.tile(np.arange(n_places), len(names)), np.repeat(names, n_places)


def seen(fold, places, traversals):
    """Traversal held out, the places left in each traversal, and the places asked."""
    left = {name: places[fold.references & (traversals == name)].tolist() for name in np.unique(traversals)}
    assert set(traversals[fold.queries].tolist()) <= {fold.traversal}
    return fold.traversal, left, places[fold.queries].tolist()


@pytest.mark.parametrize(
    ("n", "limit", "expected"),
    [(5, 9, [0, 1, 2, 3, 4]), (9, 3, [0, 4, 8]), (4, 1, [0]), (0, 3, []), (1, 2, [0])],
)
def test_spread_takes_both_ends(n, limit, expected):
    assert spread(n, limit).tolist() == expected


def test_thinned_is_spread_over_places_and_not_over_rows():
    places = np.array([4, 0, 3, 1, 2])
    assert thinned(np.arange(5), places, 3).tolist() == [1, 4, 0]


def test_a_traversal_is_asked_for_the_places_that_the_others_have():
    places, traversals = np.array([0, 1, 2, 0, 1, 5]), np.array(list("aaabbb"))
    found = [seen(fold, places, traversals) for fold in folds(places, traversals, max_folds=5, max_queries=9)]
    assert found == [("a", {"a": [], "b": [0, 1, 5]}, [0, 1]), ("b", {"a": [0, 1, 2], "b": []}, [0, 1])]
    (first, last) = folds(*repeated(9, list("abcde")), max_folds=2, max_queries=3)
    assert (first.traversal, last.traversal) == ("a", "e")
    assert first.queries.tolist() == [0, 4, 8]


def test_a_stretch_of_three_tenths_moves_along_the_route():
    places, traversals = repeated(20, list("abc"))
    found = [
        seen(fold, places, traversals)
        for fold in folds_with_a_gap(places, traversals, np.arange(20), max_folds=5, max_queries=99)
    ]
    for (name, left, asked), start in zip(found, (0, 4, 9), strict=True):
        gone = range(start, start + 6)
        others = [place for place in range(20) if place not in gone]
        assert left == {other: [] if other == name else others for other in "abc"}
        assert asked == [place for place in range(20) if place not in (start, start + 5)]  # none at an edge
    assert [name for name, *_ in found] == ["a", "b", "c"]


def test_gaps_of_one_traversal_are_apart_and_queries_are_spread():
    places, traversals = repeated(20, list("ab"))
    found = list(folds_with_a_gap(places, traversals, np.arange(20), max_folds=2, max_queries=3, gaps=2))
    left = [sorted(set(range(20)) - set(places[fold.references].tolist())) for fold in found]
    assert [(gone[0], gone[-1]) for gone in left] == [(0, 5), (7, 12), (7, 12), (0, 5)]
    assert [fold.traversal for fold in found] == ["a", "a", "b", "b"]
    assert places[found[0].queries].tolist() == [1, 10, 19]


def test_places_that_no_other_traversal_has_are_asked_in_the_stretch_only():
    """In the stretch they have no answer, which is known; elsewhere they would be taken for a miss."""
    places, traversals = repeated(20, list("ab"))
    keep = (traversals == "a") | ~np.isin(places, [2, 15])
    places, traversals = places[keep], traversals[keep]
    first = next(folds_with_a_gap(places, traversals, np.arange(20), max_folds=2, max_queries=99))
    asked = places[first.queries].tolist()
    assert 2 in asked
    assert 15 not in asked


def test_a_route_in_another_order_has_other_stretches():
    places, traversals = repeated(20, list("abc"))
    route = np.arange(20)[::-1]
    first = next(folds_with_a_gap(places, traversals, route, max_folds=3, max_queries=99))
    assert sorted(set(range(20)) - set(places[first.references].tolist())) == [14, 15, 16, 17, 18, 19]


def test_of_two_traversals_a_quarter_goes_and_the_opposite_one_is_held_out_of_one():
    places, traversals = repeated(16, list("ab"))
    found = [
        seen(fold, places, traversals)
        for fold in folds_of_quarters(places, traversals, np.arange(16), max_folds=8, max_queries=99)
    ]
    assert [name for name, *_ in found] == list("abbaabba")
    for number, (name, left, asked) in enumerate(found):
        first = 4 * (number // 2)
        gone, opposite = range(first, first + 4), range((first + 8) % 16, (first + 8) % 16 + 4)
        rest = [place for place in range(16) if place not in gone]
        other = "b" if name == "a" else "a"
        assert left == {other: rest, name: [place for place in rest if place not in opposite]}
        assert asked == sorted(
            [*opposite, first + 1, first + 2]
        )  # of the quarter that is gone, not the edges
    fewer = list(folds_of_quarters(places, traversals, np.arange(16), max_folds=4, max_queries=2))
    assert [fold.traversal for fold in fewer] == ["a", "b", "a", "a"]
    assert all(len(fold.queries) == 2 for fold in fewer)


def test_of_one_traversal_nothing_has_an_answer():
    places, traversals = repeated(16, ["only"])
    for number, fold in enumerate(
        folds_of_quarters(places, traversals, np.arange(16), max_folds=4, max_queries=99)
    ):
        assert places[fold.queries].tolist() == [4 * number + 1, 4 * number + 2]
        assert not np.isin(places[fold.queries], places[fold.references]).any()
        assert fold.references.sum() == 12


def test_a_held_out_quarter_is_asked_where_the_other_traversal_has_it():
    places, traversals = repeated(16, list("ab"))
    keep = (traversals == "a") | (places != 9)
    places, traversals = places[keep], traversals[keep]
    first = next(folds_of_quarters(places, traversals, np.arange(16), max_folds=8, max_queries=99))
    assert places[first.queries].tolist() == [1, 7, 8, 10, 11]  # quarters with as many places that both show


@pytest.mark.parametrize("begin", [0, 5, 12])
def test_quarters_are_of_the_part_of_the_route_that_both_traversals_show(begin):
    """Of a recording that goes on where the other ends, no quarter is without right answers."""
    places, traversals = repeated(28, list("ab"))
    keep = (traversals == "b") | ((places >= begin) & (places < begin + 16))
    places, traversals = places[keep], traversals[keep]
    found = list(folds_of_quarters(places, traversals, np.arange(28), max_folds=8, max_queries=99))
    for number, fold in enumerate(found):
        gone = begin + 4 * (number // 2)
        held = begin + (4 * (number // 2) + 8) % 16
        asked = places[fold.queries]
        assert sorted(asked.tolist()) == sorted([gone + 1, gone + 2, *range(held, held + 4)])
        assert np.isin(asked, places[fold.references]).sum() == 4
        assert set(range(28)) - set(places[fold.references].tolist()) == set(range(gone, gone + 4))


def test_quarters_of_two_traversals_that_share_no_place_are_of_all():
    places, traversals = np.arange(16), np.repeat(["a", "b"], 8)
    found = list(folds_of_quarters(places, traversals, np.arange(16), max_folds=8, max_queries=99))
    assert all(fold.references.sum() < 16 for fold in found)
    assert not any(np.isin(places[fold.queries], places[fold.references]).any() for fold in found)


def test_the_margin_grows_with_the_stretch():
    """Of 30 places 2 at each end, a twentieth and no less; of a quarter of 40 places 4, a tenth."""
    places, traversals = repeated(100, list("abc"))
    first = next(folds_with_a_gap(places, traversals, np.arange(100), max_folds=3, max_queries=999))
    assert places[first.queries].tolist() == [*range(2, 28), *range(30, 100)]
    places, traversals = repeated(160, ["only"])
    first = next(folds_of_quarters(places, traversals, np.arange(160), max_folds=4, max_queries=999))
    assert places[first.queries].tolist() == list(range(4, 36))
