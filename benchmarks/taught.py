"""How well can a photo of the map be told from any other, with this evidence? Needs the shared data.

Maps of three and more traversals, as in `confidence`, are asked for the same pictures. Printed is the share (%) of
right matches that remain where 1 % of the half that the map lacks, and 1 % of foreign pictures, pass. The limit is
chosen by the answers. It is printed for the map's confidence, from descriptors alone and with sketches; and for
discriminators that, unlike a map, are taught by the answers: right matches, pictures of that half, foreign ones. They
get some eighty numbers of each match, measured from those without an answer, without and with the fit of the sketches;
they learn four fifths of the matches and judge the last one (places next to each other are in one fifth). In the town,
the maps of --towns other towns are learned, too: many times as many right matches.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks._measure import header, row
from benchmarks._seen import drawn_of, seen, vectors_of
from benchmarks.confidence import (
    ASKED,
    GAP,
    TOWN_PLACES,
    Case,
    Descriptors,
    cases_of,
    described,
    loaded,
    map_of,
    parser_of,
    plan,
    shared_data,
)
from displace import PlaceMap
from displace.arrays import l2_normalize, log_odds
from displace.cell_layout import CellLayout
from displace.datasets import town
from displace.models import cells_of
from displace.sketches import fit, unpacked

TOP = 12
"""Best scores that are looked at."""
FEWEST_TRAVERSALS = 3
FOLDS, TOGETHER = 5, 5
"""Folds, and how many places next to each other are in one."""
PASS = 0.01
"""Share of pictures without an answer that pass."""
RIGHT, HALF, FOREIGN = range(3)
WAYS = "descriptors", "confidence"
"""Ways to judge that are not taught."""
NAMES = "sped400", "nordland811", "town"


@dataclass
class Matches:
    """Matches of some maps."""

    untaught: np.ndarray
    """(q, 2): what `WAYS` say."""
    numbers: np.ndarray
    """(q, F): what discriminators get, the fit of the sketches last."""
    kinds: np.ndarray
    """(q,)"""
    folds: np.ndarray
    """(q,)"""

    @classmethod
    def of(cls, parts: list[Matches]) -> Matches:
        """Join those of several maps."""
        columns = zip(*((part.untaught, part.numbers, part.kinds, part.folds) for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    def take(self, keep: np.ndarray) -> Matches:
        """Some of them."""
        return Matches(self.untaught[keep], self.numbers[keep], self.kinds[keep], self.folds[keep])


def main(argv: list[str]) -> None:
    parser = parser_of("taught", __doc__)
    parser.add_argument("--sizes", default="30,80,200,400")
    parser.add_argument("--towns", type=int, default=0, help="other towns that are learned from")
    options = parser.parse_args(argv)
    shared = shared_data(options.cache)
    if shared is None:
        return
    warnings.filterwarnings("ignore", module="sklearn")
    taught = [f"{name}{more}" for more in ("", " and sketches") for name in discriminators()]
    header("map of", "traversals", "places", "model", "right matches", *WAYS, *taught)
    for model in options.models.split(","):
        sets = {name: described(shared, name, model, options.cache) for name in NAMES}
        others = [other_town(seed + 1, model, options.cache) for seed in range(options.towns)]
        for name, n_traversals, n_places in plan([int(size) for size in options.sizes.split(",")]):
            if n_traversals < FEWEST_TRAVERSALS:
                continue
            own = matches_of(sets, name, n_traversals, n_places, model)
            learned = [
                matches_of(sets | {"town": other}, name, n_traversals, n_places, model)
                for other in others
                if name == "town"
            ]
            row(name, n_traversals, n_places, model, *measured(own, learned))


def discriminators() -> dict[str, Pipeline]:
    """What is taught, by its name in the table."""
    balanced = {"class_weight": "balanced", "max_iter": 500}
    return {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(C=0.01, **balanced)),
        "boosted trees": make_pipeline(
            HistGradientBoostingClassifier(max_iter=150, max_depth=4, learning_rate=0.06, random_state=0)
        ),
    }


def measured(own: Matches, learned: list[Matches]) -> list[str]:
    """Right matches, and the share of them that remains by each way to judge."""
    ways = list(own.untaught.T)
    for numbers in (slice(-1), slice(None)):
        for pipeline in discriminators().values():
            odds = np.empty(len(own.kinds))
            for fold in range(FOLDS):
                asked = own.folds == fold
                taught = Matches.of([own.take(~asked), *learned])
                pipeline.fit(taught.numbers[:, numbers], taught.kinds == RIGHT)
                odds[asked] = pipeline.decision_function(own.numbers[asked, numbers])
            ways.append(odds)
    return [str((own.kinds == RIGHT).sum()), *(f"{remaining(odds, own.kinds):.0f}" for odds in ways)]


def remaining(odds: np.ndarray, kinds: np.ndarray) -> float:
    """Share (%) of right matches above the limit that `PASS` of the half and of foreign pictures reach."""
    without = (odds[kinds == kind] for kind in (HALF, FOREIGN))
    limit = max(np.quantile(some, 1 - PASS) for some in without if len(some))
    return float(100 * np.mean(odds[kinds == RIGHT] > limit))


def matches_of(
    sets: dict[str, Descriptors], name: str, n_traversals: int, n_places: int, model: str
) -> Matches:
    """Matches of the maps of one line."""
    cases = cases_of(sets[name], name, n_traversals, n_places)
    return Matches.of([matches_of_case(case, sets, model) for case in cases])


def matches_of_case(case: Case, sets: dict[str, Descriptors], model: str) -> Matches:
    """Matches of one map, each number in deviations of those without an answer."""
    own, inside = sets[case.name], np.arange(case.first, case.first + case.n_places)
    if case.query is None:
        raise ValueError(f"{case.name} has no traversal to ask for")
    queries = own[case.query]
    outside = np.setdiff1d(np.arange(len(queries)), np.arange(inside[0] - GAP, inside[-1] + GAP + 1))
    asked = [(RIGHT, inside, queries[inside])] + [(HALF, outside, queries[outside])] * bool(len(outside))
    rng = np.random.default_rng(0)
    for every in (np.concatenate(list(sets[name].values())) for name in sets if name != case.name):
        some = rng.permutation(len(every))[:ASKED]
        asked.append((FOREIGN, np.arange(len(some)), every[some]))
    place_map, cells = map_of(case, own, model), cells_of({"model": model})
    references = np.stack([vectors_of(own[name][inside]) for name in case.references])
    parts = []
    for kind, at, pictures in asked:
        places, untaught, numbers = evidence(place_map, pictures, references, cells)
        right = place_map.state.truth.correct(places, at) if kind == RIGHT else np.ones(len(at), bool)
        found = Matches(untaught, numbers, np.full(len(at), kind), at // TOGETHER % FOLDS)
        parts.append(found.take(right))
    found = Matches.of(parts)
    without = found.numbers[found.kinds == (HALF if len(outside) else FOREIGN)]
    found.numbers = (found.numbers - np.median(without, axis=0)) / (without.std(axis=0) + 1e-9)
    return found


def evidence(
    place_map: PlaceMap, pictures: np.ndarray, references: np.ndarray, cells: CellLayout | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Best place of each picture, what `WAYS` say of that match, and numbers (q, F); references are (K, N, D)."""
    matches = place_map.locate(vectors_of(pictures), k=TOP, adapt="none")
    known, queries = place_map.state.sketches, vectors_of(pictures)
    if matches.confidence is None or known is None:
        raise ValueError("the map has no confidence")
    places = matches.places[:, 0]
    best = place_map.places.rows_of(places)
    fits = fit(drawn_of(pictures), unpacked(known.packed[best]))
    # Of the first place alone, as all that discriminators are taught is of it.
    _, judged = known.judged(best[:, None], matches.scores[:, :1], matches.confidence, drawn_of(pictures))
    untaught = np.stack([log_odds(one, 1e-9) for one in (matches.confidence, judged)], axis=1)
    mean, of_traversals = references.mean(axis=(0, 1)), references.mean(axis=1, keepdims=True)
    from_mean = queries - mean
    columns = [untaught[:, :1], matches.scores]
    for some, others in (
        (queries, references),
        (from_mean, references - mean),
        (from_mean, references - of_traversals),
    ):
        columns += list(of_cosines(np.einsum("qd,tpd->qtp", unit(some), unit(others)), best))
    means = references.mean(axis=0)
    if cells is not None:
        columns += list(of_cells(cells.of(from_mean), cells.of((means - mean)[best])))
        for own in references:
            columns.append(cells.registration(from_mean, (own - mean)[best])[:, None])
    distances = ((queries[:, None] - references.transpose(1, 0, 2)[best]) ** 2).sum(axis=2)
    columns += [np.sort(distances, axis=1), np.linalg.norm(queries - means[best], axis=1)[:, None]]
    columns += [np.linalg.norm(from_mean, axis=1)[:, None], np.nan_to_num(fits)[:, None]]
    return places, untaught, np.hstack(columns).astype(np.float64)


