"""Is the query in the map? Real images crosswise: sped400, nordland811 and the rendered town; needs the shared data.

Maps of each set, of few and many places, are asked for the pictures of a traversal that they have not seen, for the
half of their own route that they do not hold, and for pictures of the other sets. The calibration error is over the
traversal that was not seen and a third as many pictures without an answer, one half of them of the own route, one half
foreign (all foreign where the map holds the whole route); and over all pictures alike, of which most have no answer.
Descriptors are computed once and kept in --cache.

--details prints another table of the same maps: at which places the foreign pictures that pass are found, whether these
are the same for both other sets, how many drawn pictures that show nothing pass and how many of the set's own, made by
a broken camera, the calibration error that chance alone gives a confidence which is exactly right, and the one that is
left in hindsight: where each map's logarithm of the odds is moved by what, known the answers, suits it best.

--together asks for all pictures of a kind at once, as ``displace locate MAP FOLDER`` does, instead of for each alone.

--which prints how often the first place is right, of photos of the traversal that was not seen: by descriptors alone,
and where the photos are compared with the pictures of the best places.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks import _broken_camera, _seen
from benchmarks._drawn_pictures import discs, noise
from benchmarks._measure import header, row
from benchmarks._seen import seen
from displace import PlaceMap, ReferenceSet, build
from displace.datasets import town
from displace.errors import ConditioningWarning
from displace.holdout import spread
from displace.images import read_image
from displace.maps.calibration import calibration_error
from displace.places import Places

Descriptors = dict[str, np.ndarray]

CACHE = Path(tempfile.gettempdir()) / "displace-confidence"
"""Where descriptors are kept."""
TOWN_PLACES = 200
GAP = 5
"""Places at each side of a map that are neither in it nor in the half that it does not hold."""
ASKED = 600
"""Pictures of each other set that a map is asked for."""
NOT_IN_MAP = 1 / 3
"""Pictures without an answer for each one that has it, in the calibration error."""
DRAWN = 150
"""Drawn pictures of each kind."""
BROKEN = 60
"""Pictures of each set that a broken camera makes something of."""
DRAWS = 50
"""Times that chance is drawn."""
SHIFTS = np.arange(-4, 6.01, 0.25)
"""What the logarithm of the odds is moved by in hindsight."""
FEWEST = 10
"""Foreign pictures that must pass before it is said where."""


TABLE = (
    "right ≥ 0.5",
    "own half ≥ 0.5",
    "≥ 0.8",
    "right at 1 % of own half",
    "foreign ≥ 0.5",
    "≥ 0.8",
    "calibration error",
    "of all",
)
DETAILS = (
    "foreign that pass",
    "% of these at two places of each map",
    "places of both sets alike (correlation)",
    "discs ≥ 0.5",
    "noise ≥ 0.5",
    *(f"{kind.__name__.replace('_', ' ')} ≥ 0.5" for kind in _broken_camera.KINDS),
    "error by chance",
    "error in hindsight",
)
WHICH = "photos", "R@1 by descriptors", "R@1 with pictures", "% set right", "% set wrong"


@dataclass(frozen=True)
class Case:
    """One map: which set, which of its traversals, which places."""

    name: str
    references: list[str]
    query: str | None
    tolerance: str
    first: int
    n_places: int


@dataclass
class Answers:
    """What one map says of all that it is asked.

    Parameters
    ----------
    inside : array
        Its places.
    foreign : list of (places, confidences)
        Of the pictures of each other set.
    nothing : dict
        Confidences of pictures, by their kind, that are drawn or of a broken camera.
    half : array
        Confidences of the part of the route that it does not hold.
    confidence, correct : arrays
        Of the traversal that it has not seen.
    """

    inside: np.ndarray
    foreign: list[tuple[np.ndarray, np.ndarray]]
    nothing: Descriptors
    half: np.ndarray = field(default_factory=lambda: np.empty(0))
    confidence: np.ndarray = field(default_factory=lambda: np.empty(0))
    correct: np.ndarray = field(default_factory=lambda: np.empty(0, bool))

    def agreement(self) -> float:
        """Correlation, over the places, of how often the two other sets are found there."""
        counts = [(places[:, None] == self.inside).sum(axis=0) for places, _ in self.foreign]
        return float(np.corrcoef(*counts)[0, 1])


def main(argv: list[str]) -> None:
    parser = parser_of("confidence", __doc__)
    parser.add_argument("--sizes", default="30,80,200,400")
    parser.add_argument(
        "--details", action="store_true", help="where foreign pictures pass, and what chance does"
    )
    parser.add_argument("--together", action="store_true", help="ask for many pictures as a folder of them")
    parser.add_argument(
        "--which", action="store_true", help="which place comes first, with pictures and without"
    )
    options = parser.parse_args(argv)
    shared = shared_data(options.cache)
    if shared is None:
        return
    maps = ("map of", "traversals", "places", "model")
    header(*maps, *(WHICH if options.which else DETAILS if options.details else TABLE))
    for model in options.models.split(","):
        sets = {
            name: described(shared, name, model, options.cache) for name in ("sped400", "nordland811", "town")
        }
        nothing = drawn(model, options.cache) if options.details else {}
        of_size: dict[int, list[Answers]] = defaultdict(list)
        for name, n_traversals, n_places in plan([int(size) for size in options.sizes.split(",")]):
            cases = list(cases_of(sets[name], name, n_traversals, n_places))
            line = name, n_traversals, n_places, model
            if options.which:
                parts = [first_places(case, sets[name], model) for case in cases if case.query]
                if parts:
                    row(*line, *which(parts))
                continue
            broken = of_broken_camera(shared, name, model, options.cache) if options.details else {}
            asked = [answers(case, sets, nothing | broken, model, options.together) for case in cases]
            row(*line, *(detailed if options.details else measured)(asked))
            of_size[n_places] += asked
        for n_places, asked in of_size.items() if not options.details else ():
            row("all sets", "all", n_places, model, *measured(asked))


def parser_of(name: str, description: str | None) -> argparse.ArgumentParser:
    """Options of the benchmarks that describe the shared sets."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {name}", description=description)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--models", default="hog,efficientnet_lite")
    return parser


