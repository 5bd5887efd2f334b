"""Files of arrays with a JSON header: safetensors, checked before anything is used.

The header is in the file's metadata under ``displace``. It holds `format`, `version` and the SHA-256 of the arrays'
bytes. Beside it is the SHA-256 of everything in the file before the arrays, computed with zeros in its own place. So a
flipped bit anywhere is found: in the header always, in the arrays with ``verify=True``. Without it the arrays are
memory-mapped and not read.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import mmap
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from displace.errors import FormatError
from displace.files import schema
from displace.files.atomic import replacing
from displace.files.reading import PathLike, open_regular, parse_json

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "|i1", "U8": "|u1"}
KINDS = {dtype: name for name, dtype in DTYPES.items()}
MAX_HEADER = 16 * 2**20
"""Bytes before the arrays; names of places and images are arrays."""
MAX_LABEL = 1000
"""Characters of a place's id or a traversal's name."""
MAX_LABELS = 2**28
"""Bytes that labels may take as text of one width, beyond 64 times those in the file."""
CHUNK = 2**22
ZEROS = "0" * 64
# Quotes inside JSON text are escaped, so no name can match this.
_CHECKSUM = re.compile(rb'"checksum": ?"([0-9a-f]{64})"')

Arrays = dict[str, NDArray[Any]]


def write(
    path: PathLike,
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    check: Callable[[Path], object] | None = None,
) -> None:
    """Write `header` (JSON-able, with `format` and `version`) and `arrays` to `path`, atomically.

    Equal input gives equal bytes. `check` is called with the temporary file before it replaces `path`; an exception
    keeps the old file.
    """
    stored = {name: _in_order(array) for name, array in arrays.items()}
    text = json.dumps({**header, "payload_sha256": payload_digest(stored)}, ensure_ascii=False)
    # The widest numbers first: each array then starts at a multiple of its numbers' size.
    names = sorted(stored, key=lambda name: (-stored[name].itemsize, name))
    with replacing(path) as temporary:
        with temporary.open("wb") as file:
            head = _made_head(stored, names, {"checksum": ZEROS, "displace": text})
            file.write(head.replace(ZEROS.encode(), hashlib.sha256(head).hexdigest().encode(), 1))
            for name in names:
                for chunk in _chunks(stored[name]):
                    file.write(chunk)
        if check is not None:
            check(temporary)


def _in_order(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array with its numbers side by side, lowest byte first; a mapped file stays one."""
    beside = array if array.ndim and array.flags.c_contiguous else np.ascontiguousarray(array)
    return beside.astype(beside.dtype.newbyteorder("<"), copy=False)


