"""Run all benchmarks, or those named: ``python -m benchmarks solver --dim 512``."""

from __future__ import annotations

import os
import pkgutil
import subprocess
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
    failed = [name for name in argv[:1] or names() if not run(name, argv[1:])]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def run(name: str, arguments: list[str]) -> bool:
    """Run one in a process of its own, whose BLAS has its own number of threads; return whether it succeeded."""
    print(f"\n## {name}\n", flush=True)
    code = f"import sys; from benchmarks.{name} import main; main(sys.argv[1:])"
    process = subprocess.run([sys.executable, "-c", code, *arguments], env=environment(name))
    return process.returncode == 0


def environment(name: str) -> dict[str, str]:
    """One BLAS thread, unless the user set a number; extraction is measured as users run it."""
    return {**({} if name == "extraction" else dict.fromkeys(THREADS, "1")), **os.environ}


if __name__ == "__main__":
    main(sys.argv[1:])