def of_cosines(cosines: np.ndarray, best: np.ndarray) -> Iterator[np.ndarray]:
    """Numbers of the cosines (q, traversals, places) with all references, given the best place of each query."""
    at = best[:, None]
    yield np.sort(np.take_along_axis(cosines, best[:, None, None], axis=2)[:, :, 0], axis=1)
    mean = cosines.mean(axis=1)
    own, spread, ranked = np.take_along_axis(mean, at, 1), mean.std(axis=1, keepdims=True), np.sort(mean, 1)
    yield from (own, spread, mean.mean(axis=1, keepdims=True), (mean >= own).sum(axis=1, keepdims=True))
    yield from ((own - np.median(mean, axis=1, keepdims=True)) / spread, ranked[:, -1:] - own)
    yield ranked[:, -1:] - ranked[:, -3:-1]
    for step in (-3, -2, -1, 1, 2, 3):  # places before and after it
        yield own - np.take_along_axis(mean, np.clip(at + step, 0, mean.shape[1] - 1), 1)


def of_cells(one: np.ndarray, other: np.ndarray) -> Iterator[np.ndarray]:
    """Numbers of two pictures' cells (q, rows, columns, numbers): cosines at the same spot, and shifted."""
    one, other = unit(one), unit(other)
    cosines = (one * other).sum(axis=3)
    yield np.quantile(cosines, (0.1, 0.25, 0.5, 0.75, 0.9), axis=(1, 2)).T
    yield cosines.std(axis=(1, 2))[:, None]
    for band in np.array_split(cosines, 3, axis=1):
        yield np.stack([part.mean(axis=(1, 2)) for part in np.array_split(band, 3, axis=2)], axis=1)
    here = cosines.mean(axis=(1, 2))
    shifted = [
        (moved(one, down, right) * moved(other, -down, -right)).sum(axis=3).mean(axis=(1, 2))
        for down in range(-2, 3)
        for right in range(-2, 3)
        if (down, right) != (0, 0)
    ]
    yield np.stack([here, here - np.mean(shifted, axis=0), here - np.max(shifted, axis=0)], axis=1)


def moved(cells: np.ndarray, down: int, right: int) -> np.ndarray:
    """Return the cells that are still there when a picture is shifted."""
    _, rows, columns, _ = cells.shape
    return cells[:, max(0, down) : rows + min(0, down), max(0, right) : columns + min(0, right)]


def unit(vectors: np.ndarray) -> np.ndarray:
    """Divide by the length along the last axis."""
    flat = l2_normalize(vectors.reshape(-1, vectors.shape[-1]))
    return flat.reshape(vectors.shape)


def other_town(seed: int, model: str, cache: Path) -> Descriptors:
    """Pictures of the town of another seed."""
    path, root = cache / f"town{seed}_{model}_seen.npz", cache / f"town{seed}"
    if not path.is_file():
        if not root.is_dir():
            town.write(root, places=TOWN_PLACES, seed=seed)
        np.savez(path, **{name: seen(model, sorted((root / name).glob("*.jpg"))) for name in town.TRAVERSALS})
    return loaded(path)
