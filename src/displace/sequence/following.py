"""From beliefs to answers: a drive along a map's route, online (`Follower`) or as a whole (`smooth_fixes`).

A `Course` is the map as the model sees it. The probability of an answer (`Fix`) is the belief's mass on all places that
count as the same as its mode, corrected by logistic functions that held-out traversals were fitted to
(`DriveCalibration`; `maps.driving` learns it).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors, sigmoid, sigmoid_of, top_k
from displace.errors import InputError
from displace.files import schema
from displace.sequence.adaptation import MapRows, OnlineAdaptation, advance
from displace.sequence.chance import Chance, Same
from displace.sequence.engine import Belief, Blocks, Floats
from displace.sequence.hindsight import TRUSTED, Hindsight
from displace.sequence.pictured import RoutePictures
from displace.sequence.roadway import Roadway
from displace.sequence.stops import Stops
from displace.sequence.together import (
    agreed,
    judged_by_share,
    judged_in_order,
    judged_together,
    judged_under_way,
)
from displace.sequence.tracking import Tracker
from displace.sequence.viewpoint import LEAST_VIEW_FRAMES, VIEW_FRAMES, Cells
from displace.sequence.weighing import Scale, scores_by_frame, scores_of_row, weighed
from displace.sequence.whole_drive import smooth_drive
from displace.sketches import Sketches, packed, unpacked
from displace.truth import Flags

CLIP = 0.01
"""Beliefs are clipped this far from 0 and 1 before calibration: the model does not know its own errors."""
_NEGLIGIBLE = 1e-5
"""Probability of a place below which it is dropped from a stored belief, and from a sum."""
_FRAMES_PER_SAMPLE = 10.0
"""Consecutive frames that count as one independent observation: they are right or wrong together."""
_TOP = 20
"""Best scores from which adapted matches are judged."""


@dataclass(frozen=True, eq=False)
class Sparse:
    """A belief as its likely entries only, so that the fixes of a drive stay small on large maps."""

    n_places: int
    places: NDArray[np.int32]
    values: NDArray[np.float32]

    @classmethod
    def of(cls, belief: Vectors) -> Sparse:
        """Keep entries of at least 1e-5, and the ten best in any case."""
        limit = min(_NEGLIGIBLE, float(belief[top_k(belief[None], 10)[0, -1]]))
        places = np.flatnonzero(belief >= limit)
        return cls(len(belief), places.astype(np.int32), belief[places].astype(np.float32))

    def dense(self) -> Floats:
        """Return the belief of all places, (N,)."""
        belief = np.zeros(self.n_places)
        belief[self.places] = self.values
        return belief


Photo = tuple[Any, float | None]
"""Place of a frame as that of a single photo, None where it was not compared with pictures; and its confidence, None
where the map has none."""


@dataclass(frozen=True, eq=False)
class Fix:
    """Where a frame of a drive was taken."""

    place: Any
    """Id of the most likely place; of a frame whose picture was compared and which no order supports, as of a photo."""
    probability: float
    """Probability that the place is right: calibrated where the map has a calibration of drives, else the belief."""
    off_map: float
    """Probability that the frame shows none of the map's places."""
    kept: Vectors | Sparse = field(repr=False)
    """Shape (N,), or its likely entries. The belief, as `belief` returns it."""

    @property
    def belief(self) -> Vectors:
        """Probability of each place, in route order, shape (N,)."""
        return self.kept.dense() if isinstance(self.kept, Sparse) else self.kept

    def no_surer(self, limit: float | None) -> Fix:
        """Return this fix with its probability capped; None is no limit."""
        return self if limit is None else replace(self, probability=min(self.probability, limit))

    def as_photo(self, photo: Photo) -> Fix:
        """Return the fix of a frame that no order of the drive supports: located as a photo, or as sure as one."""
        place, confidence = photo
        if place is None or confidence is None:
            return self.no_surer(confidence)
        return replace(self, place=place, probability=min(confidence, 1 - self.off_map))


