"""The report: its numbers are those of the raw rankings, its pictures keep to the budget, it needs nothing else."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import shutil
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from report_results import generated_results, shipped_sped_results, town_results
from routes import make_store, make_suite
from typer.testing import CliRunner

from displace import verbs
from displace.cli import app
from displace.datasets.base import Protocol
from displace.datasets.robotcar import RobotCar
from displace.errors import FormatError, InputError, UnknownNameError, WriteError
from displace.evaluation.benchmark import COMMANDS, _keep_suite, run_suite
from displace.evaluation.methods import Method
from displace.evaluation.results import Results
from displace.evaluation.studies import running
from displace.evaluation.studies.study_files import KINDS
from displace.evaluation.suites import Suite
from displace.evaluation.tables import build_tables
from displace.report.html.blocks import read_blocks
from displace.report.html.environment import environment_html
from displace.report.html.explorer import collect, explorer_data, paths_of
from displace.report.html.findings import find
from displace.report.html.markup import thumbnail
from displace.report.html.plots import plot_overview
from displace.report.html.sections import duels_html, effort_html, lead
from displace.truth import Tolerance


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return town_results(tmp_path_factory)


@pytest.fixture(scope="module")
def blocks(results):
    return read_blocks(results, build_tables(results))


@pytest.fixture(scope="module")
def written(results):
    root = results.folder.parent
    done = verbs.report(
        results.folder,
        root / "report.html",
        studies="all",
        root=root,
        figures=root / "figures",
        formats=("svg",),
    )
    return done, done.path.read_text("utf-8")


class Rows(HTMLParser):
    """Text of the cells of every table row."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.cell = [], None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.cell = ""

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data

    def handle_endtag(self, tag):
        if tag in ("td", "th") and self.cell is not None:
            self.rows[-1].append(self.cell)
            self.cell = None


def raw_recalls(results):
    """R@1 by label and query, from the ranking files alone."""
    found = {}
    for path in sorted((results.folder / "cells").glob("*.npz")):
        record = json.loads(path.with_suffix(".json").read_text("utf-8"))
        with np.load(path) as arrays:
            found[record["label"], record["query"]] = 100 * arrays["correct"][:, 0].mean()
    return found


def test_the_table_is_that_of_the_rankings(results, written):
    recalls = raw_recalls(results)
    rows = Rows(written[1]).rows
    head = next(row for row in rows if row[:1] == ["hog"])
    assert head == ["hog", "night", "sun"]
    for label in ("HOPS", "Pooling", "dMat. Avg.", "DisPlace"):
        row = next(row for row in rows if row[0] == label)
        assert row[1:] == [f"{recalls[label, query]:.1f}" for query in ("night", "sun")]


def test_the_summary_names_the_best_other_method_and_its_numbers(results, written):
    recalls = raw_recalls(results)
    mean = {
        label: np.mean([recalls[label, query] for query in ("night", "sun")])
        for label in ("HOPS", "Pooling", "dMat. Avg.", "DisPlace")
    }
    best = max(("dMat. Avg.", "Pooling", "HOPS"), key=mean.get)
    text = unescape(re.search(r'<div class="finding">.*?</div>', written[1], re.DOTALL).group())
    assert f"DisPlace has a Recall@1 of {mean['DisPlace']:.1f} [" in text
    assert f"the best other multi-reference method, {best}, reaches {mean[best]:.1f} %" in text
    assert f"{mean['DisPlace'] - mean[best]:+.1f}".replace("-", "−") in text
    wins = sum(
        recalls["DisPlace", query] > max(recalls[label, query] for label in ("dMat. Avg.", "Pooling", "HOPS"))
        for query in ("night", "sun")
    )
    assert f"DisPlace wins {wins} of 2" in text
    assert "town-1: ±1 frames" in text


def test_what_was_impossible_is_said(written):
    assert "DisPlace (paper) was not possible" in written[1]
    assert "cells not possible, named below the tables: 2" in written[1]


def test_queries_are_counted_once_for_all_models(tmp_path):
    """They were counted for each model, and said to be asked of each method."""
    names = ("one", "two")
    stores = {name: make_store(tmp_path / f"{name}.desc", n_places=12, model=name).folder for name in names}
    run_suite(make_suite(stores, fusions=["hops"]), tmp_path / "results")
    page = verbs.report(tmp_path / "results", tmp_path / "report.html").path.read_text("utf-8")
    assert "2 cells, 12 queries asked of each method with each model; models:" in page


