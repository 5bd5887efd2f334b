"""`displace serve`."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from displace.errors import InputError
from displace.verbs.base import MapPath, Option, PathLike

if TYPE_CHECKING:
    from displace.web.limits import Tokens

logger = logging.getLogger(__name__)

TOKEN = "DISPLACE_TOKEN"
READING_TOKEN = "DISPLACE_READING_TOKEN"
LEAST_TOKEN = 16
"""Least length of a token, so that it cannot be guessed."""


def serve(
    map_file: MapPath,
    *,
    host: str = "127.0.0.1",
    port: int = 8008,
    images: Annotated[Sequence[PathLike] | None, Option("--images", metavar="FOLDER")] = None,
    manifest: PathLike | None = None,
    min_confidence: float = 0.5,
    weights: PathLike | None = None,
    device: str = "auto",
    mask: PathLike | None = None,
    token_file: PathLike | None = None,
    origin: Annotated[Sequence[str] | None, Option(metavar="URL")] = None,
    workers: int | None = None,
    rate: float = 200.0,
) -> None:
    """Serve a map: a page for people, and a JSON interface for robots.

    Drop a photo or a video on the page, or send an image to /v1/locate; drives are followed frame by frame. When the
    map's file is replaced, the next request uses the new one. Uploads are never stored.

    Other machines are served only with a token of 16 characters or more, from `token_file` or the environment
    (DISPLACE_TOKEN, and DISPLACE_READING_TOKEN for a token that may view the map but not locate).

    Parameters
    ----------
    map_file : path-like
        A map made by `build`.
    host : str
        Address to listen on; 0.0.0.0 for all addresses of this machine.
    port : int
        Port to listen on; 0 for any free port.
    images : sequence of path-like, optional
        Folders that pictures of places may come from; by default the manifest's.
    manifest : path-like, optional
        Says which images show which place; by default the one image per place that the map names.
    min_confidence : float
        Below this probability the answer is "not in this map".
    weights : path-like, optional
        Weights file of the map's model; by default the published one.
    device : str
        Where the model runs: auto, cpu, cuda, cuda:1 …
    mask : path-like, optional
        The mask of the references, if they had one: the map stores only its content hash.
    token_file : path-like, optional
        File with the token in its first line, and optionally a read-only token in its second.
    origin : sequence of str, optional
        Web sites whose pages may send requests too; by default none.
    workers : int, optional
        Maximum number of extra processes that read and describe images, for models such as hog that threads cannot
        speed up; started when many images are waiting. By default one per core, up to 8, and none on a machine with one
        core; 0 for threads alone. It has no effect with other models.
    rate : float
        Requests per second that one client may send, on average.

    Examples
    --------
    ::

        displace serve town.displace
        displace serve town.displace --manifest route.csv
        displace serve town.displace --host 0.0.0.0 --token-file token.txt
    """
    from displace.maps.located import check_limit
    from displace.registry import missing_extra

    try:
        import uvicorn

        from displace.web.api import make_app
        from displace.web.limits import Limits
        from displace.web.process import leave_out_pillow, log_config, return_memory
        from displace.web.server import ServerSettings
    except ImportError:
        raise missing_extra("fastapi", "web") from None
    check_limit(min_confidence, known=True)
    _check_numbers(port, workers, rate)
    tokens = read_tokens(token_file)
    if tokens.full is None and not is_loopback(host):
        raise InputError(
            f"host={host!r} is reachable from other machines, which requires a token: put one into a file and pass "
            f"--token-file, or set {TOKEN} in the environment"
        )
    roots = [Path(folder) for folder in images or ()]
    _check_files(roots, {"weights": weights, "mask": mask})
    _check_free(host, port)
    logger.warning(
        "reading %s and opening its model; weights that are not here are downloaded first", map_file
    )
    app = make_app(
        ServerSettings(
            Path(map_file),
            roots,
            None if manifest is None else Path(manifest),
            {"weights": weights, "device": device, "mask": mask},
            min_confidence,
            limits=Limits(requests_per_second=rate),
            tokens=tokens,
            origins=tuple(origin or ()),
            workers=workers,
        )
    )
    return_memory()
    leave_out_pillow()
    uvicorn.run(
        app,
        host=host,
        port=port,
        log_config=log_config(),
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=30,
    )


def _check_numbers(port: int, workers: int | None, rate: float) -> None:
    """Refuse numbers that cannot be."""
    if not 0 <= port <= 65535:
        raise InputError(f"port={port} must be 0 to 65535")
    if workers is not None and workers < 0:
        raise InputError(f"workers={workers} must be 0 or more")
    if not rate > 0:
        raise InputError(f"rate={rate} must be more than 0 requests a second")


def _check_files(folders: Sequence[Path], files: Mapping[str, PathLike | None]) -> None:
    """Refuse folders of images, and files by the names of their options, that are not there."""
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"images={str(folder)!r} is not a folder")
    for name, file in files.items():
        if file is not None and not Path(file).is_file():
            raise InputError(f"{name}={str(file)!r} is not a file")


def _check_free(host: str, port: int) -> None:
    """Refuse an address that is not free, before the map is read."""
    try:
        family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise InputError(
            f"cannot listen on host={host!r}, port={port}: {error.strerror}. Another server may be running there: "
            "choose another --port, or 0 for any free one"
        ) from None


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_tokens(path: PathLike | None) -> Tokens:
    """Tokens from a file, or from the environment."""
    from displace.web.limits import Tokens

    if path is None:
        given = {name: os.environ.get(name, "") for name in (TOKEN, READING_TOKEN)}
    else:
        given = _lines_of(path)
    for name, token in given.items():
        if token and len(token) < LEAST_TOKEN:
            raise InputError(
                f"{name} must be a token of at least {LEAST_TOKEN} characters, it has {len(token)}; make one with: "
                "openssl rand -hex 32"
            )
    full, reading = given.values()
    return Tokens(full or None, reading or None)


def _lines_of(path: PathLike) -> dict[str, str]:
    """Tokens of a file by their names in errors; the second may be blank."""
    try:
        lines = [line.strip() for line in Path(path).read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"token_file={str(path)!r} cannot be read: {error}") from None
    if not lines or not lines[0]:
        raise InputError(
            f"token_file={str(path)!r} must have a token of at least {LEAST_TOKEN} characters in its first line"
        )
    named = (f"line {number} of token_file={str(path)!r}" for number in (1, 2))
    return dict(zip(named, [*lines, ""][:2], strict=True))
