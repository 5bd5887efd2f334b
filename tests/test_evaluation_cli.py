"""The verbs evaluate, bench and table, as a user types them, and plug-ins in them."""

from __future__ import annotations

import errno
import html
import importlib
import json
import os
import re
import shutil
import sys
import types

import numpy as np
import pytest
from commands import commands_in
from routes import make_store

from displace import get_fusion, recall_at
from displace.arrays import l2_normalize
from displace.descriptors.imported import write_store
from displace.descriptors.store import DescriptorStore, Queries
from displace.errors import RouteWarning
from displace.evaluation.methods import Method, _source_digest
from displace.evaluation.results import Results
from displace.evaluation.table_formats import FORMATS
from displace.fusion import FUSIONS
from displace.manifest.table import Manifest
from displace.sequence import SEQUENCES

SUITE = """
title = "a made route"
dataset = "made"
protocol = { name = "made-2", tolerance = "2 frames" }
queries = ["night", "sun"]

[stores]
first = "first.desc"
second = "elsewhere/second.desc"

[[methods]]
fusion = "single"
each_reference = true

[[methods]]
fusion = "hops"

[[methods]]
fusion = "displace"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluation")
    make_store(folder / "first.desc")
    make_store(folder / "other.desc", seed=1, model="second")
    (folder / "mine.toml").write_text(SUITE, encoding="utf-8")
    os.mkfifo(folder / "pipe")
    return folder


@pytest.fixture
def run(folder, monkeypatch):
    return commands_in(folder, monkeypatch)


def test_evaluate_one_line(run, folder):
    done = run("evaluate", "first.desc", "--query", "night")
    assert done.exit_code == 0, done.output
    assert "night located in sun, rain, dusk: exact place, each against all others" in done.stdout
    assert "30 places, 90 references, 30 queries" in done.stdout
    assert "DisPlace: ridge" in done.stdout
    assert "as given" not in done.stdout
    for name in FUSIONS.names():
        assert get_fusion(name).title in done.stdout
    assert not list(folder.glob("displace-*"))


def test_a_query_that_is_named_twice_is_asked_once(run):
    asked = ("evaluate", "first.desc", "--fusion", "hops", "--query", "night", "--query", "sun")
    records = json.loads(run(*asked, "--query", "night", "--json").stdout)
    assert [record["query"] for record in records] == ["night", "sun"]


@pytest.mark.filterwarnings("ignore:places that follow each other")
def test_a_fusion_is_explained_once_for_all_sequences(run):
    asked = ("evaluate", "first.desc", "--query", "night", "--fusion", "displace,hops", "--sequence", "all")
    done = run(*asked)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("DisPlace, ") == len(SEQUENCES.names()) - 1
    assert re.findall("^(DisPlace[^:]*): ridge", done.stdout, re.MULTILINE) == ["DisPlace"]


@pytest.mark.filterwarnings("ignore:places that follow each other")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--sequence single_frame,smoother,viterbi", "; sequence: smoother, viterbi"),
        ("--adapt none,batch", "; adapt: batch"),
        ("--sequence smoother --adapt batch", "; sequence: smoother; adapt: batch"),
        ("--sequence single_frame", ""),
    ],
)
def test_the_heading_names_sequences_and_adaptation(run, options, told):
    done = run("evaluate", "first.desc", "--query", "night", "--fusion", "hops", *options.split())
    assert done.exit_code == 0, done.output
    (heading,) = re.findall("night located in .*", done.stdout)
    assert heading.rstrip() == f"night located in sun, rain, dusk: exact place, each against all others{told}"


def test_one_reference_a_place_is_explained_once_and_results_say_where_they_are(run, folder):
    vectors = l2_normalize(np.random.default_rng(0).standard_normal((20, 12))).astype(np.float32)
    images = [f"{name}/{place}.jpg" for name in ("sun", "night") for place in range(10)]
    manifest = Manifest(
        images, [f"p{n % 10}" for n in range(20)], np.repeat(["sun", "night"], 10), folder / "images"
    )
    write_store(Queries(vectors, manifest.places, manifest), folder / "two.desc", "made")
    done = run("evaluate", "two.desc", "--query", "night", "--fusion", "displace", "-o", "kept")
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert (
        said.count("one reference a place, so that there is nothing to fuse and all fusions are plain") == 1
    )
    assert "no place has more than one reference" not in said
    assert "results in kept: displace report kept makes a page of them" in done.stdout
    alone = run("report", "kept", "-o", "alone.html", "--studies", "tau")
    assert alone.exit_code == 2
    assert "there is no projection to cut" in alone.stderr


def test_a_study_with_nothing_to_show_of_one_data_set_does_not_cost_the_page(run, folder):
    """Of two traversals one is the other's reference, and no projection is learned."""
    store = DescriptorStore(folder / "first.desc")
    some = np.isin(store.traversals, ["sun", "night"])
    write_store(
        Queries(store.vectors(some), store.places[some], store.manifest.select(some)),
        folder / "pair.desc",
        "made",
    )
    for name in ("first.desc", "pair.desc"):
        run("evaluate", name, "--query", "night", "--fusion", "hops,displace", "-o", "both")
    done = run("report", "both", "-o", "both.html", "--studies", "tau")
    assert done.exit_code == 0, done.output
    assert "left out: study tau of pair made: query night: plain retrieval" in done.stderr
    assert "1 stud" in done.stdout
    page = (folder / "both.html").read_text("utf-8")
    assert "On first and pair, DisPlace is the best multi-reference method" in page
    assert re.search(r"comparisons and level with the best other in [12]\. Beyond chance", page)


