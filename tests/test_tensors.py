"""Checked files of arrays: every damage is found before anything is used."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import struct

import numpy as np
import pytest
from safetensors.numpy import load_file

from displace import DisPlace, PlaceMap, ReferenceSet, build
from displace.errors import DisplaceError, FormatError
from displace.files import schema, tensors
from displace.geo import Positions
from displace.synthetic import make_route

HEADER = {"format": "test", "version": 2, "Ä": [1.5, None]}
ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "half": np.ones(3, np.float16),
    "bytes": np.arange(5, dtype=np.uint8),
    "none": np.empty((0, 4), np.float64),
}


@pytest.fixture
def path(tmp_path):
    tensors.write(tmp_path / "x.bin", HEADER, ARRAYS)
    return tmp_path / "x.bin"


@pytest.mark.parametrize("mapped", [False, True])
def test_numbers_with_the_highest_byte_first_are_read_as_what_they_are(tmp_path, mapped):
    """They were written as they lay in memory, and said to have the lowest byte first."""
    given = np.arange(6, dtype=">f8").reshape(2, 3)
    if mapped:
        given.tofile(tmp_path / "rows")
        given = np.memmap(tmp_path / "rows", ">f8", "r", shape=(2, 3))
    tensors.write(tmp_path / "x.bin", HEADER, {"a": given})
    header, arrays = tensors.read(tmp_path / "x.bin", "test", 2)
    np.testing.assert_array_equal(arrays["a"], given)
    assert header["payload_sha256"] == tensors.payload_digest({"a": given})


@pytest.mark.parametrize("verify", [True, False])
def test_what_is_written_is_read(path, verify):
    header, arrays = tensors.read(path, "test", 2, verify)
    assert header["Ä"] == [1.5, None]
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype


def test_it_is_a_safetensors_file(path):
    np.testing.assert_array_equal(load_file(path)["a"], ARRAYS["a"])


def test_arrays_are_mapped_not_read(path):
    _, arrays = tensors.read(path, "test", 2, verify=False)
    assert isinstance(arrays["a"].base, np.memmap) or isinstance(arrays["a"], np.memmap)


def test_another_format_a_later_version_and_no_file_are_named(path, tmp_path):
    with pytest.raises(FormatError, match="is not a displace map file; its format is 'test'"):
        tensors.read(path, "displace map", 1)
    with pytest.raises(FormatError, match="has format version 2; this is displace with format version 1"):
        tensors.read(path, "test", 1)
    with pytest.raises(FormatError, match=r"cannot read .*nowhere: No such file"):
        tensors.read(tmp_path / "nowhere", "test", 1)
    with pytest.raises(FormatError, match="cannot read"):
        tensors.read(tmp_path, "test", 1)


@pytest.mark.parametrize("content", [b"", b"abc", b"\x89PNG\r\n\x1a\n" + bytes(100), b"{}" * 50, bytes(4096)])
def test_foreign_files_are_refused(tmp_path, content):
    (tmp_path / "foreign").write_bytes(content)
    with pytest.raises(FormatError):
        tensors.read(tmp_path / "foreign", "test", 2)


@pytest.mark.parametrize("at", [0, 2**22 - 1, 2**22, 5 * 2**20 - 1])
def test_the_checksum_covers_large_arrays_to_their_end(tmp_path, at):
    """They are read in parts of 4 MiB."""
    path = tmp_path / "large.bin"
    tensors.write(path, {"format": "test", "version": 2}, {"a": np.zeros(5 * 2**20, np.uint8)})
    tensors.read(path, "test", 2)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 5 * 2**20 + at)
        file.write(b"\1")
    with pytest.raises(FormatError, match="its arrays do not have the checksum"):
        tensors.read(path, "test", 2)


def test_a_forged_header_is_found_without_reading_the_arrays(path):
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    entries = json.loads(raw[8 : 8 + length])
    header = json.loads(entries["__metadata__"]["displace"])
    header["Ä"] = [2.5, None]
    entries["__metadata__"]["displace"] = json.dumps(header)
    forged = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(forged)) + forged + raw[8 + length :])
    with pytest.raises(FormatError, match="its header does not have the checksum"):
        tensors.read(path, "test", 2, verify=False)


def test_labels_survive():
    for labels in (np.array([3, -1, 7]), np.array(["", "a", "Zürich", "日本"]), np.array([], dtype=np.str_)):
        np.testing.assert_array_equal(tensors.unpack_labels("x", tensors.pack_labels("x", labels)), labels)


def mutations(raw: bytes, n: int, seed: int):
    """Damaged copies: flipped bits, overwritten, removed, inserted, repeated and truncated bytes."""
    rng = np.random.default_rng(seed)
    (header,) = struct.unpack("<Q", raw[:8])
    for _ in range(n):
        damaged = bytearray(raw)
        # Half of the damage goes to the header, which is a small part of the file.
        at = int(rng.integers(8 + header)) if rng.random() < 0.5 else int(rng.integers(len(raw)))
        kind = rng.integers(6)
        span = int(rng.integers(1, 9))
        if kind == 0:
            damaged[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            damaged[at : at + span] = rng.bytes(len(damaged[at : at + span]))
        elif kind == 2:
            del damaged[at : at + span]
        elif kind == 3:
            damaged[at:at] = rng.bytes(span)
        elif kind == 4:
            damaged[at:at] = damaged[at : at + span]
        else:
            del damaged[at:]
        if bytes(damaged) != raw:
            yield bytes(damaged)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Two maps that hold between them everything a map can hold, with queries to locate in them."""
    route = make_route(n_places=25, n_traversals=3, dim=6)
    ids = np.array([f"Straße/{p:02d}" for p in range(25)])
    refs = ReferenceSet(route.references.vectors, ids[route.references.places], route.references.traversals)
    folder = tmp_path_factory.mktemp("maps")
    points = Positions(np.arange(50.0).reshape(25, 2), heading=np.arange(25.0))
    everything = {"positions": points, "images": [f"{name}.jpg" for name in ids], "keep_references": True}
    build(refs, "pooling", {"model": "hog"}, dtype="int8", **everything).save(folder / "pooling")
    build(refs, DisPlace(ridge=0.1, center=True), **everything).save(folder / "displace")
    build(refs, "hops", dtype="float32", calibration=False).save(folder / "float32")
    for name in ("pooling", "displace"):
        assert PlaceMap.load(folder / name).calibration is not None
    return folder, route.queries[:2].astype(np.float32)


