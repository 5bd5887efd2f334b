"""The page on other programs: its code runs, in the order in which it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from interop_route import NIGHT, make_town

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
    namespace: dict = {}
    exec(compile(code, "interop.md", "exec"), namespace)
    assert namespace["best"] == case.locations.matches.places[:, 0].tolist()
    np.testing.assert_array_equal(namespace["refs"].traversals, np.repeat(["sun", "rain"], 40))
    assert NIGHT in namespace["manifest"].traversal_names()
