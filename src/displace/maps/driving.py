"""Between maps and `sequence`: a map as a `Course`, similarities of queries, and the calibration of drives.

`DriveWatch` drives held-out traversals along the folds' maps (`learning`), once each as followed, smoothed, and located
with batch and online adaptation, and fits a logistic calibration to each kind of answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, log_odds, top_k
from displace.sequence.adaptation import LEAST_QUERIES, MapRows, OnlineAdaptation, adapt, tell_condition
from displace.sequence.chance import Same
from displace.sequence.engine import Blocks, Motion
from displace.sequence.following import (
    CLIP,
    Course,
    DriveCalibration,
    Fix,
    Logistic,
    filtered,
    smooth_fixes,
    standing_out,
)
from displace.sequence.pictured import RoutePictures
from displace.sequence.roadway import Roadway
from displace.sequence.weighing import Scale, earned, earned_by_chance, scores_by_frame

if TYPE_CHECKING:
    from displace.fusion.base import Fusion, Rows
    from displace.maps.state import MapState
    from displace.places import Places
    from displace.references import ReferenceSet
    from displace.truth import Truth

LEAST_PLACES = LEAST_QUERIES // 2
"""Fewest places of a map, and frames of a held-out drive, that drives are calibrated with."""
MOST_FRAMES, MOST_FOLDS = 400, 3
"""Most frames of a held-out drive, and most such drives: bounds the time of a build."""
ABOVE = 0.27
"""Prior level = chance + ABOVE · (path − chance) of held-out drives. Below half, as later drives may be
harder; a drive soon estimates its own."""


def course_of(state: MapState) -> Course:
    """A map as the sequence model sees it."""
    order = state.places.order
    ids = state.places.ids if order is None else state.places.ids[order]
    rows = rows_in_order(state.working_rows, state.starts, order)
    frames = state.places.frames
    roadway = None if order is None or frames is None else Roadway.of(frames[order])
    pictures = None
    if state.sketches is not None:
        pictures = RoutePictures(state.sketches.packed if order is None else state.sketches.packed[order])
    same = same_places(state.truth, ids)
    return Course(ids, rows, order is not None, same, state.driving, roadway, pictures)


def likeliest(fixes: Sequence[Fix], places: Places, k: int) -> tuple[Indices, Vectors]:
    """The k likeliest places of each fix, as indices (q, k), and the belief in them; first the fix's own."""
    n, order = len(places), places.order
    own = places.rows_of(np.array([fix.place for fix in fixes], places.ids.dtype))
    best, scores = np.empty((len(fixes), min(k, n)), np.intp), np.empty((len(fixes), min(k, n)))
    along = np.arange(n) if order is None else np.argsort(order)
    for row, fix in enumerate(fixes):  # one belief at a time: all of a long drive would fill the memory
        belief, first = fix.belief, along[own[row]]
        others = top_k(belief[None], k)[0]
        at = np.append(first, others[others != first][: best.shape[1] - 1])
        best[row], scores[row] = at if order is None else order[at], belief[at]
    return best, scores


def same_places(truth: Truth, ids: NDArray[Any]) -> Same:
    """Which places, of `ids` in route order, count as the same as the i-th."""
    places, kind, limit = truth.places, truth.tolerance.kind, truth.tolerance.value
    at, points = places.rows_of(ids), None
    if kind == "metres" and places.positions is not None:
        points = places.positions.metres()[at]
    if kind == "frames" and places.frames is not None:
        frames = places.frames[at]
        if (np.diff(frames) >= 0).all():
            first = np.searchsorted(frames, frames - limit, "left")
            last = np.searchsorted(frames, frames + limit, "right")
            return partial(_between, first, last)
        points = frames[:, None]
    return _alone if points is None else partial(_near, points, limit)


# Functions of the module, not lambdas: a drive can be pickled.
def _between(first: NDArray[np.intp], last: NDArray[np.intp], index: int) -> slice:
    return slice(int(first[index]), int(last[index]))


def _alone(index: int) -> slice:
    return slice(index, index + 1)