@pytest.mark.parametrize(("name", "n"), [("pooling", 4200), ("displace", 4200), ("float32", 1000)])
def test_thousands_of_damaged_maps_raise_nothing_but_the_packages_own_error(saved, tmp_path, name, n):
    folder, queries = saved
    raw, target = (folder / name).read_bytes(), tmp_path / "damaged.displace"
    searches = ["exact", *(["faiss"] if importlib.util.find_spec("faiss") else [])]
    count = n_located = 0
    for damaged in mutations(raw, n, seed=0):
        target.write_bytes(damaged)
        with pytest.raises(DisplaceError):
            PlaceMap.load(target)
        with contextlib.suppress(DisplaceError):  # damage inside the rows passes when they are not read
            town = PlaceMap.load(target, verify=False)
            for search in searches:
                assert town.locate(queries, k=3, search=search).places.shape == (2, 3)
            n_located += 1
        count += 1
    assert count >= 0.95 * n
    assert n_located > 0.02 * n


@pytest.mark.parametrize(("name", "n"), [("pooling", 1000), ("displace", 1000)])
def test_thousands_of_damaged_statistics_do_so_too_and_change_nothing(saved, tmp_path, name, n):
    folder, _ = saved
    target = tmp_path / "town.displace"
    target.write_bytes((folder / name).read_bytes())
    raw = (folder / f"{name}-stats").read_bytes()
    count = n_found = 0
    for damaged in mutations(raw, n, seed=1):
        (tmp_path / "town.displace-stats").write_bytes(damaged)
        town = PlaceMap.load(target, verify=False)
        with pytest.raises(DisplaceError):
            town.remove("t1")
        n_found += town.statistics is not None
        count += 1
        assert len(town.place_ids) == 25
    assert count >= 950
    assert n_found > 50  # damage inside the arrays, found when they are read


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.pop("version"),
        lambda header: header.pop("payload_sha256"),
        lambda header: header.pop("format"),
        lambda header: header.update(version="two"),
        lambda header: header.update(version=None),
        lambda header: header.update(version=float("inf")),
    ],
)
@pytest.mark.parametrize("verify", [True, False])
def test_a_consistent_but_incomplete_header_is_refused(path, change, verify, monkeypatch):
    """As another program might write it: the checksum is right."""
    header = {"format": "test", "version": 2, "payload_sha256": tensors.payload_digest(ARRAYS)}
    change(header)
    real = json.dumps
    monkeypatch.setattr(tensors.json, "dumps", lambda record, **options: real(header, **options))
    tensors.write(path, {}, ARRAYS)
    monkeypatch.undo()
    with pytest.raises(FormatError, match="is not a test file, or its header is damaged"):
        tensors.read(path, "test", 2, verify)


