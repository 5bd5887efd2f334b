"""CPU time and peak memory of one process, and interleaved repeats."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Cost:
    """CPU seconds of each repeat and the largest extra memory, in bytes."""

    seconds: list[float] = field(default_factory=list)
    extra_bytes: int = 0

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def interleaved(alternatives: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, Cost]:
    """Run all alternatives in turn, `repeats` times over, each measured."""
    costs = {name: Cost() for name in alternatives}
    for _ in range(repeats):
        for name, run in alternatives.items():
            measure(run, costs[name])
    return costs


def measure(run: Callable[[], Any], cost: Cost) -> Any:
    """Add one run to `cost`."""
    gc.collect()
    before = reset_peak()
    start = time.process_time()
    result = run()
    cost.seconds.append(time.process_time() - start)
    cost.extra_bytes = max(cost.extra_bytes, peak() - before)
    return result


def reset_peak() -> int:
    """Forget the process's memory peak and return its present size in bytes (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> int:
    """Largest size since `reset_peak`, in bytes (Linux)."""
    return _status("VmHWM")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"no {name} in /proc/self/status")


def row(*cells: Any) -> None:
    """Print one row of a Markdown table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def header(*names: str) -> None:
    """Print the head of a Markdown table."""
    row(*names)
    row(*["---"] * len(names))
