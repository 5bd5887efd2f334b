"""Results on disk: records, rankings, questions, and folders of them."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

from displace.datasets.base import Protocol
from displace.descriptors.imported import write_store
from displace.descriptors.store import Queries
from displace.errors import FormatError, InputError, UnknownNameError
from displace.evaluation import results as module
from displace.evaluation.loading import _order
from displace.evaluation.rankings import Questions, Ranking
from displace.evaluation.record import Result
from displace.evaluation.results import Results
from displace.evaluation.tables import build_tables
from displace.manifest.table import Manifest
from displace.truth import Tolerance

GOLDEN = Path(__file__).parent / "golden" / "results_v1"


def make_result(label="HOPS", query="night", **changes):
    values = {
        "cell": f"{label}{query}".ljust(16, "0").lower(),
        "dataset": "robotcar",
        "protocol": "robotcar-5",
        "tolerance": "±5 frames",
        "model": "cosplace",
        "fusion": "hops",
        "parameters": {},
        "label": label,
        "group": "descriptor",
        "query": query,
        "references": ["sun", "rain"],
        "dim": 4,
        "recalls": {1: 50.0, 5: 100.0},
        "seconds": {"fit": 0.5, "rank": 0.25},
    }
    return Result(**{**values, **changes})


def make_questions():
    return Questions(
        place_ids=np.array(["a", "b", "c"]),
        place_images=np.array(["sun/a.jpg", "sun/b.jpg", "sun/c.jpg"]),
        query_images=np.array(["night/0.jpg", "night/1.jpg", "night/2.jpg"]),
        query_places=np.array(["a", "b", ""]),
        truth_starts=np.array([0, 2, 3, 3], np.int32),
        truth=np.array([0, 1, 1], np.int32),
        image_root=np.array("../route"),
    )


def make_ranking():
    places = np.array([[1, 0], [0, 1], [2, 0]], np.int32)
    return Ranking(places, np.ones((3, 2), np.float32), make_questions().correct(places))


def test_correct_flags_are_those_of_sets():
    questions, ranking = make_questions(), make_ranking()
    sets = [{0, 1}, {1}, set()]
    expected = [[place in right for place in row] for row, right in zip(ranking.places, sets, strict=True)]
    np.testing.assert_array_equal(ranking.correct, expected)
    np.testing.assert_array_equal(questions.answerable, [True, True, False])
    np.testing.assert_array_equal(ranking.hits(1), [True, False, False])
    np.testing.assert_array_equal(ranking.hits(2), [True, True, False])


def test_questions_of_before_the_order_was_kept_get_it_when_they_are_asked_again(tmp_path):
    results, before = Results(tmp_path / "results"), make_questions()
    name = results.add_questions("route-night", before)
    asked = Questions.load(tmp_path / "results" / "questions" / name)
    assert asked.query_order is None
    assert np.isnan(asked.order).tolist() == [True] * 3
    ordered = dataclasses.replace(before, query_order=np.array([2.0, 0.0, 1.0]))
    for questions in (ordered, before):  # what is known stays
        assert results.add_questions("route-night", questions) == name
        np.testing.assert_array_equal(
            Questions.load(tmp_path / "results" / "questions" / name).order, [2, 0, 1]
        )


ORDERED, SHUFFLED = np.arange(40.0), np.random.default_rng(0).permutation(40).astype(float)
MISSING = np.where(ORDERED == 5, np.nan, 1)


@pytest.mark.parametrize("drive", [True, False], ids=["drive", "webcams"])
@pytest.mark.parametrize(
    ("columns", "tolerance", "order"),
    [
        ({}, "exact", None),
        ({"frame": ORDERED}, "exact", "of a drive"),
        ({"frame": ORDERED}, "2 frames", ORDERED),
        ({"frame": ORDERED * MISSING}, "2 frames", ORDERED * MISSING),
        ({"frame": ORDERED, "timestamp": SHUFFLED}, "exact", SHUFFLED),
        ({"frame": ORDERED, "timestamp": SHUFFLED * MISSING}, "2 frames", ORDERED),
    ],
)
def test_queries_have_an_order_where_they_are_a_drive(drive, columns, tolerance, order, tmp_path):
    """Times tell, frames that are counted, and frames of which neighbours look alike; numbers of files do not."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(40, 8))
    vectors = np.cumsum(vectors, axis=0) if drive else vectors
    names = [f"{i:02d}" for i in range(40)]
    manifest = Manifest(names, names, ["night"] * 40, tmp_path, **columns)
    store = write_store(Queries(vectors, manifest.places, manifest), tmp_path / "made.desc", "made")
    found = _order(store, Protocol("made", Tolerance.parse(tolerance)), "night")
    expected = (ORDERED if drive else None) if isinstance(order, str) else order
    assert found is None if expected is None else np.array_equal(found, expected, equal_nan=True)