@pytest.mark.parametrize("checksum", ["", "0", "\ud800" * 64, "ä" * 64, None])
def test_a_checksum_that_is_none(path, checksum):
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    entries = json.loads(raw[8 : 8 + length])
    entries["__metadata__"]["checksum"] = checksum
    forged = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(forged)) + forged + raw[8 + length :])
    with pytest.raises(FormatError):
        tensors.read(path, "test", 2)


@pytest.mark.parametrize("ends", [[-1, 3], [2, 1, 3], [1, 2], [1, 9]])
def test_ends_of_strings_out_of_order_are_refused(ends):
    arrays = {"x_utf8": np.frombuffer(b"abc", np.uint8), "x_ends": np.array(ends)}
    with pytest.raises(ValueError, match="out of order"):
        tensors.unpack_labels("x", arrays)


def test_equal_input_gives_equal_bytes(tmp_path):
    arrays = {**ARRAYS, "y": np.zeros(3, np.float32), "z": np.ones(3, np.float32)}
    for name in ("a", "b"):
        tensors.write(tmp_path / name, HEADER, dict(reversed(arrays.items())) if name == "b" else arrays)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_names_that_look_like_the_place_of_the_checksum_do_no_harm(tmp_path):
    for name in ("0" * 64, f'"checksum":"{"0" * 64}"'):
        header = {**HEADER, "traversals": {name: 1}}
        tensors.write(tmp_path / "zeros", header, ARRAYS)
        assert tensors.read(tmp_path / "zeros", "test", 2)[0]["traversals"] == {name: 1}


def test_what_a_check_refuses_does_not_replace_the_file(path):
    before = path.read_bytes()

    def refuse(temporary):
        assert tensors.read(temporary, "test", 2)[0]["format"] == "test"
        raise FormatError("no")

    with pytest.raises(FormatError, match="no"):
        tensors.write(path, HEADER, {}, check=refuse)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("verify", [True, False])
def test_a_file_that_is_replaced_while_it_is_read_is_read_to_its_end(path, monkeypatch, verify):
    other = path.with_name("other")
    tensors.write(other, HEADER, {"a": np.zeros(999, np.float32)})
    real = tensors._head

    def replaced_after(file):
        head = real(file)
        other.replace(path)
        return head

    monkeypatch.setattr(tensors, "_head", replaced_after)
    _, arrays = tensors.read(path, "test", 2, verify)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)


@pytest.mark.usefixtures("not_for_ever")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="it is a pipe or a device"):
        tensors.read(tmp_path / "pipe", "test", 2)