def test_rows_of_one_fusion_have_markers_of_their_own(tmp_path):
    store = make_store(tmp_path / "made.desc", n_places=12)
    methods = ("single_frame", "seqslam", "filter", "viterbi", "smoother")
    verbs.evaluate(
        store.folder,
        queries=["night"],
        fusion="hops",
        sequence=",".join(methods),
        output=tmp_path / "results",
    )
    found = Results.open(tmp_path / "results")
    traces = plot_overview(read_blocks(found, build_tables(found)))["data"]
    looks = {(trace["marker"]["symbol"], trace["marker"]["size"]) for trace in traces}
    assert len(looks) == len(traces) == len(methods)
    assert ("square", 9) in looks
    assert sum("open" in symbol for symbol, _ in looks) == len(methods) - 1


@pytest.mark.filterwarnings("ignore:places that follow each other")
def test_the_summary_is_of_queries_for_themselves_beside_drives(tmp_path):
    """The best of a dozen sequences of DisPlace was compared with the same sequence of the others."""
    store = make_store(tmp_path / "made.desc", n_places=30)
    cells = verbs.evaluate(
        store.folder, queries=["night"], fusion="hops,displace", sequence="all", output=tmp_path / "results"
    )
    assert cells[0].label == "HOPS"
    found = Results.open(tmp_path / "results")
    (block,) = read_blocks(found, build_tables(found))
    assert block.labels[block.own] == "DisPlace"
    assert [block.labels[at] for at in block.rivals] == ["HOPS"]
    page = verbs.report(tmp_path / "results", tmp_path / "report.html").path.read_text("utf-8")
    assert "DisPlace, " not in page[page.index("<h1>") : page.index('id="overview"')]


def test_protocols_of_one_data_set_are_told_apart(tmp_path):
    """Two rows and two entries of the list had the same name."""
    store = make_store(tmp_path / "made.desc")
    for tolerance in (Tolerance("exact"), Tolerance("frames", 2)):
        protocol = Protocol(f"made {tolerance}", tolerance)
        run_suite(make_suite({"made": store.folder}, protocol=protocol), tmp_path / "results")
    results = Results.open(tmp_path / "results")
    page = verbs.report(results.folder, tmp_path / "report.html").path.read_text("utf-8")
    names = [f"made · made · night · made {rule}" for rule in ("exact place", "±2 frames")]
    assert [row[0] for row in Rows(page).rows if row and row[0].startswith("made · ")] == names
    blocks = read_blocks(results, build_tables(results))
    assert [record["title"] for record in explorer_data(blocks, collect(blocks, 0))] == names


def test_one_protocol_with_two_tolerances_makes_two_tables_and_two_findings(tmp_path):
    """The summary of each table was the mean over the queries of both."""
    store = make_store(tmp_path / "made.desc")
    for tolerance in (Tolerance("exact"), Tolerance("frames", 2)):
        protocol = Protocol("mine", tolerance)
        run_suite(make_suite({"made": store.folder}, protocol=protocol), tmp_path / "results")
    results = Results.open(tmp_path / "results")
    tables = build_tables(results)
    blocks = read_blocks(results, tables)
    for finding in find(tables, blocks, results):
        (duel,) = finding.wins.duels
        assert (finding.mean.value, finding.other_mean.value) == (duel.value, duel.rival_value)
    page = verbs.report(results.folder, tmp_path / "report.html").path.read_text("utf-8")
    names = [f"made · made · night · mine: {rule}" for rule in ("exact place", "±2 frames")]
    assert [row[0] for row in Rows(page).rows if row and row[0].startswith("made · ")] == names
    assert page.count('data-plot="overview') == 2


def test_what_methods_cost_is_told_once_for_each_data_set_and_model(tmp_path):
    """Of two models under two protocols there were four tables, two of each name."""
    names = ("one", "two")
    stores = {name: make_store(tmp_path / f"{name}.desc", n_places=12, model=name).folder for name in names}
    for tolerance in (Tolerance("exact"), Tolerance("frames", 2)):
        protocol = Protocol(f"made {tolerance}", tolerance)
        run_suite(make_suite(stores, fusions=["hops"], protocol=protocol), tmp_path / "results")
    results = Results.open(tmp_path / "results")
    page = effort_html(read_blocks(results, build_tables(results)))
    assert page.count("<h3>") == len(names)