@pytest.mark.parametrize(("placed", "wider"), [(True, "25m"), (False, '"2 frames"')])
def test_evaluate_tells_of_a_sequence_that_is_judged_by_the_exact_place(run, folder, placed, wider, recwarn):
    """Unless the tolerance was asked for."""
    noise = np.random.default_rng(0).standard_normal((34, 12))
    seen = l2_normalize(sum(noise[shift : shift + 30] for shift in range(5)))  # a frame is like the next one
    vectors = np.concatenate([seen, seen]).astype(np.float32)
    number, names = np.tile(np.arange(30), 2), np.repeat(["sun", "night"], 30)
    numbers = {"frame": number, **({"easting": 10.0 * number, "northing": 0.0 * number} if placed else {})}
    images = [f"{name}/{place:04d}.jpg" for name, place in zip(names, number, strict=True)]
    manifest = Manifest(images, [f"p{place:04d}" for place in number], names, folder / "images", **numbers)
    store = f"drive{placed}.desc"
    write_store(Queries(vectors, manifest.places, manifest), folder / store, "made")
    hint = f"the next frame counts as wrong: --tolerance {wider} counts neighbours as right"
    asked = ("evaluate", store, "--query", "night", "--fusion", "hops")
    with pytest.warns(RouteWarning, match=hint):
        assert run(*asked).exit_code == 0
    recwarn.clear()
    assert run(*asked, "--tolerance", "exact", "--sequence", "filter").exit_code == 0
    assert run("evaluate", "first.desc", "--query", "night", "--fusion", "hops").exit_code == 0
    assert not recwarn
    with pytest.warns(RouteWarning, match="only that queries and places were listed in the same order"):
        # Webcams, one after the other: a recall of 100 says nothing about them.
        run("evaluate", "first.desc", "--query", "night", "--fusion", "hops", "--sequence", "filter")


@pytest.fixture
def sighted(folder):
    """A store lined up by sight: of the night's 30 frames four stand at a stop, and three are off the route."""
    rng = np.random.default_rng(5)
    seen = l2_normalize(rng.standard_normal((30, 12)))
    number = np.tile(np.arange(30.0), 2)
    number[40:44] = number[40]
    names = np.repeat(["sun", "night"], 30)
    vectors = seen[number.astype(int)].astype(np.float32)
    vectors[30:] += 1e-3  # another day
    places = np.array([f"{frame:02.0f}" for frame in number], dtype=object)
    places[41:44] = places[57:] = ""
    number[57:] = np.nan
    images = [f"{name}/{i:04d}.jpg" for i, name in enumerate(names)]
    numbers = {"frame": number, "alignment": np.where(np.isnan(number), np.nan, 1.0)}
    manifest = Manifest(images, places.tolist(), names, folder / "images", **numbers)
    write_store(Queries(vectors, manifest.places, manifest), folder / "sighted.desc", "made")
    yield "sighted.desc"
    shutil.rmtree(folder / "sighted.desc")


