"""Two recordings of one route lined up by sight: where in the other each frame was taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from displace.arrays import Indices, Vectors, l2_normalize
from displace.sequence.belonging import best_stretch
from displace.sequence.engine import Belief, Blocks, Floats, Motion, smooth
from displace.sequence.stride import told_strides
from displace.sequence.weighing import (
    Backwards,
    Columns,
    Scale,
    Scores,
    Weighed,
    earned,
    earned_by_chance,
    earnings,
    own_levels,
)

AROUND = 2
"""Frames either side that count as the same, in the confidence of a frame."""
FASTEST = 4.0
"""Greatest ratio of the rates of two recordings that is looked for by itself; frames tell larger ones (`strides`)."""
SLOPE = 1.5
"""Of the evidence: see `Scale`."""
LEAST_STRETCH = 2.4
"""What the best stretch that two recordings share must bring: see `Pairing.stretch`. Of 80 pairs of drives through two
towns none brings as much, of 60 through one all do, by night too."""
RESEMBLES = 1.25
"""What a frame must earn, in units of chance, before it speaks for one route: recordings of different towns, of which
one street is like another as far as the next corner, earn about as much."""
_STEEP, _MOST = 0.15, 1 / 3
"""As `STEEP` and `HALFWAY` where a drive is followed; less, as scores that are standardised over frames, too, vary more
along a path."""
_DIMENSIONS = 512
_MANY = 2e11
"""Products of numbers above which descriptors are first reduced to `_DIMENSIONS` random directions."""


@dataclass(frozen=True, eq=False)
class Pairing:
    """Where frames of a recording were taken, as frames of another."""

    frames: Indices
    """Shape (q,). Most likely frame of the anchor."""
    low: Indices
    high: Indices
    """Both of shape (q,). Between them it lies with a probability of 90 %, if anywhere."""
    confidence: Floats
    """Shape (q,). Probability that it is right within `AROUND` frames."""
    off: Floats
    """Shape (q,). Probability that the anchor was never there."""
    motion: Motion
    """How the recording moves along the anchor."""
    gain: float
    """Log-evidence that the path earns above the anchor driven backwards, for each frame."""
    overlap: float
    """Share of the frames that the anchor has seen, too."""
    surplus: Floats
    """Shape (q,). What each frame earns beyond `RESEMBLES` times chance."""

    @property
    def stretch(self) -> float:
        """What the best stretch earns beyond `RESEMBLES` times chance, for the root of the number of frames.

        So it grows where only chance adds up.
        """
        return float(self.surplus[best_stretch(self.surplus)].sum() / np.sqrt(len(self.surplus)))


@dataclass(frozen=True, eq=False)
class Cosines:
    """Cosine similarity of two sets of unit vectors, block by block."""

    queries: Vectors
    """Shape (q, D)."""
    anchor: Vectors
    """Shape (N, D)."""

    @property
    def shape(self) -> tuple[int, int]:
        """Frames of both."""
        return len(self.queries), len(self.anchor)

    def block(self, rows: slice) -> Vectors:
        """Return the similarities of some frames."""
        similarity: Vectors = self.queries[rows] @ self.anchor.T
        return similarity


def standardised_recording(vectors: Vectors) -> Vectors:
    """Descriptors less their recording's mean, as unit vectors: what the recording's condition adds to all is gone."""
    vectors = np.asarray(vectors, np.float32)
    return l2_normalize(vectors - vectors.mean(axis=0)).astype(np.float32, copy=False)


def reduced(recordings: list[Vectors]) -> list[Vectors]:
    """Recordings in fewer random directions where comparing them all would take too long."""
    sizes = sorted((len(r) for r in recordings), reverse=True)
    dim = recordings[0].shape[1]
    if dim <= _DIMENSIONS or sizes[0] * sizes[min(1, len(sizes) - 1)] * dim < _MANY:
        return recordings
    directions = np.random.default_rng(0).standard_normal((dim, _DIMENSIONS)).astype(np.float32)
    return [l2_normalize(r @ directions).astype(np.float32, copy=False) for r in recordings]


def pair(queries: Vectors, anchor: Vectors, rounds: int = 2) -> Pairing:
    """Line up the frames of one recording with those of another, both from `standardised_recording`.

    The motion is learned from the path found before, so many `rounds`.
    """
    similarity = Cosines(queries, anchor)
    scores = Scores(similarity, Columns.of(similarity))
    prior = _fastest_fitting(scores)
    path, chance = earnings(scores, SLOPE, prior), earnings(Backwards(scores), SLOPE, prior)
    found, motion = _Summary(len(queries), len(anchor)), prior
    for _ in range(rounds):
        levels = own_levels(path, chance, 1 - found.off, _STEEP, _MOST)
        counts, _ = smooth(Weighed(scores, Scale(SLOPE), levels), motion, found.see)
        motion = prior.at_paces(counts.mean_step or prior.mean_step)
    return Pairing(
        frames=found.frames,
        low=found.low,
        high=found.high,
        confidence=found.confidence,
        off=found.off,
        motion=motion,
        gain=float((path - chance).mean()),
        overlap=float((found.off < 0.5).mean()),
        surplus=path - RESEMBLES * max(float(chance.mean()), 0.0),
    )


def gain_of(queries: Vectors, anchor: Vectors) -> float:
    """As `Pairing.gain`, without lining the frames up."""
    similarity = Cosines(queries, anchor)
    scores = Scores(similarity, Columns.of(similarity))
    motion = _fastest_fitting(scores)
    return earned(scores, SLOPE, motion) - earned_by_chance(scores, SLOPE, motion)


def _fastest_fitting(scores: Blocks) -> Motion:
    """Motion at equal rates, at the ratio of the numbers of frames or as fast as frames tell, whichever earns more."""
    n_frames, n_places = scores.shape
    ratio = float(np.clip(n_places / n_frames, 1 / FASTEST, FASTEST))
    rates = [ratio] if 0.7 < ratio < 1.4 else [ratio, 1.0]
    told, besides = told_strides(scores)
    if told is not None:
        rates.append(told)
    usual = Motion(jump=0.003, leave=0.005, back=0.02, besides=besides)
    motions = [usual.at_paces(rate) for rate in rates]
    return max(motions, key=lambda motion: earned(scores, SLOPE, motion) if len(rates) > 1 else 0.0)


class _Summary:
    """What is kept of the beliefs of a smoothed recording."""

    def __init__(self, n_frames: int, n_places: int) -> None:
        self.frames = np.zeros(n_frames, np.intp)
        self.low, self.high = np.zeros(n_frames, np.intp), np.zeros(n_frames, np.intp)
        self.confidence, self.off = np.zeros(n_frames), np.zeros(n_frames)
        self.n_places = n_places

    def see(self, frame: int, belief: Belief, evidence: Vectors) -> None:  # noqa: ARG002
        """Keep the mode, an interval of 90 % and the probabilities."""
        mode = int(belief.places.argmax())
        self.frames[frame] = mode
        self.off[frame] = belief.off_map
        self.confidence[frame] = belief.places[max(0, mode - AROUND) : mode + AROUND + 1].sum()
        on_map = max(1 - belief.off_map, 1e-12)
        cumulated = np.cumsum(belief.places) / on_map
        self.low[frame] = min(mode, int(np.searchsorted(cumulated, 0.05)))
        self.high[frame] = max(mode, min(self.n_places - 1, int(np.searchsorted(cumulated, 0.95))))