def test_figures_are_of_all_studies_that_the_page_shows(tmp_path):
    """The random projections of a suite were on the page, and not among the figures."""
    store = make_store(tmp_path / "made.desc")
    suite = make_suite({"made": store.folder}, dims=(4, 8), seeds=(0,))
    run_suite(suite, tmp_path / "results")
    done = verbs.report(
        tmp_path / "results", tmp_path / "r.html", figures=tmp_path / "figures", formats=["svg"]
    )
    (figure,) = (tmp_path / "figures").iterdir()
    assert (done.n_studies, figure.name) == (1, "compression-made-made_exact-made-night.svg")


def test_settings_are_told_with_the_random_projection_and_the_protocol(tmp_path):
    """Each projection had the same line as the others, and every single reference one that said its name twice."""
    store = make_store(tmp_path / "made.desc")
    methods = (Method("single", each_reference=True), Method("displace"), Method("hops"))
    for protocol in (Protocol("mine", Tolerance("exact")), Protocol("near", Tolerance("frames", 2))):
        suite = make_suite(
            {"made": store.folder}, methods=methods, protocol=protocol, dims=(4,), seeds=(0, 1)
        )
        run_suite(suite, tmp_path / "results")
    page = verbs.report(tmp_path / "results", tmp_path / "r.html").path.read_text("utf-8")
    settings = page.split("Settings of the methods")[1]
    rows = [row[:2] for row in Rows(settings.split("</table>")[0]).rows[1:]]
    expected = [
        f"made · made · night · {protocol}{projected}"
        for protocol in ("mine", "near")
        for projected in ("", " · 4-D, seed 0", " · 4-D, seed 1")
    ]
    assert sorted(rows) == sorted(["DisPlace", where] for where in expected)


def test_published_numbers_have_one_minus(tmp_path):
    store = make_store(tmp_path / "made.desc", n_places=300, dim=4)  # too few dimensions to find many
    suite = make_suite(
        {"cosplace": store.folder}, dataset="robotcar", protocol=RobotCar().protocol("robotcar-5")
    )
    run_suite(suite, tmp_path / "results")
    page = verbs.report(tmp_path / "results", tmp_path / "r.html").path.read_text("utf-8")
    (row,) = [row for row in Rows(page).rows if row and row[0] == "cosplace · night · HOPS"]
    measured, published, difference = row[1:]
    assert published == "30.8"
    assert difference == f"−{30.8 - float(measured):.1f}"


def test_the_page_needs_nothing_else(written):
    page = re.sub(r'<script type="text/plain" id="plotly">.*?</script>', "", written[1], flags=re.DOTALL)
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:|#)""", page)
    assert not re.search(r"https?://", page)
    assert page.count("<script") == 5


def test_all_studies_are_shown_and_kept(results, written):
    done, page = written
    assert done.n_studies == len(KINDS) == len(list((results.folder / "studies").glob("*.json")))
    plots = json.loads(re.search(r'id="plots">(.*?)</script>', page, re.DOTALL).group(1))
    assert set(re.findall(r'data-plot="(\w+)"', page)) == set(plots)
    assert len(plots) == 1 + 4  # the overview, and every study but the pictures
    assert len(list((results.folder.parent / "figures").glob("*.svg"))) == 5
    before = {path: path.stat().st_mtime_ns for path in (results.folder / "studies").iterdir()}
    verbs.report(results.folder, done.path, studies="all", root=results.folder.parent)
    assert {path: path.stat().st_mtime_ns for path in (results.folder / "studies").iterdir()} == before


def test_environment_says_what_was_used(results, written):
    page = unescape(written[1])
    record = next(iter(results)).versions
    assert all(version in page for version in record.values())
    assert next(iter(results)).store["content"] in page
    assert 'queries = ["night", "sun"]' in page
    assert re.search(r"displace bench \S*small.toml .*-o \S*results$", page, re.MULTILINE)


def numbers(text, kind):
    return np.frombuffer(base64.b64decode(text), kind)