def test_frames_without_a_place_on_purpose_are_no_misses(run, sighted):
    asked = ("evaluate", sighted, "--query", "night", "--fusion", "hops")
    done = run(*asked, "-o", "seen")
    assert done.exit_code == 0, done.output
    assert (
        "night located in sun: ±2 frames, each against all others, frames off the route left out"
        in done.stdout
    )
    assert "27 queries; made" in done.stdout
    assert "night: 3 of 30 frames are left out, because they were not found along the route" in done.stderr
    assert json.loads(run(*asked, "--json").stdout)[0]["recalls"]["1"] == 100
    explicit = json.loads(run(*asked, "--tolerance", "exact", "--json").stdout)[0]
    assert (explicit["n_queries"], explicit["n_unanswerable"]) == (30, 6)
    assert run("report", "seen", "-o", "seen.html", "--studies", "cost", "--rounds", "1").exit_code == 0


def test_one_rule_for_places_found_by_sight(run, sighted):
    assert json.loads(run("advise", sighted, "--json").stdout)["protocol"] == "±2 frames"
    assert json.loads(run("inspect", sighted, "--json").stdout)["tolerance"] == "±2 frames"
    assert run("build", sighted, "-o", "sighted.displace", "--overwrite").exit_code == 0
    assert json.loads(run("inspect", "sighted.displace", "--json").stdout)["tolerance"] == "±2 frames"


def test_evaluate_json_is_right(run, folder):
    records = json.loads(
        run("evaluate", "first.desc", "--query", "night", "--fusion", "hops,bsf", "--json").stdout
    )
    assert [record["fusion"] for record in records] == ["bsf", "hops"]
    store = DescriptorStore(folder / "first.desc")
    rest = store.traversals != "night"
    hops = get_fusion("hops")().fit(store.vectors(rest), store.places[rest])
    expected = recall_at(hops.rank(store.vectors(~rest), 10), store.places[~rest])
    assert {int(k): v for k, v in records[1]["recalls"].items()} == pytest.approx(dict(expected))


def test_threads_are_limited_and_recorded(run):
    (record,) = json.loads(
        run("evaluate", "first.desc", "--query", "sun", "--fusion", "hops", "--threads", 1, "--json").stdout
    )
    assert record["versions"]["threads"] == "1"


def test_evaluate_each_traversal_in_turn_by_default(run):
    records = json.loads(run("evaluate", "first.desc", "--fusion", "hops", "--json").stdout)
    assert [record["query"] for record in records] == ["sun", "rain", "dusk", "night"]


def test_tolerances_and_protocols_make_a_difference_and_are_named(run):
    found = {}
    for option in (["--tolerance", "exact"], ["--tolerance", "2 frames"], ["--tolerance", "20m"]):
        (record,) = json.loads(
            run("evaluate", "first.desc", "--query", "night", "--fusion", "hops", *option, "--json").stdout
        )
        found[record["tolerance"]] = record["recalls"]["1"]
    assert list(found) == ["exact place", "±2 frames", "within 20 m"]
    assert found["exact place"] < found["±2 frames"] == found["within 20 m"]
    (record,) = json.loads(
        run(
            "evaluate",
            "first.desc",
            "--query",
            "night",
            "--fusion",
            "hops",
            "--protocol",
            "robotcar-2",
            "--json",
        ).stdout
    )
    assert (record["protocol"], record["dataset"]) == ("robotcar-2", "robotcar")
    assert record["recalls"]["1"] == found["±2 frames"]


def test_bench_then_tables(run, folder):
    done = run("bench", "mine.toml", "-o", "results", "--store", "second=other.desc")
    assert done.exit_code == 0, done.output
    assert "20 cells computed, 0 reused" in done.stderr
    assert "a made route\n" in done.stderr
    assert "Recall@1 on made (made-2: ±2 frames)" in done.stdout
    assert "DisPlace wins" in done.stdout
    again = run("bench", "mine.toml", "-o", "results", "--store", "second=other.desc")
    assert "0 cells computed, 20 reused" in again.stderr
    assert (folder / "results" / "suites" / "mine.toml").read_text("utf-8") == SUITE
    assert len(Results.open(folder / "results")) == 20
    assert "night" in run("table", "results").stdout
    for form, text in {
        "markdown": "| *single reference* |",
        "csv": "dataset,protocol",
        "latex": r"\toprule",
        "published": "nothing is published for the data set made",
    }.items():
        shown = run("table", "results", "--format", form)
        assert shown.exit_code == 0, shown.output
        assert text in shown.stdout
    assert "| HOPS |" in run("table", "results", "--format", "markdown", "-k", 5).stdout
    for name, form in {
        "t.tex": "latex",
        "t.CSV": "csv",
        "t.md": "markdown",
        "t": "markdown",
    }.items():
        for asked in ([], ["--format", form]):
            written = run("table", "results", *asked, "-o", name)
            assert written.exit_code == 0
            assert (folder / name).read_text("utf-8") == run("table", "results", "--format", form).stdout
    assert run("table", "results", "--format", "latex", "-o", "t.CSV").exit_code == 0
    assert (folder / "t.CSV").read_text("utf-8") == run("table", "results", "--format", "latex").stdout