def _near(
    points: NDArray[np.float64], limit: float, index: int
) -> Callable[[NDArray[np.intp]], NDArray[np.intp]]:
    def among(some: NDArray[np.intp]) -> NDArray[np.intp]:
        away: NDArray[np.float64] = ((points[some] - points[index]) ** 2).sum(axis=1)
        chosen: NDArray[np.intp] = some[(away <= limit**2) | (some == index)]
        return chosen

    return among


def rows_in_order(vectors: Vectors, starts: NDArray[np.intp], order: NDArray[np.intp] | None) -> MapRows:
    """Rows with the places in another order."""
    if order is None or (np.diff(order) == 1).all():
        return MapRows(vectors, starts)
    counts = np.diff(np.append(starts, len(vectors)))[order]
    first = np.cumsum(counts) - counts
    at = np.repeat(starts[order] - first, counts) + np.arange(len(vectors))
    return MapRows(np.ascontiguousarray(vectors[at]), first)


def similarity_of(rows: MapRows, queries: Vectors, mode: str) -> Blocks:
    """Similarities of projected queries and places, adapted to the queries' condition as `mode` says.

    Of the modes "none", "batch" and "online", blocks of the last must be asked for once, in order.
    """
    batch = adapt(rows, queries) if mode == "batch" else None
    online = OnlineAdaptation(rows) if mode == "online" else None

    def block(part: slice) -> Vectors:
        some = queries[part]
        if batch is not None:
            return batch.scores(some)
        if online is not None:
            return np.stack([online.scores(query) for query in some])
        return rows.best(some.astype(np.float32, copy=False) @ rows.columns)

    return Blocks((len(queries), len(rows.starts)), block)


def chosen_mode(mode: str, n_queries: int) -> str:
    """Resolve "auto" for so many queries of one drive."""
    if mode != "auto":
        return mode
    return "batch" if n_queries >= LEAST_QUERIES else "none"


def tenable_mode(mode: str, rows: MapRows, queries: Vectors) -> str:
    """Turn "batch" into "none" where projected queries are too few, or of one spot (`tell_condition`)."""
    return "none" if mode == "batch" and not tell_condition(rows, queries) else mode


@dataclass
class _HeldOut:
    """One held-out drive: similarities by the mode of adaptation; true places; prior level."""

    course: Course
    scores: dict[str, Vectors]
    places: NDArray[Any]
    answerable: NDArray[np.bool_]
    level: float