def shared_data(cache: Path) -> Path | None:
    """Where the photographed sets are; None, and said so, where they are not."""
    shared = Path(os.environ.get("DISPLACE_SHARED", "../shared")) / "data"
    if not shared.is_dir():
        print(f"skipped: no {shared}")
        return None
    cache.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore", ConditioningWarning)
    return shared


def plan(sizes: list[int]) -> Iterator[tuple[str, int, int]]:
    """Set, traversals and places of the maps in a table."""
    for name, total, most in (("sped400", 400, 3), ("nordland811", 811, 2), ("town", TOWN_PLACES, 5)):
        for n_traversals in (1, 2, 3, 5):
            for n_places in sizes:
                few = n_traversals < min(most, 3)
                if n_traversals <= most and n_places <= total and not (few and n_places > 80):
                    yield name, n_traversals, n_places


def described(shared: Path, name: str, model: str, cache: Path) -> Descriptors:
    """Pictures (`seen`) of a set by traversal, row i being place i."""
    path = cache / f"{name}_{model}_seen.npz"
    if not path.is_file():
        if name == "town":
            town.write(cache / name, places=TOWN_PLACES)
        folders = folders_of(shared, name, cache)
        found = {folder.name: seen(model, sorted(folder.glob("*.jpg"))) for folder in folders}
        np.savez(path, **found)
    return loaded(path)


def folders_of(shared: Path, name: str, cache: Path) -> list[Path]:
    """Pictures of each traversal of a set."""
    root = cache / name if name == "town" else shared / name
    return sorted(folder for folder in root.iterdir() if folder.is_dir())


def loaded(path: Path) -> Descriptors:
    """Read descriptors of the cache."""
    with np.load(path) as arrays:
        return {key: arrays[key].astype(np.float32) for key in arrays}


