"""Entries of `tests/relapses` fit the code and name tests that are there; `make relapses` runs them."""

import builtins
import symtable
from pathlib import Path

import pytest
from relapses import ROOT, Relapse, relapses

EVERY = relapses()


def test_there_are_entries_and_none_stands_twice():
    whats = [(entry.topic, entry.what) for entry in EVERY]
    assert whats
    assert len(set(whats)) == len(whats)


def unknown_names(source: str) -> set[str]:
    """Names that functions and classes of a module read, and that nothing in it defines."""
    module = symtable.symtable(source, "", "exec")
    known = {
        symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    }
    known |= {table.get_name() for table in module.get_children()} | set(dir(builtins))
    found, tables = set(), [module]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        found |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    return found - known


def test_names_that_nothing_defines_are_found():
    assert unknown_names("import os\ndef f(x):\n    return [os, len, f, x, gone]") == {"gone"}


@pytest.mark.parametrize("entry", EVERY, ids=lambda entry: f"{entry.topic}: {entry.what}")
def test_entry_fits_the_code(entry: Relapse):
    source = (ROOT / "src" / "displace" / entry.file).read_text(encoding="utf-8")
    assert source.count(entry.old) == 1, "change the entry together with the code it names"
    relapsed = source.replace(entry.old, entry.new)
    assert relapsed != source
    if Path(entry.file).suffix == ".py":
        assert unknown_names(relapsed) <= unknown_names(source), (
            "the tests would fail for want of a name alone"
        )
    for name in entry.tests:
        file, *parts = name.split("::")
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        for part in parts:
            assert part.split("[")[0] in text