def test_explorer_columns_are_the_rankings(results, blocks):
    data = explorer_data(blocks, collect(blocks, 10**7))
    assert [record["title"] for record in data] == ["town · hog · night", "town · hog · sun"]
    for record in data:
        query = record["title"].rpartition(" ")[2]
        labels = [method["label"] for method in record["methods"]]
        assert labels[record["own"]] == "DisPlace"
        n = len(record["names"])
        found = numbers(record["found"], "<u4").reshape(len(labels), n)
        right = numbers(record["right"], "u1").reshape(len(labels), n)
        for result in results.select(query=query, ok=True):
            at = labels.index(result.label)
            ranking, asked = results.ranking(result), results.questions(result)
            expected = asked.place_ids[ranking.places[:, 0]].tolist()
            assert [record["places"][place] for place in found[at]] == expected
            np.testing.assert_array_equal(right[at], ranking.correct[:, 0])
        others = {
            m["label"]: r.mean()
            for m, r in zip(record["methods"], right, strict=True)
            if m["group"] != "single"
        }
        others.pop("DisPlace")
        assert others[labels[record["rival"]]] == max(others.values())


def test_pictures_keep_to_the_budget_and_are_the_same_each_time(blocks):
    whole = collect(blocks, 10**8)
    assert whole.n_queries == 48
    assert whole.n_bytes == sum(map(len, whole.pictures))
    budget = whole.n_bytes // 4
    part, again = collect(blocks, budget), collect(blocks, budget)
    assert part.pictures == again.pictures
    assert 0.7 * budget < part.n_bytes <= budget
    assert 0 < part.n_queries < 48
    assert collect(blocks, 0).pictures == []


def test_queries_whose_files_are_not_found_do_not_count_as_pictured(blocks, tmp_path):
    """A page of two data sets, one without its images, said that all queries had all of their pictures."""
    seen = []
    lost = dataclasses.replace(blocks[1], root=tmp_path)
    assert collect([blocks[0], lost], 10**8, lambda *told: seen.append(told)).n_queries == 24
    assert [done for _, done, _ in seen] == list(range(1, 49))


def test_queries_on_which_methods_differ_come_first(blocks):
    block = blocks[0]
    hits = np.stack([ranking.correct[:, 0] for ranking in block.rankings])
    differ = [row for row in range(24) if 0 < hits[:, row].sum() < len(hits)]
    assert 0 < len(differ) < 24
    size = sum(len(thumbnail(path)) for path in {path for row in differ for path in paths_of(block, row)})
    album = collect([block], size)
    assert all(album.number(path) >= 0 for row in differ for path in paths_of(block, row))
    assert album.n_queries < 24


def test_large_results_are_thinned_evenly(tmp_path, monkeypatch):
    results = generated_results(tmp_path, 600)
    blocks = read_blocks(results, build_tables(results))
    monkeypatch.setattr("displace.report.html.explorer.MAX_ENTRIES", 300)
    (record,) = explorer_data(blocks, collect(blocks, 0))
    rows = numbers(record["rows"], "<u4")
    assert (len(rows), record["total"]) == (100, 600)
    assert np.diff(rows).max() <= 8
    assert len(numbers(record["found"], "<u4")) == 300


def test_missing_pictures_do_not_stop_it(tmp_path):
    results = generated_results(tmp_path / "results", 30)
    done = verbs.report(results.folder, tmp_path / "report.html")
    assert done.n_pictures == 0
    assert "the image files were not found" in done.path.read_text("utf-8")


def test_names_cannot_break_the_page(tmp_path):
    evil = "</script><img src=x>"
    results = generated_results(tmp_path / "results", 20, ("HOPS", "DisPlace", evil), names=evil + "{}.jpg")
    page = verbs.report(results.folder, tmp_path / "report.html").path.read_text("utf-8")
    assert evil not in page
    assert "&lt;/script&gt;&lt;img src=x&gt;" in page
    data = json.loads(re.search(r'id="explorer-data">(.*?)</script>', page, re.DOTALL).group(1))
    assert data[0]["names"][7] == f"{evil}7.jpg"
    # plotly reads names as HTML: "K <3 & γ> 1" lost what is between the signs.
    last = plot_overview(read_blocks(results, build_tables(results)))["data"][-1]
    assert last["name"] == "&lt;/script&gt;&lt;img src=x&gt;"
    assert last["text"] == ["night, &lt;/script&gt;&lt;img src=x&gt;"]


def test_without_displace_the_best_method_is_compared(tmp_path):
    results = generated_results(tmp_path / "results", 200, ("HOPS", "Pooling"))
    page = verbs.report(results.folder, tmp_path / "report.html").path.read_text("utf-8")
    assert re.search(
        r"Pooling finds <b>[\d.]+ %</b>, the best other method, HOPS, [\d.]+ %: Pooling is (ahead|behind)",
        page,
    )