@dataclass(frozen=True)
class Logistic:
    """Logistic regression (Platt scaling): probability = sigmoid(bias + Σ weight·(feature − offset)/scale)."""

    weights: list[float]
    offsets: list[float]
    scales: list[float]
    bias: float

    @classmethod
    def from_json(cls, record: Any, n: int) -> Logistic:
        """Read a record of `n` features; what is wrong with it raises ValueError or TypeError."""
        read = cls(**schema.mapping(record, "a calibration of drives"))
        for name in ("weights", "offsets"):
            schema.listed(getattr(read, name), name, _bounded, n)
        schema.listed(read.scales, "scales", lambda scale, name: schema.number(scale, name, 1e-9, 1e9), n)
        _bounded(read.bias, "bias")
        return read

    def probability(self, features: Vectors) -> Floats:
        """Probabilities (q,) of features (q, f)."""
        x = (np.asarray(features, np.float64) - self.offsets) / self.scales
        return sigmoid(x @ np.asarray(self.weights) + self.bias)

    def corrected(self, belief: float) -> float:
        """`probability` of one belief, whose log-odds are the only feature; in plain floats, as every step asks."""
        p = min(max(belief, CLIP), 1 - CLIP)
        return sigmoid_of(self.bias + self.weights[0] * (log(p / (1 - p)) - self.offsets[0]) / self.scales[0])

    @classmethod
    def fit(cls, features: Vectors, right: NDArray[np.bool_]) -> Logistic | None:
        """Fit to features (m, f) of right and wrong answers; None with fewer than five of either."""
        from sklearn.linear_model import LogisticRegression

        if min(int(right.sum()), int((~right).sum())) < 5:
            return None
        offsets, scales = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-9)
        model = LogisticRegression(C=1.0).fit((features - offsets) / scales, right)
        return cls(model.coef_[0].tolist(), offsets.tolist(), scales.tolist(), float(model.intercept_[0]))

    @classmethod
    def near_belief(cls, log_odds: Vectors, right: NDArray[np.bool_]) -> Logistic:
        """Fit p = sigmoid(a · log-odds(belief) + b) with a prior around the identity (a = 1, b = 0).

        The log-likelihood is divided by `_FRAMES_PER_SAMPLE`.
        """
        from scipy.optimize import minimize

        def loss(x: Floats) -> float:
            z = np.clip(x[0] * log_odds[:, 0] + x[1], -50, 50)
            costs = np.logaddexp(0, np.where(right, -z, z))
            return float(costs.sum() / _FRAMES_PER_SAMPLE + (x[0] - 1) ** 2 / 0.5 + x[1] ** 2 / 2)

        weight, bias = minimize(loss, np.array([1.0, 0.0]), method="Nelder-Mead").x
        return cls([max(float(weight), 0.1)], [0.0], [1.0], float(bias))


RULE, RULE_SHARE = Logistic([0.8, 0.8], [0.0, 0.0], [1.0, 1.0], -1.0), 0.5
"""Fixed judge of adapted matches for maps without held-out drives, in terms of `Chance.deviations`; and the share of
right matches that it assumes."""


def _bounded(value: Any, name: str) -> float:
    return schema.number(value, name, -1e9, 1e9)


