"""Fixed-lag smoothing of a drive that is followed: where it was some frames ago, given the frames since."""

from __future__ import annotations

from collections import deque

from displace.sequence.engine import Belief, fixed_lag, on_places
from displace.sequence.tracking import Moment, Tracker

TRUSTED = 0.5
"""Trust in the route's order from which on it is used: below, later frames say nothing about earlier ones."""


class Hindsight:
    """Keeps the filter's state at the last `lag` + 1 frames of a drive; the frames of a stop share one state."""

    def __init__(self, tracker: Tracker, lag: int) -> None:
        self.tracker = tracker
        self._moments: deque[Moment] = deque()
        self._frames: deque[int] = deque(maxlen=lag + 1)
        self._n = 0

    def __len__(self) -> int:
        """Frames that are remembered."""
        return len(self._frames)

    def remember(self, belief: Belief | None) -> None:
        """Keep the frame that the tracker took last; None for a frame of a stop, which it was not given."""
        if belief is not None:
            self._moments.append(self.tracker.moment(belief))
            self._n += 1
        self._frames.append(self._n - 1)
        while len(self._moments) > self._n - self._frames[0]:
            self._moments.popleft()

    def ago(self, frames: int) -> Belief:
        """Belief of the frame so many before the last one, given all frames since."""
        since = list(self._moments)[self._frames[-1 - frames] - self._n :]
        if len(since) == 1 or self.tracker.order < TRUSTED:
            return since[0].belief
        told = fixed_lag(
            [moment.chain for moment in since],
            [moment.places for moment in since],
            [moment.off for moment in since],
            self.tracker.motion,
        )
        if self.tracker.roadway is not None:
            told = on_places(told, self.tracker.roadway)
        # Another street has a path of some frames, too: what the drive is along is as doubtful as for the last frame.
        return self.tracker.in_doubt(told)