def test_where_it_does_worst_is_said_to_be_a_comparison(written):
    """A recall of 98 was called the worst beside one of 85."""
    assert re.search(r"Compared with the best of the others it does worst on \w+: [\d.]+ against", written[1])


def test_the_lead_counts_in_two_short_sentences(written):
    assert re.search(
        r"On town, DisPlace is the best multi-reference method in <b>[0-2] of 2</b> comparisons\. "
        r"Beyond chance, DisPlace is ahead in [0-2] and behind in [0-2] of them\.",
        written[1],
    )


def test_long_names_of_traversals_are_all_shown(blocks):
    """Of twelve recordings named by their dates, plotly left out the names of the last three."""
    axis = plot_overview(blocks)["layout"]["xaxis"]
    assert axis["ticktext"] == [block.first.query for block in blocks]
    assert axis["ticklabeloverflow"] == "allow"


def test_a_method_under_another_name_in_each_table_has_the_name_of_each(results):
    """Wins of "DisPlace" on one data set were counted as those of "DisPlace, τ = 1" on another."""
    tables = build_tables(results)[:1]
    (finding,) = find(tables, read_blocks(results, tables), results)
    other = dataclasses.replace(finding, label="DisPlace, τ = 1")
    said = lead([other, finding], 9)
    assert "On town, DisPlace, τ = 1 or DisPlace is the best multi-reference method in" in said
    shown = duels_html([other, finding])
    assert "DisPlace, τ = 1 or DisPlace against the best other" in shown
    assert "it is</th>" in shown
    n = len(finding.wins.duels)
    assert shown.count("<small>DisPlace, τ = 1</small>") == shown.count("<small>DisPlace</small>") == n


def test_the_truth_that_is_shown_is_the_querys_own_place(results):
    """Under a tolerance of one frame the first query has two correct places; the second one used to be shown."""
    asked = results.questions(next(iter(results)))
    assert asked.correct_places.of(0).tolist() == [0, 1]
    assert [asked.truth_of(row) for row in range(len(asked))] == list(range(len(asked)))
    unknown = dataclasses.replace(asked, query_places=np.full(len(asked), ""))
    assert [unknown.truth_of(row) for row in (0, 5)] == [1, 5]


def test_a_store_is_not_taken_for_results(results, tmp_path):
    store = results.folder.parent / "town_hog.desc"
    with pytest.raises(
        InputError, match=r"is a descriptor store.* displace evaluate .*town_hog\.desc -o results"
    ):
        Results.open(store)
    with pytest.raises(InputError, match="results need a folder of their own"):
        Results(store).prepare()
    assert not (store / "cells").exists()
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match=r"cannot write .*cells: .*Not a directory"):
        Results(tmp_path / "file").prepare()


def test_commands_without_a_suite_are_repeated_too(tmp_path):
    results = generated_results(tmp_path / "results", 20)
    (results.folder / "suites").mkdir(exist_ok=True)
    (results.folder / "suites" / "commands.txt").write_text("displace evaluate route.desc -o results\n")
    assert "displace evaluate route.desc -o results" in environment_html(list(results), results.folder)


def test_the_commands_of_a_page_have_the_options_that_were_given(tmp_path, monkeypatch):
    """Where the descriptors were, and which studies of which query, is part of repeating it."""
    monkeypatch.chdir(tmp_path)
    make_store(tmp_path / "elsewhere" / "made.desc", n_places=12, dim=8)
    Path("mine.toml").write_text(
        'dataset = "walk"\nprotocol = { name = "walk", tolerance = "exact" }\nqueries = ["sun", "night"]\n'
        '[stores]\nmade = "made.desc"\n[[methods]]\nfusion = "hops"\n[[methods]]\nfusion = "displace"\n',
        encoding="utf-8",
    )
    verbs.bench("mine.toml", "out", root="elsewhere")
    verbs.bench("mine.toml", "out", stores={"other": "elsewhere/made.desc", "made": "elsewhere/made.desc"})
    page = unescape(
        verbs.report("out", "page.html", studies="tau,space", query="night").path.read_text("utf-8")
    )
    commands = re.search(r"<pre>(displace bench .*?)</pre>", page, re.DOTALL).group(1).splitlines()
    assert commands == [
        "displace bench mine.toml --root elsewhere -o out",
        "displace bench mine.toml --store other=elsewhere/made.desc --store made=elsewhere/made.desc -o out",
        "displace table out/",
        "displace report out/ -o report.html --studies tau,space --query night",
    ]