@dataclass(frozen=True)
class DriveCalibration:
    """What held-out traversals taught about drives: the prior level, and a Platt scaling of each kind of answer."""

    level: float
    """Prior level of the off-map state: see `Scale`."""
    followed: Logistic | None = None
    smoothed: Logistic | None = None
    batch: Logistic | None = None
    """Calibrations of frames followed, smoothed, and located with adaptation to their batch."""
    n_frames: int = 0
    """Held-out frames; 0 where none could be held out."""
    recall: dict[str, float] = field(default_factory=dict)
    """Recall at 1 of frames whose place the map had: single, followed, smoothed, batch, online."""
    share: float = 0.0
    """Share of right answers among all frames located with batch adaptation: the prior of their calibration. 0 in older
    files, which do not have it."""
    online: Logistic | None = None
    """Calibration of frames located with adaptation to those before them."""

    def to_json(self) -> dict[str, Any]:
        """Return a record for the map's header."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> DriveCalibration:
        """Read a record; what is wrong with it raises ValueError, TypeError or KeyError."""
        read = {"online": None, **record}
        modes = {
            name: None if read[name] is None else Logistic.from_json(read[name], n)
            for name, n in (("followed", 1), ("smoothed", 1), ("batch", 3), ("online", 3))
        }
        return cls(
            schema.number(record["level"], "level"),
            **modes,
            n_frames=schema.whole(record["n_frames"], "n_frames"),
            recall=schema.mapping(record["recall"], "recall", schema.number),
            share=schema.number(record.get("share", 0.0), "share", 0.0, 1.0),
        )

    @property
    def by_rule(self) -> bool:
        """Whether no drive was held out, so that `RULE` applies."""
        return not self.n_frames

    @property
    def judges(self) -> bool:
        """Whether it can give adapted matches a confidence."""
        return self.by_rule or self.batch is not None

    def located(
        self, features: Vectors, plain: Vectors | None, online: bool, order: tuple[Flags, float] | None = None
    ) -> Floats | None:
        """Probability that adapted matches are right; None where it is unknown.

        Parameters
        ----------
        features : array of shape (q, f)
            `Course.features`.
        plain : array of shape (q,), optional
            Confidence of the same queries without adaptation.
        online : bool
            Whether each is judged by those before it; else by all.
        order : pair of an array of shape (q,) and a number, optional
            Matches that are in order, and how many of them are right for that reason: see `right_in_order`.
        """
        judge = RULE if self.by_rule else (self.online or self.batch) if online else self.batch
        if judge is None:
            return None
        alone, share = judge.probability(features), RULE_SHARE if self.by_rule else self.share
        found = alone
        if 0 < share < 1:
            together = judged_by_share if self.by_rule else judged_together
            found = (judged_under_way if online else together)(alone, share)

        def in_view_of_plain(sure: Floats) -> Floats:
            return sure if plain is None else agreed(sure, plain, under_way=online)

        result = in_view_of_plain(found)
        if order is not None and found[order[0]].sum() < order[1]:
            in_order, right = order
            raised = found.copy()
            raised[in_order] = judged_in_order(alone[in_order], right)
            # The others stay as they are: what an order proves says nothing about them.
            result = np.where(in_order, in_view_of_plain(raised), result)
        return result


@dataclass(frozen=True, eq=False)
class Course:
    """A map as the sequence model sees it: its rows in route order, and which places count as the same."""

    ids: NDArray[Any]
    """Shape (N,). Place ids in route order."""
    rows: MapRows
    """In the same order."""
    ordered: bool
    """Whether the places have an order; without one each frame is judged by itself."""
    same: Same
    """Which places count as the same."""
    calibration: DriveCalibration | None = None
    roadway: Roadway | None = None
    """Gaps of the route, where the numbers of the places show any."""
    pictures: RoutePictures | None = None
    """Sketches of the places, in the same order, where the map has them."""

    @property
    def scale(self) -> Scale:
        """Slope and prior level of the evidence on this map."""
        return Scale() if self.calibration is None else Scale(level=self.calibration.level)

    @cached_property
    def chance(self) -> Chance:
        """Null distribution of matches on this map."""
        return Chance.of(self.rows, self.same)

    def features(self, scores: Vectors) -> Floats:
        """Features of adapted matches for their confidence, from the scores of all places (q, N)."""
        if self.calibration is not None and self.calibration.by_rule:
            return self.chance.deviations(scores, self.same)
        return standing_out(scores)

    def mass(self, best: int, belief: Vectors) -> float:
        """Probability of all places that count as the same as the best one."""
        same = self.same(best)
        if isinstance(same, slice):
            return float(np.add.reduce(belief[same]))
        return float(belief[same(np.flatnonzero(belief > _NEGLIGIBLE))].sum())

    def fix(self, belief: Belief, smoothed: bool) -> Fix:
        """Answer from a belief: its mode, with a calibrated probability."""
        best = int(belief.places.argmax())
        mass = self.mass(best, belief.places)
        judge = None
        if self.calibration is not None:
            judge = self.calibration.smoothed if smoothed else self.calibration.followed
        if judge is not None:
            mass = judge.corrected(mass)
        return Fix(self.ids[best], mass, belief.off_map, belief.places)


Frame = tuple[Vectors, Sketches | None]
"""Descriptor (D,) of a frame, and its sketch if there is an image and the map compares pictures."""


class Follower:
    """Follows a drive online; see `PlaceMap.follow`.

    Parameters
    ----------
    course : Course
    describe : callable
        From a query, a descriptor or an image, and the image that a descriptor is of (or None), to its descriptor (D,)
        and its sketch; None where there is no image, or the map has no sketches.
    project : callable
        From a descriptor and the view to the descriptor shifted back and a unit vector (n,) in the space of the rows.
    alone : callable
        From a descriptor and its sketch to the frame's place and confidence as those of a single photo.
    adapt : bool
        Whether to adapt to the drive's condition online.
    begins_off : float
        Prior probability that the drive begins off the map.
    lag : int
        Frames before the last that are kept, for `ago`.
    view : (int, int)
        Offset of the pictures against those of the map.
    view_of : callable or None
        Offset of some frames (m, D), None where it is not clear. With it the drive finds its view itself: from its
        frames after 25 of them, 50, 100 and so on. Where that is another one, the last frames are taken again with it.
    """

    def __init__(
        self,
        course: Course,
        describe: Callable[[Any, Any], Frame],
        project: Callable[[Vectors, Cells], tuple[Vectors, Vectors]],
        alone: Callable[[Vectors, Sketches | None], Photo],
        adapt: bool,
        begins_off: float,
        lag: int,
        view: Cells,
        view_of: Callable[[Vectors], Cells | None] | None,
    ) -> None:
        self.course, self.view = course, view
        self._describe, self._project, self._alone = describe, project, alone
        self._adapt, self._begins_off, self._lag, self._view_of = adapt, begins_off, lag, view_of
        self._recent: deque[tuple[Vectors, NDArray[np.uint8] | None]] = deque(
            maxlen=max(VIEW_FRAMES, lag + 1)
        )
        self._n_frames, self._next_look = 0, LEAST_VIEW_FRAMES
        self._begin()

    def _begin(self) -> None:
        """Start with no frame taken."""
        course, lag = self.course, self._lag
        self._tracker = Tracker(
            course.scale.level, ordered=course.ordered, roadway=course.roadway, begins_off=self._begins_off
        )
        self._adaptation = OnlineAdaptation(course.rows) if self._adapt else None
        self._stops = Stops(partial(advance, course.rows))
        self._last: Fix | None = None
        self._hindsight = Hindsight(self._tracker, lag) if lag else None
        self._photos: deque[Photo] = deque(maxlen=lag + 1)

    def __deepcopy__(self, memo: dict[int, Any]) -> Follower:
        """Copy the drive; the map stays the same one."""
        course, called = self.course, (self._describe, self._project, self._alone, self._view_of)
        memo.update((id(part), part) for part in (course, course.rows, course.roadway, *called))
        copied = copy(self)
        copied.__dict__ = deepcopy(self.__dict__, memo)
        return copied

    @property
    def order(self) -> float:
        """Trust that the drive follows the route's order, 0 to 1."""
        return self._tracker.order

    def step(self, query: Any, picture: Any = None) -> Fix:
        """Take the next frame; returns where it was taken.

        Parameters
        ----------
        query : array of shape (D,), or image
            Its descriptor, or the frame itself.
        picture : image, optional
            The frame, where `query` is its descriptor. A map that has sketches of its places compares it with them.
        """
        frame, sketch = self._describe(query, picture)
        return self.take(frame, sketch)

    def take(self, frame: Vectors, sketch: Sketches | None = None) -> Fix:
        """Take the next frame by its descriptor (D,), and its sketch if it is known."""
        self._look_for_view(frame, sketch)
        return self._take(frame, sketch)

    def _look_for_view(self, frame: Vectors, sketch: Sketches | None) -> None:
        """Now and then, tell the offset of the last frames; if it is a new one, take them again, shifted back."""
        if self._view_of is None:
            return
        self._recent.append((frame.copy(), None if sketch is None else packed(sketch[None])))
        self._n_frames += bool(frame.any())  # else it shows nothing
        if self._n_frames < self._next_look:
            return
        self._next_look *= 2
        recent = list(self._recent)
        view = self._view_of(np.array([seen for seen, _ in recent[-VIEW_FRAMES:] if seen.any()]))
        if view is not None and view != self.view:
            self.view = view
            self._begin()
            for earlier, bits in recent[:-1]:
                self._take(earlier, None if bits is None else unpacked(bits)[0])

    def _take(self, frame: Vectors, sketch: Sketches | None) -> Fix:
        """Take a frame's descriptor (D,) and its sketch."""
        descriptor, projected = self._project(frame, self.view)
        # Frames of a stop are not independent: as evidence, a stop off the map would make the place that it resembles
        # most certain. A picture that shows nothing (black) tells neither that the drive stands nor that it moves.
        still = self.course.ordered and frame.any() and self._stops.still(projected)
        if still and self._last is not None:
            if self._hindsight is not None:
                self._hindsight.remember(None)
            self._photos.append(self._photos[-1])
            return self._last
        if self._adaptation is None:
            similarity = self.course.rows.similarity(projected)
        else:
            similarity = self._adaptation.scores(projected)
        if self.course.pictures is not None and sketch is not None:
            similarity = self.course.pictures.heeded(similarity, sketch)
        belief = self._tracker.step(scores_of_row(similarity, self.course.scale.slope))
        if self._hindsight is not None:
            self._hindsight.remember(belief)
        photo: Photo = (None, None) if self._in_order else self._alone(descriptor, sketch)
        self._photos.append(photo)
        self._last = self.course.fix(belief, smoothed=False).as_photo(photo)
        return self._last

    @property
    def _in_order(self) -> bool:
        """Whether the order is trusted; until then a frame is located as a photo, or as sure as one."""
        return self.order >= TRUSTED

    def ago(self, frames: int) -> Fix:
        """Where the frame was taken that came so many before the last one, given all frames since.

        Parameters
        ----------
        frames : int
            From 1 to the lag that `PlaceMap.follow` was given, and fewer than were taken.
        """
        if self._hindsight is None or len(self._hindsight) < 2:
            raise InputError(
                "no frame before the last one is remembered: follow(lag=10) remembers ten, once they were taken"
            )
        whole, most = isinstance(frames, int | np.integer), len(self._hindsight) - 1
        if not whole or not 1 <= frames <= most:
            raise InputError(
                f"frames={frames!r} must be from 1 to {most}, a whole number: so many frames before the last one are "
                "remembered; follow(lag=…) says how many"
            )
        fix = self.course.fix(self._hindsight.ago(frames), smoothed=True)
        return fix if self._in_order else fix.as_photo(self._photos[-1 - frames])


