"""What a server counts, in the text format of Prometheus."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of the latency histogram, in seconds."""


class Metrics:
    """Requests by route and status, and how long they took; safe to be shared between threads."""

    def __init__(self) -> None:
        self.in_progress = 0
        self._lock = threading.Lock()
        self._requests: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BUCKETS) + 1))
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def count(self, route: str, status: int, seconds: float) -> None:
        """Take in one request."""
        with self._lock:
            self._requests[route, status] += 1
            self._seconds[route] += seconds
            self._buckets[route][bisect_left(BUCKETS, seconds)] += 1

    def text(self, version: str, gauges: dict[str, float]) -> str:
        """All of it, with the map's version and the present values of `gauges`."""
        lines = ["# TYPE displace_requests_total counter"]
        with self._lock:
            lines += [
                f'displace_requests_total{{route="{route}",status="{status}"}} {n}'
                for (route, status), n in sorted(self._requests.items())
            ]
            lines.append("# TYPE displace_request_seconds histogram")
            for route, counts in sorted(self._buckets.items()):
                label = f'route="{route}"'
                lines += histogram("request_seconds", BUCKETS, counts, round(self._seconds[route], 6), label)
        lines += ["# TYPE displace_map_info gauge", f'displace_map_info{{version="{version}"}} 1']
        for name, value in {"requests_in_progress": self.in_progress, **gauges}.items():
            lines += [f"# TYPE displace_{name} gauge", f"displace_{name} {value}"]
        return "\n".join(lines) + "\n"


def histogram(
    name: str, ends: Sequence[float], counts: Sequence[int], total: float, label: str = ""
) -> list[str]:
    """Lines of a histogram.

    >>> histogram("batch", (1, 2), [3, 0, 1], 7)[1:3]
    ['displace_batch_bucket{le="2"} 3', 'displace_batch_bucket{le="+Inf"} 4']
    """
    bounds = [*(f"{end:g}" for end in ends), "+Inf"]
    before, alone = (f"{label},", f"{{{label}}}") if label else ("", "")
    lines = [
        f'displace_{name}_bucket{{{before}le="{bound}"}} {n}'
        for bound, n in zip(bounds, accumulate(counts), strict=True)
    ]
    return [*lines, f"displace_{name}_sum{alone} {total}", f"displace_{name}_count{alone} {sum(counts)}"]
