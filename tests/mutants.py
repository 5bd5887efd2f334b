"""Change one thing in the code and see whether a test notices: ``python tests/mutants.py --help``, ``make mutants``.

A random sample of all single changes to `fusion/`, `maps/`, `truth.py` and `holdout.py` is tried, each in a copy of the
package, with the tests that reach the changed lines, those first that reach least besides, until one fails. Which tests
reach which line is measured once, by coverage, and kept in a folder (``--cache``). A change that no test reaches counts
as unnoticed; one that makes the tests use ten times their processor time loops, and counts as noticed.

Not changed: documentation, annotations, text, what is raised or logged, what only type checkers read, and what only
speed, memory or an assertion depends on (sizes of blocks, which `_layers` tells, numbers of threads, `copy=`,
`overwrite_…=`, `clean=`, `check_finite=`, `strict=`), and seeds of random numbers.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import json
import math
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("fusion", "maps", "truth.py", "holdout.py")
LEFT_OUT = ("in_database.py", "remote.py")
"""Their tests need servers."""
TESTS = (
    "contract/test_fusions.py",
    "contract/test_maps_of_fusions.py",
    "contract/test_search.py",
    "test_arrays.py",
    "test_checking.py",
    "test_cli_maps.py",
    "test_compression.py",
    "test_confidence.py",
    "test_core_details.py",
    "test_decisions.py",
    "test_details.py",
    "test_disk_rows.py",
    "test_displace.py",
    "test_displace_details.py",
    "test_driving.py",
    "test_eigen.py",
    "test_evaluation_benchmark.py",
    "test_evaluation_correct_places.py",
    "test_evidence.py",
    "test_fusions.py",
    "test_holdout.py",
    "test_interop_geojson.py",
    "test_learning_details.py",
    "test_locating_details.py",
    "test_map_details.py",
    "test_metrics.py",
    "test_neighbours.py",
    "test_numbers.py",
    "test_place_map.py",
    "test_place_map_file.py",
    "test_place_map_updating.py",
    "test_references.py",
    "test_scatter.py",
    "test_search.py",
    "test_sequence.py",
    "test_streaming.py",
    "test_subspace.py",
    "test_tensors.py",
    "test_tuning.py",
    "test_view_details.py",
    "test_views.py",
)
"""Files whose tests are about the changed code; others reach it by the way and would cost more than they notice."""
PRELOADED = (
    "cv2",
    "faiss",
    "hypothesis",
    "hypothesis.strategies",
    "numpy",
    "PIL.Image",
    "pytest",
    "rich.console",
    "safetensors",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.spatial",
    "scipy.stats",
    "sklearn.base",
    "sklearn.metrics",
    "sklearn.neighbors",
    "sklearn.utils.estimator_checks",
    "threadpoolctl",
    "typer",
)
"""Imported once, before a process is forked for each change."""
PLUGINS = ("-p", "_hypothesis_pytestplugin")
"""Of pytest: no other is needed, and some take seconds to load."""
READING = "tests/test_numbers.py"
"""Tests that read constants, which are computed before any test: they are run for every change outside of functions."""
SPEED = ("SMALL", "(WIDE, NARROW, AT_ONCE)")
"""Sizes in `fusion/solver/eigen.py` on which nothing but speed depends."""
CHOSEN = "not thousands and not Killed"
"""Those of their tests that are run: not those that damage thousands of files or kill processes again and again."""

COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
NAMES = {"min": "max", "any": "all", "minimum": "maximum", "argmin": "argmax", "zeros": "ones"}
NAMES |= {new: old for old, new in NAMES.items()}


@dataclass(frozen=True)
class Mutant:
    """One change: bytes `start` to `end` of a file become `text`."""

    path: str
    line: int
    reach: tuple[int, int]
    """First and last line that a test must reach one of."""
    start: int
    end: int
    before: str
    text: str


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that could stand in the place of one."""
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            other = copy.deepcopy(node)
            other.ops[at] = COMPARED[type(op)]()
            yield other
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in COMPUTED:
        other = copy.deepcopy(node)
        other.op = COMPUTED[type(node.op)]()
        yield other
    elif isinstance(node, ast.BoolOp):
        other = copy.deepcopy(node)
        other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield other
    elif isinstance(node, ast.UnaryOp):
        yield copy.deepcopy(node.operand)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield ast.Constant(not node.value)
        elif isinstance(node.value, int | float):
            yield ast.Constant(
                node.value * 1.5 if isinstance(node.value, float) and node.value else node.value + 1
            )
    elif isinstance(node, ast.Name | ast.Attribute):
        other = copy.deepcopy(node)
        if isinstance(other, ast.Name) and isinstance(other.ctx, ast.Load) and other.id in NAMES:
            other.id = NAMES[other.id]
            yield other
        elif isinstance(other, ast.Attribute) and other.attr in NAMES:
            other.attr = NAMES[other.attr]
            yield other
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass()
    elif isinstance(node, ast.If | ast.IfExp) and isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
        other = copy.deepcopy(node)
        other.test = ast.UnaryOp(ast.Not(), node.test)
        yield other
    elif isinstance(node, ast.Break | ast.Continue):
        yield ast.Continue() if isinstance(node, ast.Break) else ast.Break()


