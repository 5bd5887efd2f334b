"""Files that are the old or the new one, and folders that survive a power cut."""

from __future__ import annotations

import pytest

from displace.files import atomic
from displace.files.outputs import cell_text


def test_new_folders_are_made_durable_from_the_first_that_was_there(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(atomic, "sync_folder", synced.append)
    atomic.make_folder(tmp_path / "a" / "b" / "c")
    assert set(synced) == {tmp_path, tmp_path / "a", tmp_path / "a" / "b"}
    synced.clear()
    atomic.make_folder(tmp_path / "a" / "b")
    assert synced == []


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "@SUM(A1)", "-2+3", "\t=1", '=HYPERLINK("x")'])
def test_names_that_begin_like_formulas_are_text_in_tables(text):
    assert cell_text(text) == f"'{text}"


@pytest.mark.parametrize("text", ["sun", "", "-1.5", "+2", "a=b", "1e3"])
def test_other_cells_are_as_they_are(text):
    assert cell_text(text) == text
