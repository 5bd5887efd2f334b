"""Run all benchmarks, or those named: ``python -m benchmarks solver --dim 512``."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from pathlib import Path

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def names() -> list[str]:
    """Every file here that defines ``main(argv)``."""
    found = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(m.name for m in found if not m.name.startswith("_"))


def main(argv: list[str]) -> None:
    """Run the benchmark named first with the rest as its arguments, or all of them."""
    if argv and argv[0] not in names():
        sys.exit(f"unknown benchmark '{argv[0]}'. Known: {', '.join(names())}")
    for name in argv[:1] or names():
        if "--here" not in argv:
            print(f"\n## {name}\n", flush=True)
        importlib.import_module(f"benchmarks.{name}").main(argv[1:])


if __name__ == "__main__":
    if any(name not in os.environ for name in THREADS) and (sys.argv[1:2] != ["extraction"]):
        # BLAS reads these once, when it is loaded: start again with them set.
        os.environ.update(dict.fromkeys(THREADS, "1"))
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks", *sys.argv[1:]])
    main(sys.argv[1:])
