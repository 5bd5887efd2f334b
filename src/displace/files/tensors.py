"""Files of arrays with a JSON header: safetensors, checked before anything is used.

The header stands in the file's metadata under ``displace``. It holds `format`, `version` and the SHA-256 of the arrays'
bytes. Beside it stands the SHA-256 of everything in the file before the arrays, taken with zeros in its own place. So a
flipped bit anywhere is found: in the header always, in the arrays with ``verify=True``. Without it the arrays are
memory-mapped and not read.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from displace.errors import FormatError
from displace.files.atomic import replacing

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "|i1", "U8": "|u1"}
KINDS = {dtype: name for name, dtype in DTYPES.items()}
MAX_HEADER = 100 * 2**20
CHUNK = 2**22
ZEROS = "0" * 64

Arrays = dict[str, NDArray[Any]]


def write(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write `header` (JSON-able, with `format` and `version`) and `arrays` to `path`, atomically.

    Raises OSError where the file system cannot take it.
    """
    stored = {name: _in_order(array) for name, array in arrays.items()}
    text = json.dumps({**header, "payload_sha256": payload_digest(stored)}, ensure_ascii=False)
    # The widest numbers first: each array then starts at a multiple of its numbers' size.
    names = sorted(stored, key=lambda name: (-stored[name].itemsize, name))
    with replacing(path) as temporary, temporary.open("wb") as file:
        head = _made_head(stored, names, {"displace": text, "checksum": ZEROS})
        file.write(head.replace(ZEROS.encode(), _digest_without(head, ZEROS.encode()), 1))
        for name in names:
            for chunk in _chunks(stored[name]):
                file.write(chunk)


def _in_order(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array with its numbers side by side; a mapped file stays one."""
    return array if array.ndim and array.flags.c_contiguous else np.ascontiguousarray(array)


def _made_head(arrays: Mapping[str, NDArray[Any]], names: list[str], metadata: dict[str, str]) -> bytes:
    """Length and JSON that safetensors files begin with, filled with blanks to a multiple of eight."""
    entries: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name in names:
        array, start = arrays[name], end
        end += array.nbytes
        kind = KINDS[array.dtype.newbyteorder("<").str]
        entries[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _chunks(array: NDArray[Any]) -> Iterator[memoryview | bytes]:
    """Bytes of an array, some at a time; of a mapped file by reading it, so that its pages do not stay in memory."""
    path, base = getattr(array, "filename", None), getattr(array, "base", None)
    if path is not None and isinstance(base, mmap.mmap) and array.flags.c_contiguous:
        with Path(path).open("rb") as file:
            file.seek(getattr(array, "offset", 0))
            for start in range(0, array.nbytes, CHUNK):
                yield file.read(min(CHUNK, array.nbytes - start))
        return
    flat = _in_order(array).reshape(-1).view(np.uint8)
    for start in range(0, len(flat), CHUNK):
        yield flat[start : start + CHUNK].data


def read(
    path: str | os.PathLike[str], kind: str, version: int, verify: bool = True
) -> tuple[dict[str, Any], Arrays]:
    """Read the header and memory-map the arrays of a file of format `kind`.

    Raises
    ------
    FormatError
        When the file is not of this format, is damaged, or was written by a later version.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = _head(file)
        entries = json.loads(head[8:].decode())
        metadata = entries.pop("__metadata__")
        header, checksum = json.loads(metadata["displace"]), str(metadata["checksum"]).encode()
        found, written, digest = header["format"], int(header["version"]), str(header["payload_sha256"])
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from None
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        struct.error,
        RecursionError,
    ) as error:
        raise FormatError(f"{path} is not a {kind} file, or its header is damaged ({error})") from None
    if found != kind:
        raise FormatError(f"{path} is not a {kind} file; its format is {found!r}")
    if len(checksum) != len(ZEROS) or _digest_without(head, checksum) != checksum:
        raise FormatError(f"{path} is damaged: its header does not have the checksum it was written with")
    if written > version:
        raise FormatError(
            f"{path} has format version {written}; this is displace with format version {version}: "
            f"it needs displace {header.get('needs', 'of a later version')}"
        )
    arrays = _map(path, len(head), size, entries)
    if verify and digest != payload_digest(arrays):
        raise FormatError(f"{path} is damaged: its arrays do not have the checksum they were written with")
    return header, arrays


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
        return np.array(arrays[name])
    raw, ends = arrays[f"{name}_utf8"].tobytes(), arrays[f"{name}_ends"].tolist()
    if [0, *ends] != sorted([0, *ends]) or [0, *ends][-1] != len(raw):
        raise ValueError(f"the ends of the strings in {name!r} are out of order")
    texts = [raw[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]
    return np.array(texts, dtype=np.str_)


def _digest_without(head: bytes, checksum: bytes) -> bytes:
    """SHA-256 of the head, taken with zeros in the place of `checksum`."""
    return hashlib.sha256(head.replace(checksum, ZEROS.encode())).hexdigest().encode()


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


def _map(path: Path, start: int, size: int, entries: dict[str, Any]) -> Arrays:
    """Memory-map each array of the table, after checking that it lies inside the file and all bytes are used."""
    try:
        whole = np.memmap(path, np.uint8, mode="r") if size > start else np.empty(0, np.uint8)
        arrays, used = {}, 0
        for name, entry in entries.items():
            begin, end = entry["data_offsets"]
            dtype, shape = np.dtype(DTYPES[entry["dtype"]]), [int(n) for n in entry["shape"]]
            count = int(np.prod(shape, dtype=object)) if shape else 1
            if not 0 <= begin <= end <= size - start or min(shape, default=0) < 0:
                raise ValueError("truncated")
            if end - begin != count * dtype.itemsize:
                raise ValueError(f"array {name!r} has the wrong size")
            arrays[name] = _view(whole, start + begin, start + end, dtype).reshape(shape)
            used += end - begin
    except (ValueError, KeyError, TypeError, OverflowError, AttributeError, OSError) as error:
        raise FormatError(f"{path} is damaged: {error}") from None
    if used != size - start:
        raise FormatError(f"{path} is damaged: {size - start} bytes of arrays, {used} expected")
    return arrays


def _view(whole: NDArray[np.uint8], begin: int, end: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Bytes as numbers, without a copy where they are aligned."""
    raw = whole[begin:end]
    return raw.view(dtype) if begin % dtype.itemsize == 0 else np.frombuffer(raw.tobytes(), dtype)


def payload_digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of the arrays' bytes, in order of name."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        for chunk in _chunks(arrays[name]):
            digest.update(chunk)
    return digest.hexdigest()
