"""What every request passes: tokens, rates, a time limit, counting, headers."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from displace.errors import DisplaceError
from displace.web.limits import RateLimit, RefusedError
from displace.web.server import Server

log = logging.getLogger("displace.serve")
OPEN_TO_ALL = frozenset({"/", "/app.js", "/app.css", "/icon.svg", "/health", "/ready"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src blob:; "
    "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]

TOGETHER = 0.1
"""Seconds after which the lines of requests are written, all in one: each by itself took a seventh of the time."""
GONE = 499
"""Counted for clients that left before their request was whole; nobody is there to be answered."""


def refusal(error: DisplaceError) -> JSONResponse:
    """What is answered to a request that cannot be met."""
    return error_response(error.status if isinstance(error, RefusedError) else 422, str(error))


def error_response(status: int, message: str) -> JSONResponse:
    """An error as the interface gives it."""
    return JSONResponse({"error": {"status": status, "message": message}}, status)


class Guard:
    """Admits requests or refuses them, ends those that take too long, and counts them all.

    `app` answers, but for the methods and paths of `quick`, whose applications raise what they refuse a request for;
    limits, tokens, origins and counters are the server's.
    """

    def __init__(self, app: ASGIApp, quick: dict[tuple[str, str], ASGIApp], server: Server) -> None:
        self.app, self.quick, self.limits, self.metrics = app, quick, server.limits, server.metrics
        self.tokens = server.settings.tokens
        self.origins = {origin.encode() for origin in server.settings.origins}
        self.rates = RateLimit(self.limits.requests_per_second)
        self.answered: list[tuple[float, dict[str, Any]]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            self._log()
            return
        start = time.perf_counter()
        headers = dict(scope["headers"])
        origin = headers.get(b"origin")
        added = [*HEADERS]
        if origin in self.origins:
            added += [(b"access-control-allow-origin", origin), (b"vary", b"origin")]
        status: int | None = None

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        self.metrics.in_progress += 1
        try:
            refused = self._refusal(scope, headers)
            if refused is None:
                app = self.quick.get((scope["method"], scope["path"]), self.app)
                try:
                    async with asyncio.timeout(self.limits.seconds):
                        await app(scope, receive, answer)
                except TimeoutError:
                    if status is None:  # else the answer had begun
                        refused = error_response(503, f"no answer within {self.limits.seconds:g} s")
                except DisplaceError as error:
                    refused = refusal(error)
                except ClientDisconnect:
                    status = GONE
            if refused is not None:
                await refused(scope, receive, answer)
        finally:
            self.metrics.in_progress -= 1
            self._count(scope, status or 500, time.perf_counter() - start)

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> Response | None:
        """The answer to a request that is not passed on; None if it is."""
        method = scope["method"]
        if method == "OPTIONS" and headers.get(b"origin") in self.origins:
            allowed = {"access-control-allow-methods": "GET, POST, DELETE"}
            return Response(
                status_code=204,
                headers={**allowed, "access-control-allow-headers": "authorization, content-type"},
            )
        given = headers.get(b"authorization", b"").decode("latin-1")
        if scope["path"] not in OPEN_TO_ALL and not self.tokens.admit(given, reads=method in ("GET", "HEAD")):
            if given:
                return error_response(401, "the token is wrong, or may only view the map")
            return error_response(
                401,
                "this server needs a token: send Authorization: Bearer TOKEN (displace locate and Client take it from "
                "the environment, DISPLACE_TOKEN)",
            )
        if not self.rates.admits(scope["client"][0] if scope.get("client") else "?"):
            most = f"{self.limits.requests_per_second:g} requests a second"
            return error_response(429, f"more than {most} of one client: wait a moment")
        return None

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        method, path = scope["method"], scope["path"]
        # Routes of FastAPI leave themselves; those of Starlette, which have no parameters here, what they call.
        known = "endpoint" in scope or (method, path) in self.quick
        route = str(getattr(scope.get("route"), "path", path if known else "other"))
        self.metrics.count(route, status, seconds)
        if not self.answered:
            asyncio.get_running_loop().call_later(TOGETHER, self._log)
        fields = {"method": method, "route": route, "status": status, "ms": round(1000 * seconds, 2)}
        self.answered.append((time.time(), fields))

    def _log(self) -> None:
        """Write a line for each request that was answered since the last time."""
        answered, self.answered = self.answered, []
        if answered and log.isEnabledFor(logging.INFO):
            log.info("request", extra={"lines": answered})