def test_bench_names_the_stores_that_are_not_there(run):
    done = run("bench", "mine.toml", "-o", "partly")
    assert done.exit_code == 0
    assert "left out: second, as there is no descriptor store at elsewhere/second.desc" in done.stderr


def test_the_packages_suite_stands_in_for_a_file_that_is_not_there(run, folder):
    line = "there is no file suites/robotcar.toml: using the suite robotcar that comes with the package"
    names = ("sun", "dusk", "night", "overcast", "overcast2", "rain")
    make_store(folder / "robotcar_cosplace.desc", model="cosplace", traversals=names)
    done = run("bench", "suites/robotcar.toml", "-o", "stand_in/")
    assert done.exit_code == 0, done.output
    assert line in done.stderr.splitlines()
    assert "Recall@1 on robotcar (robotcar-5: ±5 frames)" in done.stdout
    # A file of that name comes first, and a name without a file needs no explanation.
    (folder / "suites").mkdir()
    (folder / "suites" / "robotcar.toml").write_text(SUITE.replace("first.desc", "../first.desc"))
    own = run("bench", "suites/robotcar.toml", "-o", "stand_in/")
    assert own.exit_code == 0, own.output
    assert "there is no file" not in own.stderr + run("bench", "robotcar", "-o", "stand_in").stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "first.desc", "--query", "nigth"], "did you mean 'night'"),
        (["evaluate", "first.desc", "--fusion", "hop"], "did you mean 'hops'"),
        (["evaluate", "first.desc", "--tolerance", "near"], "tolerance='near' must be 'exact'"),
        (["evaluate", "first.desc", "--tolerance", ""], "tolerance='' must be 'exact'"),
        (["evaluate", "first.desc", "--protocol", "robotcar-9"], "did you mean 'robotcar-"),
        (["evaluate", "first.desc", "--protocol", "robotcar-5", "--tolerance", "exact"], "not both"),
        (["evaluate", "nowhere.desc"], "nowhere.desc does not exist"),
        (["bench", "robotcra"], "did you mean 'robotcar'"),
        (["bench", "robotcar", "--root", "nowhere"], "finds none of its descriptor stores"),
        (["bench", "mine.toml", "--store", "first"], "must be MODEL=PATH"),
        (
            ["report", "mine.toml"],
            "mine.toml is a file, not a results folder; make some with: displace evaluate STORE -o results,",
        ),
        (["table", "nowhere"], "nowhere does not exist; make some with: displace evaluate STORE -o nowhere"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(run, arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "first.desc", "-o", "mine.toml"], "cannot write mine.toml"),
        (
            ["evaluate", "first.desc", "-o", "other.desc"],
            "other.desc is a descriptor store, results need a folder of",
        ),
        (["evaluate", "first.desc", "-o", "/proc/results"], "cannot write /proc/results"),
        (["table", "made", "-o", "first.desc"], "first.desc: it is a folder"),
        (["table", "made", "-o", "absent/t.md"], "absent/t.md: there is no folder"),
        (["table", "made", "-o", "pipe"], "pipe: it is no ordinary file"),
        (["report", "made", "-o", "first.desc"], "first.desc: it is a folder"),
        (["report", "made", "-o", "absent/r.html"], "absent/r.html: there is no folder"),
        (["report", "made", "--figures", "mine.toml"], "mine.toml: it is a file, and a folder is needed"),
        (
            ["report", "first.desc"],
            "first.desc is a descriptor store, not a results folder; make one with: displace",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_written_is_told_before_anything_is_computed(run, folder, arguments, message):
    if not (folder / "made").exists():
        run("evaluate", "first.desc", "--fusion", "hops", "--query", "night", "-o", "made")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.desc/**/*")}
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert "Traceback" not in done.output
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.desc/**/*")} == before


@pytest.mark.parametrize("verb", ["table", "report"])
def test_a_folder_that_is_read_only_is_told_before_anything_is_computed(run, folder, monkeypatch, verb):
    monkeypatch.setattr("displace.evaluation.results.Results.open", None)
    monkeypatch.setattr("displace.verbs.base.os.access", lambda *_: False)
    done = run(verb, "made", "-o", "kept.html")
    assert done.exit_code == 2, done.output
    assert "cannot write kept.html: no permission to write to ." in done.stderr


def test_studies_are_not_run_for_a_page_that_cannot_be_written(run, folder, monkeypatch):
    if not (folder / "made").exists():
        run("evaluate", "first.desc", "--fusion", "hops", "--query", "night", "-o", "made")
    monkeypatch.setattr("displace.evaluation.studies.running.run_studies", None)
    done = run("report", "made", "-o", "absent/r.html", "--studies", "tau")
    assert done.exit_code == 2, done.output
    assert "absent/r.html: there is no folder" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "first.desc", "--fusion", "hops", "--query", "night", "-o", "unmade"],
        ["table", "made", "-o", "t.md"],
        ["report", "made", "-o", "full.html"],
        ["report", "made", "-o", "figures.html", "--figures", "figures"],
    ],
    ids=" ".join,
)
def test_a_full_disk_is_one_message(run, folder, monkeypatch, arguments):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if not (folder / "made").exists():
        run("evaluate", "first.desc", "--fusion", "hops", "--query", "night", "-o", "made")
    monkeypatch.setattr("displace.files.atomic.secrets.token_hex", full)
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert "No space left on device" in done.stderr
    assert "cannot write" in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("verb", "name"),
    [(["table", "--format", form], "own.csv") for form in FORMATS] + [(["report"], "own.html")],
)
def test_a_file_of_the_user_is_not_replaced_and_ones_own_is(run, folder, verb, name):
    if not (folder / "made").exists():
        run("evaluate", "first.desc", "--fusion", "hops", "--query", "night", "-o", "made")
    (folder / name).write_text("image,place,traversal\n")
    refused = run(*verb, "made", "-o", name)
    assert refused.exit_code == 2
    assert f"{name} exists and is not a {verb[0]} written by displace" in refused.stderr
    assert (folder / name).read_text() == "image,place,traversal\n"
    (folder / name).unlink()
    for _ in range(2):
        done = run(*verb, "made", "-o", name)
        assert done.exit_code == 0, done.output


