"""Tables from results: the numbers against the raw rankings, marks, formats, comparison with the published."""

from __future__ import annotations

import csv
import dataclasses
import io
import re

import numpy as np
import pytest
from routes import make_store, make_suite

from displace.bootstrap import Estimate, paired_bootstrap
from displace.errors import InputError
from displace.evaluation.benchmark import run_suite
from displace.evaluation.methods import Method
from displace.evaluation.published import compare
from displace.evaluation.record import Result
from displace.evaluation.results import Results
from displace.evaluation.studies.compression import compressions_of
from displace.evaluation.studies.task import PAPER
from displace.evaluation.table_formats import FORMATS, to_csv
from displace.evaluation.tables import BOLD, UNDERLINE, Column, build_tables
from displace.evaluation.wins import Duel, Wins, all_wins, count_wins
from displace.report.html.blocks import read_blocks
from displace.report.html.findings import find, signed
from displace.report.html.plots import plot_overview
from displace.truth import Tolerance

METHODS = (
    Method("single", each_reference=True),
    Method("dmat_avg"),
    Method("hops"),
    Method("displace", {"ridge": 0.0, "center": False}, "DisPlace (paper)"),
    Method("displace"),
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two models, two queries; the second model is too wide for the paper's setting."""
    folder = tmp_path_factory.mktemp("route")
    stores = {
        "narrow": make_store(folder / "narrow.desc", n_places=40, dim=10).folder,
        "wide": make_store(folder / "wide.desc", n_places=40, dim=100, seed=1).folder,
    }
    suite = make_suite(stores, methods=METHODS, queries=("night", "sun"), dims=(6,), seeds=(0, 1, 2))
    run_suite(suite, folder / "results")
    return Results.open(folder / "results")


def recomputed(results, result, k):
    """Recall from the ranking's place indices and the truth, without the flags and without the package's code."""
    ranking, asked = results.ranking(result), results.questions(result)
    hits = [
        bool(set(row[:k]) & set(asked.truth[asked.truth_starts[i] : asked.truth_starts[i + 1]].tolist()))
        for i, row in enumerate(ranking.places.tolist())
    ]
    return 100 * sum(hits) / len(hits)


@pytest.mark.parametrize("k", [1, 5, 10])
def test_a_table_is_what_the_raw_rankings_give(results, k):
    plain, projected = sorted(build_tables(results, k), key=lambda table: table.projection or 0)
    assert (plain.projection, projected.projection) == (None, 6)
    n = 0
    for table in (plain, projected):
        for row in table.rows:
            for column in table.columns:
                cells = list(
                    results.select(
                        model=column.model,
                        query=column.query,
                        label=row.label,
                        projection=table.projection,
                        ok=True,
                    )
                )
                if cells:
                    values = [recomputed(results, cell, k) for cell in cells]
                    assert row.value(column) == pytest.approx(np.mean(values))
                    deviation = row.entries[column].deviation
                    assert deviation == (None if len(values) == 1 else pytest.approx(np.std(values, ddof=1)))
                    n += 1
    assert (
        n == 2 * 2 * (3 + 4) * 2 - 2
    )  # models, queries, methods, projections; the paper's setting twice impossible


def test_rows_and_columns_are_in_the_suites_order(results):
    table = build_tables(results)[0]
    assert table.columns == [Column(m, q) for m in ("narrow", "wide") for q in ("night", "sun")]
    labels = [row.label for row in table.rows]
    assert sorted(labels[:4]) == ["dusk", "night", "rain", "sun"]
    assert labels[4:] == ["dMat. Avg.", "HOPS", "DisPlace (paper)", "DisPlace"]
    assert table.row("sun").value(Column("narrow", "sun")) is None
    assert "made-exact: exact place" in table.title


def test_models_that_were_run_one_by_one_keep_their_own_columns(tmp_path):
    """Each run counts its models from 0: LaTeX put the numbers of one model below the name of the other."""
    for seed, model in enumerate(("second", "first")):
        store = make_store(tmp_path / f"{model}.desc", seed=seed)
        run_suite(make_suite({model: store.folder}, queries=("night", "sun")), tmp_path / "results")
    (table,) = build_tables(Results.open(tmp_path / "results"))
    assert table.columns == [Column(m, q) for m in ("second", "first") for q in ("night", "sun")]
    head = FORMATS["latex"](table).splitlines()[3:5]
    assert head[0].count("night") == head[0].count("sun") == 2
    assert r"\multicolumn{2}{c}{second} & \multicolumn{2}{c}{first}" in head[1]
    hops = [f"{table.row('HOPS').value(column):.1f}" for column in table.columns]
    (line,) = (line for line in FORMATS["latex"](table).splitlines() if line.startswith("HOPS"))
    assert re.findall(r"\d+\.\d", line) == hops


def test_a_run_of_a_part_leaves_rows_and_columns_where_they_were(tmp_path):
    store = make_store(tmp_path / "made.desc")
    stores, results = {"made": store.folder}, tmp_path / "results"
    run_suite(make_suite(stores, fusions=("hops", "pooling"), queries=("rain", "sun", "night")), results)
    run_suite(make_suite(stores, fusions=("displace", "hops"), queries=("night",)), results)
    (table,) = build_tables(Results.open(results))
    assert table.queries == ["rain", "sun", "night"]
    assert [row.label for row in table.rows] == ["HOPS", "Pooling", "DisPlace"]


def test_marks_show_the_best_single_and_the_best_other(results):
    table = build_tables(results)[0]
    for column in table.columns:
        values = {row.label: row.value(column) for row in table.rows if row.value(column) is not None}
        single = {row.label for row in table.rows if row.group == "single"} & set(values)
        shown = {label: f"{value:.1f}" for label, value in values.items()}
        best = max(single, key=values.get)
        top = max(set(values) - single, key=values.get)
        expected = {label: UNDERLINE for label in single if shown[label] == shown[best]}
        expected |= {label: BOLD for label in set(values) - single if shown[label] == shown[top]}
        assert table.marks(column) == expected


def test_a_single_reference_that_is_ahead_of_all_takes_nothing_from_the_others():
    column = Column("cosplace", "night")
    single = dataclasses.replace(made_up("sun", "single", "cosplace", "night", 95.0), group="single")
    cells = [
        made_up("HOPS", "hops", "cosplace", "night", 90.0),
        made_up("DisPlace", "displace", "cosplace", "night", 92.0),
    ]
    (table,) = build_tables([single, *cells])
    assert table.marks(column) == {"sun": UNDERLINE, "DisPlace": BOLD}


def test_impossible_cells_are_shown_with_the_reason(results):
    table = build_tables(results)[0]
    assert table.row("DisPlace (paper)").entries[Column("wide", "night")].text == "n/p"
    (note,) = table.notes
    assert note.startswith(
        "n/p: DisPlace (paper) was not possible on wide night, wide sun: the within-place scatter"
    )


def test_notes_are_in_the_suites_order():
    cells = [
        made_up("HOPS", "hops", "cosplace", query, 0.0, error="why", order=[0, at, 0], created=f"{9 - at}")
        for at, query in enumerate(("dusk", "night", "rain"))
    ]
    (note,) = build_tables(cells)[0].notes
    assert note == "n/p: HOPS was not possible on cosplace dusk, cosplace night, cosplace rain: why"


def test_methods_that_lack_the_same_are_named_together():
    cells = [
        made_up(label, "bsf", "cosplace", query, 0.0, error=why)
        for query in ("dusk", "night")
        for label, why in (
            ("BSF, adapted", "no rows"),
            ("HOPS, adapted", "few"),
            ("dMat. Min., adapted", "no rows"),
        )
    ]
    assert sorted(build_tables(cells)[0].notes) == [
        "n/p: BSF, adapted; dMat. Min., adapted were not possible on cosplace dusk, cosplace night: no rows",
        "n/p: HOPS, adapted was not possible on cosplace dusk, cosplace night: few",
    ]


def test_queries_without_an_answer_are_noted(tmp_path):
    store = make_store(tmp_path / "made.desc")
    places = store.manifest.places.copy()
    places[(store.traversals == "night") & (np.arange(len(places)) % 30 < 3)] = "elsewhere"
    from displace.descriptors.store_writing import relabel
    from displace.manifest.table import Manifest

    relabel(store.folder, Manifest(store.images, places, store.traversals, store.manifest.root))
    run_suite(make_suite({"made": store.folder}), tmp_path / "results")
    (table,) = build_tables(Results.open(tmp_path / "results"))
    assert table.notes == ["night: 3 of 30 queries have no correct place in the map and count as misses"]
    assert all(row.value(table.columns[0]) <= 90 for row in table.rows)


def test_wins_have_paired_intervals(results):
    table = build_tables(results)[0]
    wins = count_wins(table, "DisPlace", results)
    duel = wins.duels[0]
    cells = results.select(model="narrow", query="night", projection=None)
    hits = {
        label: results.ranking(next(iter(cells.select(label=label)))).correct[:, 0]
        for label in ("DisPlace", duel.rival)
    }
    assert duel.rival in ("HOPS", "dMat. Avg.")
    assert duel.difference == paired_bootstrap(hits["DisPlace"], hits[duel.rival])
    assert duel.difference.value == pytest.approx(duel.value - duel.rival_value)
    assert wins.n_won == sum(float(f"{d.value:.1f}") > float(f"{d.rival_value:.1f}") for d in wins.duels)
    assert "of 4 against the best multi-reference method, compared as printed; beyond its" in str(wins)
    impossible = count_wins(table, "DisPlace (paper)", results)
    assert len(impossible.duels) == 2
    assert [(w.label, "single" in w.rivals) for w in all_wins(table)] == [
        (label, single) for label in ("DisPlace (paper)", "DisPlace") for single in (False, True)
    ]


def test_intervals_of_drives_are_of_blocks_of_neighbours(tmp_path):
    """A method misses a stretch of the drive: the frames tell that it is one."""
    store = make_store(tmp_path / "made.desc", n_places=120, dim=16)
    suite = make_suite({"made": store.folder}, tolerance=Tolerance("frames", 0))
    results = run_suite(suite, tmp_path / "results").results
    (table,) = build_tables(results)
    (rival,) = results.select(label="HOPS")
    np.testing.assert_array_equal(results.questions(rival).order, np.arange(120))
    for cell in results:
        ranking = results.ranking(cell)
        ranking.correct[:, 0] = (np.arange(120) // 40 != 1) | (cell.label == "DisPlace")
        results.add(cell, ranking)
    wins = count_wins(table, "DisPlace", results)
    difference = wins.duels[0].difference
    assert difference.block > 5
    assert f"95 % interval (bootstrap of blocks of {difference.block} neighbouring queries)" in str(wins)
    (finding,) = find([table], read_blocks(results, [table]), results)
    assert finding.difference == difference
    assert finding.other_mean.block > 1
    (trace,) = (t for t in plot_overview(read_blocks(results, [table]))["data"] if t["name"] == "HOPS")
    assert "neighbouring queries" in trace["customdata"][0][2]


def test_methods_that_were_not_asked_the_same_have_no_interval(results):
    """Another seed, or other questions: the hits of one query cannot be set against those of another."""
    cells = list(results.select(model="narrow", query="night", projection=None))
    for change in ({"seed": 7}, {"questions": "others"}):
        other = [dataclasses.replace(cell, **change) if cell.fusion == "displace" else cell for cell in cells]
        (table,) = build_tables(other)
        wins = count_wins(table, "DisPlace", results)
        assert [duel.difference for duel in wins.duels] == [None]
        assert "interval" not in str(wins)
        (table,) = build_tables(cells)
        assert count_wins(table, "DisPlace", results).duels[0].difference is not None


def test_numbers_that_are_printed_alike_are_equal():
    """As in the paper, whose numbers have one decimal; the interval still says which way the queries lean."""
    column = Column("cosplace", "night")
    cells = [
        made_up("HOPS", "hops", "cosplace", "night", 90.96),
        made_up("Pooling", "pooling", "cosplace", "night", 90.94),
        made_up("DisPlace", "displace", "cosplace", "night", 91.04),
    ]
    (table,) = build_tables(cells)
    assert table.marks(column) == {"HOPS": BOLD, "DisPlace": BOLD, "Pooling": UNDERLINE}
    assert count_wins(table, "DisPlace").n_won == 0
    better = dataclasses.replace(cells[2], recalls={1: 91.06})
    (table,) = build_tables([*cells[:2], better])
    assert table.marks(column) == {"DisPlace": BOLD, "HOPS": UNDERLINE}
    assert count_wins(table, "DisPlace").n_won == 1
    close = Duel(column, 91.04, "HOPS", 90.96, Estimate(0.08, 0.02, 0.14))
    assert (close.won, close.ahead, close.behind) == (False, True, False)
    assert (
        "wins 0 of 1 against it, compared as printed; beyond its 95 % interval (bootstrap of queries): 1 ahead"
        in str(Wins("DisPlace", "it", [close]))
    )


def test_a_fusion_from_elsewhere_is_counted_as_displace_is():
    cells = [
        made_up("HOPS", "hops", "cosplace", "night", 70.0),
        made_up("Ours", "ours", "cosplace", "night", 90.0),
        made_up("DisPlace", "displace", "cosplace", "night", 80.0),
    ]
    (table,) = build_tables(cells)
    counted = {wins.label: (wins.n_won, wins.duels[0].rival) for wins in all_wins(table)}
    assert counted == {"Ours": (1, "DisPlace"), "DisPlace": (0, "Ours")}


def test_one_reference_a_place_is_told_of():
    """Ten equal numbers stood there without a word."""
    cells = [
        made_up("HOPS", "hops", "cosplace", "night", 70.0, n_places=30, n_references=30),
        made_up("HOPS", "hops", "cosplace", "rain", 71.0, n_places=30, n_references=31),
    ]
    (table,) = build_tables(cells)
    assert table.notes == [
        "night: one reference a place, so that there is nothing to fuse and all fusions are plain retrieval"
    ]


def test_differences_of_nothing_have_no_minus():
    """Of 27,592 queries one is 0.004 points."""
    cell = made_up("HOPS", "hops", "cosplace", "night", 0.0)
    published = compare(build_tables([cell])[0]).rows[0].published
    below = dataclasses.replace(cell, recalls={1: published - 0.004})
    assert re.search(r"\| ([\d.]+) \| \1 \| \+0\.0 \|", FORMATS["published"](build_tables([below])[0]))
    assert str(Estimate(-0.004, -0.012, 0.004)) == "0.0 [0.0, 0.0]"
    assert signed(Estimate(-0.004, -0.12, 0.004)) == "+0.0 [−0.1, +0.0]"


def test_projected_tables_show_mean_and_deviation_and_pair_by_seed(results):
    table = build_tables(results)[1]
    assert "randomly projected to 6 dimensions" in table.title
    assert " ± " in table.row("HOPS").entries[Column("narrow", "night")].text
    duel = count_wins(table, "DisPlace", results).duels[0]
    assert duel.difference.value == pytest.approx(duel.value - duel.rival_value)


def test_markdown_has_every_number_marked(results):
    table = build_tables(results)[0]
    text = FORMATS["markdown"](table)
    best = table.row("DisPlace").entries[Column("narrow", "night")].text
    assert "| narrow | night | sun |" in text
    assert "| *single reference* |  |  |" in text
    assert f"**{best}**" in text
    assert "<u>" in text
    assert "| sun | " in text
    rows = [line for line in text.splitlines() if line.startswith("| DisPlace |")]
    assert len(rows) == 2
    assert all(row.count("|") == 4 for row in rows)


def test_csv_has_a_line_for_each_cell(results):
    lines = list(csv.DictReader(io.StringIO(FORMATS["csv"](build_tables(results)[0]))))
    assert len(lines) == 2 * 2 * 7
    line = next(x for x in lines if (x["method"], x["model"], x["query"]) == ("HOPS", "wide", "sun"))
    cell = next(iter(results.select(label="HOPS", model="wide", query="sun", projection=None)))
    assert float(line["recall_at_5"]) == cell.recalls[5]
    assert (line["protocol"], int(line["bytes"])) == ("made-exact", cell.n_bytes)
    assert sum("singular" in x["error"] for x in lines) == 2


def test_csv_of_several_tables_has_one_head_with_the_recalls_of_each(results):
    one, other = build_tables(results), build_tables(results)
    entry = one[0].rows[0].entries[one[0].columns[0]]
    entry.results[0].recalls[20] = 99.0
    text = to_csv(one[0], other[0])
    lines = list(csv.DictReader(io.StringIO(text)))
    assert len(lines) == 2 * 2 * 2 * 7
    assert text.count("dataset,") == 1
    assert text.split("\n")[0].endswith("error,recall_at_20")
    assert [line["recall_at_20"] for line in lines].count("99.0") >= 1
    assert {line["recall_at_20"] for line in lines} == {"99.0", ""}
    del entry.results[0].recalls[20]


def test_latex_is_a_booktabs_table(results):
    text = FORMATS["latex"](build_tables(results)[0])
    assert text.count(r"\begin{tabular}{lcc|cc}") == 1
    for part in (r"\toprule", r"\bottomrule", r"\multicolumn{2}{c}{narrow}", r"\textbf{", r"\underline{"):
        assert part in text
    body = [
        line
        for line in text.splitlines()
        if line.endswith(r"\\") and "emph" not in line and "multicolumn" not in line
    ]
    assert all(line.count("&") == 4 for line in body)
    assert len(body) == 1 + 4 + 4
    assert text.count(r"\midrule") == 3


def made_up(label, fusion, model, query, value, **changes):
    parameters = changes.pop("parameters", {})
    return Result(
        cell=f"{label}{model}{query}", dataset="robotcar", protocol="robotcar-5", tolerance="±5 frames", model=model,
        fusion=fusion, parameters=parameters, label=label, group="descriptor", query=query, references=[], dim=512,
        recalls={1: value}, **changes,
    )  # fmt: skip


def test_measured_beside_published():
    cells = [
        made_up("DisPlace (paper)", "displace", "cosplace", "night", 61.0, parameters=PAPER.parameters),
        made_up("sun", "single", "cosplace", "night", 22.0, parameters={"traversal": "sun"}),
        made_up("HOPS", "hops", "hog", "night", 10.0),
    ]
    (table,) = build_tables(cells)
    compared = {(c.label, c.published, round(c.difference, 1)) for c in compare(table).rows}
    assert compared == {("DisPlace (paper)", 60.6, 0.4), ("sun", 22.8, -0.8)}
    text = FORMATS["published"](table)
    assert "| cosplace | night | DisPlace (paper) | 61.0 | 60.6 | +0.4 |" in text
    assert "robotcar-5" in text


@pytest.mark.parametrize(
    ("fusion", "parameters", "compared"),
    [
        ("displace", {"ridge": 0.0, "center": False}, True),
        ("displace", {"ridge": 0, "center": False, "solver": "direct"}, True),
        ("displace", {}, False),
        ("displace", {"tau": 0.1, "ridge": 3.0, "center": True}, False),
        ("displace", {"tau": 1.0, "ridge": 0.0, "center": False}, False),
        ("displace", {"ridge": 1.0, "center": False}, False),
        ("displace", {"ridge": 0.0, "center": True}, False),
        ("std_dmat_min", {}, True),
        ("std_dmat_min", {"axis": "traversal"}, False),
        ("hops", {}, True),
    ],
    ids=str,
)
def test_only_the_papers_parameters_stand_beside_the_papers_numbers(fusion, parameters, compared):
    cell = made_up("mine", fusion, "cosplace", "night", 50.0, parameters=parameters)
    found = compare(build_tables([cell])[0])
    assert len(found.rows) == compared
    told = [note for note in found.notes if note.startswith("mine is not put beside the published numbers")]
    assert len(told) == (not compared)
    if "axis" in parameters:
        assert "axis='traversal' (paper: 'query')" in told[0]


def test_parts_of_a_data_set_are_named_beside_published_numbers():
    whole = {"n_places": 3876, "n_references": 5 * 3876, "n_queries": 3876}
    cells = [
        made_up("HOPS", "hops", "cosplace", "night", 61.0, **whole),
        made_up("HOPS", "hops", "cosplace", "rain", 61.0, **{**whole, "n_queries": 100}),
    ]
    notes = compare(build_tables(cells)[0]).notes
    assert len(notes) == 2
    assert notes[1].startswith("rain is not the whole data set: 3,876 places, 19,380 references, 100 queries")


def test_other_dimensions_are_named_beside_published_numbers():
    cell = dataclasses.replace(made_up("HOPS", "hops", "cosplace", "night", 61.0), dim=128)
    assert "cosplace has 128 dimensions here; published with 512" in compare(build_tables([cell])[0]).notes


@pytest.mark.parametrize(("sequence", "adapt"), [("smoother", "none"), ("single_frame", "batch")])
def test_drives_and_batches_are_not_put_beside_numbers_of_single_queries(sequence, adapt):
    cells = [
        made_up("HOPS", "hops", "cosplace", "night", 40.0),
        made_up("HOPS, along", "hops", "cosplace", "night", 99.0, sequence=sequence, adapt=adapt),
        made_up("DisPlace", "displace", "cosplace", "night", 60.0),
    ]
    (table,) = build_tables(cells)
    compared = compare(table)
    assert [row.label for row in compared.rows] == ["HOPS"]
    assert (
        "HOPS, along is not put beside the published numbers, which take each query for itself"
        in compared.notes
    )
    (duel,) = count_wins(table, "DisPlace").duels
    assert (duel.rival, duel.won) == ("HOPS", True)
    assert [wins.label for wins in all_wins(table)] == ["DisPlace"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"protocol": "robotcar-2"},
            "published numbers are under robotcar-5, these under robotcar-2: not comparable",
        ),
        (
            {"tolerance": "±10 frames"},
            "published numbers are under robotcar-5 with ±5 frames, these with ±10 frames: not comparable",
        ),
        ({"dataset": "town"}, "nothing is published for the data set town"),
        ({"projection": 64}, "without random projection"),
    ],
)
def test_what_is_not_comparable_is_not_compared(changes, message):
    cell = dataclasses.replace(made_up("DisPlace", "displace", "cosplace", "night", 61.0), **changes)
    comparison = compare(build_tables([cell])[0])
    assert comparison.rows == []
    assert message in comparison.notes[0]
    assert message in FORMATS["published"](build_tables([cell])[0])


