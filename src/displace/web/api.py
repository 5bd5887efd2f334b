"""The HTTP interface: queries, drives, the map and its places, health, metrics, and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from pydantic import FiniteFloat
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from displace import __version__
from displace.arrays import Vectors
from displace.errors import DisplaceError
from displace.maps.driving import likeliest
from displace.maps.place_map import PlaceMap
from displace.maps.remarks import remarks, rounding_loss
from displace.matches import Matches
from displace.sequence.tracking import BEGINS_OFF
from displace.web.batching import SIZES
from displace.web.document import BODIES, IMAGES, ONE_IMAGE, REFUSALS, with_answers
from displace.web.drives import Drive
from displace.web.guard import Guard, error_response, refusal
from displace.web.hosting import Hosted
from displace.web.limits import RefusedError
from displace.web.locating import Locating, Wanted, compared, in_map
from displace.web.metrics import histogram
from displace.web.server import Server, ServerSettings
from displace.web.uploads import VECTORS, read_asked
from displace.web.worker import checked_image

LIKELIEST = 10
"""Places of a drive's frame, with their probabilities."""
STRETCHES = 2000
"""Numbers of a frame's belief at most."""
NO_DRIVE = (
    "there is no such drive: it was ended, was idle too long, or the server was restarted since. Begin another with "
    "POST /v1/drives"
)
SITE = Path(__file__).parent / "site"


