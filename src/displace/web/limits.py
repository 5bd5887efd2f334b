"""What a server takes from its clients, and from whom, and how it refuses the rest.

Apart from the web framework, which the processes that read images do not load.
"""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from displace.errors import DisplaceError

Clock = Callable[[], float]
"""Seconds that only go forward."""


@dataclass(frozen=True)
class Limits:
    """How much one request, one client and all of them together may ask for."""

    upload_bytes: int = 20 * 2**20
    """Of one request's body."""
    pixels: int = 52_000_000
    """Of one image: phones with "50 megapixels" have up to 8192 × 6144."""
    queries: int = 256
    """Images or descriptors in one request."""
    places: int = 1000
    """Places that one request may ask for (k)."""
    requests_per_second: float = 200.0
    """Of one client, on average; it may be ten seconds ahead of that."""
    waiting: int = 4096
    """Queries that may wait for the map."""
    seconds: float = 30.0
    """Until an answer; then the request has failed."""
    drives: int = 100
    """Drives that are followed at one time."""
    frames: int = 100_000
    """Frames of one drive: 14 hours of a video as the page sends it, three of a robot's that sends ten a second."""
    idle_seconds: float = 600.0
    """After which a drive that sends no frame is forgotten."""


class RateLimit:
    """Counts the requests of each client in a leaking bucket: so many a second on average, by a clock of seconds.

    >>> limit = RateLimit(0.1, clock=lambda: 0.0)
    >>> limit.admits("robot"), limit.admits("robot"), limit.admits("phone")
    (True, False, True)
    """

    AHEAD = 10.0
    CLIENTS = 10_000

    def __init__(self, per_second: float, clock: Clock = time.monotonic) -> None:
        self.per_second, self.clock = per_second, clock
        self.full: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admits(self, client: str) -> bool:
        """Count a request, and say whether it may go on."""
        now = self.clock()
        level, since = self.full.pop(client, (0.0, now))
        level = max(0.0, level - (now - since) * self.per_second)
        admitted = level + 1 <= max(1.0, self.AHEAD * self.per_second)
        self.full[client] = (level + admitted, now)
        if len(self.full) > self.CLIENTS:
            self.full.popitem(last=False)
        return admitted


@dataclass(frozen=True)
class Tokens:
    """Who may ask; without any token everybody may, which is for the own machine only."""

    full: str | None = field(default=None, repr=False)
    """Token for everything."""
    reading: str | None = field(default=None, repr=False)
    """Token for everything but queries: the map, its places and pictures, metrics."""

    def admit(self, header: str | None, *, reads: bool) -> bool:
        """Whether a request with this ``Authorization`` header may go on; compared in constant time."""
        if self.full is None and self.reading is None:
            return True
        given = (header or "").removeprefix("Bearer ").strip().encode()
        full = self.full is not None and hmac.compare_digest(given, self.full.encode())
        reading = self.reading is not None and hmac.compare_digest(given, self.reading.encode())
        return full or (reads and reading)


class RefusedError(DisplaceError):
    """A request that is answered with an error: its HTTP status, what is wrong, and the way out."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message

    def of(self, number: int, count: int) -> RefusedError:
        """The same of one image among several."""
        return RefusedError(self.status, f"image {number} of {count}: {self.message}") if count > 1 else self
