"""Shards: vectors found by key, appended as whole files."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from displace.descriptors.shards import Shards, exclusive
from displace.errors import StoreError


def filled(folder, dtype="float32"):
    shards = Shards(folder, "me", 3, dtype)
    shards.append(["a", "b"], np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    shards.append(["c"], np.array([[7, 8, 9]], np.float32))
    return shards


def test_vectors_come_back_in_the_order_asked_for(tmp_path):
    filled(tmp_path / "s")
    again = Shards(tmp_path / "s", "me", 3, "float32")
    assert len(again) == 3
    assert "b" in again
    assert "z" not in again
    np.testing.assert_array_equal(again.gather(["c", "a", "c"]), [[7, 8, 9], [1, 2, 3], [7, 8, 9]])
    assert again.gather([]).shape == (0, 3)


def test_float16_is_half_the_bytes_and_reads_as_float32(tmp_path):
    wide, narrow = filled(tmp_path / "wide"), filled(tmp_path / "narrow", "float16")
    assert narrow.nbytes * 2 == wide.nbytes == 3 * 3 * 4
    assert narrow.gather(["a"]).dtype == np.float32
    assert np.load(tmp_path / "narrow" / "000000.npy").dtype == np.float16


def test_an_append_writes_one_shard_and_touches_no_other(tmp_path):
    shards = filled(tmp_path)
    before = {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    shards.append(["d"], np.zeros((1, 3), np.float32))
    after = {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    assert set(after) - set(before) == {"000002.npy", "000002.json"}
    assert {name: after[name] for name in before} == before


def test_vectors_without_keys_do_not_count_and_are_cleared_away(tmp_path):
    filled(tmp_path)
    np.save(tmp_path / "000002.npy", np.zeros((5, 3), np.float32))
    (tmp_path / ".000003.npy.abc.tmp").write_bytes(b"half")
    again = Shards(tmp_path, "me", 3, "float32")
    assert len(again) == 3
    again.clean()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "000000.json",
        "000000.npy",
        "000001.json",
        "000001.npy",
    ]


@pytest.mark.parametrize("damage", ["truncated", "gone", "other shape", "keys are not JSON"])
def test_a_damaged_shard_costs_its_own_vectors_only(tmp_path, damage):
    filled(tmp_path)
    first = tmp_path / "000000.npy"
    match damage:
        case "truncated":
            os.truncate(first, first.stat().st_size - 4)
        case "gone":
            first.unlink()
        case "other shape":
            np.save(first, np.zeros((2, 4), np.float32))
        case _:
            first.with_suffix(".json").write_text('{"model": "me"')
    again = Shards(tmp_path, "me", 3, "float32")
    assert "a" not in again
    assert len(again.damaged) == 1
    np.testing.assert_array_equal(again.gather(["c"]), [[7, 8, 9]])
    again.clean()
    again.append(["a"], np.ones((1, 3), np.float32))
    np.testing.assert_array_equal(
        Shards(tmp_path, "me", 3, "float32").gather(["c", "a"]), [[7, 8, 9], [1, 1, 1]]
    )


def test_shards_of_another_model_are_not_seen(tmp_path):
    filled(tmp_path)
    other = Shards(tmp_path, "you", 3, "float32")
    assert len(other) == 0
    assert other.damaged == []


def test_a_second_writer_is_refused_with_the_first_ones_process_id(tmp_path):
    code = (
        "import sys; from pathlib import Path; from displace.descriptors.shards import exclusive\n"
        f"with exclusive(Path({str(tmp_path)!r})): print('in', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as first:
        assert first.stdout.readline() == b"in\n"
        with (
            pytest.raises(StoreError, match=rf"written by another process \(id {first.pid}\)"),
            exclusive(tmp_path),
        ):
            pass
        first.kill()
        first.wait()
        with exclusive(tmp_path):  # the lock of a killed writer is gone
            assert (tmp_path / "lock").read_text() == str(os.getpid())


def test_a_write_that_fails_leaves_the_shards_as_they_were(tmp_path, monkeypatch):
    shards = filled(tmp_path)

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("displace.descriptors.shards.np.save", full)
    with pytest.raises(StoreError, match="No space left on device; what was written before is safe"):
        shards.append(["d"], np.zeros((1, 3), np.float32))
    assert len(Shards(tmp_path, "me", 3, "float32")) == 3
    assert not list(tmp_path.glob(".*"))
