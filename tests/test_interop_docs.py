"""The page on other programs: its code runs, in the order in which it stands there."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from interop_route import NIGHT, make_town
from typer.testing import CliRunner

from displace import cli

ROOT = Path(__file__).resolve().parent.parent


def test_the_code_on_the_page_runs(tmp_path, monkeypatch):
    for package in ("h5py", "onnx", "onnxruntime", "faiss"):
        pytest.importorskip(package, reason="the extras hloc, onnx and faiss are not all installed")
    case = make_town()
    case.manifest.root = Path()
    monkeypatch.chdir(tmp_path)
    case.town.save("town.displace")
    case.manifest.write("route.csv")
    case.store(Path("route.desc"))
    page = (ROOT / "docs" / "interop.md").read_text("utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    table = case.manifest
    namespace: dict = {"vectors": case.vectors, "places": table.places, "traversals": table.traversals}
    exec(compile(code, "interop.md", "exec"), namespace)
    assert namespace["best"] == case.locations.matches.places[:, 0].tolist()
    np.testing.assert_array_equal(namespace["refs"].traversals, np.repeat(["sun", "rain"], 40))
    assert NIGHT in namespace["manifest"].traversal_names()


def test_arrays_of_ones_own_are_taken_from_a_script_to_an_answer_as_the_page_says(tmp_path, monkeypatch):
    case = make_town()
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "interop.md").read_text("utf-8")
    (section,) = re.findall(r"## Arrays of your own\n(.*?)\n## ", page, re.DOTALL)
    code, commands = re.findall(r"```\w*\n(.*?)```", section, re.DOTALL)
    table = case.manifest
    exec(code, {"vectors": case.vectors, "places": table.places, "traversals": table.traversals})
    for line in commands.splitlines():
        done = CliRunner().invoke(cli.app, shlex.split(line, comments=True)[1:])
        assert done.exit_code == 0, done.output
    with Path("where.csv").open(encoding="utf-8") as file:
        where = [row["place"] for row in csv.DictReader(file)]
    assert where == case.locations.matches.places[:, 0].tolist()
