"""Alignment of several recordings of one route by appearance: frames that show the same place get its number.

1. Stops and moved viewpoints are taken out (`stops`, `viewpoint`), second laps refused (`laps`).
2. Every two recordings are paired coarsely. The anchor, whose frames become the places, is the one that the others
   fit best; recordings that do not show its route, or show it reversed, are refused.
3. Every other recording is paired with the anchor (`pairing`: forward–backward over the anchor's frames), and with
   three or more once more in a space learned from the others (`refining`). What is out of order is dropped (`passing`).
4. Frames about whose place the coarse pairings of the other recordings disagree lose confidence.

The gain of two recordings is the log-likelihood ratio, in nats a frame, of the anchor's order against its reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain, combinations
from math import sqrt
from shlex import quote

import numpy as np

from displace.arrays import Indices, Vectors, l2_normalize, shows_something
from displace.errors import InputError
from displace.holdout import spread
from displace.progress import Stage
from displace.sequence.adaptation import MapRows, advance
from displace.sequence.engine import Floats
from displace.sequence.laps import second_lap
from displace.sequence.pairing import (
    AROUND,
    LEAST_STRETCH,
    Pairing,
    goes_on,
    pair,
    reduced,
    standardised_recording,
)
from displace.sequence.passing import in_order
from displace.sequence.refining import can_refine, paired_again
from displace.sequence.stops import without_stops
from displace.sequence.viewpoint import Cells, Grid, common_view, in_words

LEAST_FRAMES = 10
"""Fewest frames of a recording, and of a shared stretch that is worth a note."""
LEAST_GAIN, GAIN_NOISE = 0.2, 2.2
"""Least gain (nats a frame) of recordings of one route: the first plus the second over √frames, for what few frames
reach by chance. Pieces of different routes reached 0.6 with 20 frames, 0.5 with 50 and 0.4 with 100, those of one route
hardly ever less."""
_FROM_THE_SIDE = ", and so does a network where cameras differ or are far apart: --model efficientnet_lite"
"""Further advice where descriptors are a grid over the picture."""
_GOOD = 2.0
"""Gain at which a fit is good; higher gains count as this when an anchor is chosen."""
_TELLS = 0.5
"""Gain of two recordings, relative to the lesser of their gains with the anchor, from which on they may contradict it:
recordings that share next to nothing still fit each other somewhere."""
_LEAVE_OUT = "build --exclude, align --traversal"
"""Options by which a recording is left out."""
_COARSE = 300
"""Most frames of a recording in the coarse pairings."""
_NEAR = 5
"""Coarse frames of the anchor within which a paired frame covers it."""


@dataclass(frozen=True, eq=False)
class Track:
    """Where along the route the frames of one recording were taken."""

    places: Indices
    """Shape (n,). Number of the place along the route; −1 where P(off the anchor's route) is one half or more."""
    low: Indices
    high: Indices
    """Both of shape (n,). Bounds of the central 90 % of the place's posterior."""
    confidence: Floats
    """Shape (n,). Probability that the place is right within two."""
    references: np.ndarray[tuple[int], np.dtype[np.bool_]]
    """Shape (n,). One frame of each place, the most confident: the others of a stop add nothing. Frames that show
    nothing (black, covered) are never among them: every such picture would be found there."""


@dataclass(frozen=True, eq=False)
class Alignment:
    """Recordings in a common order of places."""

    anchor: str
    """The recording whose frames are the places."""
    n_places: int
    tracks: dict[str, Track]
    """Of every recording, the anchor's included."""
    notes: list[str]
    """Messages for the user."""


def align(
    recordings: Mapping[str, Vectors],
    anchor: str | None = None,
    candidates: Iterable[str] | None = None,
    progress: Stage | None = None,
    grid: Grid | None = None,
    *,
    alike: bool = False,
) -> Alignment:
    """Line up recordings of one route: descriptors (n, D) of frames in the order in which they were taken.

    The anchor, whose frames become the places, is by default the one of the `candidates` that the others fit best. With
    the `grid` of descriptors that are one over the picture, recordings from another lane are lined up by the part of
    the picture that all of them see. With `alike`, what seems to be a second lap is another part of the
    route.

    InputError says why they cannot be lined up: one recording only, too few frames, frames without anything to see, a
    second lap, opposite directions, different routes.
    """
    _check(recordings, anchor)
    if progress:  # looking for laps and lanes takes a while
        progress(0, len(recordings) - 1)
    seen, kept, stands = {}, {}, {}
    for name in recordings:
        seen[name], kept[name], stands[name] = _moving(name, recordings)
    moved: list[str] = []
    if grid is not None:
        seen, offsets = common_view(seen, grid, least_gain)
        moved = _moved(offsets, grid)
    ready = dict(zip(seen, reduced([standardised_recording(v) for v in seen.values()]), strict=True))
    laps = [note for name in ready for note in _laps(name, ready[name], kept[name], alike)]
    rounds = 2 if can_refine(ready) else 1
    n_pairs = len(ready) * (len(ready) - 1) // 2
    total = n_pairs + rounds * (len(ready) - 1)

    def report(done: int) -> None:
        if progress:
            progress(n_pairs + done, total)

    coarse = _Coarse(ready, progress, total)
    chosen = anchor or coarse.best_anchor(set(candidates or ready))
    coarse.check_routes(chosen, _FROM_THE_SIDE if grid else "")
    pairings = _paired(ready, chosen, rounds, report)
    pairings = {name: coarse.agreeing(name, pairings) for name in pairings}
    tracks = {
        name: _anchor_track(stands[name]) if name == chosen else _track(pairings[name], stands[name])
        for name in recordings
    }
    for name, track in tracks.items():
        tracks[name] = replace(track, references=track.references & shows_something(recordings[name]))
    loops = [note for name in pairings for note in _loops(name, tracks[name])]
    notes = moved + _notes(pairings, tracks) + loops + coarse.unmapped(chosen, pairings) + laps
    return Alignment(chosen, len(ready[chosen]), tracks, notes)


def _paired(
    ready: dict[str, Vectors], anchor: str, rounds: int, report: Callable[[int], None]
) -> dict[str, Pairing]:
    """Pair every recording with the anchor; in a second round, with a map of all others (`refining`)."""
    others = [name for name in ready if name != anchor]
    pairings: dict[str, Pairing] = {}
    for again in range(rounds):
        first = dict(pairings)
        for done, name in enumerate(others, again * len(others) + 1):
            found = paired_again(name, anchor, ready, first) if again else pair(ready[name], ready[anchor])
            pairings[name] = in_order(found)
            report(done)
    return pairings


def _moving(name: str, recordings: Mapping[str, Vectors]) -> tuple[Vectors, Indices, Indices]:
    """`without_stops` of a recording, where frames that advance along any of the others are no stop."""

    def advances(still: Vectors, stops: Indices) -> bool:
        others = (vectors for other, vectors in recordings.items() if other != name)
        rows = (l2_normalize(other[spread(len(other), _COARSE)]).astype(np.float32) for other in others)
        return any(advance(MapRows(some, np.arange(len(some))), still, stops) for some in rows)

    return without_stops(recordings[name], advances)


def _beside(pairing: Pairing, n_frames: int) -> float:
    """Share of the anchor's frames that are not near a frame with which the recording was paired."""
    seen = np.unique(pairing.frames[pairing.off <= 0.5])
    if not len(seen):
        return 1.0
    away = np.abs(np.arange(n_frames)[:, None] - seen).min(axis=1)
    return float((away > _NEAR).mean())


def least_gain(n_frames: int) -> float:
    """Least gain of recordings of so many frames that show one route."""
    return LEAST_GAIN + GAIN_NOISE / sqrt(n_frames)


class _Coarse:
    """Pairings of every two recordings, by at most `_COARSE` frames of each."""

    def __init__(self, ready: dict[str, Vectors], progress: Stage | None, total: int) -> None:
        self.names, self.ready = list(ready), ready
        self.n_frames = {n: len(v) for n, v in ready.items()}
        self.taken = {n: spread(len(v), _COARSE) for n, v in ready.items()}
        self.pairs: dict[tuple[str, str], Pairing] = {}
        for pair_of in combinations(self.names, 2):
            # The one with far fewer frames is the query: the other, paired with it, would mostly stand still.
            far_fewer = 2 * len(self.taken[pair_of[1]]) < len(self.taken[pair_of[0]])
            a, b = reversed(pair_of) if far_fewer else pair_of
            self.pairs[a, b] = pair(ready[a][self.taken[a]], ready[b][self.taken[b]], rounds=1)
            if progress:
                progress(len(self.pairs), total)
        self.lacking = {name: self._lacking(name) for name in self.names}

    def _lacking(self, name: str) -> float:
        """Share of each other recording that this one does not show, summed over them."""
        off = [float((p.off > 0.5).mean()) for (_, b), p in self.pairs.items() if b == name]
        beside = [_beside(p, len(self.taken[b])) for (a, b), p in self.pairs.items() if a == name]
        return sum(off + beside)

    def gain(self, a: str, b: str) -> float:
        """Gain of two recordings, whichever was the query."""
        return self._pair(a, b).gain

    def _pair(self, a: str, b: str) -> Pairing:
        return self.pairs[(a, b) if (a, b) in self.pairs else (b, a)]

    def least_gain(self, a: str, b: str) -> float:
        """Least gain of two recordings that show one route."""
        return least_gain(min(len(self.taken[a]), len(self.taken[b])))

    def best_anchor(self, candidates: set[str]) -> str:
        """The candidate with the highest summed gain; among equals the one that lacks least, then has most frames."""
        fit = {
            name: sum(min(self.gain(name, other), _GOOD) for other in self.names if other != name)
            for name in self.names
            if name in candidates
        }

        def merits(name: str) -> tuple[float, float, int]:
            return round(fit[name], 1), -round(self.lacking[name], 1), self.n_frames[name]

        return max(fit, key=merits)

    def check_routes(self, anchor: str, further: str) -> None:
        """Refuse recordings that do not show the anchor's route, or show it driven the other way.

        `further` is advice that is added where a route is not recognised.
        """
        gains = {name: self.gain(name, anchor) for name in self.names if name != anchor}
        needed = {name: self.least_gain(name, anchor) for name in gains}
        backwards = [name for name, gain in gains.items() if gain <= -needed[name]]
        others = len(self.names) > 2
        if backwards:
            raise InputError(
                f"{_listed(backwards)} drives the route in the opposite direction to {anchor!r}: a camera that looks "
                "the other way sees other places; make a map of each direction" + f" ({_LEAVE_OUT})" * others
            )
        strange = [name for name in gains if not self._one_route(name, anchor)]
        if not strange:
            return
        way_out = f"{self._way_out()}. If they do show one route, longer recordings tell more{further}"
        foreign = [name for name in strange if gains[name] < needed[name]]
        if foreign:
            raise InputError(
                f"{_listed(foreign)} and {anchor!r} seem to show different routes: their frames look hardly more alike "
                f"in the order in which they were taken than in the opposite one. {way_out}"
            )
        raise InputError(
            f"{_listed(strange)} and {anchor!r} seem to show different routes that look alike: no stretch of them is "
            f"more alike than streets of two towns are. {way_out}"
        )

    def _way_out(self) -> str:
        """Advice for recordings of different routes: leave some out, or map each group that shows one route."""
        routes: list[list[str]] = []
        for name in self.names:
            own = [route for route in routes if any(self._one_route(name, other) for other in route)]
            routes = [route for route in routes if route not in own] + [[*chain(*own), name]]
        shared = [", ".join(map(repr, route)) for route in routes if len(route) > 1]
        if len(shared) > 1:
            return f"These fit each other: {'; '.join(shared)}. Make a map of each such group (--traversal)"
        if len(self.names) > 2:
            return f"Leave them out ({_LEAVE_OUT}), or name another anchor"
        return "A map needs drives of one route"

    def _one_route(self, a: str, b: str) -> bool:
        """Whether two recordings fit well enough, or at least go on along each other."""
        if self.gain(a, b) >= self.least_gain(a, b) and self._pair(a, b).stretch >= LEAST_STRETCH:
            return True
        queries, anchor = (a, b) if (a, b) in self.pairs else (b, a)
        return goes_on(*(self.ready[name][self.taken[name]] for name in (queries, anchor)))

    def unmapped(self, anchor: str, pairings: dict[str, Pairing]) -> list[str]:
        """Notes on stretches that two recordings share and the anchor lacks: they get no places."""
        notes = []
        for (a, b), link in self.pairs.items():
            if anchor in (a, b):
                continue
            at, there = self.taken[a], self.taken[b][link.frames]
            lacking = (pairings[a].off[at] >= 0.5) & (pairings[b].off[there] >= 0.5)
            shared = (link.off < 0.5) & (link.confidence > 0.5) & lacking
            count = round(shared.sum() * len(pairings[a].frames) / len(at))
            if count >= LEAST_FRAMES:
                notes.append(
                    f"{a} and {b}: a stretch that both show, {count} frames of {a}, is not on the map as "
                    f"{anchor!r} lacks it; to map it, too, line up with --anchor {quote(a)}"
                )
        return notes

    def agreeing(self, name: str, pairings: dict[str, Pairing]) -> Pairing:
        """Scale the confidence of frames by the share of other recordings that agree about their place.

        A frame's place is compared with the place of the frame that it was paired with in each other recording; the
        share is (1 + agreeing) / (1 + asked), interpolated between coarse frames. Pairings out of order (`in_order`)
        are not asked. Recordings that fit each other much less than the anchor can only agree (`_tells`).
        """
        own = pairings[name]
        asked, agreed = np.zeros(len(own.frames)), np.zeros(len(own.frames))
        for other, theirs in pairings.items():
            if other == name:
                continue
            link = in_order(self._pair(name, other))
            at, there = self.taken[name], self.taken[other]
            if (name, other) in self.pairs:
                there = there[link.frames]
            else:
                at = at[link.frames]
            sure = (link.off < 0.5) & (link.confidence > 0.5)
            sure &= (own.off[at] < 0.5) & (theirs.off[there] < 0.5)
            stride = len(own.frames) / len(self.taken[name]) + len(theirs.frames) / len(self.taken[other])
            near = np.abs(own.frames[at] - theirs.frames[there]) <= 2 * AROUND + 2 * stride
            if not self._tells(name, other, pairings):
                sure &= near
            np.add.at(asked, at[sure], 1.0)
            np.add.at(agreed, at[sure], near[sure].astype(float))
        if not asked.any():
            return own
        at = np.flatnonzero(asked)
        share = np.interp(np.arange(len(asked)), at, ((1 + agreed) / (1 + asked))[at])
        return replace(own, confidence=own.confidence * share)

    def _tells(self, name: str, other: str, pairings: Mapping[str, Pairing]) -> bool:
        """Whether two recordings fit each other well enough to contradict their pairings with the anchor."""
        with_anchor = [
            self.gain(n, anchor) for anchor in self.names if anchor not in pairings for n in (name, other)
        ]
        return self.gain(name, other) >= _TELLS * min([*with_anchor, _GOOD])


def _check(recordings: Mapping[str, Vectors], anchor: str | None) -> None:
    """Refuse input that cannot be lined up at all."""
    if len(recordings) < 2:
        raise InputError(
            f"{len(recordings)} recording cannot be lined up with anything: at least 2 are needed. "
            "A map of one recording needs no alignment, its frames are the places: displace manifest RECORDING -o "
            "one.csv, then displace build one.csv"
        )
    if anchor is not None and anchor not in recordings:
        raise InputError(f"anchor={anchor!r} is not among the recordings: {', '.join(recordings)}")
    for name, vectors in recordings.items():
        if len(vectors) < LEAST_FRAMES:
            raise InputError(
                f"recording {name!r} has {len(vectors)} frames; at least {LEAST_FRAMES} are needed to line it up"
            )
        blank = ~shows_something(vectors)
        from_mean = np.linalg.norm(vectors - vectors.mean(axis=0), axis=1)
        if blank.mean() > 0.5 or from_mean.max() < 1e-4:
            found = (
                f"{int(blank.sum())} of its {len(vectors)} frames are without any structure (black or one colour)"
                if blank.any()
                else f"of its {len(vectors)} frames all are alike (black, covered or standing still)"
            )
            raise InputError(f"recording {name!r} shows nothing to line it up by: {found}")


def _laps(name: str, vectors: Vectors, frames: Indices, alike: bool) -> list[str]:
    """Refuse a recording that surely drives a part of its route twice; a note where it may, or where parts are alike.

    Similarity cannot tell a second lap from the next aisle of a warehouse; who recorded it can.
    """
    found = second_lap(vectors)
    if found is None:
        return []
    first, last, again = frames[[found.first, found.last, found.again]].tolist()
    seen = f"what frames {first} to {last} show is seen again from frame {again}"
    if found.sure and not alike:
        raise InputError(
            f"recording {name!r} drives a part of its route twice: {seen}. Cut it into one recording for each lap "
            "(or camera). If it passes no part twice, and the route has parts that look alike (aisles, floors of a car "
            "park), add --alike"
        )
    return [f"{name}: it may drive a part of its route twice, {seen}; if so, cut it there"]


def _anchor_track(stands: Indices) -> Track:
    """Track of the anchor: each frame, stops merged, is its own place."""
    first = np.r_[True, np.diff(stands) > 0]
    return Track(stands, stands, stands, np.ones(len(stands)), first)


def _track(pairing: Pairing, stands: Indices) -> Track:
    """Track of a paired recording; `stands` is the paired frame that stands for each frame, stops included."""
    on = pairing.off < 0.5
    reference = np.zeros(len(on), bool)
    reference[pairing.surest()] = True
    first = np.r_[True, np.diff(stands) > 0]
    return Track(
        np.where(on, pairing.frames, -1)[stands],
        np.where(on, pairing.low, -1)[stands],
        np.where(on, pairing.high, -1)[stands],
        np.where(on, pairing.confidence, 0.0)[stands],
        reference[stands] & first,
    )


def _moved(offsets: dict[str, Cells], grid: Grid) -> list[str]:
    """Notes on recordings whose pictures are shifted against the commonest viewpoint."""
    most = max(offsets, key=lambda name: list(offsets.values()).count(offsets[name]))
    notes = []
    for name, (row, column) in offsets.items():
        by = in_words((row - offsets[most][0], column - offsets[most][1]), grid)
        if by:
            notes.append(
                f"{name}: its pictures are moved against those of {most} by about {by} (another lane, or a camera "
                "mounted otherwise); lined up by what both see"
            )
    return notes


def _notes(pairings: dict[str, Pairing], tracks: dict[str, Track]) -> list[str]:
    """Notes on recordings with little overlap or few confident places."""
    notes = []
    for name, pairing in pairings.items():
        if pairing.overlap < 0.5:
            notes.append(f"{name}: only {pairing.overlap:.0%} of the frames show the anchor's route")
        seen = tracks[name].places >= 0
        sure = float((tracks[name].confidence[seen] > 0.5).mean()) if seen.any() else 0.0
        if sure < 0.7:
            notes.append(
                f"{name}: only {sure:.0%} of its places are likely right; displace align --check shows them"
            )
    return notes


def _loops(name: str, track: Track) -> list[str]:
    """Note where a recording drives a loop from another start."""
    seen = np.flatnonzero(track.places >= 0)
    places = track.places[seen]
    if len(seen) < 2 or (drop := np.diff(places)).min() >= -(places.max() - places.min()) / 2:
        return []
    frame = int(seen[drop.argmin() + 1])
    return [
        f"{name}: it drives a loop from another start; from frame {frame} on it shows the beginning of the route"
    ]


def _listed(names: list[str]) -> str:
    """Names in quotes, with the right word before them."""
    quoted = ", ".join(map(repr, names))
    return f"each of {quoted}" if len(names) > 1 else f"recording {quoted}"
