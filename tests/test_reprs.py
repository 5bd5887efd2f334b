"""What a notebook shows of results: a line, not arrays."""

from __future__ import annotations

import numpy as np
import pytest
from routes import make_store, make_suite

from displace import build
from displace.advise import advise
from displace.evaluation.benchmark import run_suite
from displace.evaluation.studies import Task
from displace.evaluation.tables import build_tables
from displace.synthetic import make_route
from displace.truth import SamePlace


@pytest.fixture(scope="module")
def route():
    return make_route(n_places=40, n_traversals=3, dim=16)


def test_matches(route):
    place_map = build(route.references, "hops")
    assert repr(place_map.locate(route.queries, k=3)) == "Matches(40 queries, 3 places each, with confidence)"


def test_advice(route):
    shown = repr(advise(route.references, fusions=["hops", "pooling"]))
    assert shown.startswith("<Advice: hops, mean R@1 ")
    assert shown.endswith("(exact place); 2 compared over 3 traversals>")


def test_results_of_a_suite(tmp_path):
    store = make_store(tmp_path / "made.desc")
    outcome = run_suite(make_suite({"made": store.folder}), tmp_path / "results")
    first = outcome.cells[0]
    assert repr(outcome.results.ranking(first)) == "<Ranking: 10 places for each of 30 queries>"
    assert repr(outcome.results.questions(first)) == "<Questions: 30 queries, 30 places>"
    (table,) = build_tables(outcome.results)
    assert repr(table) == "<Table: Recall@1 on made (made-exact: exact place); 2 rows, 1 columns>"


def test_tasks(route):
    task = Task.of(route.references, route.queries, SamePlace(np.arange(40)), query="night")
    assert repr(task) == f"<Task: {task.setting}>"
