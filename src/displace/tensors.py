"""Files of arrays with a JSON header: safetensors, checked before anything is used.

The header stands in the file's metadata under ``displace``. It holds `format`, `version`, the SHA-256 of the arrays'
bytes, and a digest over itself and the table of arrays, so that a flipped bit anywhere is found: in the header always,
in the arrays with ``verify=True``. Without it the arrays are memory-mapped and not read.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from displace.errors import FormatError
from displace.storage import replacing

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "|i1", "U8": "|u1"}
MAX_HEADER = 100 * 2**20
CHUNK = 2**22

Arrays = dict[str, NDArray[Any]]


def write(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write `header` (JSON-able, with `format` and `version`) and `arrays` to `path`, atomically."""
    stored = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    table = {name: [array.dtype.str, list(array.shape)] for name, array in sorted(stored.items())}
    full = {**header, "payload_sha256": payload_digest(stored)}
    full["header_sha256"] = _header_digest(full, table)
    with replacing(path) as temporary:
        save_file(stored, temporary, metadata={"displace": json.dumps(full, ensure_ascii=False)})


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
            start, entries, header = _read_header(file.read(8), file, size)
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError) as error:
        raise FormatError(f"{path} is not a {kind} file, or its header is damaged ({error})") from None
    if header.get("format") != kind:
        raise FormatError(f"{path} is not a {kind} file; its format is {header.get('format')!r}")
    _check_version(path, header, version)
    arrays = _map(path, start, size, entries)
    table = {name: [array.dtype.str, list(array.shape)] for name, array in sorted(arrays.items())}
    if header.get("header_sha256") != _header_digest(header, table):
        raise FormatError(f"{path} is damaged: its header does not have the checksum it was written with")
    if verify and header["payload_sha256"] != payload_digest(arrays):
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
    texts = [raw[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]
    return np.array(texts, dtype=np.str_)


def _read_header(first: bytes, file: Any, size: int) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Start of the arrays, the table of arrays, and our header."""
    (length,) = struct.unpack("<Q", first)
    if length > min(size - 8, MAX_HEADER):
        raise ValueError("truncated")
    entries = json.loads(file.read(length).decode())
    header = json.loads(entries.pop("__metadata__")["displace"])
    if not isinstance(header, dict):
        raise ValueError("no header")
    return 8 + length, entries, header


def _check_version(path: Path, header: dict[str, Any], version: int) -> None:
    found = header.get("version")
    if not isinstance(found, int) or found < 1:
        raise FormatError(f"{path} is damaged: its format version is {found!r}")
    if found > version:
        raise FormatError(
            f"{path} has format version {found}; this is displace with format version {version}: "
            f"it needs displace {header.get('needs', 'of a later version')}"
        )


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


def _header_digest(header: Mapping[str, Any], table: Mapping[str, Any]) -> str:
    content = {key: value for key, value in header.items() if key != "header_sha256"}
    text = json.dumps([content, table], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def payload_digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of the arrays' bytes, in order of name."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        flat = np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8)
        for start in range(0, len(flat), CHUNK):
            digest.update(flat[start : start + CHUNK].data)
    return digest.hexdigest()
