"""ONNX model and faiss index of real descriptors locate as the map does, without this package."""

from __future__ import annotations

import json

import numpy as np
import pytest

from displace import ReferenceSet, build
from displace.interop import export

faiss = pytest.importorskip("faiss", reason="the extra faiss is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")


def test_onnxruntime_and_faiss_locate_as_the_map(shared, tmp_path):
    path = shared / "data" / "sped400_efficientnet_lite0.npz"
    if not path.is_file():
        pytest.skip(f"no {path.name} in the shared data")
    with np.load(path) as arrays:
        refs = ReferenceSet.from_traversals({name: arrays[name] for name in ("ref1", "ref2", "ref3")})
        queries = arrays["query"].astype(np.float32)
    town = build(refs, calibration=False)
    (model,) = export("onnx", town, tmp_path / "town.onnx")
    index, places = export("faiss", town, tmp_path / "town.faiss")

    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    projected = session.run(None, {"descriptors": queries})[0]
    scores, rows = faiss.read_index(str(index)).search(projected, 5)
    found = np.array(json.loads(places.read_text("utf-8"))["places"])[rows]

    assert np.abs(projected - town.project(queries)).max() < 1e-6
    matches = town.locate(queries, k=5, search="exact")
    np.testing.assert_allclose(scores, matches.scores, atol=1e-5)
    np.testing.assert_array_equal(found[:, 0], matches.places[:, 0])
    assert np.mean(found[:, 0] == np.arange(400)) > 0.85  # HOPS reaches 0.775, pooling 0.75
