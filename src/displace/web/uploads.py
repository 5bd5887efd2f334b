"""What a request asks about: images or descriptors, checked before anything is computed.

Descriptors are checked as they are read; images by `checked_image`, where they are described.
"""

from __future__ import annotations

import json
from contextlib import aclosing

import numpy as np
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartParser
from starlette.requests import ClientDisconnect, Request

from displace.arrays import Vectors
from displace.web.limits import Limits, RefusedError

VECTORS = "application/octet-stream"


async def read_asked(request: Request, dim: int, limits: Limits) -> list[bytes] | Vectors:
    """Read the body of a request: one image, a form with several, or descriptors (q, D) as JSON or raw float32."""
    kind = (_header(request, b"content-type") or "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return await _form(request, limits)
    body = await _body(request, limits)
    if kind.startswith("image/"):
        return [body]
    if kind == "application/json":
        return _from_json(body, dim, limits)
    if kind == VECTORS:
        return _from_raw(body, dim, limits)
    raise RefusedError(
        415,
        f"content type {kind or '(none)'} is not understood: send an image (image/jpeg …), several as "
        f"multipart/form-data, descriptors as application/json or raw float32 as {VECTORS}",
    )


async def _body(request: Request, limits: Limits) -> bytes:
    """The body, read no further than the limit."""
    _check_length(_header(request, b"content-length"), limits)
    parts, size, more = [], 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part, more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        _check_length(str(size), limits)
        parts.append(part)
    return b"".join(parts)


def _header(request: Request, name: bytes) -> str | None:
    """A header, by its name in lower case, without making an object of all of them."""
    return next((value.decode("latin-1") for key, value in request.scope["headers"] if key == name), None)


def _check_length(length: str | None, limits: Limits) -> None:
    if length is not None and length.isdecimal() and int(length) > limits.upload_bytes:
        raise RefusedError(
            413,
            f"more than {limits.upload_bytes:,} bytes in one request: scale images down, or send fewer at a time",
        )


async def _form(request: Request, limits: Limits) -> list[bytes]:
    """Images of a form; they are held in memory and never kept."""
    length = _header(request, b"content-length")
    _check_length(length, limits)
    if length is None:
        raise RefusedError(411, "a form needs a Content-Length")
    try:
        async with aclosing(request.stream()) as stream:
            most = limits.queries
            parser = MultiPartParser(request.headers, stream, max_files=most, max_fields=most)
            parser.spool_max_size = limits.upload_bytes  # else a file of a megabyte would go to the disk
            form = await parser.parse()
        files = [value for value in form.getlist("image") if isinstance(value, UploadFile)]
        images = [await file.read() for file in files]
        await form.close()
    except ClientDisconnect:
        raise
    except Exception as error:
        if "Too many" in getattr(error, "message", ""):
            raise RefusedError(413, f"the form has more than {limits.queries} files: send fewer") from None
        raise RefusedError(422, f"the form cannot be read: {getattr(error, 'message', error)}") from None
    if not images:
        raise RefusedError(422, "the form has no file named 'image': name each so (curl -F image=@photo.jpg)")
    return images


def _from_json(body: bytes, dim: int, limits: Limits) -> Vectors:
    try:
        record = json.loads(body)
        with np.errstate(over="ignore"):  # numbers beyond float32 are infinite, and refused as such
            vectors = np.asarray(record["descriptors"], np.float32)
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        raise RefusedError(422, 'send {"descriptors": [[number, …], …]}') from None
    return _checked(vectors[None] if vectors.ndim == 1 else vectors, dim, limits)


def _from_raw(body: bytes, dim: int, limits: Limits) -> Vectors:
    if not body or len(body) % (4 * dim):
        raise RefusedError(
            422, f"{len(body)} bytes are no descriptors: {dim} numbers of float32, little-endian, make one"
        )
    return _checked(np.frombuffer(body, "<f4").reshape(-1, dim), dim, limits)


def _checked(vectors: Vectors, dim: int, limits: Limits) -> Vectors:
    if vectors.ndim != 2 or vectors.shape[1] != dim or not len(vectors):
        raise RefusedError(422, f"descriptors have shape {vectors.shape}; this map takes (q, {dim})")
    if len(vectors) > limits.queries:
        raise RefusedError(413, f"{len(vectors)} descriptors in one request, the limit is {limits.queries}")
    if not np.isfinite(vectors).all():
        raise RefusedError(422, "descriptors must be finite numbers")
    return vectors