def test_one_method_alone_is_reported_too(tmp_path):
    results = generated_results(tmp_path / "results", 50, ("HOPS",))
    page = verbs.report(results.folder, tmp_path / "report.html").path.read_text("utf-8")
    assert "no two multi-reference methods" in page


def test_refusals_name_the_way_out(results, tmp_path):
    with pytest.raises(InputError, match="displace bench"):
        verbs.report(tmp_path, tmp_path / "report.html")
    with pytest.raises(InputError, match=r"there is no folder .*; create it, or choose another name with -o"):
        verbs.report(results.folder, tmp_path / "absent" / "report.html")
    with pytest.raises(InputError, match=r"megabytes=-1 must be at least 0"):
        verbs.report(results.folder, tmp_path / "report.html", megabytes=-1)
    with pytest.raises(UnknownNameError, match="did you mean 'cost'"):
        verbs.report(results.folder, tmp_path / "report.html", studies="costs")
    with pytest.raises(InputError, match="formats='jpg' must be one of pdf, png, svg"):
        verbs.report(results.folder, tmp_path / "report.html", studies="tau", formats=["png", "jpg"])
    with pytest.raises(UnknownNameError, match="unknown query 'nihgt'"):
        verbs.report(results.folder, tmp_path / "report.html", studies="tau", query="nihgt")
    generated = generated_results(tmp_path / "results", 20)
    with pytest.raises(InputError, match="--root FOLDER"):
        verbs.report(generated.folder, tmp_path / "report.html", studies="tau")


def test_what_is_asked_of_studies_reaches_them(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(running, "run_studies", lambda *_, options, **__: asked.append(options))
    folder = str(generated_results(tmp_path / "results", 20).folder)
    given = ["--rounds", "100", "--number", "7", "--number", "3", "--cases", "--after-fusion"]
    done = CliRunner().invoke(
        app, ["report", folder, "-o", str(tmp_path / "r.html"), "--studies", "cost", *given]
    )
    assert done.exit_code == 0, done.output
    assert asked == [running.StudyOptions(after_fusion=True, numbers=(7, 3), cases=True, rounds=100)]


def test_the_verb_writes_and_says_what(results, tmp_path):
    done = CliRunner().invoke(
        app,
        [
            "report",
            str(results.folder),
            "-o",
            str(tmp_path / "r.html"),
            "--megabytes",
            "0.1",
            "--title",
            "A <b>",
        ],
    )
    assert done.exit_code == 0, done.output
    assert f"{len(list((results.folder / 'cells').glob('*.json')))} cells" in done.output
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "<h1>A &lt;b&gt;</h1>" in page


def test_sped400_from_images_to_report(shared, tmp_path):
    if not (shared / "data" / "sped400").is_dir():
        pytest.skip("no sped400 in the shared data")
    results = shipped_sped_results(shared, tmp_path)
    done = verbs.report(results.folder, tmp_path / "report.html", studies="tau,qualitative", root=tmp_path)
    # Three single references and nine fusions, as they are and under six random projections, which are a study too.
    assert (done.n_studies, done.n_results) == (3, (1 + 6) * (3 + 9))
    assert done.n_pictures == 80  # 40 queries, 40 places
    recalls = raw_recalls(results)
    row = next(row for row in Rows(done.path.read_text("utf-8")).rows if row[0] == "DisPlace")
    assert row[1:] == [f"{recalls['DisPlace', 'query']:.1f}"]


def test_a_suite_or_commands_that_are_no_text_are_named(tmp_path):
    results = Results.open(shutil.copytree(Path(__file__).parent / "golden" / "results_v1", tmp_path / "r"))
    (tmp_path / "r" / "suites").mkdir()
    for name in ("own.toml", COMMANDS):
        path = tmp_path / "r" / "suites" / name
        path.write_bytes(b"\xff\xfe")
        with pytest.raises(FormatError, match=f"{name} is not a .*UTF-8"):
            environment_html(list(results), results.folder)
        path.unlink()
    path.write_bytes(b"\xff\xfe")
    suite = dataclasses.replace(Suite.read("town"), text="", command="displace evaluate")
    with pytest.raises(FormatError, match=f"{COMMANDS} is not a .*UTF-8"):
        _keep_suite(suite, results.folder)
