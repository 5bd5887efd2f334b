"""Two recordings lined up by appearance (`pair`): at which frame of the anchor each frame of the query was taken.

The hidden Markov model of `engine`, with the anchor's frames as places: similarities are standardised over frames and
anchor, the speed ratio is chosen by likelihood, and forward–backward gives each frame a posterior over the anchor's
frames and the null state. The gain of the true order over the reversed anchor says whether both show one route.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from displace.arrays import Indices, Vectors, l2_normalize
from displace.sequence.belonging import best_stretch
from displace.sequence.continuity import continues
from displace.sequence.engine import Belief, Blocks, Floats, Motion, smooth
from displace.sequence.stride import told_strides
from displace.sequence.weighing import (
    backwards,
    earned,
    earned_by_chance,
    earnings,
    own_levels,
    scores_by_frame_and_place,
    weighed,
)

AROUND = 2
"""Anchor frames either side of the most likely one that its confidence includes."""
FASTEST = 4.0
"""Greatest ratio of frame counts that is tried as the speed ratio; larger ones come from single matches (`stride`)."""
SLOPE = 1.5
"""Nats per standard score: see `Scale`."""
MOTION = Motion(jump=0.003, leave=0.005, back=0.02)
"""Prior of the motion along another recording: it jumps, leaves and comes back less often than a drive along a map."""
LEAST_STRETCH = 2.4
"""Least `Pairing.stretch` of recordings of one route. Of 80 pairs of drives through two towns none reaches it, of 60
through one all do, by night too."""
RESEMBLES = 1.25
"""Earnings, as a multiple of the mean of chance, that are expected of different towns: their streets look alike as far
as the next corner."""
_ELSEWHERE = 0.25
"""Share of the cost of jumps that the order of one recording saves one of a different route, at most: of 87 such pairs
up to 0.23, of 135 pairs of one route 0.23 to 0.79."""
_STEEP, _MOST = 0.15, 1 / 3
"""As `weighing.STEEP` and `HALFWAY`; lower, because scores standardised over frames, too, vary more along a path."""
_MOST_PRODUCTS, _DIMENSIONS = 2e11, 512
"""Multiplications above which descriptors are first reduced by a random projection, and to how many dimensions."""


@dataclass(frozen=True, eq=False)
class Pairing:
    """Posterior of a recording's frames over the frames of the anchor."""

    frames: Indices
    """Shape (q,). Mode: the most likely frame of the anchor."""
    low: Indices
    high: Indices
    """Both of shape (q,). Bounds of the central 90 %, given that the frame is on the anchor's route."""
    confidence: Floats
    """Shape (q,). Probability of the mode and `AROUND` frames either side."""
    off: Floats
    """Shape (q,). Probability of the null state: the anchor was never there."""
    motion: Motion
    """Transition model in the end."""
    gain: float
    """Mean log-likelihood ratio of the anchor's order against its reverse, in nats a frame."""
    surplus: Floats
    """Shape (q,). Earnings beyond `RESEMBLES` times those of chance, in nats."""

    @property
    def overlap(self) -> float:
        """Share of the frames that are likelier on the anchor's route than off it."""
        return float((self.off < 0.5).mean())

    def surest(self, least: float = 0.0) -> Indices:
        """The most confident frame of each place, among frames on the anchor's route with at least a confidence."""
        frames = np.flatnonzero((self.off < 0.5) & (self.confidence >= least))
        order = np.lexsort((-self.confidence[frames], self.frames[frames]))
        _, first = np.unique(self.frames[frames][order], return_index=True)
        return frames[order][first]

    @property
    def stretch(self) -> float:
        """Largest sum of the surplus over consecutive frames, divided by the root of the number of frames.

        The root because the largest sum of independent noise grows with it.
        """
        return float(self.surplus[best_stretch(self.surplus)].sum() / np.sqrt(len(self.surplus)))


def standardised_recording(vectors: Vectors) -> Vectors:
    """Descriptors less their recording's mean, normalised: takes out what the condition adds to every frame."""
    vectors = np.asarray(vectors, np.float32)
    return l2_normalize(vectors - vectors.mean(axis=0)).astype(np.float32, copy=False)


