"""A map built by the workers of a cluster is the map built by one process."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from displace import DisPlace, build
from displace.descriptors.shards import Shards
from displace.descriptors.store import DescriptorStore
from displace.descriptors.store_index import StoreIndex
from displace.errors import DisplaceError, InputError, StoreError
from displace.manifest.table import Manifest
from displace.maps.streaming import build_streamed
from displace.synthetic import make_route

distributed = pytest.importorskip(
    "distributed", reason="needs 'distributed': pip install 'displace[cluster]'"
)
from displace.cluster import summing  # noqa: E402
from displace.cluster.session import connected  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of the cluster's own event loops and sockets

FIXED = DisPlace(ridge=0.1, center=True)


@pytest.fixture(scope="module")
def route():
    return make_route(n_places=120, n_traversals=4, dim=16, drop=0.2, seed=5)


@pytest.fixture(scope="module")
def store(route, tmp_path_factory):
    """A store of seven uneven shards: the references of most places lie in several of them."""
    refs = route.references.select(np.random.default_rng(0).permutation(len(route.references)))
    folder = tmp_path_factory.mktemp("stores") / "route.desc"
    folder.mkdir()
    names = [f"{i}.png" for i in range(len(refs))]
    places = [f"p{place:04d}" for place in refs.places]
    index = StoreIndex(
        {"model": "made"}, 16, "float32", Manifest(names, places, refs.traversals.tolist()), names
    )
    index.write(folder)
    shards = Shards(folder / "shards", index.owner, 16, "float32")
    cuts = [0, 3, 50, 51, 140, 150, 290, len(refs)]
    for start, stop in pairwise(cuts):
        shards.append(names[start:stop], refs.vectors[start:stop])
    return DescriptorStore(folder)


def assert_same(place_map, other, queries):
    mine, its = place_map.locate(queries, k=3), other.locate(queries, k=3)
    np.testing.assert_array_equal(mine.places[:, 0], its.places[:, 0])
    np.testing.assert_allclose(mine.scores, its.scores, atol=1e-4)


@pytest.fixture
def in_process():
    """Make a cluster inside this process."""
    made = []

    def make(n_workers):
        cluster = distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=False,
            dashboard_address=None,
            memory_limit=0,  # else workers pause, for ever, where the tests before left the process large
        )
        made.append((cluster, distributed.Client(cluster)))
        return made[-1][1]

    yield make
    for cluster, client in made:
        client.close()
        cluster.close()


@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_any_number_of_workers_build_the_same_map(store, route, in_process, tmp_path, n_workers, monkeypatch):
    reads = []
    real = summing.ShardPart.read
    monkeypatch.setattr(summing.ShardPart, "read", lambda part: (reads.append(part.path), real(part))[1])
    options = {"dtype": "float32", "calibration": False}
    mapped = summing.build_on_cluster(in_process(n_workers), store, FIXED, folder=tmp_path, **options)
    assert sorted(reads) == sorted({*reads}), "no shard is read twice"
    assert len(reads) == 7
    whole = build(store.references(), FIXED, **options)
    assert_same(mapped, whole, route.queries)
    (tmp_path / "again").mkdir()
    streamed = build_streamed(store.stream(), FIXED, folder=tmp_path / "again", block_bytes=2000, **options)
    assert_same(mapped, streamed, route.queries)


def test_statistics_stay_with_the_workers_and_are_let_go(store, in_process, tmp_path, monkeypatch):
    client, brought = in_process(2), []
    real = distributed.Future.result
    monkeypatch.setattr(
        distributed.Future, "result", lambda future, *a, **k: (brought.append(future.key), real(future))[1]
    )
    parts = summing.shard_parts(store, store.stream())
    whole = summing._reduced(client, FIXED, parts, None)
    assert brought == []
    gc.collect()
    client.sync(asyncio.sleep, 0)  # what this process no longer holds is told to its event loop
    held = {key for key in client.refcount if key.startswith(("partial_of", "merged"))}
    assert held == {whole.key}
    assert whole.result().scatter.n_references == len(store.references())


@pytest.mark.parametrize("fusion", ["displace", "hops", "dmat_avg"])
def test_settings_confidence_and_updates_are_those_of_one_process(store, route, in_process, tmp_path, fusion):
    mapped = summing.build_on_cluster(in_process(2), store, fusion, folder=tmp_path, dtype="float32")
    whole = build(store.references(), fusion, store.model, dtype="float32")
    assert mapped.settings == whole.settings
    assert_same(mapped, whole, route.queries)
    mapped.save(tmp_path / "town.displace")
    mapped.remove(store.references(["t3"]))
    whole.remove(store.references(["t3"]))
    assert_same(mapped, whole, route.queries)


def test_a_worker_that_is_killed_changes_nothing(store, route, tmp_path):
    killed = []

    def kill_one(client, stage, done, total):
        if stage == "reading" and not killed and done < total:
            pid = next(iter(client.run(os.getpid).values()))
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    with connected("local:2") as client:
        mapped = summing.build_on_cluster(
            client, store, FIXED, folder=tmp_path, dtype="float32", calibration=False,
            progress=partial(kill_one, client),
        )  # fmt: skip
    assert killed
    assert_same(mapped, build(store.references(), FIXED, dtype="float32", calibration=False), route.queries)


def test_pooling_is_refused_with_a_way_out(store, in_process, tmp_path):
    with pytest.raises(InputError, match="without a cluster"):
        summing.build_on_cluster(in_process(1), store, "pooling", folder=tmp_path)


def test_a_store_that_workers_do_not_see_is_named(store, in_process, tmp_path):
    part = summing.ShardPart("/nowhere/000000.npy", np.arange(1), np.array(["a"]), np.array(["t"]))
    with pytest.raises(DisplaceError, match="all workers see"):
        in_process(1).submit(summing.partial_of, part, FIXED).result()


def test_a_damaged_shard_is_refused_by_the_worker_that_reads_it(store, tmp_path):
    """A map was built of whatever vectors the bytes had become."""
    shard = Path(shutil.copytree(store.folder / "shards", tmp_path / "shards")) / "000001.npy"
    part = summing.ShardPart(str(shard), np.arange(47), np.arange(47), np.full(47, "t"))
    assert len(part.read()) == 47
    content = bytearray(shard.read_bytes())
    content[-5] ^= 1
    shard.write_bytes(content)
    with pytest.raises(StoreError, match="checksum"):
        part.read()


@pytest.mark.parametrize("address", ["localhost", "local:none", "local:0"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(InputError, match="local"), connected(address):
        pass


def test_images_are_described_by_workers_as_by_one_process(in_process, tmp_path):
    from displace.cluster.describing import describer_on
    from displace.descriptors.extraction import extract
    from displace.models import get_model

    rng = np.random.default_rng(0)
    names = [f"{number}.png" for number in range(6)]
    for name in names:
        Image.fromarray(rng.integers(0, 255, (40, 60, 3), np.uint8)).save(tmp_path / name)
    (tmp_path / "broken.png").write_bytes(b"no picture")
    names.append("broken.png")
    manifest = Manifest(names, [f"p{i}" for i in range(7)], ["t"] * 7, tmp_path)
    make = partial(get_model, "hog")
    alone = extract(manifest, make(), tmp_path / "alone.desc")
    shared = extract(manifest, make(), tmp_path / "shared.desc", describer=describer_on(in_process(2), make))
    assert shared.n_described == alone.n_described == 6
    assert shared.skipped.keys() == alone.skipped.keys() == {"broken.png"}
    np.testing.assert_array_equal(shared.store.vectors(), alone.store.vectors())
