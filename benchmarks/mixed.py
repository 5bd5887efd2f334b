"""Photos of the route and photos from elsewhere in one folder: how many of each are accepted, beside one by one.

A map is asked for 100 or 150 photos of a traversal, which but for one map it has not seen, shuffled with 50, 100 or 300
of each other set and, where it holds a part of its route, of the rest; then for all photos of the traversal alone.
Needs the shared data.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks import _seen
from benchmarks._measure import header, row
from benchmarks.confidence import GAP, Case, Descriptors, described, map_of, parser_of, shared_data
from displace import PlaceMap

MIXES = (100, 100), (150, 50), (100, 300)
"""Photos of the route and from elsewhere."""
CASES = (
    Case("sped400", ["ref1"], "query", "exact", 0, 400),
    Case("sped400", ["ref1", "ref2"], "query", "exact", 0, 400),
    Case("sped400", ["ref1", "ref2", "ref3"], "query", "exact", 0, 400),
    Case("nordland811", ["summer"], "winter", "2 frames", 0, 400),
    Case("nordland811", ["winter"], "summer", "2 frames", 0, 400),
    Case("nordland811", ["summer", "winter"], "winter", "2 frames", 0, 400),
    Case("town", ["sun"], "overcast", "1 frames", 0, 200),
    Case("town", ["sun", "rain", "night"], "dusk", "1 frames", 0, 200),
    Case("town", ["sun", "overcast", "rain", "dusk", "night"], "snow", "1 frames", 0, 200),
    Case("town", ["sun", "overcast", "rain", "dusk", "snow"], "night", "1 frames", 0, 200),
)


def main(argv: list[str]) -> None:
    options = parser_of("mixed", __doc__).parse_args(argv)
    shared = shared_data(options.cache)
    if shared is None:
        return
    header(
        *("map of", "asked for", "model", "alone: R@1", "right ≥ 0.5", "wrong ≥ 0.5"),
        *(
            "mixed: right ≥ 0.5",
            "one by one",
            "elsewhere ≥ 0.5",
            "≥ 0.8",
            "one by one",
            "rest of the route ≥ 0.5",
        ),
    )
    for model in options.models.split(","):
        sets = {
            name: described(shared, name, model, options.cache) for name in ("sped400", "nordland811", "town")
        }
        for case in CASES:
            asked = case.query
            assert asked is not None
            traversals = "+".join(case.references)
            row(
                f"{case.name}, {traversals}",
                asked,
                model,
                *measured(case, sets, map_of(case, sets[case.name], model)),
            )


def measured(case: Case, sets: dict[str, Descriptors], place_map: PlaceMap) -> list[str]:
    """Shares (%) of accepted photos: all of the traversal, then among others."""
    inside = np.arange(case.first, case.first + case.n_places)
    assert case.query is not None
    queries = sets[case.name][case.query]
    alone, right = judged(place_map, queries[inside], inside, "auto")
    together, single, rest = ([], []), ([], []), []
    for kind, mixed, places in mixes(case, sets, inside):
        sure, correct = judged(place_map, mixed, places, "auto")
        if kind == "rest":
            rest.append(sure[places < 0])
            continue
        plain, plainly = judged(place_map, mixed, places, "none")
        for (own, foreign), (values, hits) in ((together, (sure, correct)), (single, (plain, plainly))):
            own.append((values >= 0.5)[places >= 0] & hits[places >= 0])
            foreign.append(values[places < 0])
    return [
        percent(right),
        percent((alone >= 0.5) & right),
        percent((alone >= 0.5) & ~right),
        percent(np.concatenate(together[0])),
        percent(np.concatenate(single[0])),
        percent(np.concatenate(together[1]) >= 0.5),
        percent(np.concatenate(together[1]) >= 0.8),
        percent(np.concatenate(single[1]) >= 0.5),
        percent(np.concatenate(rest) >= 0.5) if rest else "–",
    ]


def mixes(
    case: Case, sets: dict[str, Descriptors], inside: np.ndarray
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Folders of photos, and the place of each (−1: none): what the others are, descriptors, places."""
    assert case.query is not None
    queries, rng = sets[case.name][case.query], np.random.default_rng(0)
    others = {name: np.concatenate(list(sets[name].values())) for name in sets if name != case.name}
    outside = np.setdiff1d(np.arange(len(queries)), np.arange(inside[0] - GAP, inside[-1] + GAP + 1))
    if len(outside):
        others["rest"] = queries[outside]
    for name, pool in others.items():
        for n_own, n_others in MIXES:
            own = rng.permutation(inside)[:n_own]
            some = pool[rng.permutation(len(pool))[:n_others]]
            places = np.concatenate([own, np.full(len(some), -1)])
            order = rng.permutation(len(places))
            yield name, np.concatenate([queries[own], some])[order], places[order]


def judged(
    place_map: PlaceMap, queries: np.ndarray, places: np.ndarray, adapt: str
) -> tuple[np.ndarray, np.ndarray]:
    """Confidence of each query, and whether its place is right."""
    matches = _seen.located(place_map, queries, adapt)
    assert matches.confidence is not None
    known = np.where(places < 0, place_map.places.ids[0], places)
    return matches.confidence, (places >= 0) & place_map.state.truth.correct(matches.places[:, 0], known)


def percent(flags: np.ndarray) -> str:
    return f"{100 * np.mean(flags):.1f}"
