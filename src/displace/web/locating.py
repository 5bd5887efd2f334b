"""`POST /v1/locate`, the request of which there are hundreds a second: read, located and written without a framework.

Routes, parameters and responses as objects took as long as the search in a map of 27,592 places.
"""

from __future__ import annotations

import asyncio
import json
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from displace.maps.place_sketches import AMONG
from displace.matches import Matches
from displace.web.limits import RefusedError
from displace.web.server import Server

if TYPE_CHECKING:
    from displace.maps import PlaceMap

_KEPT = 256
"""Different queries (``k=5&near=…``) that are remembered as read."""
_as_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Wanted(BaseModel):
    """Parameters of a query."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    k: int = Field(5, ge=1, description="Places for each query.")
    min_confidence: float | None = Field(
        None, ge=0, le=1, description="Below it a query is not in the map; by default the server's."
    )
    near: str | None = Field(
        None,
        description="Where the queries are known to be: LAT,LON or EASTING,NORTHING; with radius.",
        examples=["51.752,-1.258"],
    )
    radius: float | None = Field(None, gt=0, description="Metres around it.", examples=[300])
    adapt: Literal["none", "batch", "auto"] = Field(
        "none", description="Whether the queries of this request, of one condition, adapt the matching to it."
    )

    @property
    def area(self) -> dict[str, Any]:
        """Arguments of `PlaceMap.locate` for where the queries are."""
        if self.near is None and self.radius is None:
            return {}
        return {"near": _point(self.near), "radius": self.radius}

    @classmethod
    def parameters(cls) -> list[dict[str, Any]]:
        """What the document says of them."""
        return [
            {"name": name, "in": "query", "description": schema.pop("description"), "schema": schema}
            for name, schema in cls.model_json_schema()["properties"].items()
        ]


def read_wanted(server: Server, query: bytes) -> Wanted:
    """Parameters of the query of an address, with what the server sets."""
    given = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    most = server.limits.places
    try:
        wanted = Wanted.model_validate(
            {"k": min(5, most), "min_confidence": server.settings.min_confidence, **given}
        )
    except ValidationError as error:
        raise RefusedError(422, "; ".join(map(_why, error.errors()))) from None
    if wanted.k > most:
        raise RefusedError(422, f"k={wanted.k} must be at most {most}")
    return wanted


class Locating:
    """The route, as an ASGI application."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.wanted = lru_cache(_KEPT)(partial(read_wanted, server))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; what it is refused for is raised."""
        content = await self.answer(Request(scope, receive))
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def answer(self, request: Request) -> bytes:
        """Locate what a request asks about; JSON."""
        server, wanted = self.server, self.wanted(request.scope["query_string"])
        hosted = await server.hosted()
        vectors, images = await server.asked(request, hosted)
        compares = images is not None and hosted.place_map.compares_pictures
        k = max(wanted.k, AMONG) if compares else wanted.k
        if wanted.adapt == "none":
            records = await server.batcher.locate(hosted, vectors, k, **wanted.area)
        else:  # queries of other requests are of other conditions
            locate = partial(hosted.place_map.locate, vectors, k, adapt=wanted.adapt, **wanted.area)
            records = (await server.in_pool(locate)).to_json()
        if images is not None and compares:
            # One by one, so that the pool bounds the memory.
            compare = partial(server.in_pool, partial(compared, hosted.place_map, k=wanted.k))
            records = await asyncio.gather(*map(compare, records, images))
        for record in records:
            record["in_map"] = in_map(record, wanted.min_confidence)
        return _as_json({"map": hosted.version, "results": records}).encode()


def compared(place_map: PlaceMap, record: dict[str, Any], image: bytes, k: int) -> dict[str, Any]:
    """Record of a query, of k places, in view of the picture itself, as `PlaceMap.locate` makes it."""
    if record.get("confidence") is None:
        return {**record, "places": record["places"][:k], "scores": record["scores"][:k]}
    found = Matches(
        np.array([record["places"]]),
        np.array([record["scores"]], float),
        np.array([record["confidence"]], float),
    )
    return {**record, **place_map.compared(found, [image]).best(k).to_json()[0]}


def _why(error: Any) -> str:
    """What is wrong with a parameter."""
    name, message = error["loc"][0], error["msg"]
    if error["type"] == "extra_forbidden":
        message = f"there is no such parameter; there are {', '.join(Wanted.model_fields)}"
    return f"{name}: {message}"


def _point(text: str | None) -> tuple[float, float] | None:
    """The point of a text such as 51.752,-1.258."""
    if text is None:
        return None
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        raise RefusedError(422, f"near={text!r} must be two numbers, such as 51.752,-1.258") from None
    return first, second


def in_map(record: dict[str, Any], min_confidence: float | None) -> bool | None:
    """Whether a match counts; None where the map has no confidence to tell by."""
    confidence = record.get("confidence")
    return None if confidence is None or min_confidence is None else bool(confidence >= min_confidence)
