"""The projection as an ONNX file, run by onnxruntime."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from interop_route import DIM, MODEL, make_town

from displace import DisPlace, ReferenceSet, build
from displace.errors import InputError, MissingExtraError
from displace.interop import onnx as interop_onnx
from displace.interop.onnx import write_projection
from displace.synthetic import make_route

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")


def run(path, queries):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"descriptors": queries})
    return found


@pytest.mark.parametrize("n_queries", [0, 1, 40])
@pytest.mark.parametrize("fusion", ["displace", "hops", "pooling", "single", "dmat_avg"])
def test_onnxruntime_projects_as_the_map(tmp_path, fusion, n_queries):
    case = make_town(fusion, calibration=False)
    assert write_projection(case.town, tmp_path / "a.onnx") == [tmp_path / "a.onnx"]
    queries = np.ascontiguousarray(case.locations.vectors[:n_queries])
    found = run(tmp_path / "a.onnx", queries)
    assert found.dtype == np.float32
    assert found.shape == (n_queries, case.town.vectors.shape[1])
    np.testing.assert_allclose(found, case.town.project(queries), rtol=0, atol=1e-6)


@pytest.mark.parametrize("center", [True, False])
def test_at_the_size_of_a_real_model_against_float64(tmp_path, center):
    route = make_route(n_places=120, n_traversals=3, dim=1024, seed=2)
    town = build(route.references, DisPlace(ridge=0.1, center=center), calibration=False)
    write_projection(town, tmp_path / "a.onnx")
    queries = 37 * route.queries  # lengths do not matter once centred and projected: the formula does
    exact = queries.astype(np.float64) - (town.mean.astype(np.float64) if center else 0)
    exact = exact @ town.projection.astype(np.float64)
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    found = run(tmp_path / "a.onnx", queries)
    assert np.abs(found - exact).max() < 1e-6
    assert np.abs(found - town.project(queries)).max() < 1e-6


@pytest.mark.parametrize(
    ("fusion", "scale"),
    [
        *(
            (fusion, scale)
            for fusion in ("hops", "pooling", "single")
            for scale in (1e-29, 1e-20, 1e10, 1e14)
        ),
        *(("displace", scale) for scale in (1e-18, 1e14)),
    ],
)
def test_descriptors_of_any_size_are_projected(tmp_path, fusion, scale):
    route = make_route(n_places=30, n_traversals=3, dim=16, seed=2)
    refs = ReferenceSet(
        np.float32(scale) * route.references.vectors, route.references.places, route.references.traversals
    )
    town, queries = build(refs, fusion, calibration=False), np.float32(scale) * route.queries
    write_projection(town, tmp_path / "a.onnx")
    found = run(tmp_path / "a.onnx", queries)
    np.testing.assert_allclose(found, town.project(queries), rtol=0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


def test_a_query_of_zeros_stays_zero(tmp_path):
    case = make_town("hops", calibration=False)
    write_projection(case.town, tmp_path / "a.onnx")
    np.testing.assert_array_equal(run(tmp_path / "a.onnx", np.zeros((2, DIM), np.float32)), 0)


def test_the_file_says_what_it_is_and_runs_on_old_runtimes(tmp_path):
    case = make_town(calibration=False)
    write_projection(case.town, tmp_path / "a.onnx")
    model = onnx.load(tmp_path / "a.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == 13
    assert model.ir_version == 7
    about = {entry.key: entry.value for entry in model.metadata_props}
    assert about["fusion"] == "displace"
    assert json.loads(about["model"]) == {"model": MODEL, "imported": True}
    (batch, dim) = model.graph.input[0].type.tensor_type.shape.dim
    assert (batch.dim_param, dim.dim_value) == ("batch", DIM)


def test_too_large_for_the_format(tmp_path, monkeypatch):
    monkeypatch.setattr(interop_onnx, "MAX_BYTES", 100)
    with pytest.raises(InputError, match=r"more than an ONNX file can hold \(100\)"):
        write_projection(make_town(calibration=False).town, tmp_path / "a.onnx")
    assert not list(tmp_path.iterdir())


def test_without_onnx_the_extra_is_named(tmp_path, monkeypatch):
    town = make_town(calibration=False).town
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'displace\[onnx\]'"):
        write_projection(town, tmp_path / "a.onnx")
