"""The table of bad input: each row names tests, and the tests are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROWS = [
    line
    for line in (ROOT / "docs" / "bad_input.md").read_text("utf-8").splitlines()
    if re.match(r"\| (?!input \|)", line)
]


def functions_in(name: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / f"{name}.py").read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:60])
def test_each_row_names_tests_that_exist(row):
    named = re.findall(r"`((?:contract/)?test_\w+)::(test_\w+)`", row.rsplit("|", 2)[1])
    assert named
    for module, function in named:
        assert function in functions_in(module)


@pytest.mark.parametrize(
    "asked",
    [
        "missing column|required column",
        "two images of one",
        "unknown traversal",
        "relative paths",
        "not an image",
        "1-pixel",
        "100-megapixel",
        "grey",
        "alpha",
        "16-bit",
        "CMYK",
        "EXIF",
        "cannot be written",
        "wrong weights file",
        "model without its extra",
    ],
)
def test_the_table_covers_what_users_meet(asked):
    assert any(re.search(asked, row.split("|")[1]) for row in ROWS)