def cases_of(vectors: Descriptors, name: str, n_traversals: int, n_places: int) -> Iterator[Case]:
    """Maps of one line: several where they are small, with other places and, in the town, another query."""
    total = len(next(iter(vectors.values())))
    for number in range({30: 4, 80: 2}.get(n_places, 1)):
        half = total // 2
        room = half - n_places
        first = (number % 2) * half + (37 * number % room if room > 0 else 0) if room >= 0 else 0
        if name == "sped400":
            names, query, tolerance = ["ref1", "ref2", "ref3"], "query", "exact"
        elif name == "nordland811":
            names, tolerance = ["summer", "winter"], "2 frames"
            query = "winter" if n_traversals == 1 else None
        else:
            query, tolerance = town.TRAVERSALS[(4 + number) % 6], "1 frames"
            names = [other for other in town.TRAVERSALS if other != query]
        yield Case(name, names[:n_traversals], query, tolerance, first, n_places)


def answers(
    case: Case, sets: dict[str, Descriptors], nothing: Descriptors, model: str, together: bool
) -> Answers:
    """Ask the map of a case for everything."""
    place_map, adapt = map_of(case, sets[case.name], model), "auto" if together else "none"
    inside = np.arange(case.first, case.first + case.n_places)
    total = len(next(iter(sets[case.name].values())))
    outside = np.setdiff1d(np.arange(total), np.arange(inside[0] - GAP, inside[-1] + GAP + 1))
    asked = [case.query] if case.query else case.references
    rng = np.random.default_rng(0)
    pictures = [np.concatenate(list(sets[name].values())) for name in sets if name != case.name]
    found = Answers(
        inside,
        [located(place_map, some[rng.permutation(len(some))[:ASKED]], adapt) for some in pictures],
        {kind: located(place_map, some, adapt)[1] for kind, some in nothing.items()},
    )
    if len(outside):
        half = np.concatenate([sets[case.name][name][outside] for name in asked])
        found.half = located(place_map, half, adapt)[1]
    if case.query:
        places, found.confidence = located(place_map, sets[case.name][case.query][inside], adapt)
        found.correct = place_map.state.truth.correct(places, inside)
    return found


def first_places(case: Case, vectors: Descriptors, model: str) -> tuple[np.ndarray, np.ndarray]:
    """Whether the first place of each photo is right, by descriptors alone and with pictures."""
    place_map, inside = map_of(case, vectors, model), np.arange(case.first, case.first + case.n_places)
    photos, truth = vectors[str(case.query)][inside], place_map.state.truth
    plain = place_map.locate(_seen.vectors_of(photos), k=1).places[:, 0]
    return truth.correct(plain, inside), truth.correct(located(place_map, photos, "none")[0], inside)


def which(parts: list[tuple[np.ndarray, np.ndarray]]) -> list[str]:
    """Shares (%) of photos over the maps of one line."""
    plain, compared = (np.concatenate(column) for column in zip(*parts, strict=True))
    shares = plain, compared, compared & ~plain, plain & ~compared
    return [str(len(plain)), *(f"{100 * flags.mean():.1f}" for flags in shares)]


def measured(asked: list[Answers]) -> list[str]:
    """Shares (%) of accepted pictures, and the calibration error, over the maps of one line."""
    right = [some.confidence[some.correct] for some in asked]
    half, foreign = [some.half for some in asked], [sure for some in asked for _, sure in some.foreign]
    confidence, correct, counts = judged(asked)
    at_1_percent = "–"
    if sum(map(len, right)) and sum(map(len, half)):
        at_1_percent = share(right, float(np.nextafter(np.quantile(np.concatenate(half), 0.99), 1)))
    return [
        share(right, 0.5),
        share(half, 0.5),
        share(half, 0.8),
        at_1_percent,
        share(foreign, 0.5),
        share(foreign, 0.8),
        *(
            f"{calibration_error(confidence, correct, weights):.3f}" if len(counts) else "–"
            for weights in (counts, np.ones(len(counts)))
        ),
    ]


