"""The HTTP interface: queries, drives, the map and its places, health, metrics, and the page."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse

from displace import __version__
from displace.arrays import Vectors
from displace.errors import DisplaceError
from displace.web.batching import Batcher, BusyError
from displace.web.drives import Drive, Drives
from displace.web.gallery import Gallery
from displace.web.hosting import Host, Hosted
from displace.web.limits import Limits, RateLimit, Tokens
from displace.web.metrics import Metrics
from displace.web.uploads import RefusedError, read_asked

log = logging.getLogger("displace.serve")
SITE = Path(__file__).parent / "site"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src blob:; "
    "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
BODIES = {
    "requestBody": {
        "required": True,
        "content": {
            "image/jpeg": {"schema": {"type": "string", "format": "binary"}},
            "image/png": {"schema": {"type": "string", "format": "binary"}},
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["descriptors"],
                    "properties": {
                        "descriptors": {
                            "type": "array",
                            "items": {"type": "array", "items": {"type": "number"}},
                        }
                    },
                },
                "example": {"descriptors": [[0.1, 0.2, 0.3]]},
            },
        },
    }
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"description": text}
    for status, text in {
        401: "The token is missing or wrong.",
        404: "There is no such place, picture or drive.",
        411: "A form without Content-Length.",
        413: "The upload, image or batch is larger than the limits.",
        415: "Neither an image nor descriptors.",
        422: "The request cannot be read, or does not fit the map.",
        429: "Too many requests of one client, or too many drives.",
        503: "Too many queries are waiting, or the answer took too long.",
    }.items()
}


@dataclass(frozen=True)
class ServerSettings:
    """What a server serves, and to whom.

    Parameters
    ----------
    map_file : Path
    images : list of Path
        Folders that pictures of places may come from.
    manifest : Path, optional
        Which images show which place; without it those that the map names.
    min_confidence : float
        Below this probability an answer reads "not in this map".
    limits : Limits
    tokens : Tokens
    origins : tuple of str
        Web sites whose pages may ask; none by default.
    """

    map_file: Path
    images: list[Path] = field(default_factory=list)
    manifest: Path | None = None
    min_confidence: float = 0.5
    limits: Limits = field(default_factory=Limits)
    tokens: Tokens = field(default_factory=Tokens)
    origins: tuple[str, ...] = ()


class Server:
    """What the routes work with."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings, self.limits = settings, settings.limits
        self.host = Host(settings.map_file)
        self.metrics = Metrics()
        self.rates = RateLimit(self.limits.requests_per_second)
        self.drives = Drives(self.limits.drives, self.limits.idle_seconds)
        self.pool = ThreadPoolExecutor(max(2, os.cpu_count() or 1), thread_name_prefix="displace-serve")
        self.batcher = Batcher(self.pool, self.limits.waiting)
        manifest = None
        roots = list(settings.images)
        if settings.manifest is not None:
            from displace.manifest.table import Manifest

            manifest = Manifest.read(settings.manifest)
            roots = roots or [settings.manifest.parent]
        self.gallery = Gallery(roots, manifest)

    async def in_pool(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run what takes long in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.pool, function, *args)

    async def vectors(self, request: Request, hosted: Hosted) -> Vectors:
        """Descriptors that a request asks about, its images described."""
        asked = await read_asked(request, hosted.place_map.dim, self.limits)
        if asked.vectors is not None:
            return asked.vectors
        if hosted.place_map.model is None or hosted.place_map.model.get("imported"):
            raise RefusedError(422, "this map cannot describe images: send descriptors")
        described: Vectors = await self.in_pool(hosted.place_map.describe, asked.images)
        return described


