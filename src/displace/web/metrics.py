"""What a server counts, in the text format of Prometheus."""

from __future__ import annotations

import threading
from collections import defaultdict

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
            counts = self._buckets[route]
            for number, end in enumerate(BUCKETS):
                counts[number] += seconds <= end
            counts[-1] += 1

    def text(self, version: str, gauges: dict[str, float], counters: dict[str, int] | None = None) -> str:
        """All of it, with the map's version and the present values of `gauges` and of further counters."""
        lines = ["# TYPE displace_requests_total counter"]
        with self._lock:
            lines += [
                f'displace_requests_total{{route="{route}",status="{status}"}} {n}'
                for (route, status), n in sorted(self._requests.items())
            ]
            lines.append("# TYPE displace_request_seconds histogram")
            for route, counts in sorted(self._buckets.items()):
                ends = [*(f"{end:g}" for end in BUCKETS), "+Inf"]
                lines += [
                    f'displace_request_seconds_bucket{{route="{route}",le="{end}"}} {n}'
                    for end, n in zip(ends, counts, strict=True)
                ]
                lines.append(f'displace_request_seconds_sum{{route="{route}"}} {self._seconds[route]:.6f}')
                lines.append(f'displace_request_seconds_count{{route="{route}"}} {counts[-1]}')
        lines += ["# TYPE displace_map_info gauge", f'displace_map_info{{version="{version}"}} 1']
        gauges = {"requests_in_progress": self.in_progress, **gauges}
        for kind, values in (("gauge", gauges), ("counter", counters or {})):
            for name, value in values.items():
                lines += [f"# TYPE displace_{name} {kind}", f"displace_{name} {value}"]
        return "\n".join(lines) + "\n"