def test_a_record_is_read_once_until_another_takes_its_place(tmp_path, monkeypatch):
    results, read = Results(tmp_path / "results"), []
    one_read = module._read
    monkeypatch.setattr(module, "_read", lambda path: read.append(path) or one_read(path))
    results.add(make_result(error="impossible"), None)
    assert repr(results) == f"<Results: 1 cells in {results.folder}>"
    assert len(results) == len(results.select(query="night")) == len(list(results.select(ok=False))) == 1
    assert len(read) == 1
    Results(tmp_path / "results").update(make_result(error="another"))
    assert [result.error for result in results.select(ok=False)] == ["another"]
    assert len(read) == 2


def test_a_cell_comes_back_as_it_was(tmp_path):
    results = Results(tmp_path / "results")
    name = results.add_questions("robotcar-night", make_questions())
    result = make_result(questions=name, explanation="γ = 0.1", projection=128, seed=3)
    results.add(result, make_ranking())
    (found,) = Results.open(tmp_path / "results")
    assert found == result
    for field in dataclasses.fields(Ranking):
        np.testing.assert_array_equal(
            getattr(results.ranking(found), field.name), getattr(make_ranking(), field.name)
        )
    asked = results.questions(found)
    assert asked.digest() == make_questions().digest()
    assert asked.root(tmp_path / "results") == tmp_path / "route"
    np.testing.assert_array_equal(asked.correct_places.of(0), [0, 1])


def test_equal_questions_are_one_file_and_others_another(tmp_path):
    results = Results(tmp_path)
    first = results.add_questions("x", make_questions())
    assert results.add_questions("x", make_questions()) == first
    other = dataclasses.replace(make_questions(), query_places=np.array(["a", "c", ""]))
    assert results.add_questions("x", other) != first
    assert len(list((tmp_path / "questions").iterdir())) == 2


def test_select_by_value_by_list_and_unknown_field(tmp_path):
    results = Results(tmp_path)
    for query in ("night", "rain", "dusk"):
        results.add(make_result(query=query), make_ranking())
    results.add(make_result("DisPlace", error="singular", recalls={}), None)
    assert {r.query for r in results.select(query=["night", "rain"], ok=True)} == {"night", "rain"}
    assert [r.label for r in results.select(query="night").select(ok=False)] == ["DisPlace"]
    assert len(results.select(references=["sun", "rain"])) == 4
    with pytest.raises(UnknownNameError, match="did you mean 'query'"):
        results.select(qery="night")


def test_a_record_without_its_end_is_not_a_cell(tmp_path):
    """A crash between the ranking and the record leaves the cell missing, not broken."""
    results = Results(tmp_path)
    results.add(make_result(), make_ranking())
    next((tmp_path / "cells").glob("*.json")).unlink()
    assert list(results) == []
    with pytest.raises(
        InputError, match=f"has no results; make some with: displace evaluate STORE -o {tmp_path}"
    ):
        Results.open(tmp_path)


def test_results_are_not_proposed_to_be_written_among_images(tmp_path):
    (tmp_path / "0001.jpg").touch()
    with pytest.raises(
        InputError, match="has no results; make some with: displace evaluate STORE -o results"
    ):
        Results.open(tmp_path)


def test_an_impossible_cell_has_no_ranking(tmp_path):
    results = Results(tmp_path)
    result = make_result(error="the within-place scatter is singular", recalls={})
    results.add(result, None)
    with pytest.raises(InputError, match="singular"):
        results.ranking(result)