def make_app(settings: ServerSettings) -> FastAPI:
    """Make the application that serves a map."""
    server = Server(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        server.pool.shutdown(wait=True)

    app = FastAPI(
        title="displace",
        version=__version__,
        description="Where was this picture taken? A place map over HTTP.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=REFUSALS,
    )
    app.state.server = server
    _add_guards(app, server)
    _add_queries(app, server)
    _add_drives(app, server)
    _add_map(app, server)
    _add_site(app, server)
    return app


def _add_guards(app: FastAPI, server: Server) -> None:
    """Tokens, rates, time, counting and headers around every request; errors as JSON."""
    open_to_all = {"/", "/app.js", "/app.css", "/icon.svg", "/health", "/ready"}

    @app.middleware("http")
    async def guarded(
        request: Request, go_on: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Response:
        start = time.perf_counter()
        response: Response
        client = request.client.host if request.client else "?"
        reads = request.method in ("GET", "HEAD")
        header = request.headers.get("authorization")
        if request.url.path not in open_to_all and not server.settings.tokens.admit(header, reads=reads):
            response = _error(401, "send a token: Authorization: Bearer TOKEN")
        elif not server.rates.admits(client):
            response = _error(429, f"more than {server.limits.requests_per_second:g} requests a second")
        else:
            try:
                response = await asyncio.wait_for(go_on(request), server.limits.seconds)
            except TimeoutError:
                response = _error(503, f"no answer within {server.limits.seconds:g} s")
        route = getattr(request.scope.get("route"), "path", "other")
        seconds = time.perf_counter() - start
        server.metrics.count(route, response.status_code, seconds)
        log.info(
            json.dumps(
                {
                    "method": request.method,
                    "route": route,
                    "status": response.status_code,
                    "ms": round(1000 * seconds, 2),
                }
            )
        )
        response.headers.update(
            {
                "content-security-policy": POLICY,
                "x-content-type-options": "nosniff",
                "referrer-policy": "no-referrer",
            }
        )
        origin = request.headers.get("origin")
        if origin in server.settings.origins:
            response.headers.update({"access-control-allow-origin": str(origin), "vary": "origin"})
        return response

    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> Response:
        return _error(error.status, error.message)

    @app.exception_handler(BusyError)
    async def busy(_: Request, error: BusyError) -> Response:
        return _error(503, str(error))

    @app.exception_handler(DisplaceError)
    async def wrong(_: Request, error: DisplaceError) -> Response:
        return _error(422, str(error))


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": {"status": status, "message": message}}, status)


def _add_queries(app: FastAPI, server: Server) -> None:
    @app.post("/v1/locate", openapi_extra=BODIES, summary="Where were these taken?")
    async def locate(
        request: Request,
        k: int = Query(5, ge=1, le=server.limits.places, description="Places for each query."),
        min_confidence: float = Query(
            server.settings.min_confidence, ge=0, le=1, description="Below it a query is not in the map."
        ),
        near: str | None = Query(
            None, description="Where the queries are known to be: LAT,LON or EASTING,NORTHING."
        ),
        radius: float | None = Query(None, gt=0, description="Metres around it."),
    ) -> JSONResponse:
        """Locate one image (`image/*`), several (a form with files named `image`), or descriptors."""
        hosted = await server.in_pool(server.host.refresh)
        vectors = await server.vectors(request, hosted)
        area = {} if near is None and radius is None else {"near": _point(near), "radius": radius}
        matches = await server.batcher.locate(hosted, vectors, k, **area)
        return JSONResponse(
            {
                "map": hosted.version,
                "results": [
                    {**record, "in_map": _in_map(record, min_confidence)} for record in matches.to_json()
                ],
            }
        )


def _point(text: str | None) -> tuple[float, float] | None:
    """The point of a text such as 51.752,-1.258."""
    if text is None:
        return None
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        raise RefusedError(422, f"near={text!r} must be two numbers, such as 51.752,-1.258") from None
    return first, second


def _in_map(record: dict[str, Any], min_confidence: float) -> bool | None:
    """Whether a match counts; None where the map has no confidence to tell by."""
    confidence = record.get("confidence")
    return None if confidence is None else bool(confidence >= min_confidence)


def _add_drives(app: FastAPI, server: Server) -> None:
    @app.post("/v1/drives", status_code=201, summary="Begin a drive.")
    async def begin() -> JSONResponse:
        """Begin to follow a drive; idle ones are forgotten."""
        hosted = await server.in_pool(server.host.refresh)
        name = await server.in_pool(server.drives.begin, hosted)
        if name is None:
            raise RefusedError(429, f"{server.limits.drives} drives are followed already; end one, or wait")
        return JSONResponse({"drive": name, "map": hosted.version}, 201)

    @app.post("/v1/drives/{drive}/frames", openapi_extra=BODIES, summary="The next frame of a drive.")
    async def frame(request: Request, drive: str) -> JSONResponse:
        """Take the next frame in, and say where the drive is believed to be."""
        followed = _drive(server, drive)
        vectors = await server.vectors(request, followed.hosted)
        if len(vectors) != 1:
            raise RefusedError(422, f"{len(vectors)} frames at once; send one at a time, in order")
        fix = await server.in_pool(followed.step, vectors[0])
        return JSONResponse({"map": followed.hosted.version, "frame": followed.n_frames, **_fix_record(fix)})

    @app.delete("/v1/drives/{drive}", status_code=204, summary="End a drive.")
    async def end(drive: str) -> Response:
        """Forget a drive."""
        if not server.drives.end(drive):
            raise RefusedError(404, "there is no such drive, or it was idle too long")
        return Response(status_code=204)


def _drive(server: Server, name: str) -> Drive:
    drive = server.drives.get(name)
    if drive is None:
        raise RefusedError(
            404, "there is no such drive, or it was idle too long: begin one with POST /v1/drives"
        )
    return drive


def _fix_record(fix: Any) -> dict[str, Any]:
    """A fix of a follower, with the belief at its ten best places."""
    belief = np.asarray(fix.belief, np.float64)
    place = fix.place.item() if hasattr(fix.place, "item") else fix.place
    return {
        "place": place,
        "probability": round(float(fix.probability), 6),
        "off_map": round(float(fix.off_map), 6),
        "belief": [round(float(value), 5) for value in belief] if len(belief) <= 2000 else None,
    }


def _add_map(app: FastAPI, server: Server) -> None:
    @app.get("/v1/map", summary="What the map holds.")
    async def about() -> JSONResponse:
        """Places, traversals, fusion, confidence, storage and model of the map."""
        hosted = await server.in_pool(server.host.refresh)
        return JSONResponse({"map": hosted.version, **_map_record(server, hosted)})

    @app.get("/v1/places", summary="The places, along the route where they have an order.")
    async def places(start: int = Query(0, ge=0), count: int = Query(200, ge=1, le=5000)) -> JSONResponse:
        """List places with their positions, and of which traversals there are pictures."""
        hosted = await server.in_pool(server.host.refresh)
        listed = await server.in_pool(_listed, server, hosted, start, count)
        return JSONResponse(
            {"map": hosted.version, "total": len(hosted.place_map.place_ids), "places": listed}
        )

    @app.get("/v1/places/{place}/images/{traversal}", summary="A picture of a place.")
    async def picture(place: str, traversal: str) -> Response:
        """Give a small JPEG, where the server was told where images are."""
        content = await server.in_pool(
            server.gallery.thumbnail, server.host.current.place_map, place, traversal
        )
        if content is None:
            raise RefusedError(404, "there is no such picture")
        return Response(content, media_type="image/jpeg", headers={"cache-control": "private, max-age=300"})


def _listed(server: Server, hosted: Hosted, start: int, count: int) -> list[dict[str, Any]]:
    place_map = hosted.place_map
    order = place_map.places.order
    rows = (np.arange(len(place_map.place_ids)) if order is None else order)[start : start + count]
    points = None if place_map.positions is None else place_map.positions.points
    records = []
    for row in rows.tolist():
        place = place_map.place_ids[row].item()
        record: dict[str, Any] = {
            "place": place,
            "images": server.gallery.traversals(place_map, str(place)),
        }
        if points is not None and np.isfinite(points[row]).all():
            record["position"] = points[row].tolist()
        records.append(record)
    return records


def _map_record(server: Server, hosted: Hosted) -> dict[str, Any]:
    place_map = hosted.place_map
    calibration = place_map.calibration
    return {
        "places": len(place_map.place_ids),
        "traversals": place_map.traversals,
        "fusion": place_map.fusion,
        "reason": place_map.reason,
        "dimensions": [place_map.vectors.shape[1], place_map.dim],
        "rows": len(place_map.vectors),
        "dtype": str(place_map.vectors.dtype),
        "bytes": place_map.nbytes,
        "model": place_map.model_name if place_map.model else None,
        "takes_images": bool(place_map.model and not place_map.model.get("imported")),
        "has_order": place_map.places.order is not None,
        "degrees": None if place_map.positions is None else place_map.positions.degrees,
        "tolerance": str(place_map.tolerance),
        "min_confidence": server.settings.min_confidence,
        "calibration": None if calibration is None else calibration.to_json(),
        "calibration_is_stale": place_map.calibration_is_stale,
    }


def _add_site(app: FastAPI, server: Server) -> None:
    @app.get("/health", summary="Is the server alive?")
    async def health() -> JSONResponse:
        """Answer as long as the process runs."""
        return JSONResponse({"status": "alive"})

    @app.get("/ready", summary="Can it locate?")
    async def ready() -> JSONResponse:
        """Answer once the map is read; the map's version."""
        return JSONResponse({"status": "ready", "map": server.host.current.version})

    @app.get("/metrics", summary="Counters for Prometheus.")
    async def metrics() -> PlainTextResponse:
        """Requests, latencies, the map's version, the queue and the drives."""
        gauges = {"queries_waiting": float(server.batcher.n_waiting), "drives": float(len(server.drives))}
        return PlainTextResponse(server.metrics.text(server.host.current.version, gauges))

    for path, name, kind in (
        ("/", "index.html", "text/html"),
        ("/app.js", "app.js", "text/javascript"),
        ("/app.css", "app.css", "text/css"),
        ("/icon.svg", "icon.svg", "image/svg+xml"),
    ):

        def page(name: str = name, kind: str = kind) -> FileResponse:
            return FileResponse(SITE / name, media_type=kind, headers={"cache-control": "no-cache"})

        app.add_api_route(path, _plain(page), include_in_schema=False, methods=["GET"])


def _plain(page: Callable[[], FileResponse]) -> Callable[[], Awaitable[FileResponse]]:
    """A route without parameters."""

    async def route() -> FileResponse:
        return page()

    return route
