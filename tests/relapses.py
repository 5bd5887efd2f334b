"""Put back what was once wrong, and see that a test fails: ``python tests/relapses.py --help``, ``make relapses``.

`tests/relapses/*.toml` hold one entry for each fault that was mended: what it was, the piece of code that prevents it,
what stood there before (or what would be as wrong), and the tests that must fail then. Each is tried in a copy of the
package. A test that is skipped or cannot be collected has noticed nothing. `tests/test_relapses.py` sees to it that
the entries fit the code; the tests themselves run here, since all of them together take a while.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAILED = 1
"""Exit code of pytest where tests ran and some failed."""
WAIT = "20"
"""Seconds after which a test that would wait for ever has failed: faults that hang are tried one after the other."""


@dataclass(frozen=True)
class Relapse:
    """A fault that could come back."""

    topic: str
    what: str
    file: str
    """Below `src/displace`."""
    old: str
    """The code as it is; stands in the file once."""
    new: str
    tests: tuple[str, ...]
    """Arguments of pytest: files or names of tests below `tests`."""


def relapses() -> list[Relapse]:
    """Every entry, by topic."""
    return [
        Relapse(path.stem, **{**entry, "tests": tuple(entry["tests"])})
        for path in sorted((ROOT / "tests" / "relapses").glob("*.toml"))
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["relapse"]
    ]


def noticed(relapse: Relapse, source: Path) -> tuple[bool, str]:
    """Whether its tests fail with the fault put back, and pytest's last line."""
    target = source / "displace" / relapse.file
    sound = target.read_text(encoding="utf-8")
    if sound.count(relapse.old) != 1:
        return False, "the code that it names does not stand in the file once"
    target.write_text(sound.replace(relapse.old, relapse.new), encoding="utf-8")
    try:
        done = subprocess.run(
            [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--tb=no"]
            + [f"tests/{name}" for name in relapse.tests],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "TESTS_WAIT": WAIT},
            capture_output=True,
            text=True,
        )
    finally:
        target.write_text(sound, encoding="utf-8")
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return done.returncode == FAILED, (lines or done.stdout.splitlines()[-1:] or [done.stderr[-200:]])[0]


def main() -> None:
    """Try one after the other and say which were not noticed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="topics, files or descriptions that have this text")
    asked = parser.parse_args()
    chosen = [r for r in relapses() if asked.only in f"{r.topic} {r.file} {r.what}"]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        for relapse in chosen:
            good, line = noticed(relapse, source)
            missed += not good
            print(
                f"{'noticed  ' if good else 'UNNOTICED'} {relapse.topic}: {relapse.what}  | {line}",
                flush=True,
            )
    print(f"{len(chosen) - missed} of {len(chosen)} noticed")
    raise SystemExit(missed > 0)


if __name__ == "__main__":
    main()
