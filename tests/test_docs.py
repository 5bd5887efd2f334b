"""Python in the documentation runs, and gives what it says."""

from __future__ import annotations

import doctest
import pkgutil
import re
import shlex
import tomllib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import typer

from displace import build, cli, get_fusion
from displace.evaluation.cells import ranked_along
from displace.evaluation.methods import Method
from displace.fusion.base import Fusion
from displace.search import INDEXES
from displace.sequence import SEQUENCES
from displace.synthetic import make_route

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
LINKING = [
    *PAGES,
    *(ROOT / f"{name}.md" for name in ("ARCHITECTURE", "CONTRIBUTING", "SECURITY", "CHANGELOG")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sessions_in_the_documentation(page):
    """Blocks with >>> give what they print."""
    assert doctest.testfile(str(page), module_relative=False, encoding="utf-8").failed == 0


def test_links_between_pages_lead_somewhere():
    for page in LINKING:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_pages_that_are_named_are_there():
    """In code and in the changelog, whose readers look for them in the repository."""
    files = [
        *LINKING,
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "benchmarks").glob("*.py"),
        *(ROOT / "tests").glob("*.py"),
    ]
    for file in files:
        for name in re.findall(r"\bdocs/\w+\.md", file.read_text(encoding="utf-8")):
            assert (ROOT / name).is_file(), f"{file.name} names {name}"


def anchors(page):
    """What the headings of a page are linked by."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.name)
def test_links_to_headings_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
        assert anchor in anchors(page.parent / target if target else page), f"{target}#{anchor}"


ELSEWHERE = {"databases.md", "numbers.md"}
"""Pages with names of tables in a database, and of constants without their modules (`test_numbers.py`)."""


def test_what_to_expect_of_drives_is_what_the_page_of_measurements_says():
    """The few figures for users are beside the same commands, with the same options."""
    page, measured = (
        (ROOT / "docs" / name).read_text("utf-8") for name in ("drives.md", "drives_measured.md")
    )
    rows = re.findall(r"^\|.*\| ([^|]+) \| `(--only [^`]+)` \|$", page, re.MULTILINE)
    assert len(rows) == 5
    for figures, options in rows:
        assert options.split(" --drives")[0] in " ".join(measured.split())
        for figure in re.findall(r"\d+\.\d+", figures):
            assert f" {figure} " in measured, figure


def test_names_of_the_package_in_the_documentation_are_there():
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        if page.name not in ELSEWHERE:
            for name in re.findall(r"`(displace(?:\.\w+)+)[`(]", page.read_text(encoding="utf-8")):
                pkgutil.resolve_name(name)


def commands_of(page):
    """The displace commands in the blocks of a page, without remarks; lines that show the usage are none."""
    for block in re.findall(r"```\w*\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            for part in re.split(r"&&|\|", line):
                words = shlex.split(part, comments=True) if part.strip().startswith("displace ") else []
                if words and "[OPTIONS]" not in words and words[1] != "VERB":
                    yield words[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_documentation_are_commands_that_there_are(page):
    verbs = typer.main.get_command(cli.app).commands
    for verb, *arguments in commands_of(page):
        verbs[verb].make_context(
            verb, arguments
        )  # refuses what is no option, and arguments too many or too few


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_recipes_describe_a_new_drive_by_the_maps_own_model(page):
    """What another model describes cannot be added to the map."""
    for first, then in pairwise(commands_of(page)):
        if first[0] == "manifest" and first[-2] == "--against" and first[-1].endswith(".displace"):
            assert then[0] == "extract"
            assert "-m" in then


@pytest.mark.parametrize("page", [*PAGES, ROOT / "SECURITY.md"], ids=lambda page: page.name)
def test_commands_that_print_figures_are_there(page):
    """Benchmarks have files, and what `pytest -k` asks for is in the name of a test."""
    text = " ".join(page.read_text(encoding="utf-8").split())
    for name in re.findall(r"python -m benchmarks (\w+)", text):
        assert (ROOT / "benchmarks" / f"{name}.py").is_file(), name
    for file in re.findall(r"python (tests/\w+\.py)", text):
        assert (ROOT / file).is_file(), file
    for file, options in re.findall(r"pytest (tests/\w+\.py)([^`|]*)", text):
        tests = re.findall(r"def (test_\w+)", (ROOT / file).read_text(encoding="utf-8"))
        for word in re.findall(r"-k (\w+)", options):
            assert any(word in test for test in tests), f"{file} has no test with {word} in its name"


def test_how_to_install_is_told_with_sizes_and_without_cuda():
    """What pip fetches by default with torch is gigabytes that a machine without a graphics card has no use for."""
    readme, models = ((ROOT / name).read_text("utf-8") for name in ("README.md", "docs/models.md"))
    for page in (readme, models):
        assert "uv pip install torch --torch-backend cpu" in page
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    rows = [line for line in readme.splitlines() if re.match(r"\| (`pip|`'\.\[)", line)]
    listed = {extra: row for row in rows for extra in re.findall(r"\.\[(\w+)\]", row)}
    assert {*listed} == {*project["optional-dependencies"]} - {"dev", "docs"}
    for row in rows:
        extras, sizes = row.count("["), re.findall(r"\+?\d+", row.rsplit("|", 2)[1])
        assert len(sizes) == max(extras, 1)


def test_every_page_is_in_the_contents_of_the_site():
    contents = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").split()
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages <= set(contents), "name them in a toctree of docs/index.md"


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch):
    route = make_route(n_places=40, n_traversals=3, dim=24)
    refs = route.references
    namespace = {
        "vectors": refs.vectors,
        "places": refs.places,
        "traversals": refs.traversals,
        "queries": route.queries,
        "truth": route.truth,
    }
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        exec(block, namespace)
    assert (tmp_path / "town.displace").is_file()
    assert namespace["matches"].places.shape == (40, 5)


def test_the_fusions_of_the_walk_through_work():
    text = (ROOT / "docs" / "add_a_fusion.md").read_text("utf-8")
    namespace: dict = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(code, namespace)
    assert issubclass(namespace["Loudest"], Fusion)
    fusion = namespace["Loudest"]().fit(
        [[3.0, 0.0], [0.0, 1.0], [0.0, 2.0], [1.0, 0.0]], ["a", "a", "b", "b"]
    )
    np.testing.assert_array_equal(fusion.predict([[1.0, 0.1], [0.1, 1.0]]), ["a", "b"])
    route = make_route(n_places=30, n_traversals=3, dim=8)
    refs = route.references
    for name in ("Loudest", "Mean"):
        place_map = build(refs, namespace[name](), dtype="float32")
        own = namespace[name]().fit(refs.vectors, refs.places, refs.traversals)
        np.testing.assert_array_equal(place_map.locate(route.queries).places, own.rank(route.queries).places)
    part = build(refs.without("t0"), namespace["Mean"](), dtype="float32")
    part.add(refs.only("t0"))
    np.testing.assert_allclose(part.vectors, place_map.vectors, atol=1e-6)


def defined_in(page):
    """What the Python of a page defines that begins as a file of its own does."""
    namespace: dict = {}
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text("utf-8"), re.DOTALL):
        if "(SequenceMethod)" in code or "(Index)" in code:
            exec(code, namespace)
    return namespace


def test_the_search_backend_on_the_page_finds_what_exact_search_finds(tmp_path, monkeypatch):
    brute = defined_in("scaling.md")["Brute"]
    monkeypatch.setitem(INDEXES._found, "brute", brute)
    route = make_route(n_places=30, n_traversals=3, dim=8)
    place_map = build(route.references, dtype="float32")
    found, exact = (place_map.locate(route.queries, search=name) for name in ("brute", "exact"))
    np.testing.assert_array_equal(found.places, exact.places)
    np.testing.assert_allclose(found.scores, exact.scores, atol=1e-6)
    index = brute.build(place_map.vectors)
    index.save(tmp_path / "rows.npy")
    again = brute.open(tmp_path / "rows.npy")
    rows, _ = again.search(place_map.project(route.queries), 3, among=np.array([4, 2, 9]))
    assert set(rows.ravel().tolist()) == {2, 4, 9}


def test_the_sequence_method_on_the_page_is_a_row_of_tables(monkeypatch):
    monkeypatch.setitem(SEQUENCES._found, "window", defined_in("drives_method.md")["Window"])
    route = make_route(n_places=30, n_traversals=3, dim=8)
    fusion = get_fusion("hops")().fit(route.references.vectors, route.references.places)
    places, scores = ranked_along(
        Method("hops", sequence="window"), fusion, route.queries, np.arange(30), k=4
    )
    assert places.shape == scores.shape == (30, 4)
    np.testing.assert_array_equal(places[0], fusion.rank(route.queries[:1], 4).places[0])
