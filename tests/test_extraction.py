"""Extraction: what is described, what is reused, what is skipped, and what an interruption leaves."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from PIL import Image
from tiny import HeavyTinyModel, TinyModel, expected, make_route

from displace.descriptors import extraction, preparation
from displace.descriptors.extraction import SkippedImagesError, extract
from displace.descriptors.store import DescriptorStore
from displace.errors import ImageError, InputError, StoreError
from displace.manifest.table import Manifest
from displace.models import get_model


@pytest.fixture
def route(tmp_path):
    return make_route(tmp_path / "route")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "route.desc"


def test_a_second_run_describes_nothing(route, folder):
    first, second = TinyModel(), TinyModel()
    done = extract(route, first, folder)
    assert (done.n_described, done.n_reused, first.n_described) == (12, 0, 12)
    again = extract(route, second, folder)
    assert (again.n_described, again.n_reused, second.n_described) == (0, 12, 0)
    np.testing.assert_allclose(again.store.vectors(), expected(route), atol=1e-7)


def test_renamed_and_reordered_images_are_not_described_again(route, folder):
    extract(route, TinyModel(), folder)
    shutil.move(route.root / "sun", route.root / "sunny")
    renamed = [name.replace("sun/", "sunny/") for name in route.images][::-1]
    manifest = Manifest(renamed, route.places[::-1], route.traversals[::-1], route.root)
    model = TinyModel()
    store = extract(manifest, model, folder).store
    assert model.n_described == 0
    np.testing.assert_allclose(store.vectors(), expected(manifest), atol=1e-7)


def test_changed_content_under_the_same_name_is_described_again(route, folder):
    extract(route, TinyModel(), folder)
    Image.new("RGB", (10, 8), (255, 0, 0)).save(route.root / route.images[3])
    model = TinyModel()
    store = extract(route, model, folder).store
    assert model.n_described == 1
    np.testing.assert_allclose(store.vectors(), expected(route), atol=1e-7)


def test_swapped_contents_follow_the_content(route, folder):
    extract(route, TinyModel(), folder)
    a, b, spare = (route.root / name for name in (route.images[0], route.images[5], "spare"))
    a.rename(spare), b.rename(a), spare.rename(b)
    model = TinyModel()
    store = extract(route, model, folder).store
    assert model.n_described == 0
    np.testing.assert_allclose(store.vectors(), expected(route), atol=1e-7)


def test_one_content_under_two_names_is_described_once(route, folder):
    shutil.copy(route.root / route.images[0], route.root / route.images[1])
    model = TinyModel()
    store = extract(route, model, folder).store
    assert (model.n_described, len(store)) == (11, 12)
    np.testing.assert_allclose(store.vectors(), expected(route), atol=1e-7)


def test_a_longer_manifest_adds_and_a_shorter_one_keeps_what_it_does_not_list(route, folder):
    half = route.select(np.arange(6))
    extract(half, TinyModel(), folder)
    model = TinyModel()
    assert extract(route, model, folder).n_reused == 6
    assert model.n_described == 6
    shorter = extract(half, TinyModel(), folder)
    assert (shorter.n_unlisted, len(shorter.store)) == (6, 6)
    assert extract(route, TinyModel(), folder).n_described == 0


def test_another_model_is_refused_and_overwrite_starts_anew(route, folder):
    extract(route, TinyModel(version=1), folder)
    with pytest.raises(StoreError, match=r"(?s)descriptors of tiny.*--overwrite.*version: 1 / 2"):
        extract(route, TinyModel(version=2), folder)
    model = TinyModel(version=2)
    assert extract(route, model, folder, overwrite=True).n_described == model.n_described == 12
    assert DescriptorStore(folder).model["version"] == 2
    assert len(list((folder / "shards").glob("*.npy"))) == 1


def test_float16_is_stored_and_kept_by_later_runs(route, folder):
    store = extract(route, TinyModel(), folder, dtype="float16").store
    assert store.dtype == np.float16
    np.testing.assert_allclose(store.vectors(), expected(route), atol=5e-4)
    assert extract(route, TinyModel(), folder).n_described == 0
    with pytest.raises(StoreError, match="holds float16 and dtype=float32 is asked for"):
        extract(route, TinyModel(), folder, dtype="float32")
    with pytest.raises(InputError, match="dtype='int8' must be one of float32, float16"):
        extract(route, TinyModel(), folder, dtype="int8")


def test_images_of_different_size_go_in_batches_of_one_shape(tmp_path, folder):
    small = make_route(tmp_path / "r", n_places=7, traversals=("a",), shape=(8, 10))
    large = make_route(tmp_path / "r", n_places=7, traversals=("b",), shape=(16, 12))
    mixed = [name for pair in zip(small.images, large.images, strict=True) for name in pair]
    manifest = Manifest(mixed, mixed, ["t"] * 14, tmp_path / "r")
    model = TinyModel()
    store = extract(manifest, model, folder, batch_size=4).store
    assert sorted(model.shapes) == sorted([(4, 8, 10, 3), (3, 8, 10, 3), (4, 16, 12, 3), (3, 16, 12, 3)])
    np.testing.assert_allclose(store.vectors(), expected(manifest), atol=1e-7)


class BatchSensitive(TinyModel):
    """Its numbers depend on the batch, as the last bits of a network's do."""

    def describe(self, batch):
        return super().describe(batch) * len(batch) + batch.mean()


