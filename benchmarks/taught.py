"""How well can a photo of the map be told from any other, with these descriptors? Needs the shared data.

Maps of three and more traversals, as in `confidence`, are asked for the same pictures. Some eighty numbers of each
match are given to discriminators that, unlike a map, are taught by the answers: right matches, pictures of the half
that the map lacks, foreign ones. They learn four fifths of these and judge the last one (places next to each other are
in one fifth). Printed is the share (%) of right matches that remain where 1 % of that half and 1 % of foreign pictures
pass, by the map's confidence and by the discriminators. The limit, and what numbers of each map are measured from, are
chosen by the answers as well. In the town, the maps of --towns other towns are learned, too: many times as many right
matches.
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
from displace.arrays import l2_normalize
from displace.cell_layout import CellLayout
from displace.datasets import town
from displace.descriptors.extraction import describe
from displace.models import cells_of, get_model

TOP = 12
"""Best scores that are looked at."""
FEWEST_TRAVERSALS = 3
FOLDS, TOGETHER = 5, 5
"""Folds, and how many places next to each other are in one."""
PASS = 0.01
"""Share of pictures without an answer that pass."""
RIGHT, HALF, FOREIGN = range(3)


@dataclass
class Matches:
    """Matches of some maps: numbers (q, F), the first being the odds of the confidence; their kinds and folds (q,)."""

    numbers: np.ndarray
    kinds: np.ndarray
    folds: np.ndarray

    @classmethod
    def of(cls, parts: list[Matches]) -> Matches:
        """Join those of several maps."""
        columns = zip(*((part.numbers, part.kinds, part.folds) for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


def main(argv: list[str]) -> None:
    parser = parser_of("taught", __doc__)
    parser.add_argument("--sizes", default="30,80,200,400")
    parser.add_argument("--towns", type=int, default=0, help="other towns that are learned from")
    options = parser.parse_args(argv)
    shared = shared_data(options.cache)
    if shared is None:
        return
    warnings.filterwarnings("ignore", module="sklearn")
    header("map of", "traversals", "places", "model", "right matches", "confidence", *discriminators())
    for model in options.models.split(","):
        sets = {
            name: described(shared, name, model, options.cache) for name in ("sped400", "nordland811", "town")
        }
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
        "logistic, C=0.01": make_pipeline(StandardScaler(), LogisticRegression(C=0.01, **balanced)),
        "logistic, C=0.3": make_pipeline(StandardScaler(), LogisticRegression(C=0.3, **balanced)),
        "boosted trees": make_pipeline(
            HistGradientBoostingClassifier(max_iter=150, max_depth=4, learning_rate=0.06, random_state=0)
        ),
    }


def measured(own: Matches, learned: list[Matches]) -> list[str]:
    """Right matches, and the share of them that remains by the confidence and by each discriminator."""
    ways = [own.numbers[:, 0]]
    for pipeline in discriminators().values():
        odds = np.empty(len(own.kinds))
        for fold in range(FOLDS):
            known = own.folds != fold
            taught = Matches.of([Matches(own.numbers[known], own.kinds[known], own.folds[known]), *learned])
            pipeline.fit(taught.numbers, taught.kinds == RIGHT)
            odds[~known] = pipeline.decision_function(own.numbers[~known])
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
    outside = np.setdiff1d(np.arange(len(own[case.query])), np.arange(inside[0] - GAP, inside[-1] + GAP + 1))
    rng = np.random.default_rng(0)
    pictures = [np.concatenate(list(sets[name].values())) for name in sets if name != case.name]
    foreign = np.concatenate([some[rng.permutation(len(some))[:ASKED]] for some in pictures])
    place_map, cells = map_of(case, own, model), cells_of({"model": model})
    references = np.stack([own[name][inside] for name in case.references])
    asked = [(RIGHT, own[case.query][inside]), (HALF, own[case.query][outside]), (FOREIGN, foreign)]
    parts = []
    for kind, queries in asked:
        if not len(queries):
            continue
        places, numbers = evidence(place_map, queries, references, cells)
        at = {RIGHT: inside, HALF: outside}.get(kind, np.arange(len(queries)))
        right = place_map.state.truth.correct(places, at) if kind == RIGHT else np.ones(len(at), bool)
        folds = at // TOGETHER % FOLDS
        parts.append(Matches(numbers[right], np.full(right.sum(), kind), folds[right]))
    found = Matches.of(parts)
    without = found.numbers[found.kinds == (HALF if len(outside) else FOREIGN)]
    found.numbers = (found.numbers - np.median(without, axis=0)) / (without.std(axis=0) + 1e-9)
    return found


def evidence(
    place_map: PlaceMap, queries: np.ndarray, references: np.ndarray, cells: CellLayout | None
) -> tuple[np.ndarray, np.ndarray]:
    """Best place of each query, and numbers (q, F) of that match; references are (traversals, places, D)."""
    matches = place_map.locate(queries, k=TOP, adapt="none")
    if matches.confidence is None:
        raise ValueError("the map has no confidence")
    sure = np.clip(matches.confidence, 1e-9, 1 - 1e-9)
    places = matches.places[:, 0]
    best = np.searchsorted(place_map.state.places.ids, places)
    mean, of_traversals = references.mean(axis=(0, 1)), references.mean(axis=1, keepdims=True)
    from_mean = queries - mean
    columns = [np.log(sure / (1 - sure))[:, None], matches.scores]
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
    columns.append(np.linalg.norm(from_mean, axis=1)[:, None])
    return places, np.hstack(columns).astype(np.float64)


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
    """Descriptors of the town of another seed."""
    path = cache / f"town{seed}_{model}.npz"
    if not path.is_file():
        root = cache / f"town{seed}"
        town.write(root, places=TOWN_PLACES, seed=seed)
        found = {
            name: describe(get_model(model), sorted((root / name).glob("*.jpg"))) for name in town.TRAVERSALS
        }
        np.savez(path, **found)
    return loaded(path)
