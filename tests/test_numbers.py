"""The page of fixed numbers says what the code has."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from displace.maps.calibration import BASES, Calibration
from displace.maps.learning import SHARE

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "numbers.md").read_text("utf-8")


def documented():
    """Package, name and value of each row of the page's tables."""
    package = ""
    for line in PAGE.splitlines():
        if head := re.match(r"\| in `([\w.]+)` \|", line):
            package = head[1]
        elif row := re.match(r"\| `([\w.]+)` \| ([^|]+) \|", line):
            yield package, row[1], row[2]


def found(package, name):
    """What a dotted name below a package is: of a module, or of a class in it."""
    *modules, constant = name.split(".")
    owner = [] if not modules[-1][0].isupper() else [modules.pop()]
    value = importlib.import_module(".".join([package, *modules]))
    for part in (*owner, constant):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize(("package", "name", "value"), [pytest.param(*row, id=row[1]) for row in documented()])
def test_the_page_says_what_the_code_has(package, name, value):
    assert found(package, name) == ast.literal_eval(value)


def test_the_page_is_read():
    assert len(list(documented())) > 50


def test_one_query_in_seven_has_no_answer():
    assert pytest.approx(1 / 7) == SHARE


def test_a_confidence_of_an_earlier_file_is_read_as_it_was_meant():
    """Fields that came later: without them nothing is added, bounded or softened."""
    bare = Calibration([1.0], [0.0], [1.0], 0.0, 1, 1, 0.5, 0.0, [], [])
    assert (bare.spread, bare.steepness, bare.ceiling, bare.doubt) == (1.0, 8.0, 1.0, 1.0)
    assert (bare.farthest, bare.basis) == (None, BASES[0])
