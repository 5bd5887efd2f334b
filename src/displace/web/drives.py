"""Drives that are followed: a bounded number, and idle ones are forgotten."""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from displace.arrays import Vectors
from displace.errors import InputError
from displace.sequence.tracking import BEGINS_OFF
from displace.web.hosting import Hosted
from displace.web.limits import Clock, Limits, RefusedError


@dataclass(eq=False)
class Drive:
    """One drive: the map it began with, and where it is believed to be."""

    hosted: Hosted
    follower: Any
    """Made by `PlaceMap.follow`."""
    used: float
    """When the last frame came."""
    most: int
    """Frames of one drive."""
    n_frames: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def step(self, vector: Vectors, picture: bytes | None = None) -> Any:
        """Take the next frame in, by its descriptor and the image if there is one; frames are taken in turn."""
        with self.lock:
            if self.n_frames >= self.most:
                raise RefusedError(
                    413,
                    f"{self.most:,} frames, the limit of a drive, have come: begin another with POST /v1/drives",
                )
            fix = self.follower.step(vector, picture)
            self.n_frames += 1
            return fix


class Drives:
    """The drives of a server, within its limits."""

    def __init__(self, limits: Limits, clock: Clock = time.monotonic) -> None:
        self.limits, self.clock = limits, clock
        self._drives: dict[str, Drive] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._drives)

    def begin(self, hosted: Hosted, adapt: str = "online", begins_off: float = BEGINS_OFF) -> str | None:
        """Begin a drive, as `PlaceMap.follow` does, and return its name; None where there are too many."""
        if hosted.place_map.places.order is None:
            raise InputError(
                "the places of this map have no order along a route, so that no drive can be followed; locate images "
                "one by one"
            )
        with self._lock:
            self._forget_idle()
            if len(self._drives) >= self.limits.drives:
                return None
            name = secrets.token_urlsafe(12)
            follower = hosted.place_map.follow(adapt=adapt, begins_off=begins_off)
            self._drives[name] = Drive(hosted, follower, self.clock(), self.limits.frames)
            return name

    def get(self, name: str) -> Drive | None:
        """Return a drive and note that it is in use; None for one that is not there, or no more."""
        with self._lock:
            self._forget_idle()
            drive = self._drives.get(name)
            if drive is not None:
                drive.used = self.clock()
            return drive

    def end(self, name: str) -> bool:
        """Forget a drive; whether it was there."""
        with self._lock:
            return self._drives.pop(name, None) is not None

    def _forget_idle(self) -> None:
        oldest = self.clock() - self.limits.idle_seconds
        for name in [name for name, drive in self._drives.items() if drive.used < oldest]:
            del self._drives[name]