def test_of_equal_cells_the_newest_counts():
    old = made_up("HOPS", "hops", "cosplace", "night", 1.0, created="2026-01-01T00:00:00+00:00")
    new = dataclasses.replace(old, cell="other", recalls={1: 2.0}, created="2026-02-01T00:00:00+00:00")
    (table,) = build_tables([new, old])
    assert table.row("HOPS").value(Column("cosplace", "night")) == 2.0
    assert "1 cells of earlier settings or descriptors under the same names are left out" in table.notes[0]


@pytest.mark.parametrize(
    "changes", [{"store": {"content": "after"}}, {"references": ["sun"]}], ids=["descriptors", "references"]
)
@pytest.mark.parametrize("projection", [None, 64])
def test_methods_on_other_descriptors_or_references_do_not_stand_side_by_side(changes, projection):
    """After one method is run again on new descriptors, the others' numbers on the old ones are not its rivals'."""
    before = {"store": {"content": "before"}, "projection": projection, "used": 1}
    cells = [
        made_up("HOPS", "hops", "cosplace", "night", 80.0, **before),
        made_up("HOPS", "hops", "cosplace", "rain", 81.0, **before),
        dataclasses.replace(
            made_up("DisPlace", "displace", "cosplace", "night", 70.0, **before), used=2, **changes
        ),
    ]
    (table,) = build_tables(cells)
    night, rain = Column("cosplace", "night"), Column("cosplace", "rain")
    assert (table.row("HOPS").value(night), table.row("HOPS").value(rain)) == (None, 81.0)
    assert table.row("DisPlace").value(night) == 70.0
    assert all_wins(table) == []
    assert "1 cells of earlier settings or descriptors" in table.notes[-1]
    if projection:
        (study, _) = sorted(compressions_of(cells), key=lambda study: study.setting.query)
        assert [curve.label for curve in study.curves] == ["DisPlace"]


