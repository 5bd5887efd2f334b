"""What the server's OpenAPI document says of bodies and answers, with an example of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from displace.web.uploads import VECTORS

FILE = {"type": "string", "format": "binary"}
BODIES = {
    "requestBody": {
        "required": True,
        "content": {
            "image/jpeg": {"schema": FILE},
            "image/png": {"schema": FILE},
            "multipart/form-data": {
                "schema": {"type": "object", "properties": {"image": {"type": "array", "items": FILE}}}
            },
            VECTORS: {"schema": FILE},
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
IMAGES = {
    "requestBody": {
        "required": True,
        "content": {
            kind: BODIES["requestBody"]["content"][kind]  # type: ignore[index]
            for kind in ("image/jpeg", "image/png", "multipart/form-data")
        },
    }
}
ONE_IMAGE = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": FILE} for kind in ("image/jpeg", "image/png")},
    }
}
_WHY = {
    401: ("The token is missing or wrong.", "the token is wrong, or may only view the map"),
    404: ("There is no such place, picture or drive.", "there is no such picture"),
    411: ("A form without Content-Length.", "a form needs a Content-Length"),
    413: (
        "The upload, image, batch or drive is larger than the limits.",
        "300 descriptors in one request, the limit is 256",
    ),
    415: ("Neither an image nor descriptors.", "this is no image that is read here (JPEG, PNG, …)"),
    422: ("The request cannot be read, or does not fit the map.", "k=2000 must be at most 1000"),
    429: (
        "Too many requests of one client, or too many drives.",
        "more than 200 requests a second of one client: wait a moment",
    ),
    503: (
        "Too many queries are waiting, or the answer took too long.",
        "4096 queries are waiting; try again in a moment",
    ),
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": about,
        "content": {"application/json": {"example": {"error": {"status": status, "message": message}}}},
    }
    for status, (about, message) in _WHY.items()
}
_VERSION = "6e2e1db7ae2d"
_MATCH = {
    "places": ["0012", "0003"],
    "scores": [0.81, 0.44],
    "confidence": 0.86,
    "latitude": 51.752,
    "longitude": -1.258,
}
_JSON = "application/json"
ANSWERS: dict[tuple[str, str], tuple[str, str, Any]] = {
    ("post", "/v1/locate"): ("200", _JSON, {"map": _VERSION, "results": [{**_MATCH, "in_map": True}]}),
    ("post", "/v1/describe"): ("200", VECTORS, None),
    ("post", "/v1/compare"): ("200", _JSON, {"map": _VERSION, **_MATCH, "in_map": True}),
    ("post", "/v1/drives"): ("201", _JSON, {"drive": "mJ0rK3v1Yw4p8s2Q", "map": _VERSION}),
    ("post", "/v1/drives/{drive}/frames"): (
        "200",
        _JSON,
        {
            "map": _VERSION,
            "frame": 7,
            **_MATCH,
            "place": "0012",
            "probability": 0.97,
            "off_map": 0.01,
        },
    ),
    ("get", "/v1/map"): (
        "200",
        _JSON,
        {
            "map": _VERSION,
            "places": 811,
            "traversals": {"summer": 811, "winter": 811},
            "fusion": "displace",
            "dim": 512,
            "bytes": 940_000,
            "takes_images": True,
            "no_images": None,
            "has_order": True,
            "min_confidence": 0.5,
        },
    ),
    ("get", "/v1/places"): (
        "200",
        _JSON,
        {
            "map": _VERSION,
            "total": 811,
            "places": [{"place": "0000", "images": ["summer", "winter"], "position": [51.752, -1.258]}],
        },
    ),
    ("get", "/v1/places/{place}/images/{traversal}"): ("200", "image/jpeg", None),
    ("get", "/health"): ("200", _JSON, {"status": "alive"}),
    ("get", "/ready"): ("200", _JSON, {"status": "ready", "map": _VERSION, "takes_images": True}),
    ("get", "/metrics"): (
        "200",
        "text/plain",
        'displace_requests_total{route="/v1/locate",status="200"} 41\n',
    ),
}
"""Status, type and an example of what is answered where all is well; None for bytes."""


def with_answers(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Make the document, with what is answered."""
    document = make()
    for (method, path), (status, kind, example) in ANSWERS.items():
        content = {"schema": FILE} if example is None else {"schema": {}, "example": example}
        document["paths"][path][method]["responses"][status]["content"] = {kind: content}
    return document