def skipped(node: ast.AST) -> bool:
    """Whether a node and what is in it stay as they are."""
    if isinstance(node, ast.Assign):
        name = ast.unparse(node.targets[0])
        return name.upper().endswith("BYTES") or name in (*SPEED, "lwork")
    if isinstance(node, ast.FunctionDef):
        return node.name == "_layers"
    if isinstance(node, ast.keyword):
        return str(node.arg).startswith(
            ("strict", "copy", "check_finite", "overwrite", "row_bytes", "lwork", "clean")
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return all(isinstance(side, ast.Name | ast.Attribute) for side in (node.left, node.right))  # types
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return True
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        return name.startswith(("logger.", "warnings.")) or name.endswith(
            ("Error", "TypeVar", "cast", "progress", "blocks", "one_blas_thread", "default_rng")
        )
    return False


def mutants_of(path: Path) -> list[Mutant]:
    """Every change to one file."""
    source = path.read_bytes()
    begins = [0]
    for row in source.splitlines(keepends=True):
        begins.append(begins[-1] + len(row))
    found: list[Mutant] = []

    def walk(node: ast.AST, function: ast.FunctionDef | None, reach: tuple[int, int]) -> None:
        if skipped(node):
            return
        if isinstance(node, ast.stmt):
            simple = not hasattr(node, "body")
            last = node.end_lineno if simple else node.lineno
            reach = (node.lineno, last or node.lineno) if function else (1, len(begins))
        if isinstance(node, ast.FunctionDef):
            reach = (node.body[0].lineno, node.end_lineno or node.lineno)
            for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
                walk(default, node, reach)
            for child in node.body:
                walk(child, node, reach)
            return
        if isinstance(node, ast.expr | ast.stmt):
            for other in variants(node):
                if isinstance(node, ast.If):
                    node, other = node.test, other.test
                a = begins[node.lineno - 1] + node.col_offset
                b = begins[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
                text = ast.unparse(other)
                found.append(
                    Mutant(
                        path.relative_to(ROOT / "src").as_posix(),
                        node.lineno,
                        reach,
                        a,
                        b,
                        ast.unparse(node),
                        f"({text})"
                        if isinstance(node, ast.expr) and not isinstance(node, ast.Constant | ast.Name)
                        else text,
                    )
                )
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_comment"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    walk(child, function, reach)

    walk(ast.parse(source), None, (1, len(begins)))
    return [mutant for mutant in found if compiles(source, mutant)]


def changed(source: bytes, mutant: Mutant) -> bytes:
    """Return the file with the change."""
    return source[: mutant.start] + mutant.text.encode() + source[mutant.end :]


def compiles(source: bytes, mutant: Mutant) -> bool:
    """Whether what it makes of the file is Python."""
    try:
        return bool(compile(changed(source, mutant), mutant.path, "exec"))
    except SyntaxError:
        return False


def every_mutant() -> list[Mutant]:
    """Every change to the parts, in the order of the files."""
    package = ROOT / "src" / "displace"
    files = [file for part in PARTS for file in (sorted((package / part).rglob("*.py")) or [package / part])]
    return [mutant for file in files if file.name not in LEFT_OUT for mutant in mutants_of(file)]


class Recorder:
    """A plug-in of pytest: processor time of each test; or, with `wanted`, the only tests to run."""

    def __init__(self, wanted: list[str] | None = None) -> None:
        self.wanted, self.seconds, self.since = wanted, dict[str, float](), 0.0

    def pytest_collection_modifyitems(self, items: list) -> None:  # type: ignore[type-arg]
        if self.wanted is not None:
            rank = {name: at for at, name in enumerate(self.wanted)}
            items[:] = sorted((i for i in items if i.nodeid in rank), key=lambda i: rank[i.nodeid])

    def pytest_runtest_logstart(self) -> None:
        self.since = time.process_time()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] = time.process_time() - self.since


def run_tests(wanted: list[str]) -> int:
    """Run the tests until one fails; returns pytest's code."""
    import pytest

    files = list(dict.fromkeys(name.split("::")[0] for name in wanted))
    quiet = [*PLUGINS, "-q", "-x", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-rN"]
    quiet += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what was imported before the fork
    return int(pytest.main([*quiet, *files], plugins=[Recorder(wanted)]))


def measure(cache: Path) -> None:
    """Run the tests once and write which of them reach which line, and how long each takes."""
    import coverage
    import pytest

    recorder = Recorder()
    tracer = coverage.Coverage(data_file=str(cache / "coverage"), source=[str(ROOT / "src" / "displace")])

    class Contexts:
        """What a test reaches, and what the fixtures reach that it shares with others."""

        used: ClassVar[dict[str, list[str]]] = {}

        def pytest_runtest_protocol(self, item: pytest.Item) -> None:
            self.used[item.nodeid] = [f"{item.nodeid.split('::')[0]} {name}" for name in item.fixturenames]  # type: ignore[attr-defined]
            tracer.switch_context(item.nodeid)

        @pytest.hookimpl(wrapper=True)
        def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Any:
            if fixturedef.scope == "function":
                return (yield)
            tracer.switch_context(f"{request._pyfuncitem.nodeid.split('::')[0]} {fixturedef.argname}")
            try:
                return (yield)
            finally:
                tracer.switch_context(request._pyfuncitem.nodeid)

    tracer.start()
    files = [f"tests/{name}" for name in TESTS if (ROOT / "tests" / name).exists()]
    code = pytest.main([*PLUGINS, "-q", "--no-header", "-k", CHOSEN, *files], plugins=[recorder, Contexts()])
    tracer.stop()
    if code:
        raise SystemExit("the tests fail as they are")
    reached: dict[str, dict[str, list[int]]] = {}
    data = tracer.get_data()
    for file in data.measured_files():
        name = Path(file).relative_to(ROOT / "src").as_posix()
        if name.removeprefix("displace/").startswith(PARTS):
            by_context: dict[str, set[int]] = defaultdict(set)
            for line, contexts in data.contexts_by_lineno(file).items():
                for context in contexts:
                    by_context[context].add(line)
            by_test = {
                test: sorted(by_context[test].union(*(by_context.get(name, set()) for name in used)))
                for test, used in Contexts.used.items()
            }
            reached[name] = {test: lines for test, lines in by_test.items() if lines}
    (cache / "reached.json").write_text(json.dumps({"seconds": recorder.seconds, "reached": reached}))


def tests_of(mutant: Mutant, measured: dict, most: int) -> list[str]:  # type: ignore[type-arg]
    """Tests that reach a change: at most so many, those first that reach least besides."""
    first, last = mutant.reach
    outside = first == 1
    reading = [test for test in measured["seconds"] if outside and test.startswith(READING)]
    names = [
        test
        for test, lines in measured["reached"].get(mutant.path, {}).items()
        if any(first <= line <= last for line in lines)
    ]
    return reading + sorted(names, key=lambda name: (measured["lines"][name], name))[:most]


def judged(mutant: Mutant, package: Path, tests: list[str], seconds: float, log: Path) -> str:
    """Try one change on tests that take so long without: "noticed", "loops", "hangs", "unnoticed" or "unreached"."""
    if not tests:
        return "unreached"
    target = package / mutant.path
    source, times = target.read_bytes(), target.stat()
    target.write_bytes(changed(source, mutant))
    stamp = time.time_ns() + 5_000_000_000 * random.randrange(1, 1 << 20)
    os.utime(target, ns=(stamp, stamp))  # no byte code of another change is taken for this one's
    try:
        status = in_child(tests, int(60 + 10 * seconds), log)
    finally:
        target.write_bytes(source)
        os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))
    if status is None:
        return "hangs"
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        return "loops"
    return "noticed" if status else "unnoticed"


