"""Shards: vectors found by key, appended as whole files."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize("odd", [1e5, -1e5, np.inf, np.nan, 1e-9], ids=str)
def test_numbers_that_float16_cannot_hold_are_refused_and_nothing_is_written(tmp_path, odd):
    """They were stored as infinity, which was found when a map was built, or as zeros, which never was."""
    narrow = filled(tmp_path / "narrow", "float16")
    with pytest.raises(StoreError, match=r"1 descriptors, with numbers up to .* cannot be stored as float16"):
        narrow.append(["d", "e", "f"], np.array([[1, 2, 3], [odd, 0, 0], [0, 0, 0]], np.float32))
    assert len(Shards(tmp_path / "narrow", "me", 3, "float16")) == 3
    if np.isfinite(odd):
        wide = filled(tmp_path / "wide")
        wide.append(["d"], np.array([[odd, 0, 0]], np.float32))
        assert wide.gather(["d"])[0, 0] == np.float32(odd)


def test_keys_of_zero_vectors_are_known_without_reading_any(tmp_path):
    shards = filled(tmp_path)
    shards.append(["d", "e"], np.array([[0, 0, 0], [0, 1, 0]], np.float32))
    shards.append(["f"], np.zeros((1, 3), np.float32))
    shards.append(["f"], np.ones((1, 3), np.float32))
    for path in tmp_path.glob("*.npy"):
        path.write_bytes(path.read_bytes()[:-4] + b"\1\1\1\1")  # reading would tell the damage
    assert shards.zero == Shards(tmp_path, "me", 3, "float32").zero == {"d"}


@pytest.mark.parametrize("zero", [7, [7], ["a"], None], ids=str)
def test_rows_of_zero_vectors_that_are_none_are_damage(tmp_path, zero):
    filled(tmp_path)
    path = tmp_path / "000000.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "zero": zero}))
    assert Shards(tmp_path, "me", 3, "float32").damaged == ["000000.json"]


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
def test_a_damaged_shard_costs_its_own_vectors_only(tmp_path, caplog, damage):
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
    (damaged,) = again.damaged
    assert f"{tmp_path / damaged} is damaged: its" in caplog.text
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
            assert (tmp_path / "lock").read_text().strip() == str(os.getpid())


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (
            OSError("900 requested and 200 written"),
            r"the disk took only a part \(900 requested and 200 written\)",
        ),
    ],
    ids=["system", "numpy"],
)
def test_a_write_that_fails_leaves_the_shards_as_they_were(tmp_path, monkeypatch, error, why):
    shards = filled(tmp_path)

    def full(*_args, **_options):
        raise error

    monkeypatch.setattr("displace.descriptors.shards.np.save", full)
    with pytest.raises(StoreError, match=f"{why}; what was written before is safe"):
        shards.append(["d"], np.zeros((1, 3), np.float32))
    assert len(Shards(tmp_path, "me", 3, "float32")) == 3
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_a_lock_that_is_a_link_is_refused_and_its_target_left_alone(tmp_path, link):
    letter = tmp_path / "letter"
    letter.write_text("dear")
    (tmp_path / "s").mkdir()
    link(letter, tmp_path / "s" / "lock")
    with pytest.raises(StoreError, match=r"is a link|is no lock"), exclusive(tmp_path / "s"):
        pass
    assert letter.read_text() == "dear"


def test_a_file_that_is_no_lock_is_not_written_over(tmp_path):
    (tmp_path / "lock").write_text("a letter that somebody called lock, for reasons of their own")
    with pytest.raises(StoreError, match="is no lock"), exclusive(tmp_path):
        pass
    assert (tmp_path / "lock").read_text().startswith("a letter")


def test_a_full_disk_does_not_matter_to_the_lock(tmp_path, monkeypatch):
    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("displace.descriptors.shards.os.write", full)
    with exclusive(tmp_path):
        assert (tmp_path / "lock").exists()


def test_cleaning_removes_nothing_but_shards(tmp_path):
    shards = filled(tmp_path)
    for name in ("2024.npy", "000007-mine.npy", ".notes.tmp", "table.json"):
        (tmp_path / name).write_bytes(b"mine")
    (tmp_path / "aim").write_bytes(b"mine")
    (tmp_path / "000009.npy").symlink_to(tmp_path / "aim")
    before = {p.name for p in tmp_path.iterdir()}
    shards.clean()
    assert {p.name for p in tmp_path.iterdir()} == before


def test_every_flipped_bit_of_a_header_costs_its_own_vectors_only(tmp_path):
    filled(tmp_path)
    first = tmp_path / "000000.npy"
    content = first.read_bytes()
    for bit in range(0, 8 * 128):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        first.write_bytes(damaged)
        again = Shards(tmp_path, "me", 3, "float32")
        again.verify()
        assert "a" not in again, bit
        assert "c" in again


def test_a_flipped_bit_of_a_vector_is_noticed_when_it_is_used_and_by_verifying(tmp_path):
    filled(tmp_path)
    first = tmp_path / "000000.npy"
    content = bytearray(first.read_bytes())
    content[-1] ^= 1
    first.write_bytes(content)
    again = Shards(tmp_path, "me", 3, "float32")
    assert "a" in again
    np.testing.assert_array_equal(again.gather(["c"]), [[7, 8, 9]])
    with pytest.raises(StoreError, match=r"000000\.npy is damaged.*describes these images anew"):
        again.gather(["a"])
    again.verify()
    assert "a" not in again
    assert again.damaged == ["000000.npy"]


@pytest.mark.parametrize(
    ("dim", "dtype"), [(4, "float32"), (3, "float16")], ids=["another dimension", "another type"]
)
def test_shards_of_another_shape_or_type_are_damage(tmp_path, dim, dtype):
    filled(tmp_path)
    np.save(tmp_path / "000000.npy", np.zeros((2, dim), dtype))
    assert Shards(tmp_path, "me", 3, "float32").damaged == ["000000.npy"]


def test_vectors_in_the_order_of_columns_are_damage(tmp_path):
    filled(tmp_path)
    np.save(tmp_path / "000000.npy", np.asfortranarray(np.zeros((2, 3), np.float32)))
    assert Shards(tmp_path, "me", 3, "float32").damaged == ["000000.npy"]


@pytest.mark.usefixtures("not_for_ever")
def test_a_pipe_among_the_shards_is_not_waited_for(tmp_path):
    filled(tmp_path)
    (tmp_path / "000000.npy").unlink()
    os.mkfifo(tmp_path / "000000.npy")
    (tmp_path / "000001.json").unlink()
    os.mkfifo(tmp_path / "000001.json")
    assert sorted(Shards(tmp_path, "me", 3, "float32").damaged) == ["000000.npy", "000001.json"]