def reduced(recordings: list[Vectors]) -> list[Vectors]:
    """Recordings, randomly projected to fewer dimensions where comparing them would take too long."""
    sizes = sorted((len(r) for r in recordings), reverse=True)
    dim = recordings[0].shape[1]
    if dim <= _DIMENSIONS or sizes[0] * sizes[min(1, len(sizes) - 1)] * dim < _MOST_PRODUCTS:
        return recordings
    directions = np.random.default_rng(0).standard_normal((dim, _DIMENSIONS)).astype(np.float32)
    return [l2_normalize(r @ directions).astype(np.float32, copy=False) for r in recordings]


def pair(queries: Vectors, anchor: Vectors, rounds: int = 2) -> Pairing:
    """Line up the frames of one recording with those of another, both from `standardised_recording`.

    In each of so many `rounds`, level and mean step are taken from the posterior of the one before.
    """
    scores, prior = _compared(queries, anchor)
    path, chance = earnings(scores, SLOPE, prior), earnings(backwards(scores), SLOPE, prior)
    found, motion = _Summary(len(queries), len(anchor)), prior
    for _ in range(rounds):
        levels = own_levels(path, chance, 1 - found.off, _STEEP, _MOST)
        counts = smooth(weighed(scores, SLOPE, levels), motion, found.see)
        motion = prior.at_paces(counts.mean_step or prior.mean_step)
    return Pairing(
        frames=found.frames,
        low=found.low,
        high=found.high,
        confidence=found.confidence,
        off=found.off,
        motion=motion,
        gain=float((path - chance).mean()),
        surplus=path - RESEMBLES * max(float(chance.mean()), 0.0),
    )


def gain_of(queries: Vectors, anchor: Vectors) -> float:
    """`Pairing.gain`, without the posterior."""
    scores, motion = _compared(queries, anchor)
    return earned(scores, SLOPE, motion) - earned_by_chance(scores, SLOPE, motion)


def goes_on(queries: Vectors, anchor: Vectors) -> bool:
    """Whether one recording goes on along the other, as recordings of different routes do not (`continuity`)."""
    scores, motion = _compared(queries, anchor)
    return continues(scores, SLOPE, motion, slice(0, len(queries)), _ELSEWHERE) > 0.5


def _compared(queries: Vectors, anchor: Vectors) -> tuple[Blocks, Motion]:
    """Standard scores of the frames of two recordings, and the likeliest motion along them."""
    cosines = Blocks((len(queries), len(anchor)), lambda rows: queries[rows] @ anchor.T)
    scores = scores_by_frame_and_place(cosines)
    return scores, _likeliest_motion(scores)


def _likeliest_motion(scores: Blocks) -> Motion:
    """The likeliest motion: at equal speeds, at the ratio of the frame counts, or at the stride of single matches."""
    n_frames, n_places = scores.shape
    ratio = float(np.clip(n_places / n_frames, 1 / FASTEST, FASTEST))
    rates = [ratio] if 0.7 < ratio < 1.4 else [ratio, 1.0]
    told, besides = told_strides(scores)
    if told is not None:
        rates.append(told)
    usual = replace(MOTION, besides=besides)
    motions = [usual.at_paces(rate) for rate in rates]
    return max(motions, key=lambda motion: earned(scores, SLOPE, motion) if len(rates) > 1 else 0.0)


class _Summary:
    """Collects mode, interval and probabilities from the beliefs of a smoothed recording."""

    def __init__(self, n_frames: int, n_places: int) -> None:
        self.frames = np.zeros(n_frames, np.intp)
        self.low, self.high = np.zeros(n_frames, np.intp), np.zeros(n_frames, np.intp)
        self.confidence, self.off = np.zeros(n_frames), np.zeros(n_frames)
        self.n_places = n_places

    def see(self, frame: int, belief: Belief) -> None:
        """Take one frame: a callback for `smooth`."""
        mode = int(belief.places.argmax())
        self.frames[frame] = mode
        self.off[frame] = belief.off_map
        self.confidence[frame] = belief.places[max(0, mode - AROUND) : mode + AROUND + 1].sum()
        on_map = max(1 - belief.off_map, 1e-12)
        cumulated = np.cumsum(belief.places) / on_map
        self.low[frame] = min(mode, int(np.searchsorted(cumulated, 0.05)))
        self.high[frame] = max(mode, min(self.n_places - 1, int(np.searchsorted(cumulated, 0.95))))