def smooth_fixes(course: Course, similarity: Blocks, plain: Blocks | None = None) -> tuple[list[Fix], bool]:
    """Where each frame of a drive was taken, given all of them; and whether they follow the route's order.

    Parameters
    ----------
    course : Course
    similarity : Blocks
        Of the frames in the order in which they were taken, and the places in route order.
    plain : Blocks, optional
        As for `smooth_drive`.
    """
    found: dict[int, Fix] = {}

    def see(frame: int, belief: Belief) -> None:
        fix = course.fix(belief, smoothed=True)
        found[frame] = replace(fix, kept=Sparse.of(belief.places))

    in_order = smooth_drive(similarity, course.scale, see, course.ordered, course.roadway, plain)
    return [found[frame] for frame in range(similarity.shape[0])], in_order


def filtered(course: Course, similarity: Blocks) -> list[Belief]:
    """Filtered beliefs of a drive's frames, with the tracker of `Follower`."""
    tracker = Tracker(course.scale.level, ordered=course.ordered, roadway=course.roadway)
    return [tracker.step(row) for row in weighed(scores_by_frame(similarity), course.scale.slope, 0.0)]


def standing_out(scores: Vectors) -> Floats:
    """`ranking_features` of the scores of all places (q, N), in any order."""
    return ranking_features(np.take_along_axis(scores, top_k(scores, _TOP), axis=1))


def ranking_features(scores: Vectors) -> Floats:
    """Top score, margin over the second, and standard score against the next nineteen, of the best scores; (q, 3)."""
    scores = np.asarray(scores[:, :_TOP], np.float64)
    top, rest = scores[:, 0], scores[:, 1:]
    if rest.shape[1] == 0:
        return np.stack([top, np.zeros_like(top), np.zeros_like(top)], axis=1)
    spread = np.maximum(rest.std(axis=1), 1e-6)
    return np.stack([top, top - rest[:, 0], (top - rest.mean(axis=1)) / spread], axis=1)
