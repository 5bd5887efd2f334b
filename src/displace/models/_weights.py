"""Weights files: download, cache and checksums."""

from __future__ import annotations

import http.client
import logging
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from displace.errors import WeightsError
from displace.files.atomic import atomic_write, make_folder, write_whole
from displace.files.reading import file_sha256

Progress = Callable[[int, int | None], None]
"""Called with the bytes downloaded so far and the total, if known."""

logger = logging.getLogger(__name__)

CHUNK = 1 << 20
TIMEOUT = 30.0
"""Seconds without data after which a download fails."""
STALE = 24 * 3600
"""Seconds after which a temporary file counts as left over from a killed download."""


@dataclass(frozen=True)
class Weights:
    """A published weights file."""

    file: str
    """Its name."""
    address: str
    """Where it is published."""
    direct: bool = True
    """Whether `address` is the file itself, not a page from which a person gets it."""
    sha256: str | None = None
    """Where published: the digest, in full. A file without is trusted on first use (`checked_sha256`)."""


def cache_folder() -> Path:
    """Folder for downloads: ``$DISPLACE_CACHE``, or the one the system has for such files."""
    if chosen := os.environ.get("DISPLACE_CACHE"):
        return Path(chosen)
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "displace"


def cached_path(model: str, weights: Weights) -> Path:
    """Path of the weights of `model` in the cache, whether they exist or not."""
    return cache_folder() / "weights" / model / weights.file


def fetch(path: Path, model: str, weights: Weights, progress: Progress | None = None) -> None:
    """Download the weights of `model` to `path`, unless the file exists."""
    if path.is_file():
        return
    if not weights.direct:
        raise WeightsError(
            f"the weights of {model} ({weights.file}) are not here, and their address is a page, not a file: "
            f"get them from {weights.address} and pass weights=FILE (--weights FILE), or put them at {path}"
        )
    logger.warning("downloading the weights of %s from %s to %s", model, weights.address, path)
    try:
        make_folder(path.parent)
        _remove_stale(path)
        with atomic_write(path) as file:
            _download(weights.address, file, progress)
    except (OSError, http.client.HTTPException, WeightsError) as error:
        raise WeightsError(
            f"could not download the weights of {model} from {weights.address} to {path}: {error}; "
            "get the file by other means and pass weights=FILE (--weights FILE)"
        ) from error


def checked_sha256(path: Path, published: str | None = None) -> str:
    """SHA-256 of a file, compared with the published one and, in the cache, with that of its first use.

    The digest of the first use is written beside the file, in the format of ``sha256sum``.
    """
    try:
        digest = file_sha256(path)
    except OSError as error:
        raise WeightsError(f"cannot read the weights file {path}: {error.strerror or error}") from error
    if published and digest != published:
        raise WeightsError(
            f"{path} has SHA-256 {digest}, published is {published}: the file is damaged or another one; "
            "delete it and get it again"
        )
    if not path.is_relative_to(cache_folder()):
        return digest
    beside = _digest_path(path)
    if not beside.exists():
        write_whole(beside, f"{digest}  {path.name}\n")
        return digest
    recorded = beside.read_text("utf-8").partition(" ")[0].strip()
    if digest != recorded:
        raise WeightsError(
            f"{path} has SHA-256 {digest}, but {recorded} was recorded at its first use: the file has changed; "
            f"delete it and {beside.name} to start anew"
        )
    return digest


def forget_digest(path: Path) -> None:
    """Forget the digest of a cached file that cannot be read as weights, so that the file can be replaced."""
    if path.is_relative_to(cache_folder()):
        _digest_path(path).unlink(missing_ok=True)


def _digest_path(path: Path) -> Path:
    """Where the digest of a cached file is recorded."""
    return path.with_name(path.name + ".sha256")


def _download(address: str, file: IO[Any], progress: Progress | None) -> None:
    """Copy `address` into `file`; a short answer or a web page is an error."""
    request = urllib.request.Request(address, headers={"User-Agent": "displace"})
    try:
        opened = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()  # it is an open connection, too
        raise WeightsError(f"the server answered {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        # Not an OSError, which would read as if the file could not be written.
        raise WeightsError(f"the server cannot be reached ({error.reason})") from error
    with opened as answer:
        length = answer.headers.get("Content-Length")
        total = int(length) if length else None
        done = 0
        while chunk := answer.read(CHUNK):
            if done == 0 and chunk.lstrip()[:1] == b"<":
                raise WeightsError("the server answered with a web page")
            file.write(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, total)
    if total is not None and done != total:
        raise WeightsError(f"the connection ended after {done} of {total} bytes")
    if done == 0:
        raise WeightsError("the server sent nothing")


def _remove_stale(path: Path) -> None:
    """Delete what downloads that were killed long ago left beside `path`."""
    for leftover in path.parent.glob(f".{path.name}.*.tmp"):
        if time.time() - leftover.stat().st_mtime > STALE:
            leftover.unlink(missing_ok=True)