def forge(path, change):
    """Write a file anew with a changed table, its checksum right."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    entries = json.loads(raw[8 : 8 + length])
    entries["__metadata__"]["checksum"] = tensors.ZEROS
    change(entries)
    text = json.dumps(entries, separators=(",", ":")).encode()
    head = struct.pack("<Q", len(text)) + text
    head = head.replace(tensors.ZEROS.encode(), hashlib.sha256(head).hexdigest().encode(), 1)
    path.write_bytes(head + raw[8 + length :])


def entry(name, **fields):
    return lambda entries: entries[name].update(fields)


@pytest.mark.parametrize(
    "change",
    [
        entry("a", shape=[1.5]),
        entry("a", shape=[True] * 3),
        entry("a", shape=[-1, -12]),
        entry("a", shape=[2**70]),
        entry("a", shape=[1] * 40),
        entry("a", shape="12"),
        entry("a", dtype=["F32"]),
        entry("a", dtype="F8"),
        entry("a", data_offsets=[0]),
        entry("a", data_offsets=[0, 1e9]),
        entry("a", data_offsets=None),
        lambda entries: entries.update(a=7),
        lambda entries: entries.update(__metadata__=[]),
        lambda entries: entries["__metadata__"].update(displace="[" * 10**5),
        lambda entries: entries["__metadata__"].update(displace='{"a":' * 100 + "1" + "}" * 100),
        lambda entries: entries["__metadata__"].update(displace="[]"),
    ],
)
def test_a_table_of_another_kind_behind_a_right_checksum_is_refused(path, change):
    forge(path, lambda entries: None)
    tensors.read(path, "test", 2)
    forge(path, change)
    with pytest.raises(FormatError, match="damaged"):
        tensors.read(path, "test", 2)


def test_arrays_that_overlap_are_refused(tmp_path):
    path = tmp_path / "overlap"
    tensors.write(path, HEADER, {"a": np.zeros(4, np.float32), "b": np.ones(4, np.float32)})
    forge(path, entry("b", data_offsets=[0, 16]))
    with pytest.raises(FormatError, match="overlap or leave gaps"):
        tensors.read(path, "test", 2)


def test_a_header_is_limited_and_its_checksum_compared_before_it_becomes_objects(path, monkeypatch):
    real = tensors.parse_json

    def never(text):
        raise AssertionError("JSON was read")

    monkeypatch.setattr(tensors, "parse_json", never)
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"displace")] ^= 1
    path.write_bytes(raw)
    with pytest.raises(FormatError, match="does not have the checksum it was written with"):
        tensors.read(path, "test", 2)
    monkeypatch.setattr(tensors, "parse_json", real)
    tensors.write(path, {**HEADER, "much": "x" * tensors.MAX_HEADER}, ARRAYS)
    with pytest.raises(FormatError, match="no such header"):
        tensors.read(path, "test", 2)
    assert tensors.MAX_HEADER <= 16 * 2**20


def test_json_of_limited_depth_only():
    assert tensors.parse_json("[" * 64 + "]" * 64)
    for text in ("[" * 65 + "]" * 65, '{"a":' * 65 + "1" + "}" * 65):
        with pytest.raises(ValueError, match="more than 64 deep"):
            tensors.parse_json(text)


def test_numbers_of_any_length_are_shown():
    assert schema.shown(10**5000) == "a number of thousands of digits"
    with pytest.raises(ValueError, match="dim is a number of thousands of digits"):
        schema.whole(10**5000, "dim")


def test_few_bytes_do_not_become_gigabytes_of_text():
    ends = np.r_[1000, np.arange(1001, 300_001)]
    arrays = {"x_utf8": np.full(300_000, 97, np.uint8), "x_ends": ends}
    with pytest.raises(ValueError, match="would take 1"):
        tensors.unpack_labels("x", arrays)
    arrays = {"x_utf8": np.full(5000, 97, np.uint8), "x_ends": np.array([5000])}
    with pytest.raises(ValueError, match="more than 1000 characters"):
        tensors.unpack_labels("x", arrays)
