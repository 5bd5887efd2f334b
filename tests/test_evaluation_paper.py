"""The published numbers: complete, under our names, and counted as the paper counts."""

from __future__ import annotations

import csv
import re

import pytest

from displace.datasets import DATASETS
from displace.evaluation import paper
from displace.evaluation.paper import Published, published, published_recall
from displace.evaluation.suites import Suite
from displace.evaluation.tables import BOLD, UNDERLINE, Column, Entry, Row, Table
from displace.evaluation.wins import all_wins, count_wins
from displace.fusion import FUSIONS
from displace.models import list_models


def published_values(dataset: str) -> list[Published]:
    """The values of one data set."""
    return [value for value in published() if value.dataset == dataset]


def published_table(dataset: str) -> Table:
    """The paper's own table of a data set."""
    values = published_values(dataset)
    columns = list(dict.fromkeys(Column(value.model, value.query) for value in values))
    rows: dict[str, Row] = {}
    for value in values:
        parameters = {} if value.traversal is None else {"traversal": value.traversal}
        row = rows.setdefault(value.label, Row(value.label, value.group, value.fusion, parameters, {}))
        row.entries[Column(value.model, value.query)] = Entry(value.recall)
    models = list(dict.fromkeys(column.model for column in columns))
    columns.sort(key=lambda column: (models.index(column.model), column.query))
    return Table(dataset, paper.PROTOCOLS[dataset], "published", 1, columns, list(rows.values()))


def test_all_values_are_there_under_known_names():
    values = published()
    assert len(values) == 720
    assert {v.dataset for v in values} <= set(DATASETS.names())
    assert {v.fusion for v in values} <= set(FUSIONS.names())
    assert {v.model for v in values} <= {row.name.partition(":")[0] for row in list_models()}
    for value in values:
        dataset = DATASETS.get(value.dataset)
        assert value.query in dataset.traversals
        assert value.traversal is None or value.traversal in dataset.traversals
        assert paper.PROTOCOLS[value.dataset] in {protocol.name for protocol in dataset.protocols}


def test_each_value_is_that_of_the_source(shared):
    """Look-up by our names gives each number of the tables, read here by hand."""
    n = 0
    for name in ("nordland", "robotcar", "pitts30k_gldv2"):
        with (shared / "paper" / f"{name}.csv").open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                dataset = row["dataset"].removeprefix("Oxford ").replace("-", "_").lower()
                single = row["group"] == "single-reference"
                fusion = row["method"].replace(". ", "_").rstrip(".").replace(" ", "_").lower()
                query = {"pittsburgh30k": "queries", "gldv2_micro": "val"}.get(dataset, row["query"].lower())
                found = published_recall(
                    dataset,
                    row["descriptor"].lower(),
                    query,
                    "single" if single else fusion,
                    fusion if single else None,
                )
                assert found == float(row["recall_at_1"]), row
                n += 1
    assert n == 720


@pytest.mark.parametrize("dataset", list(paper.PROTOCOLS))
def test_the_suites_cover_the_published_tables(dataset):
    suite = Suite.read(dataset)
    values = published_values(dataset)
    assert suite.protocol.name == paper.PROTOCOLS[dataset]
    assert {v.model for v in values} == set(suite.stores)
    assert {v.query for v in values} == set(suite.queries)
    assert {v.fusion for v in values} == {method.fusion for method in suite.methods}


@pytest.mark.parametrize(
    ("dataset", "multi", "single"),
    [("nordland", (24, 24), (24, 24)), ("robotcar", (25, 30), (30, 30)), ("pittsburgh30k", (0, 6), None)],
)
def test_wins_are_counted_as_the_paper_states(dataset, multi, single):
    """24/24 and 25/30 against multi-reference methods, 24/24 and 30/30 against single references: its captions."""
    counts = {wins.rivals: (wins.n_won, len(wins.duels)) for wins in all_wins(published_table(dataset))}
    assert counts["the best multi-reference method"] == multi
    assert counts.get("the best single reference") == single


