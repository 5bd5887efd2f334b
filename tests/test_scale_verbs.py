"""The verbs past memory and past one machine."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from typer.testing import CliRunner

from displace import PlaceMap
from displace.arrays import l2_normalize
from displace.cli import app
from displace.descriptors.imported import write_store
from displace.descriptors.shards import Shards
from displace.descriptors.store import DescriptorStore, Queries
from displace.descriptors.store_index import StoreIndex
from displace.errors import InputError, RouteWarning
from displace.manifest.table import Manifest
from displace.synthetic import make_route
from displace.verbs.build import build

N = 60


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store of three traversals with positions, a place each 20 m eastwards."""
    refs = make_route(n_places=N, n_traversals=3, dim=16, seed=5).references
    folder = tmp_path_factory.mktemp("stores") / "route.desc"
    folder.mkdir()
    names = [f"{row}.png" for row in range(len(refs))]
    manifest = Manifest(
        names,
        [f"p{place:03d}" for place in refs.places],
        refs.traversals.tolist(),
        easting=(20.0 * refs.places).tolist(),
        northing=np.zeros(len(refs)).tolist(),
    )
    index = StoreIndex({"model": "made"}, 16, "float32", manifest, names)
    index.write(folder)
    shards = Shards(folder / "shards", index.owner, 16, "float32")
    for start in range(0, len(refs), 50):
        shards.append(names[start : start + 50], refs.vectors[start : start + 50])
    return folder


@pytest.fixture(scope="module")
def whole(store, tmp_path_factory):
    return build(store, tmp_path_factory.mktemp("maps") / "whole.displace", dtype="float32")


def assert_same(place_map, other, store):
    queries = DescriptorStore(store).vectors()
    np.testing.assert_array_equal(place_map.locate(queries).places[:, 0], other.locate(queries).places[:, 0])
    np.testing.assert_allclose(place_map.locate(queries).scores, other.locate(queries).scores, atol=1e-4)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent the POSIX way")
def test_a_streamed_build_that_is_told_to_end_leaves_no_rows(store, tmp_path):
    """Gigabytes of them, in a hidden folder beside the map."""
    code = f"""
import os, signal, sys
from pathlib import Path
from displace.maps import streaming
from displace.verbs.build import build
signal.signal(signal.SIGTERM, signal.SIG_DFL)
def ended(*args, folder, **others):
    (Path(folder) / "rows").write_bytes(b"rows")
    os.kill(os.getpid(), signal.SIGTERM)
streaming.build_streamed = ended
sys.modules[build.__module__].MEMORY_SHARE = 0.0
build({str(store)!r}, {str(tmp_path / "town.displace")!r})
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_rows_that_a_killed_build_left_are_removed_by_the_next(store, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[build.__module__], "MEMORY_SHARE", 0.0)
    (tmp_path / ".town.displace.ab12_d34.parts").mkdir()
    (tmp_path / ".town.displace.ab12_d34.parts" / "rows").write_bytes(b"rows")
    others = [".town.displace.mine.parts", ".towns.displace.ab12_d34.parts", "town.displace.ab12_d34.parts"]
    for name in others:
        (tmp_path / name).mkdir()
    build(store, tmp_path / "town.displace")
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {*others}


def test_a_streamed_map_has_the_tolerance_that_was_asked_for(store, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[build.__module__], "MEMORY_SHARE", 0.0)
    place_map = build(store, tmp_path / "town.displace", tolerance="45m", calibration=False)
    assert str(place_map.tolerance) == "within 45 m"
    with pytest.raises(InputError, match="needs the order of the places"):
        build(store, tmp_path / "frames.displace", tolerance="2 frames", calibration=False)


def test_a_store_larger_than_memory_is_streamed_by_itself(store, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[build.__module__], "MEMORY_SHARE", 0.0)
    place_map = build(store, tmp_path / "town.displace", dtype="float32")
    assert_same(place_map, whole, store)
    assert sorted(path.name for path in tmp_path.iterdir() if "lock" not in path.name) == [
        "town.displace",
        "town.displace-stats",
    ]
    assert PlaceMap.load(tmp_path / "town.displace").settings == whole.settings


def test_a_streamed_build_tells_of_traversals_that_do_not_line_up(tmp_path, monkeypatch):
    noise = np.random.default_rng(0).standard_normal((84, 12))
    seen = l2_normalize(sum(noise[shift : shift + 80] for shift in range(5)))  # a frame is like the next one
    vectors = np.concatenate([seen[:72], seen[8:] + 1e-3]).astype(np.float32)
    number, names = np.tile(np.arange(72), 2), np.repeat(["sun", "night"], 72)
    images = [f"{name}/{place}.jpg" for name, place in zip(names, number, strict=True)]
    manifest = Manifest(images, [f"p{place:04d}" for place in number], names, tmp_path, frame=number)
    write_store(Queries(vectors, manifest.places, manifest), tmp_path / "drives.desc", "made")
    monkeypatch.setattr(sys.modules[build.__module__], "MEMORY_SHARE", 0.0)
    with pytest.warns(RouteWarning, match="sun fits night better when shifted"):
        build(tmp_path / "drives.desc", tmp_path / "x.displace", tolerance="2 frames", calibration=False)
    with pytest.warns(RouteWarning) as said:
        build(tmp_path / "drives.desc", tmp_path / "y.displace", calibration=False)
    assert len(said) == 2
    assert "the next frame counts as wrong" in str(said[-1].message)


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_builds_the_same_map(store, whole, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="needs 'distributed'")

    @contextmanager
    def in_process(address):
        assert address == "local:2"
        options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
        options["memory_limit"] = 0  # else workers pause where the tests before left the process large
        with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
            yield client

    monkeypatch.setattr("displace.cluster.session.connected", in_process)
    place_map = build(store, tmp_path / "town.displace", dtype="float32", cluster="local:2")
    assert_same(place_map, whole, store)


@pytest.mark.parametrize("options", [{"fusion": "auto"}, {"keep_references": True}])
def test_what_needs_all_references_in_memory_is_refused(store, tmp_path, options):
    with pytest.raises(InputError, match="all references in memory"):
        build(store, tmp_path / "town.displace", cluster="local", **options)


def test_the_command_line_finds_places_near_a_point(store, whole, tmp_path):
    file = tmp_path / "town.displace"
    whole.save(file)
    command = ["locate", str(file), str(store), "--traversal", "t0", "-k", "3"]
    near = ["--near", "600,0", "--radius", "45", "-o", str(tmp_path / "out.csv")]
    result = CliRunner().invoke(app, [*command, *near])
    assert result.exit_code == 0, result.output
    found = {line.split(",")[1] for line in (tmp_path / "out.csv").read_text().splitlines()[1:]}
    assert any(f"p{place:03d}" in (tmp_path / "out.csv").read_text() for place in range(28, 33))
    assert "p010" not in found
    for wrong in (
        ["--near", "600"],
        ["--near", "600,0"],
        ["--radius", "5"],
        ["--near", "9e6,0", "--radius", "5"],
    ):
        assert CliRunner().invoke(app, [*command, *wrong]).exit_code != 0