class HeavyBatchSensitive(BatchSensitive):
    prepare_is_heavy = True


def test_the_result_does_not_depend_on_the_number_of_workers(tmp_path, route, monkeypatch):
    monkeypatch.setattr(preparation, "WORTH_PROCESSES", 1)
    runs = [(BatchSensitive(), 1), (BatchSensitive(), 5), (HeavyBatchSensitive(), 2)]
    results = [
        extract(route, model, tmp_path / f"{i}.desc", workers=workers, batch_size=5).store.vectors()
        for i, (model, workers) in enumerate(runs)
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.fixture
def damaged(route):
    """Break four of the twelve images, each in another way; return their names."""
    whole = (route.root / route.images[1]).read_bytes()
    (route.root / route.images[1]).write_bytes(whole[: len(whole) // 2])
    (route.root / route.images[4]).write_bytes(b"")
    (route.root / route.images[7]).write_text("not an image")
    (route.root / route.images[8]).unlink()
    return [route.images[i] for i in (1, 4, 7, 8)]


def test_unreadable_images_are_skipped_and_listed(route, folder, damaged):
    done = extract(route, TinyModel(), folder)
    assert sorted(done.skipped) == sorted(damaged)
    assert "empty" in done.skipped[damaged[1]]
    assert "No such file" in done.skipped[damaged[3]]
    assert all(name in reason for name, reason in done.skipped.items())
    store = DescriptorStore(folder)
    assert store.skipped == done.skipped
    assert sorted(store.missing) == sorted(damaged)
    good = route.select([name not in damaged for name in route.images])
    assert store.images == good.images
    np.testing.assert_allclose(store.vectors(), expected(good), atol=1e-7)


def test_strict_describes_the_rest_then_fails_naming_every_skipped_image(route, folder, damaged):
    with pytest.raises(SkippedImagesError, match="4 of 12 images skipped; all others are in") as caught:
        extract(route, TinyModel(), folder, strict=True)
    assert all(name in str(caught.value) for name in damaged)
    assert len(DescriptorStore(folder)) == 8


def test_a_repaired_image_is_described_by_the_next_run(route, folder, damaged):
    extract(route, TinyModel(), folder)
    Image.new("RGB", (10, 8)).save(route.root / damaged[1])
    done = extract(route, TinyModel(), folder)
    assert (done.n_described, sorted(done.skipped)) == (1, sorted({*damaged} - {damaged[1]}))


def test_no_readable_image_at_all_is_an_error_with_a_hint(route, folder):
    shutil.rmtree(route.root)
    with pytest.raises(ImageError, match=r"none of the 12 images .* relative to its own folder"):
        extract(route, TinyModel(), folder)


class NanModel(TinyModel):
    def describe(self, batch):
        vectors = super().describe(batch)
        vectors[0, 3] = np.nan
        return vectors


def test_a_descriptor_that_is_not_finite_is_skipped(route, folder):
    done = extract(route, NanModel(), folder, batch_size=6)
    assert set(done.skipped) == {route.images[0], route.images[6]}
    assert np.isfinite(done.store.vectors()).all()


class WrongShape(TinyModel):
    def describe(self, batch):
        return super().describe(batch)[:, :5]


def test_one_pixel_and_100_megapixels_are_described(tmp_path, folder):
    """With hog: one pixel has no gradient, so its descriptor is zero; the large picture's is that of the small one."""
    small = Image.radial_gradient("L")
    small.save(tmp_path / "small.png")
    small.resize((10_000, 10_000), Image.Resampling.NEAREST).save(tmp_path / "large.jpg")
    Image.new("RGB", (1, 1), (9, 9, 9)).save(tmp_path / "pixel.png")
    images = ["small.png", "large.jpg", "pixel.png"]
    done = extract(Manifest(images, ["0", "0", "1"], ["a", "b", "a"], tmp_path), get_model("hog"), folder)
    assert (done.n_described, done.skipped) == (3, {})
    vectors = done.store.vectors()
    assert vectors[0] @ vectors[1] > 0.99
    assert not vectors[2].any()


class DemandingModel(TinyModel):
    """Takes images of at least 4×4."""

    def prepare(self, image):
        if min(image.shape[:2]) < 4:
            raise ImageError(f"an image of {image.shape[1]}×{image.shape[0]} is too small for tiny")
        return super().prepare(image)


def test_one_pixel_is_skipped_where_it_is_too_small_for_the_model(route, folder):
    Image.new("RGB", (1, 1)).save(route.root / route.images[2])
    done = extract(route, DemandingModel(), folder)
    assert done.skipped == {route.images[2]: "an image of 1×1 is too small for tiny"}
    assert len(done.store) == len(route) - 1


def test_a_model_that_contradicts_its_dim_is_named(route, folder):
    with pytest.raises(InputError, match=r"'tiny' returned descriptors of shape \(12, 5\) for 12 images"):
        extract(route, WrongShape(), folder)


class Interrupted(TinyModel):
    """Ctrl-C in the middle of the third batch."""

    def describe(self, batch):
        if len(self.shapes) == 2:
            raise KeyboardInterrupt
        return super().describe(batch)


@pytest.mark.parametrize("heavy", [False, True], ids=["threads", "processes"])
def test_ctrl_c_keeps_what_was_described(route, folder, monkeypatch, heavy):
    monkeypatch.setattr(preparation, "WORTH_PROCESSES", 1)
    monkeypatch.setattr(Interrupted, "prepare_is_heavy", heavy)
    with pytest.raises(KeyboardInterrupt):
        extract(route, Interrupted(), folder, batch_size=3)
    assert len(DescriptorStore(folder)) == 6
    model = TinyModel()
    store = extract(route, model, folder).store
    assert model.n_described == 6
    np.testing.assert_allclose(store.vectors(), expected(route), atol=1e-7)


@pytest.mark.parametrize("written", [0, 1, 2, 3, 4, 5, 6])
def test_a_full_disk_leaves_a_store_that_opens_and_goes_on(route, folder, monkeypatch, written):
    """Every file is written through `os.replace`: let the disk be full after so many of them."""
    import os

    real, count = os.replace, 0

    def replace(*args):
        nonlocal count
        count += 1
        if count > written:
            raise OSError(28, "No space left on device")
        return real(*args)

    monkeypatch.setattr(extraction, "SHARD_BYTES", 1)
    with monkeypatch.context() as patch:
        patch.setattr("displace.files.atomic.os.replace", replace)
        with pytest.raises(StoreError, match="No space left on device"):
            extract(route, TinyModel(), folder, batch_size=4)
    assert not list(folder.rglob("*.tmp"))
    n_safe = len(DescriptorStore(folder)) if written else 0
    assert n_safe == max(0, (written - 2) // 2) * 4
    model = TinyModel()
    store = extract(route, model, folder).store
    assert model.n_described == 12 - n_safe
    np.testing.assert_allclose(store.vectors(), expected(route), atol=1e-7)


def test_leftovers_of_a_killed_writer_are_cleared_away(route, folder):
    extract(route, TinyModel(), folder)
    leftovers = [
        folder / ".index.json.abcd1234.tmp",
        folder / "shards" / ".000001.npy.y.tmp",
        folder / "shards" / "000001.npy",
    ]
    mine = [folder / ".index.json.notes.tmp", folder / ".notes.tmp", folder / "shards" / ".notes.tmp"]
    for path in (*leftovers, *mine):
        path.write_bytes(b"half a file")
    extract(route, TinyModel(), folder)
    assert not any(path.exists() for path in leftovers)
    assert all(path.exists() for path in mine)


def test_output_that_cannot_be_written_is_explained(tmp_path, route):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="is a file; a store is a folder: choose another name with -o"):
        extract(route, TinyModel(), tmp_path / "file")
    with pytest.raises(StoreError, match=r"cannot write to .*Not a directory"):
        extract(route, TinyModel(), tmp_path / "file" / "route.desc")
    with pytest.raises(StoreError, match=r"holds other files \(night, …\) and is no descriptor store"):
        extract(route, TinyModel(), route.root, overwrite=True)
    assert (route.root / "route.csv").exists()


def test_progress_counts_both_passes_to_the_end(route, folder, damaged):
    calls = []
    extract(route, TinyModel(), folder, batch_size=4, progress=lambda *call: calls.append(call))
    reading = [done for stage, done, total in calls if stage == "reading" and total == 12]
    describing = [(done, total) for stage, done, total in calls if stage == "describing"]
    assert reading == list(range(1, 13))
    assert describing[0] == (0, 11)
    assert describing[-1] == (11, 11)
    assert describing == sorted(describing)


@pytest.mark.parametrize(("option", "value"), [("workers", 0), ("batch_size", -1)])
def test_numbers_below_one_are_refused(route, folder, option, value):
    with pytest.raises(InputError, match=f"{option}={value} must be a whole number of at least 1"):
        extract(route, TinyModel(), folder, **{option: value})
    assert not folder.exists()


def test_slow_work_is_saved_by_the_clock(route, folder, monkeypatch):
    monkeypatch.setattr(extraction, "SHARD_SECONDS", 0.0)
    extract(route, TinyModel(), folder, batch_size=4)
    keys = [json.loads(p.read_text())["keys"] for p in sorted((folder / "shards").glob("*.json"))]
    assert [len(k) for k in keys] == [4, 4, 4]


def test_heavy_models_run_in_processes(tmp_path):
    route = make_route(tmp_path / "r", n_places=preparation.WORTH_PROCESSES // 2)
    store = extract(route, HeavyTinyModel(), tmp_path / "d", workers=2).store
    np.testing.assert_allclose(store.vectors(), expected(route), atol=1e-7)


def test_equal_files_are_each_named_in_their_message(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.jpg").write_bytes(b"")
    Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(tmp_path / "good.png")
    names = ["a.jpg", "b.jpg", "c.jpg", "good.png"]
    manifest = Manifest(names, ["0", "1", "2", "3"], ["t"] * 4, tmp_path)
    done = extract(manifest, get_model("hog"), tmp_path / "x.desc", workers=1)
    assert all(name in why for name, why in done.skipped.items())


def test_images_that_are_all_gone_leave_the_store_as_it_was(tmp_path):
    """As on a disk that is not mounted: the store then listed 12 skipped images and nothing else."""
    route = make_route(tmp_path / "route")
    store = extract(route, TinyModel(), tmp_path / "route.desc").store
    (tmp_path / "route").rename(tmp_path / "elsewhere")
    with pytest.raises(
        ImageError, match=r"none of the 12 images could be described; .*route.desc stays as it was"
    ):
        extract(route, TinyModel(), tmp_path / "route.desc")
    left = DescriptorStore(tmp_path / "route.desc")
    assert (len(left), left.skipped) == (12, {})
    np.testing.assert_array_equal(left.vectors(), store.vectors())