def test_a_tie_is_no_win():
    duel = next(
        d
        for d in count_wins(published_table("robotcar"), "DisPlace").duels
        if d.column == Column("mixvpr", "overcast")
    )
    assert duel.value == duel.rival_value == 98.9
    assert not duel.won


def test_marks_are_those_of_the_paper():
    """Read from the printed tables."""
    nordland = published_table("nordland").marks(Column("cosplace", "winter"))
    assert nordland == {"Spring": UNDERLINE, "DisPlace": BOLD}
    gldv2 = published_table("gldv2_micro")
    assert gldv2.marks(Column("cosplace", "val")) == {"DisPlace": BOLD, "Pooling": UNDERLINE}
    assert gldv2.marks(Column("megaloc", "val")) == {"Pooling": BOLD, "DisPlace": UNDERLINE}
    pittsburgh = published_table("pittsburgh30k").marks(Column("mixvpr", "queries"))
    assert pittsburgh == {"dMat. Min.": BOLD, "Pooling": BOLD, "BSF": UNDERLINE}


def test_what_the_paper_does_not_have_has_no_number():
    assert published_recall("town", "hog", "night", "hops") is None


@pytest.mark.parametrize(("dataset", "caption"), [("nordland", "Nordland"), ("robotcar", "Oxford RobotCar")])
def test_every_mark_of_the_printed_tables(shared, dataset, caption):
    """Numbers, bold and underline of each printed cell, read from the paper's own LaTeX."""
    tex = (shared / "paper" / "displace.tex").read_text("utf-8")
    start = tex.index(f"Recall@1 on {caption}")
    printed = tex[tex.index("MegaLoc (8448D)", start) : tex.index(r"\end{tabular}", start)]
    table = published_table(dataset)
    n = 0
    for line in printed.split(r"\\")[1:]:
        name, *cells = (
            part.strip() for part in re.sub(r"\\hline|\\midrule|~?\\cite\{.*?\}", "", line).split("&")
        )
        row = next((row for row in table.rows if row.label == name.replace("(Ours)", "").strip()), None)
        if row is None or len(cells) != len(table.columns):
            continue
        for column, cell in zip(table.columns, cells, strict=True):
            mark = BOLD if "textbf" in cell else UNDERLINE if "underline" in cell else None
            assert table.marks(column).get(row.label) == mark, (row.label, column)
            number = re.search(r"\d+\.\d", cell)
            assert row.value(column) == (float(number[0]) if number else None)
            n += 1
    assert n == len(table.rows) * len(table.columns)


PRINTED_AS = {"pittsburgh30k": "Pittsburgh30k", "gldv2_micro": "GLDv2"}
UNROUNDED = ("pittsburgh30k", "megaloc")
"""Values that are printed alike are bold and underlined here: the paper marks unrounded ones."""


@pytest.mark.parametrize("dataset", list(PRINTED_AS))
def test_every_mark_of_the_third_table(shared, dataset):
    """Its halves stand one below the other, with a rotated name before the first row of each."""
    tex = (shared / "paper" / "displace.tex").read_text("utf-8")
    start = tex.index("Recall@1 results on Pittsburgh30k (top)")
    halves = tex[tex.index("MegaLoc}", start) : tex.index(r"\end{tabular}", start)].split(r"\midrule")[1:]
    printed = next(half for half in halves if PRINTED_AS[dataset] in half)
    table, n = published_table(dataset), 0
    for line in printed.split(r"\\"):
        parts = [part.strip() for part in re.sub(r"~?\\cite\{.*?\}|\\cmidrule\S*", "", line).split("&")]
        values = [part for part in parts if re.search(r"\d\d\.\d", part)]
        if len(values) == len(table.columns):
            row = table.row(parts[-len(values) - 1].replace("(Ours)", "").strip())
            for column, cell in zip(table.columns, values, strict=True):
                mark = BOLD if "textbf" in cell else UNDERLINE if "underline" in cell else None
                if (dataset, column.model) != UNROUNDED:
                    assert table.marks(column).get(row.label) == mark, (row.label, column)
                n += 1
    assert n == len(table.rows) * len(table.columns)