def test_a_later_format_names_the_way_out(tmp_path):
    results = Results(tmp_path)
    results.add(make_result(), make_ranking())
    path = next((tmp_path / "cells").glob("*.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(FormatError, match=r"format=99.*pip install -U displace"):
        list(results)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": "x"}'])
def test_damaged_records_are_named(tmp_path, text):
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "bad.json").write_text(text)
    with pytest.raises(FormatError, match=r"bad\.json"):
        list(Results.open(tmp_path))


def test_damaged_rankings_are_named(tmp_path):
    results = Results(tmp_path)
    results.add(make_result(), make_ranking())
    path = next((tmp_path / "cells").glob("*.npz"))
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(FormatError, match=r"npz cannot be read"):
        results.ranking(make_result())
    path.unlink()
    with pytest.raises(FormatError, match="is missing"):
        results.ranking(make_result())


def test_results_of_the_first_format_load_forever():
    """Written once by golden/make_results.py; what is expected stands here in plain numbers."""
    results = Results.open(GOLDEN)
    assert len(results) == 6
    (hops,) = results.select(label="HOPS", projection=None)
    assert (hops.cell, hops.dim, hops.n_places, hops.n_references) == ("e25a70673f38321c", 40, 12, 36)
    assert hops.recalls == pytest.approx({1: 50.0, 5: 75.0, 10: 1100 / 12})
    assert hops.references == ["sun", "rain", "dusk"]
    asked, ranking = results.questions(hops), results.ranking(hops)
    assert asked.place_ids.tolist() == [f"p{i:04d}" for i in range(12)]
    assert asked.query_images[3] == "night/0003.jpg"
    assert asked.place_images[3] == "sun/0003.jpg"
    np.testing.assert_array_equal(asked.truth, range(12))
    assert ranking.places.shape == ranking.scores.shape == (12, 10)
    np.testing.assert_array_equal(asked.correct(ranking.places), ranking.correct)
    assert ranking.hits(1).sum() == 6
    (paper,) = results.select(label="DisPlace (paper)", projection=30)
    assert (paper.ok, paper.seed, paper.parameters) == (False, 0, {"ridge": 0.0, "center": False})
    assert [(t.projection, len(t.rows)) for t in build_tables(results)] == [(None, 3), (30, 3)]


def test_a_damaged_record_is_named_and_left_out_of_what_need_not_be_computed(tmp_path, caplog):
    results = Results(tmp_path / "results")
    name = results.add_questions("robotcar-night", make_questions())
    results.add(make_result(questions=name), make_ranking())
    (path,) = (tmp_path / "results" / "cells").glob("*.json")
    record = json.loads(path.read_text())
    assert len(results.readable()) == 1
    path.write_text(json.dumps(record | {"recalls": {"1": "all"}}))
    assert results.readable() == {}
    assert f"{path} cannot be read" in caplog.text
    assert "computed again" in caplog.text


@pytest.mark.parametrize(
    "change",
    [
        {"questions": "../../secret.npz"},
        {"cell": "../x"},
        {"group": "0"},
        {"recalls": {"1": float("nan")}},
        {"recalls": {"1": 101}},
        {"recalls": {"5": 50.0}},
        {"seconds": {"rank": 1.0}},
        {"seconds": {"fit": 1.0}},
        {"references": "sun"},
        {"order": [1]},
        {"dim": -1},
        {"versions": {"numpy": 2}},
        {"format": True},
    ],
)
def test_a_record_of_another_kind_is_one_clear_error(tmp_path, change):
    results = Results(tmp_path / "results")
    results.add(make_result(), make_ranking())
    (path,) = (tmp_path / "results" / "cells").glob("*.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FormatError, match=re.escape(path.name)):
        list(results)


@pytest.mark.parametrize(
    "change",
    [
        {"truth_starts": np.array([0, 9, 9, 9], np.int32)},
        {"truth": np.array([99], np.int32)},
        {"truth": np.array([0, 1, 3], np.int32)},
        {"truth": np.array([0, -1, 1], np.int32)},
        {"place_ids": np.array([1, 2, 3])},
        {"query_places": np.array(["a"])},
    ],
)
def test_questions_that_do_not_fit_together_are_refused(tmp_path, change):
    arrays = {**make_questions()._arrays(), **change}
    np.savez_compressed(tmp_path / "q.npz", **arrays)
    with pytest.raises(FormatError, match="cannot be read"):
        Questions.load(tmp_path / "q.npz")


def test_a_ranking_of_places_that_its_record_does_not_have_is_refused(tmp_path):
    results = Results(tmp_path / "results")
    result = make_result(n_places=3, n_queries=3)
    results.add(result, make_ranking())
    assert len(results.ranking(result).places) == 3
    for wrong in (dataclasses.replace(result, n_places=2), dataclasses.replace(result, n_queries=4)):
        with pytest.raises(FormatError, match="run the suite again"):
            results.ranking(wrong)


def test_arrays_that_declare_more_than_they_hold_are_refused(tmp_path):
    import io
    import zipfile

    make_ranking().save(tmp_path / "r.npz")
    with zipfile.ZipFile(tmp_path / "r.npz") as members:
        parts = {name: members.read(name) for name in members.namelist()}
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<i4", "fortran_order": False, "shape": (2**20, 2**20)}
    )
    with zipfile.ZipFile(tmp_path / "r.npz", "w") as members:
        for name, content in parts.items():
            members.writestr(name, header.getvalue() if name == "places.npy" else content)
    with pytest.raises(FormatError, match="places is cut short"):
        Ranking.load(tmp_path / "r.npz")


@pytest.mark.parametrize("letter", ["n", "ü", "日"])
def test_long_names_of_traversals_have_files(tmp_path, letter):
    results = Results(tmp_path / "results")
    query = letter * 220
    name = results.add_questions(f"robotcar-{query}", make_questions())
    for number in range(2):
        results.add(make_result(query=query, questions=name, cell=f"cell{number}abc"), make_ranking())
    assert [result.query for result in results] == [query, query]
    assert len(results.complete(results)) == 2