def test_cells_from_before_runs_were_counted_are_the_oldest():
    new = made_up("HOPS", "hops", "cosplace", "night", 2.0, created="2026-01-01T00:00:00+00:00", used=1)
    record = dataclasses.replace(new, cell="other", recalls={1: 1.0}, created="2026-02-01").to_json()
    record["seconds"] = {"fit": 1.0, "rank": 1.0}
    del record["used"]
    (table,) = build_tables([new, Result.from_json(record)])
    assert table.row("HOPS").value(Column("cosplace", "night")) == 2.0


def test_settings_changed_and_changed_back_show_the_last_run(tmp_path):
    """Cells that a run finds there count as much as those that it computes."""
    store = make_store(tmp_path / "made.desc")
    whole, cut = (
        make_suite(
            {"made": store.folder},
            methods=(Method("displace", {"n_components": n}, "DisPlace"),),
            dims=(11,),
        )
        for n in (9, 1)
    )
    shown, projected = [], []
    for suite in (whole, cut, whole):
        outcome = run_suite(suite, tmp_path / "results")
        cells = Results.open(tmp_path / "results")
        tables = build_tables(cells)
        values = [table.row("DisPlace").value(Column("made", "night")) for table in tables]
        assert values == [cell.recalls[1] for cell in outcome.cells]
        shown.append(values)
        projected.append(compressions_of(cells)[0].curves[0].means)
    assert outcome.n_computed == 0
    assert shown[0] == shown[2] != shown[1]
    assert projected[0] == projected[2] != projected[1]