def _made_head(arrays: Mapping[str, NDArray[Any]], names: list[str], metadata: dict[str, str]) -> bytes:
    """Length and JSON that safetensors files begin with, filled with blanks to a multiple of eight."""
    entries: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name in names:
        array, start = arrays[name], end
        end += array.nbytes
        entries[name] = {
            "dtype": KINDS[array.dtype.str],
            "shape": list(array.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _chunks(array: NDArray[Any]) -> Iterator[memoryview | bytes]:
    """Bytes of an array, some at a time; of a mapped file by reading it, so that its pages do not stay in memory."""
    array = _in_order(array)
    path, base = getattr(array, "filename", None), getattr(array, "base", None)
    if path is not None and isinstance(base, mmap.mmap):
        with Path(path).open("rb") as file:
            file.seek(getattr(array, "offset", 0))
            for start in range(0, array.nbytes, CHUNK):
                yield file.read(min(CHUNK, array.nbytes - start))
        return
    flat = array.reshape(-1).view(np.uint8)
    for start in range(0, len(flat), CHUNK):
        yield flat[start : start + CHUNK].data


def read(path: PathLike, kind: str, version: int, verify: bool = True) -> tuple[dict[str, Any], Arrays]:
    """Read the header and memory-map the arrays of a file of format `kind`.

    The file is opened once: while another one takes its place, this one is read to its end. FormatError where it is not
    of this format, is damaged, or was written by a later version.
    """
    path = Path(path)
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            head = _head(file)
            whole: NDArray[np.uint8] = (
                np.memmap(file, np.uint8, mode="r") if size > len(head) else np.empty(0, np.uint8)
            )
        entries, header = _parsed(path, head, kind, version)
        digest = str(header["payload_sha256"])
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, struct.error) as error:
        raise FormatError(f"{path} is not a {kind} file, or its header is damaged ({error})") from None
    arrays = _map(path, whole, len(head), size, entries)
    if verify and digest != payload_digest(arrays):
        raise FormatError(f"{path} is damaged: its arrays do not have the checksum they were written with")
    return header, arrays


def _parsed(path: Path, head: bytes, kind: str, version: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Table of arrays and header, whose checksum is compared before they are looked into."""
    _check_seal(path, head)
    entries = schema.mapping(parse_json(head[8:].decode()), "the header", has=("__metadata__",))
    metadata = schema.mapping(entries.pop("__metadata__"), "__metadata__", has=("displace",))
    header = schema.mapping(parse_json(metadata["displace"]), "displace")
    found, written = header["format"], schema.whole(header["version"], "version")
    if found != kind:
        raise FormatError(f"{path} is not a {kind} file; its format is {schema.shown(found)}")
    if written > version:
        raise FormatError(
            f"{path} has format version {written}; this is displace with format version {version}: "
            f"it needs displace {schema.text(header.get('needs', 'of a later version'), 'needs', 100)}"
        )
    return entries, header


def _check_seal(path: Path, head: bytes) -> None:
    """Compare the checksum of everything before the arrays."""
    seals = _CHECKSUM.findall(head)
    if len(seals) != 1:
        raise ValueError("it has no checksum")
    if hashlib.sha256(head.replace(seals[0], ZEROS.encode(), 1)).hexdigest().encode() != seals[0]:
        raise FormatError(f"{path} is damaged: its header does not have the checksum it was written with")


def pack_labels(name: str, labels: NDArray[Any]) -> Arrays:
    """Labels as arrays: integers as they are, all else as UTF-8 bytes and where each string ends."""
    if labels.dtype.kind in "iu":
        return {name: labels.astype(np.int64)}
    encoded = [str(label).encode() for label in labels.tolist()]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return {f"{name}_utf8": np.frombuffer(b"".join(encoded), np.uint8), f"{name}_ends": ends}


def unpack_labels(name: str, arrays: Arrays) -> NDArray[Any]:
    """Undo `pack_labels`."""
    if name in arrays:
        labels = np.array(arrays[name])
        schema.require(
            labels.ndim == 1 and labels.dtype.kind == "i", f"{name!r} are {labels.dtype}{labels.shape}"
        )
        return labels
    texts = unpack_texts(name, arrays, MAX_LABEL)
    width = 4 * max(map(len, texts), default=1)
    if len(texts) * width > MAX_LABELS + 64 * arrays[f"{name}_utf8"].nbytes:
        raise ValueError(f"the strings in {name!r} would take {len(texts) * width} bytes")
    return np.array(texts, dtype=np.str_)


def unpack_texts(name: str, arrays: Arrays, longest: int = schema.MAX_TEXT) -> list[str]:
    """Texts that `pack_labels` packed."""
    bytes_, offsets = arrays[f"{name}_utf8"], arrays[f"{name}_ends"]
    kinds = bytes_.dtype == np.uint8 and offsets.dtype.kind == "i"
    schema.require(kinds and bytes_.ndim == offsets.ndim == 1, f"{name!r} are no strings")
    raw, ends = bytes_.tobytes(), [0, *offsets.tolist()]
    if ends != sorted(ends) or ends[-1] != len(raw):
        raise ValueError(f"the ends of the strings in {name!r} are out of order")
    texts = [raw[start:end].decode() for start, end in itertools.pairwise(ends)]
    schema.require(max(map(len, texts), default=0) <= longest, f"{name!r} has more than {longest} characters")
    schema.require(b"\0" not in raw, f"{name!r} has a NUL character")
    return texts


def _head(file: IO[bytes]) -> bytes:
    """Everything before the arrays: eight bytes with the length of the JSON, and the JSON."""
    file.seek(0)
    first = file.read(8)
    (length,) = struct.unpack("<Q", first)
    if length > MAX_HEADER:
        raise ValueError("no such header")
    text = file.read(length)
    if len(text) < length:
        raise ValueError("truncated")
    return first + text


def _map(path: Path, whole: NDArray[np.uint8], start: int, size: int, entries: dict[str, Any]) -> Arrays:
    """View each array of the table, after checking that the arrays are contiguous and use all bytes."""
    arrays, spans = {}, []
    try:
        for name, entry in entries.items():
            entry = schema.mapping(entry, name, has=("data_offsets", "dtype", "shape"))
            begin, end = schema.listed(entry["data_offsets"], "data_offsets", schema.whole, n=2)
            shape = schema.listed(entry["shape"], "shape", schema.whole)
            dtype = np.dtype(DTYPES[schema.text(entry["dtype"], "dtype", 10)])
            schema.require(len(shape) <= 4, f"array {name!r} has {len(shape)} dimensions")
            schema.require(begin <= end <= size - start, "truncated")
            schema.require(
                end - begin == math.prod(shape) * dtype.itemsize, f"array {name!r} has the wrong size"
            )
            arrays[name] = _view(whole, start + begin, start + end, dtype).reshape(shape)
            spans.append((begin, end))
        spans.sort()
        ends = [0, *(end for _, end in spans)]
        schema.require(
            [*(begin for begin, _ in spans), size - start] == ends, "its arrays overlap or leave gaps"
        )
    except (ValueError, KeyError, TypeError, OverflowError, AttributeError) as error:
        raise FormatError(f"{path} is damaged: {error}") from None
    return arrays


def _view(whole: NDArray[np.uint8], begin: int, end: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Bytes as numbers, without a copy if they are aligned."""
    raw = whole[begin:end]
    return raw.view(dtype) if begin % dtype.itemsize == 0 else np.frombuffer(raw.tobytes(), dtype)


def payload_digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of the arrays' bytes, in order of name."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        for chunk in _chunks(arrays[name]):
            digest.update(chunk)
    return digest.hexdigest()
