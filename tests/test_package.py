"""The package as a whole: what it exports, what importing it costs, which way its layers point, its examples."""

from __future__ import annotations

import ast
import doctest
import graphlib
import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import tiny

import displace
from displace import verbs

SOURCE = Path(displace.__file__).parent


def module_of(path):
    return ".".join(["displace", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")


FILES = {module_of(path): path for path in sorted(SOURCE.rglob("*.py"))}

ARCHITECTURE = (Path(__file__).resolve().parent.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")


def documented_layers():
    """The table of layers in ARCHITECTURE.md: packages of each from the bottom, and which may import which beside."""
    rows = re.search(r"^\| layer \|.*\n\|---.*\n((?:\|.*\n)+)", ARCHITECTURE, re.MULTILINE).group(1)
    layers, beside = [], {}
    for row in rows.splitlines():
        _, _, packages, allowed, _ = row.split("|")
        layers.append(set(re.findall(r"`(\w+)`", packages)))
        if allowed.strip() == "any":
            beside |= dict.fromkeys(layers[-1], layers[-1])
        for own, other in re.findall(r"`(\w+)` → `(\w+)`", allowed):
            beside.setdefault(own, set()).add(other)
    return layers, beside


LAYERS, BESIDE = documented_layers()


def layer_of(package):
    for level, names in enumerate(LAYERS):
        if package in names:
            return level
    raise AssertionError(f"displace.{package} has no layer: name it in the table of ARCHITECTURE.md")


def imports_of(path):
    """Modules of displace that a file imports, wherever in the file: inside functions and for types only as well."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            # A name that is imported may itself be a module.
            names = [
                name if (name := f"{node.module}.{alias.name}") in FILES else node.module
                for alias in node.names
            ]
        else:
            continue
        yield from (name for name in names if name in FILES)


def test_the_table_of_layers_names_every_package_once():
    named = sorted(package for names in LAYERS for package in names)
    assert len(named) == len(set(named))
    packages = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")}
    for package in packages - {"__init__", "__main__", "_version"}:
        layer_of(package)


def test_files_that_the_architecture_names_are_there():
    for name in re.findall(r"`([\w/]+/[\w.]*)`", ARCHITECTURE):
        pattern = name.replace("NAME", "*")
        assert any(next(root.glob(pattern), None) for root in (SOURCE, SOURCE.parent.parent)), name


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.relative_to(SOURCE).as_posix())
def test_layers_import_downwards_only(path):
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if own in ("__init__", "__main__"):
        return  # the package's face imports what it shows
    for module in imports_of(path):
        package = module.split(".")[1] if "." in module else "_version"
        if package in (own, "_version"):
            continue
        assert layer_of(package) < layer_of(own) or package in BESIDE.get(own, ()), (
            f"{path.name} imports {module}"
        )


def test_no_module_imports_itself_over_others():
    graph = {module: set(imports_of(path)) - {module} for module, path in FILES.items()}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def test_names_of_files_and_classes_occur_once():
    files = Counter(path.stem for path in FILES.values())
    classes = Counter(
        node.name
        for path in FILES.values()
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, n in files.items() if n > 1} <= {"__init__", "__main__", "base"}
    assert {name for name, n in classes.items() if n > 1} == set()


def test_exported_members_are_sorted_and_there():
    assert displace.__all__ == sorted(displace.__all__)
    assert all(hasattr(displace, name) for name in displace.__all__)
    assert set(displace.__all__) <= set(dir(displace))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = displace.nonsense


def test_a_type_checker_knows_the_names_of_the_package():
    """A module's __getattr__ that it could see would make any misspelt name one of the package."""
    tree = ast.parse(Path(displace.__file__).read_text("utf-8"))
    assert "__getattr__" not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    hidden = [node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.UnaryOp)]
    assert [node.name for node in hidden[0].body] == ["__getattr__"]
    with pytest.raises(AttributeError, match="no attribute 'recal_at'"):
        displace.recal_at  # noqa: B018


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


@pytest.mark.parametrize("name", FILES)
def test_documented_examples_run(name):
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"an extra is not installed: {error}")
    assert doctest.testmod(module).failed == 0


def test_locating_loads_neither_scikit_learn_nor_scipy(tmp_path):
    """They take a second to import, which a photo located from the command line would wait for."""
    tiny.make_route(tmp_path / "route", n_places=6)
    verbs.extract(tmp_path / "route" / "route.csv", tmp_path / "r.desc", model="hog")
    verbs.build(tmp_path / "r.desc", tmp_path / "r.displace")
    photo = next((tmp_path / "route").rglob("*.png"))
    code = (
        f"import sys\nfrom displace import cli\nsys.argv = ['displace', 'locate', 'r.displace', {str(photo)!r}]\n"
        "try:\n    cli.main()\nfinally:\n"
        "    print('loaded', *sorted({m.split('.')[0] for m in sys.modules}))"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    loaded = set(found.stdout.splitlines()[-1].split())
    assert {"loaded", "numpy", "displace"} <= loaded
    assert not {"sklearn", "scipy"} & loaded


BENCHMARKS = sorted((Path(__file__).resolve().parent.parent / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_what_a_benchmark_imports_is_there(path):
    """Benchmarks run by hand only: one of them named a function that was gone."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "displace":
            module = importlib.import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name) or f"{node.module}.{name.name}" in FILES
