"""Entries of `tests/relapses` fit the code and name tests that are there; `make relapses` runs them."""

from pathlib import Path

import pytest
from relapses import ROOT, Relapse, relapses

EVERY = relapses()


def test_there_are_entries_and_none_stands_twice():
    whats = [(entry.topic, entry.what) for entry in EVERY]
    assert whats
    assert len(set(whats)) == len(whats)


@pytest.mark.parametrize("entry", EVERY, ids=lambda entry: f"{entry.topic}: {entry.what}")
def test_entry_fits_the_code(entry: Relapse):
    source = (ROOT / "src" / "displace" / entry.file).read_text(encoding="utf-8")
    assert source.count(entry.old) == 1, "change the entry together with the code it names"
    relapsed = source.replace(entry.old, entry.new)
    assert relapsed != source
    if Path(entry.file).suffix == ".py":
        compile(relapsed, entry.file, "exec")
    for name in entry.tests:
        file, *parts = name.split("::")
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        for part in parts:
            assert part.split("[")[0] in text