def in_child(tests: list[str], limit: int, log: Path) -> int | None:
    """Run tests in a process of their own, with so many seconds of processor time; returns its status."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        code = 1
        try:
            code = run_tests(tests)
        finally:
            os._exit(code)
    return wait_for(pid, 20 * limit)


def wait_for(pid: int, seconds: float) -> int | None:
    """Status of a child; None where it did nothing for so long that it must wait for something, and was ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.05)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def wilson(hits: int, count: int) -> tuple[float, float]:
    """95 % interval of a share."""
    z, p = 1.96, hits / count
    centre, half = p + z * z / (2 * count), z * math.sqrt(p * (1 - p) / count + z * z / (4 * count * count))
    return (centre - half) / (1 + z * z / count), (centre + half) / (1 + z * z / count)


def main() -> None:
    """Measure, sample, try, and say what share was noticed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=300, help="how many changes to try")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--only", default="", help="files whose name has this")
    parser.add_argument("--most", type=int, default=100, help="how many tests to run for one change")
    parser.add_argument(
        "--cache", type=Path, default=ROOT / "build" / "mutants", help="folder of what is measured"
    )
    parser.add_argument("--again", action="store_true", help="measure which tests reach what anew")
    asked = parser.parse_args()
    cache, everything = asked.cache.resolve(), [m for m in every_mutant() if asked.only in m.path]
    prepare(cache)
    if asked.again or not (cache / "reached.json").exists():
        pid = os.fork()
        if pid == 0:
            sys.path.insert(0, str(ROOT / "src"))
            measure(cache)
            os._exit(0)
        if os.waitpid(pid, 0)[1]:
            raise SystemExit("the tests could not be measured")
    measured = json.loads((cache / "reached.json").read_text())
    measured["lines"] = Counter()
    for by_test in measured["reached"].values():
        measured["lines"].update({test: len(lines) for test, lines in by_test.items()})
    package = cache / f"src-{os.getpid()}"
    shutil.copytree(ROOT / "src", package, ignore=shutil.ignore_patterns("__pycache__"))
    os.environ["PYTHONPATH"] = str(package)
    sys.path.insert(0, str(package))
    for name in PRELOADED:
        importlib.import_module(name)
    sample = random.Random(asked.seed).sample(everything, min(asked.count, len(everything)))
    try:
        outcome = tried(sample, package, measured, asked.most, cache / "last.log")
    finally:
        shutil.rmtree(package, ignore_errors=True)
    noticed, count = outcome["noticed"] + outcome["loops"], sum(outcome.values())
    low, high = wilson(noticed, count)
    print(f"{dict(outcome)}; {count} of {len(everything)} changes, seed {asked.seed}")
    print(f"noticed {noticed}/{count} = {noticed / count:.1%} (95 %: {low:.1%} to {high:.1%})")


def prepare(cache: Path) -> None:
    """Set the process up as every run of tests needs it."""
    os.chdir(ROOT)
    cache.mkdir(parents=True, exist_ok=True)
    sys.dont_write_bytecode = False  # compiling the package takes longer than most tests
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ["DISPLACE_SHARED"] = str(cache / "none")  # so that anybody gets the same


def tried(
    sample: list[Mutant],
    package: Path,
    measured: dict,  # type: ignore[type-arg]
    most: int,
    log: Path,
) -> Counter[str]:
    """Try one change after the other, as far as one is let; the first part of a sample is one, too."""
    chosen = [tests_of(mutant, measured, most) for mutant in sample]
    if in_child(sorted({test for tests in chosen for test in tests}), 3600, log):
        raise SystemExit(f"the tests fail without a change: {log}")
    outcome: Counter[str] = Counter()
    try:
        for mutant, tests in zip(sample, chosen, strict=True):
            seconds = sum(measured["seconds"].get(name, 0) for name in tests)
            found = judged(mutant, package, tests, seconds, log)
            outcome[found] += 1
            where = f"{mutant.path}:{mutant.line}  {mutant.before}  →  {mutant.text}"
            print(f"{sum(outcome.values()):4} {found:9} {where}  ({len(tests)} tests)", flush=True)
    except KeyboardInterrupt:
        print("stopped")
    return outcome


if __name__ == "__main__":
    main()