def make_app(settings: ServerSettings) -> ASGIApp:
    """Make the application that serves a map."""
    server = Server(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        server.close()

    app = FastAPI(
        title="displace",
        version=__version__,
        description="Where was this picture taken? A place map over HTTP.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=REFUSALS,
    )
    locating = Locating(server)
    _add_errors(app)
    _add_queries(app, server, locating)
    _add_drives(app, server)
    _add_map(app, server)
    _add_site(app, server)
    app.openapi = partial(with_answers, app.openapi)  # type: ignore[method-assign]
    return Guard(app, {("POST", "/v1/locate"): locating}, server)


def _add_errors(app: FastAPI) -> None:
    """Errors as JSON, each with a message."""

    @app.exception_handler(DisplaceError)
    async def refused(_: Request, error: DisplaceError) -> Response:
        return refusal(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        texts = [f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors()]
        return error_response(422, "; ".join(texts))

    @app.exception_handler(HTTPException)
    async def elsewhere(request: Request, error: HTTPException) -> Response:
        why = {
            404: f"there is nothing at {request.url.path}: /openapi.json lists what there is",
            405: f"{request.method} is not understood at {request.url.path}: /openapi.json lists what is",
        }
        return error_response(error.status_code, why.get(error.status_code, str(error.detail)))


def _add_queries(app: FastAPI, server: Server, locating: Locating) -> None:
    @app.post(
        "/v1/locate",
        openapi_extra={**BODIES, "parameters": Wanted.parameters()},
        summary="Where were these taken?",
    )
    async def locate(request: Request) -> Response:
        """Locate one image (`image/*`), several (a form with files named `image`), or descriptors."""
        return Response(await locating.answer(request), media_type="application/json")

    @app.post("/v1/describe", openapi_extra=IMAGES, summary="Descriptors of images.")
    async def describe(request: Request) -> Response:
        """Describe one image or several by the map's model: raw little-endian float32, row by row."""
        hosted = await server.hosted()
        vectors = await server.vectors(request, hosted)
        content = np.ascontiguousarray(vectors, "<f4").tobytes()
        return Response(content, media_type=VECTORS, headers={"displace-map": hosted.version})

    @app.post("/v1/compare", openapi_extra=ONE_IMAGE, summary="Which of some places does an image show?")
    async def compare(
        request: Request,
        place: Annotated[
            list[str], Query(description="Where its descriptor was located, the best place first.")
        ],
        score: Annotated[list[FiniteFloat], Query(description="Score of each.")],
        confidence: Annotated[float, Query(ge=0, le=1, description="The confidence of the first.")],
        min_confidence: Annotated[
            float,
            Query(ge=0, le=1, description="Below it the image is not in the map; by default the server's."),
        ] = server.settings.min_confidence,
    ) -> JSONResponse:
        """A located descriptor in view of its image; `/v1/locate` does so for images by itself."""
        _check_parameters(request, ("place", "score", "confidence", "min_confidence"))
        if len(place) != len(score):
            raise RefusedError(422, f"{len(place)} places and {len(score)} scores: give one for each")
        hosted = await server.hosted()
        asked = await read_asked(request, hosted.place_map.dim, server.limits)
        if not isinstance(asked, list) or len(asked) != 1:
            raise RefusedError(422, "one image is compared at a time: send it as image/jpeg …")
        places = _as_ids(place, hosted.place_map)
        record = {"places": places, "scores": score, "confidence": confidence}
        told = await server.in_pool(_compared, server, hosted, asked[0], record)
        return JSONResponse({"map": hosted.version, **told, "in_map": in_map(told, min_confidence)})


def _as_ids(places: list[str], place_map: PlaceMap) -> list[Any]:
    """Places as the map names them, text or numbers: in an address all is text."""
    if place_map.place_ids.dtype.kind == "U":
        return places
    try:
        return [int(place) for place in places]
    except ValueError as error:
        raise RefusedError(422, f"place: places of this map are whole numbers; {error}") from None


def _compared(server: Server, hosted: Hosted, image: bytes, record: dict[str, Any]) -> dict[str, Any]:
    """Record of a query in view of its image, whose size is checked before it is decoded."""
    image = checked_image(image, server.limits)
    return compared(hosted.place_map, record, image, k=len(record["places"]))


def _add_drives(app: FastAPI, server: Server) -> None:
    @app.post("/v1/drives", status_code=201, summary="Begin a drive.")
    async def begin(
        request: Request,
        adapt: Literal["online", "none"] = Query(
            "online", description="Whether the matching adapts to the drive's condition on the way."
        ),
        begins_off: float = Query(
            BEGINS_OFF, gt=0, lt=1, description="Probability that the drive begins off the map."
        ),
    ) -> JSONResponse:
        """Begin to follow a drive; idle ones are forgotten."""
        await _check_no_more(request, ("adapt", "begins_off"))
        hosted = await server.hosted()
        name = await server.in_pool(server.drives.begin, hosted, adapt, begins_off)
        if name is None:
            raise RefusedError(429, f"{server.limits.drives} drives are followed already; end one, or wait")
        return JSONResponse({"drive": name, "map": hosted.version}, 201)

    @app.post("/v1/drives/{drive}/frames", openapi_extra=BODIES, summary="The next frame of a drive.")
    async def frame(
        request: Request,
        drive: str,
        belief: int = Query(
            0,
            ge=0,
            le=STRETCHES,
            description="Stretches of the route to give the belief of; by default none.",
        ),
    ) -> JSONResponse:
        """Take the next frame in, and say where the drive is believed to be: the ten likeliest places."""
        _check_parameters(request, ("belief",))
        followed = _drive(server, drive)
        vectors, images = await server.asked(request, followed.hosted)
        if len(vectors) != 1:
            raise RefusedError(422, f"{len(vectors)} frames at once; send one at a time, in order")
        fix = await server.in_pool(followed.step, vectors[0], None if images is None else images[0])
        record = _fix_record(fix, followed.hosted.place_map, belief)
        return JSONResponse({"map": followed.hosted.version, "frame": followed.n_frames, **record})

    @app.delete("/v1/drives/{drive}", status_code=204, summary="End a drive.")
    async def end(drive: str) -> Response:
        """Forget a drive."""
        if not server.drives.end(drive):
            raise RefusedError(404, NO_DRIVE)
        return Response(status_code=204)


async def _check_no_more(request: Request, known: tuple[str, ...]) -> None:
    """Refuse parameters that there are not, and a body, which would go unread."""
    _check_parameters(request, known)
    if await request.body():
        raise RefusedError(
            422, f"no body is read here: give {' and '.join(known)} in the address (?{known[0]}=…)"
        )


def _check_parameters(request: Request, known: tuple[str, ...]) -> None:
    for name in request.query_params:
        if name not in known:
            raise RefusedError(422, f"{name}: there is no such parameter; there are {', '.join(known)}")


def _drive(server: Server, name: str) -> Drive:
    drive = server.drives.get(name)
    if drive is None:
        raise RefusedError(404, NO_DRIVE)
    return drive


def _fix_record(fix: Any, place_map: PlaceMap, stretches: int) -> dict[str, Any]:
    """A fix of a follower: its likeliest places and, where asked for, the belief summed over stretches of the route."""
    belief = np.asarray(fix.belief, np.float64)
    place = fix.place.item() if hasattr(fix.place, "item") else fix.place
    rows, scores = likeliest([fix], place_map.places, LIKELIEST)
    found = place_map.place_ids[rows]
    positions = place_map.places.positions_of(found[:, 0])
    (record,) = Matches(found, scores, np.array([fix.probability]), positions).to_json()
    return {
        **record,
        "place": place,
        "probability": round(float(fix.probability), 6),
        "off_map": round(float(fix.off_map), 6),
        **({"belief": [round(value, 5) for value in _stretches(belief, stretches)]} if stretches else {}),
    }


def _stretches(belief: Vectors, most: int) -> list[float]:
    """A belief of at most so many numbers: each is that of one place, or of neighbours together."""
    starts = np.linspace(0, len(belief), min(most, len(belief)), endpoint=False).astype(np.intp)
    summed: list[float] = np.add.reduceat(belief, starts).tolist()
    return summed


def _add_map(app: FastAPI, server: Server) -> None:
    @app.get("/v1/map", summary="What the map holds.")
    async def about() -> JSONResponse:
        """Places, traversals, fusion, confidence, storage and model of the map."""
        hosted = await server.hosted()
        return JSONResponse({"map": hosted.version, **_map_record(server, hosted)})

    @app.get("/v1/places", summary="The places, along the route where they have an order.")
    async def places(start: int = Query(0, ge=0), count: int = Query(200, ge=1, le=5000)) -> JSONResponse:
        """List places with their positions, and of which traversals there are pictures."""
        hosted = await server.hosted()
        listed = await server.in_pool(_listed, server, hosted, start, count)
        return JSONResponse(
            {"map": hosted.version, "total": len(hosted.place_map.place_ids), "places": listed}
        )

    @app.get("/v1/places/{place}/images/{traversal}", summary="A picture of a place.")
    async def picture(place: str, traversal: str) -> Response:
        """Give a small JPEG, where the server was told where images are."""
        hosted = await server.hosted()
        content = await server.in_pool(server.gallery.thumbnail, hosted.place_map, place, traversal)
        if content is None:
            raise RefusedError(404, "there is no such picture")
        headers = {"cache-control": "private, max-age=300", "displace-map": hosted.version}
        return Response(content, media_type="image/jpeg", headers=headers)


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
        "dim": place_map.dim,
        "dimensions": [place_map.vectors.shape[1], place_map.dim],
        "rows": len(place_map.vectors),
        "dtype": str(place_map.vectors.dtype),
        "bytes": place_map.nbytes,
        "model": place_map.model_name if place_map.model else None,
        "fingerprint": place_map.model,
        "takes_images": hosted.no_images is None,
        "no_images": hosted.no_images,
        "compares_pictures": place_map.compares_pictures,
        "has_order": place_map.has_order,
        "degrees": None if place_map.positions is None else place_map.positions.degrees,
        "tolerance": str(place_map.tolerance),
        "min_confidence": server.settings.min_confidence,
        "limits": {
            "queries": server.limits.queries,
            "upload_bytes": server.limits.upload_bytes,
            "places": server.limits.places,
        },
        "calibration": None if calibration is None else calibration.to_json(),
        "calibration_is_stale": place_map.calibration_is_stale,
        "spectrum": place_map.notes.get("spectrum"),
        "storage": {
            "rows": sum(a.nbytes for a in (place_map.vectors, place_map.scales) if a is not None),
            "projection": sum(a.nbytes for a in (place_map.projection, place_map.mean) if a is not None),
            "sketches": 0 if place_map.state.sketches is None else place_map.state.sketches.packed.nbytes,
            "file": server.settings.map_file.stat().st_size if server.settings.map_file.is_file() else None,
            "rounding": rounding_loss(place_map),
        },
        "advice": list(remarks(place_map)),
    }


def _add_site(app: FastAPI, server: Server) -> None:
    @app.get("/health", summary="Is the server alive?")
    async def health() -> JSONResponse:
        """Answer as long as the process runs."""
        return JSONResponse({"status": "alive"})

    @app.get("/ready", summary="Can it locate?")
    async def ready() -> JSONResponse:
        """Answer once the map is read: its version, and whether images can be located, or descriptors only."""
        hosted = await server.hosted()
        return JSONResponse(
            {"status": "ready", "map": hosted.version, "takes_images": hosted.no_images is None}
        )

    @app.get("/metrics", summary="Counters for Prometheus.")
    async def metrics() -> PlainTextResponse:
        """Requests, latencies, the map's version, the queue and the drives."""
        batcher = server.batcher
        gauges = {
            "queries_waiting": float(batcher.n_waiting),
            "drives": float(len(server.drives)),
            "describing_processes": float(server.describer.n_processes),
        }
        text = server.metrics.text(server.host.current.version, gauges)
        sizes = histogram("batch_queries", SIZES, batcher.sizes, batcher.n_located)
        return PlainTextResponse("\n".join([text + "# TYPE displace_batch_queries histogram", *sizes, ""]))

    for path, name, kind in (
        ("/", "index.html", "text/html"),
        ("/app.js", "app.js", "text/javascript"),
        ("/app.css", "app.css", "text/css"),
        ("/icon.svg", "icon.svg", "image/svg+xml"),
    ):
        app.add_api_route(path, _page(name, kind), include_in_schema=False, methods=["GET"])


def _page(name: str, kind: str) -> Callable[[], Awaitable[FileResponse]]:
    """A route to a file of the site; its kind is not left to what a system takes an ending for."""

    async def route() -> FileResponse:
        return FileResponse(SITE / name, media_type=kind, headers={"cache-control": "no-cache"})

    return route
