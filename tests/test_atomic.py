"""Files that are the old or the new one, and folders that survive a power cut."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
from pathlib import Path

import pytest

from displace.evaluation.results import Results
from displace.evaluation.table_formats import to_csv
from displace.evaluation.tables import build_tables
from displace.files import atomic
from displace.files.outputs import cell_text
from displace.interop._points import PointTable
from displace.interop.csv_table import CsvTable
from displace.manifest.table import Manifest


def test_new_folders_are_made_durable_from_the_first_that_was_there(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(atomic, "sync_folder", synced.append)
    atomic.make_folder(tmp_path / "a" / "b" / "c")
    assert set(synced) == {tmp_path, tmp_path / "a", tmp_path / "a" / "b"}
    synced.clear()
    atomic.make_folder(tmp_path / "a" / "b")
    assert synced == []


def test_what_is_written_into_a_new_folder_survives_with_it(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(atomic, "sync_folder", synced.append)
    Manifest(["a.jpg"], ["0"], ["t"], tmp_path).write(tmp_path / "new" / "m.csv")
    assert synced == [tmp_path, tmp_path / "new"]


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "@SUM(A1)", "-2+3", "\t=1", '=HYPERLINK("x")'])
def test_names_that_begin_like_formulas_are_text_in_tables(text):
    assert cell_text(text) == f"'{text}"


def test_tables_that_people_open_have_no_formulas(tmp_path):
    columns = {"image": ["=1+1"], "place": ["@x"], "score": [-0.5]}
    CsvTable.write(PointTable(columns, None), tmp_path / "t.csv", None)
    assert (tmp_path / "t.csv").read_text() == "image,place,score\n'=1+1,'@x,-0.5\n"
    result = Results.open(Path(__file__).parent / "golden" / "results_v1").select(projection=None)
    cells = [dataclasses.replace(cell, query="=1+1") for cell in result]
    (table,) = build_tables(cells)
    lines = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert {line["query"] for line in lines} == {"'=1+1"}


@pytest.mark.parametrize("text", ["sun", "", "-1.5", "+2", "a=b", "1e3"])
def test_other_cells_are_as_they_are(text):
    assert cell_text(text) == text


def test_files_have_the_mode_of_others_and_the_umask_is_never_changed(tmp_path, monkeypatch):
    """It is the whole process's: files that other threads made at that moment were writable by everybody."""
    (tmp_path / "usual").touch()
    (tmp_path / "own").touch(mode=0o640)
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail(f"the umask was set to {mask:o}"))
    for name, like in (("new", "usual"), ("own", "own")):
        mode = (tmp_path / like).stat().st_mode
        atomic.write_whole(tmp_path / name, "text")
        assert (tmp_path / name).stat().st_mode == mode
