"""The package as a whole: what it exports, what importing it costs, which way its layers point, its examples."""

from __future__ import annotations

import ast
import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import displace

SOURCE = Path(displace.__file__).parent
MODULES = sorted(
    ".".join(["displace", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
)

LAYERS = [  # from the bottom; a module may import what is below it, and its own layer where that is in SIBLINGS
    {"errors", "registry", "arrays", "geo", "images", "files", "threads", "_version"},
    {"references", "matches", "truth", "recall", "bootstrap"},
    {"manifest", "recordings", "models", "search", "fusion", "datasets", "synthetic"},
    {"descriptors"},
    {"maps"},
    {"evaluation", "advise", "interop", "cluster"},
    {"report"},
    {"demo"},
    {"pipeline"},
    {"cli", "web"},
]
SIBLINGS = {  # of one layer, which may import which
    0: None,
    1: None,
    2: {
        "recordings": {"manifest"},
        "datasets": {"manifest"},
    },
}


def layer_of(part):
    for level, names in enumerate(LAYERS):
        if part in names:
            return level
    raise AssertionError(f"displace.{part} has no layer: name it in LAYERS, and in the documentation")


def imports_of(path):
    """Names of the parts of displace that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            assert not isinstance(node, ast.ImportFrom), f"relative import in {path}"
            continue
        for name in names:
            parts = name.split(".")
            if (
                parts[0] == "displace"
                and len(parts) > 1
                and not parts[1].startswith("__")
                and parts[1] != "_version"
            ):
                yield parts[1]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.relative_to(SOURCE).as_posix())
def test_layers_import_downwards_only(path):
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if own in ("__init__", "__main__"):
        return  # the package's face imports what it shows
    for part in imports_of(path):
        if part == own:
            continue
        level, other = layer_of(own), layer_of(part)
        allowed = SIBLINGS.get(level, {})
        beside = other == level and (allowed is None or part in allowed.get(own, ()))
        assert other < level or beside, f"{path.name} imports displace.{part}"


def test_exported_members_are_sorted_and_there():
    assert displace.__all__ == sorted(displace.__all__)
    assert all(hasattr(displace, name) for name in displace.__all__)
    assert set(displace.__all__) <= set(dir(displace))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = displace.nonsense


def test_importing_pulls_in_nothing_heavy():
    code = "import sys, displace; displace.build; print(' '.join(sorted({m.split('.')[0] for m in sys.modules})))"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    heavy = {
        "torch",
        "cv2",
        "PIL",
        "skimage",
        "rich",
        "typer",
        "matplotlib",
        "plotly",
        "faiss",
        "dask",
        "rosbags",
    }
    assert not loaded & heavy


@pytest.mark.parametrize("name", MODULES)
def test_documented_examples_run(name):
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"an extra is not installed: {error}")
    assert doctest.testmod(module).failed == 0