@dataclass
class DriveWatch:
    """Collects held-out drives from the folds of a map's calibration, and calibrates drives with them."""

    truth: Truth
    """Which places count as the same; it has the route's order."""
    _seen: list[_HeldOut] = field(default_factory=list)

    def watch(self, fitted: Fusion, queries: ReferenceSet) -> None:
        """Take a fold: its queries drive along its map."""
        rows = fitted.rows()
        if rows is not None:
            self.drive(rows, fitted.place_ids_, queries)

    def drive(self, rows: Rows, ids: NDArray[Any], queries: ReferenceSet) -> None:
        """Let queries drive along the rows of some places, `ids`, that were made without them."""
        places = self.truth.places
        if places.frames is None or len(self._seen) >= MOST_FOLDS:
            return
        frames = places.frames[places.rows_of(ids)]
        order = np.argsort(frames, kind="stable")
        at = places.frames[places.rows_of(queries.places)]
        asked = np.argsort(at, kind="stable")
        asked = asked[np.isfinite(at[asked])]
        answerable = self.truth.answerable(queries.places[asked], ids)
        asked = _around_the_gap(asked, answerable)
        if len(asked) < LEAST_PLACES or len(ids) < LEAST_PLACES:
            return
        vectors = np.asarray(queries.vectors[asked], np.float32)
        unit = rows.project(vectors)
        in_order = rows_in_order(np.asarray(rows.vectors, np.float32), rows.starts, order)
        asked_places = queries.places[asked]
        answerable = self.truth.answerable(asked_places, ids)
        scores = {mode: similarity_of(in_order, unit, mode).whole() for mode in ("batch", "online", "none")}
        course = Course(ids[order], in_order, True, same_places(self.truth, ids[order]))
        level = _prior_level(scores["none"], answerable)
        self._seen.append(_HeldOut(course, scores, asked_places, answerable, level))

    def calibration(self, n_traversals: int) -> DriveCalibration | None:
        """Calibration of drives for a map of so many traversals; None where no drive could be held out.

        With two traversals only quarters are held out, which suffices for adapted matches but not for following. With
        one nothing is held out, and fixed rules apply.
        """
        if n_traversals == 1:
            return drives_by_rule(self.truth.places)
        if not self._seen:
            return None
        learned = DriveCalibration(min(seen.level for seen in self._seen))
        found = self._answers(learned)
        features = {name: own for name, (_, own) in found.items()}
        true = np.concatenate([seen.places for seen in self._seen])
        answerable = np.concatenate([seen.answerable for seen in self._seen])
        right = {name: self.truth.correct(places, true) & answerable for name, (places, _) in found.items()}
        of_adapted = DriveCalibration(
            Scale().level,
            batch=Logistic.fit(features["batch"], right["batch"]),
            n_frames=len(true),
            share=float(right["batch"].mean()),
            online=Logistic.fit(features["online"], right["online"]),
        )
        if n_traversals == 2:
            return of_adapted
        return replace(
            of_adapted,
            level=learned.level,
            followed=Logistic.near_belief(features["followed"], right["followed"]),
            smoothed=Logistic.near_belief(features["smoothed"], right["smoothed"]),
            recall={name: round(float(flags[answerable].mean()), 4) for name, flags in right.items()},
        )

    def _answers(self, learned: DriveCalibration) -> dict[str, tuple[NDArray[Any], Vectors]]:
        """Places found for all held-out frames, and features of these answers, by the way they were located."""
        found: dict[str, list[tuple[NDArray[Any], Vectors]]] = {}
        for seen in self._seen:
            course, plain = replace(seen.course, calibration=learned), Blocks.of(seen.scores["none"])
            fixes = {
                "followed": [course.fix(belief, smoothed=False) for belief in filtered(course, plain)],
                "smoothed": smooth_fixes(course, plain)[0],
            }
            for name, own in fixes.items():
                features = log_odds([fix.probability for fix in own], CLIP)[:, None]
                found.setdefault(name, []).append((np.array([fix.place for fix in own]), features))
            for mode, scores in seen.scores.items():
                name = "single" if mode == "none" else mode
                best = course.ids[scores.argmax(axis=1)]
                found.setdefault(name, []).append((best, standing_out(scores)))
        return {
            name: (np.concatenate([places for places, _ in parts]), np.concatenate([f for _, f in parts]))
            for name, parts in found.items()
        }


def drives_by_rule(places: Places) -> DriveCalibration | None:
    """Calibration by fixed rules, for maps without held-out drives; None where places are few or without order."""
    if places.frames is None or len(places) < LEAST_PLACES:
        return None
    return DriveCalibration(Scale().level)


def _prior_level(plain: Vectors, answerable: NDArray[np.bool_]) -> float:
    """Prior level from one held-out drive; its gain is divided by the share of frames that can have a path."""
    scores, motion, slope = scores_by_frame(Blocks.of(plain)), Motion(), Scale().slope
    chance = earned_by_chance(scores, slope, motion)
    path = earned(scores, slope, motion)
    return chance + ABOVE * max(0.0, path - chance) / max(float(answerable.mean()), 0.2)


def _around_the_gap(asked: NDArray[np.intp], answerable: NDArray[np.bool_]) -> NDArray[np.intp]:
    """At most `MOST_FRAMES` consecutive frames, around one end of the stretch that the fold's map lacks."""
    if len(asked) <= MOST_FRAMES:
        return asked
    gone = np.flatnonzero(~answerable)
    middle = int(gone[0]) if len(gone) else len(asked) // 2
    if not answerable[:MOST_FRAMES].any():  # a long stretch where the route begins
        middle = int(answerable.argmax())
    first = int(np.clip(middle - MOST_FRAMES // 2, 0, len(asked) - MOST_FRAMES))
    return asked[first : first + MOST_FRAMES]