def detailed(asked: list[Answers]) -> list[str]:
    """Where foreign pictures pass, how many drawn ones do, and what chance does, over the maps of one line."""
    passed = [np.concatenate([places[sure >= 0.5] for places, sure in some.foreign]) for some in asked]
    n = sum(map(len, passed))
    at_two = sum(np.sort(np.unique(places, return_counts=True)[1])[-2:].sum() for places in passed)
    alike = np.nanmean([some.agreement() for some in asked])
    confidence, _, counts = judged(asked)
    rng = np.random.default_rng(0)
    by_chance = [
        calibration_error(confidence, rng.random(len(counts)) < confidence, counts)
        for _ in range(DRAWS if len(counts) else 0)
    ]
    return [
        str(n),
        f"{100 * at_two / n:.0f}" if n >= FEWEST else "–",
        f"{alike:.2f}",
        *(share([some.nothing[kind] for some in asked], 0.5) for kind in asked[0].nothing),
        f"{np.mean(by_chance):.3f}" if by_chance else "–",
        f"{in_hindsight(asked):.3f}" if by_chance else "–",
    ]


def in_hindsight(asked: list[Answers]) -> float:
    """Calibration error over the maps of one line, if each had the level that suits its own answers best."""
    parts = []
    for some in asked:
        confidence, correct, counts = judged([some])
        odds = np.log(np.clip(confidence, 1e-6, None) / np.clip(1 - confidence, 1e-6, None))
        shifted = [1 / (1 + np.exp(-(odds + shift))) for shift in SHIFTS]
        best = min(shifted, key=lambda one: calibration_error(one, correct, counts))
        parts.append((best, correct, counts))
    return calibration_error(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def judged(asked: list[Answers]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Confidences of a line, whether the places are right, and what each counts in the calibration error."""
    parts = [(np.empty(0), np.empty(0, bool), np.empty(0))]
    for some in asked:
        n = len(some.confidence)
        parts.append((some.confidence, some.correct, np.ones(n)))
        foreign = np.concatenate([sure for _, sure in some.foreign])
        without = [part for part in (foreign, some.half) if len(part) and n]
        for part in without:
            counts = np.full(len(part), NOT_IN_MAP * n / len(without) / len(part))
            parts.append((part, np.zeros(len(part), bool), counts))
    confidence, correct, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    return confidence, correct, counts


def map_of(case: Case, vectors: Descriptors, model: str) -> PlaceMap:
    """Build the map of a case."""
    ids = np.arange(case.first, case.first + case.n_places)
    n = len(case.references)
    pictures = np.concatenate([vectors[name][ids] for name in case.references])
    refs = ReferenceSet(
        _seen.vectors_of(pictures),
        np.tile(ids, n),
        np.repeat(np.array(case.references), len(ids)),
        info=Places(ids, frames=ids),
    )
    place_map = build(refs, model={"model": model}, tolerance=case.tolerance)
    return _seen.with_pictures_of(place_map, pictures, refs.places)


def located(place_map: PlaceMap, queries: np.ndarray, adapt: str) -> tuple[np.ndarray, np.ndarray]:
    """Place and confidence of each query; 0 where the map has none."""
    matches = _seen.located(place_map, queries, adapt)
    confidence = np.zeros(len(queries)) if matches.confidence is None else matches.confidence
    return matches.places[:, 0], confidence


def drawn(model: str, cache: Path) -> Descriptors:
    """Drawn pictures that show nothing, by their kind."""
    path = cache / f"drawn_{model}_seen.npz"
    if not path.is_file():
        rng = np.random.default_rng(0)
        found = {kind.__name__: seen(model, [kind(rng) for _ in range(DRAWN)]) for kind in (discs, noise)}
        np.savez(path, **found)
    return loaded(path)


def of_broken_camera(shared: Path, name: str, model: str, cache: Path) -> Descriptors:
    """What a broken camera makes of pictures that are spread over a set, by the kind of fault."""
    path = cache / f"broken_{name}_{model}_seen.npz"
    if not path.is_file():
        every = [file for folder in folders_of(shared, name, cache) for file in sorted(folder.glob("*.jpg"))]
        pictures = [read_image(every[at]) for at in spread(len(every), BROKEN)]
        rng = np.random.default_rng(0)
        found = {
            kind.__name__: seen(model, [kind(picture, rng) for picture in pictures])
            for kind in _broken_camera.KINDS
        }
        np.savez(path, **found)
    return loaded(path)


def share(parts: list[np.ndarray], limit: float) -> str:
    """Share (%) of all values that reach a limit."""
    values = np.concatenate(parts) if parts else np.empty(0)
    return f"{100 * np.mean(values >= limit):.1f}" if len(values) else "–"