def test_the_report_repeats_the_command(run, folder):
    done = run("evaluate", "first.desc", "--tolerance", "2 frames", "--query", "night", "-o", "kept well")
    assert done.exit_code == 0, done.output
    assert "displace report 'kept well' makes a page of them" in done.stdout
    assert run("report", "kept well", "-o", "kept.html").exit_code == 0
    page = html.unescape((folder / "kept.html").read_text("utf-8"))
    assert "displace evaluate first.desc --query night --tolerance '2 frames' -o 'kept well'\n" in page
    assert "displace report 'kept well'/ -o report.html" in page
    assert "±2 frames, each against all others: ±2 frames" not in page


PLUGIN = '''
"""A fusion of another package: a place is its last reference."""

import numpy as np
from displace.arrays import l2_normalize
from displace.fusion.base import VectorFusion


class Latest(VectorFusion):
    """Each place is its last reference, scaled."""

    title = "Latest"

    def __init__(self, power=1.0):
        self.power = power

    def _fit(self, X, index, traversals):
        rows = np.empty(len(self.place_ids_), np.intp)
        rows[index] = np.arange(len(index))
        self.place_vectors_ = l2_normalize(np.sign(X[rows]) * np.abs(X[rows]) ** self.power)
'''


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A package outside of this one, installed as far as Python can tell."""
    (tmp_path / "their_package").mkdir()
    (tmp_path / "their_package" / "__init__.py").write_text(PLUGIN, encoding="utf-8")
    info = tmp_path / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[displace.fusion]\nlatest = their_package:Latest\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "latest"
    sys.modules.pop("their_package", None)


def test_a_fusion_of_another_package_is_evaluated(run, plugin, folder):
    records = json.loads(
        run("evaluate", "first.desc", "--query", "night", "--fusion", "all", "--json").stdout
    )
    by_name = {record["fusion"]: record for record in records}
    assert by_name.keys() == set(FUSIONS.names())
    assert (by_name["latest"]["label"], by_name["latest"]["group"]) == ("Latest", "descriptor")
    store = DescriptorStore(folder / "first.desc")
    # The last traversal that is not the query is dusk: what retrieval from it alone finds.
    dusk, night = (store.vectors(store.traversals == name) for name in ("dusk", "night"))
    expected = 100 * np.mean((night @ dusk.T).argmax(axis=1) == np.arange(30))
    assert by_name["latest"]["recalls"]["1"] == pytest.approx(expected)


def test_an_error_in_a_fusion_of_another_package_names_its_line(run, plugin, tmp_path):
    """Also where the error is raised further down, by a library."""
    faulty = PLUGIN.replace("np.abs(X[rows])", "np.median(X[rows], axis=7)")
    (tmp_path / "their_package" / "__init__.py").write_text(faulty, encoding="utf-8")
    done = run("evaluate", "first.desc", "--query", "night", "--fusion", "latest,hops")
    assert done.exit_code == 0, done.output
    line = next(number for number, text in enumerate(faulty.splitlines(), 1) if "axis=7" in text)
    assert f"dimension 2 (__init__.py, line {line})" in " ".join(done.output.split())


def test_a_fusion_of_another_package_is_a_row_of_a_suite(run, plugin, folder):
    extra = '\n[[methods]]\nfusion = "latest"\nlabel = "Theirs"\nparameters = { power = 0.5 }\n'
    (folder / "theirs.toml").write_text(SUITE + extra, encoding="utf-8")
    done = run("bench", "theirs.toml", "-o", "theirs")
    assert done.exit_code == 0, done.output
    assert "Theirs" in done.stdout
    (cell, *_) = Results.open(folder / "theirs").select(fusion="latest", query="night")
    assert cell.parameters == {"power": 0.5}
    (folder / "theirs.toml").write_text(SUITE + extra.replace("power", "pover"), encoding="utf-8")
    assert "did you mean 'power'" in run("bench", "theirs.toml", "-o", "theirs").stderr


@pytest.mark.parametrize(
    "asked",
    [("evaluate", "first.desc", "--query", "night", "--fusion", "latest,hops"), ("bench", "theirs.toml")],
    ids=["evaluate", "bench"],
)
def test_a_fusion_that_was_edited_is_computed_again(run, plugin, folder, tmp_path, asked):
    """And nothing else is; what was there is counted."""
    (folder / "theirs.toml").write_text(SUITE + '\n[[methods]]\nfusion = "latest"\n', encoding="utf-8")
    kept = f"edited-{asked[0]}"

    def found():
        done = run(*asked, "-o", kept)
        assert done.exit_code == 0, done.output
        cells = Results.open(folder / kept).select(fusion="latest", query="night")
        return done.stderr, max(cells, key=lambda cell: cell.used).recalls[1]

    first, before = found()
    again, same = found()
    n = len(Results.open(folder / kept))
    assert "reused" not in first.replace(", 0 reused", "")
    assert f"0 cells computed, {n} reused" in again
    assert same == before
    source = tmp_path / "their_package" / "__init__.py"
    source.write_text(PLUGIN.replace("l2_normalize(np.sign", "-l2_normalize(np.sign"), encoding="utf-8")
    sys.modules.pop("their_package")
    importlib.invalidate_caches()
    edited, after = found()
    new = len(Results.open(folder / kept)) - n
    assert f"{new} cells computed, {n - new} reused" in edited
    assert new > 0
    assert after < before


def test_a_sequence_method_that_was_edited_is_computed_again(monkeypatch):
    """Numbers of its earlier code stayed in the results."""

    class Theirs(SEQUENCES.get("seqslam")):
        """A sequence method of another package."""

        __module__ = "their_sequences"

    their = types.ModuleType("their_sequences")
    monkeypatch.setitem(sys.modules, "their_sequences", their)
    monkeypatch.setitem(SEQUENCES._found, "theirs", Theirs)
    text = {their: "before"}
    monkeypatch.setattr("inspect.getsource", text.__getitem__)
    before = Method("hops", sequence="theirs").source
    text[their] = "after"
    _source_digest.cache_clear()
    assert before != Method("hops", sequence="theirs").source != "" != before
    assert Method("hops", sequence="seqslam").source == ""