def test_names_cannot_break_the_formats():
    (table,) = build_tables([made_up("a|b_<c>*", "hops", "x_y", "n&m", 5.0)])
    assert r"| a\|b_&lt;c>\* | **5.0** |" in FORMATS["markdown"](table)
    latex = FORMATS["latex"](table)
    assert r"a$|$b\_$<$c$>$*" in latex  # letters of OT1 fonts would be —, ¡ and ¿
    assert r"\rotatebox{90}{x\_y}" in latex


def test_latex_writes_tau_as_mathematics():
    """Fonts of text have no τ; it is in the labels of settings."""
    (table,) = build_tables([made_up("DisPlace, τ = 1", "displace", "hog", "night", 5.0)])
    assert r"DisPlace, $\tau$ = 1 & " in FORMATS["latex"](table)
    cell = made_up("Ours, ε = 0.1, λ", "hops", "cosplace", "night", 61.0)
    assert r"Ours, $\epsilon$ = 0.1, $\lambda$ & " in FORMATS["latex"](build_tables([cell])[0])


def test_latex_has_no_sign_that_stops_it():
    cell = made_up("BSF, γ → ∞, Δ ≤ 2 × 3, −1", "bsf", "cosplace", "night", 61.0)
    expected = r"BSF, $\gamma$ $\to$ $\infty$, $\Delta$ $\leq$ 2 $\times$ 3, $-$1 & "
    assert expected in FORMATS["latex"](build_tables([cell])[0])


def test_a_single_reference_that_stands_alone_is_not_called_the_best():
    cells = [
        made_up(label, fusion, "hog", "night", value)
        for label, fusion, value in (
            ("Single", "single", 5.0),
            ("HOPS", "hops", 6.0),
            ("DisPlace", "displace", 7.0),
        )
    ]
    alone = [
        dataclasses.replace(cell, group="single" if cell.fusion == "single" else cell.group) for cell in cells
    ]
    (table,) = build_tables(alone)
    assert count_wins(table, "DisPlace", single=True).rivals == "the single reference"


def test_a_recall_that_was_not_computed_is_refused():
    with pytest.raises(InputError, match="k=7 is none of 1"):
        build_tables([made_up("HOPS", "hops", "cosplace", "night", 1.0)], k=7)
