"""What stands around every request: tokens, rates, time, counting, headers."""

from __future__ import annotations

import asyncio
import logging
import time

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from displace.web.limits import Limits, RateLimit, Tokens
from displace.web.metrics import Metrics

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


def error_response(status: int, message: str) -> JSONResponse:
    """An error as the interface gives it."""
    return JSONResponse({"error": {"status": status, "message": message}}, status)


class Guard:
    """Admits requests or refuses them, ends those that take too long, and counts them all.

    Parameters
    ----------
    app : ASGI application
        What answers.
    limits, tokens, metrics
        Of the server.
    origins : tuple of str
        Web sites whose pages may ask.
    """

    def __init__(
        self, app: ASGIApp, limits: Limits, tokens: Tokens, metrics: Metrics, origins: tuple[str, ...]
    ) -> None:
        self.app, self.limits, self.tokens, self.metrics = app, limits, tokens, metrics
        self.origins = {origin.encode() for origin in origins}
        self.rates = RateLimit(limits.requests_per_second)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
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
            refusal = self._refusal(scope, headers)
            if refusal is None:
                try:
                    async with asyncio.timeout(self.limits.seconds):
                        await self.app(scope, receive, answer)
                except TimeoutError:
                    if status is None:  # else the answer had begun
                        refusal = error_response(503, f"no answer within {self.limits.seconds:g} s")
            if refusal is not None:
                await refusal(scope, receive, answer)
        finally:
            self.metrics.in_progress -= 1
            self._count(scope, status or 500, time.perf_counter() - start)

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> Response | None:
        """What a request that goes no further is told."""
        method = scope["method"]
        if method == "OPTIONS" and headers.get(b"origin") in self.origins:
            allowed = {"access-control-allow-methods": "GET, POST, DELETE"}
            return Response(
                status_code=204,
                headers={**allowed, "access-control-allow-headers": "authorization, content-type"},
            )
        given = headers.get(b"authorization", b"").decode("latin-1")
        if scope["path"] not in OPEN_TO_ALL and not self.tokens.admit(given, reads=method in ("GET", "HEAD")):
            return error_response(401, "send a token: Authorization: Bearer TOKEN")
        if not self.rates.admits(scope["client"][0] if scope.get("client") else "?"):
            return error_response(429, f"more than {self.limits.requests_per_second:g} requests a second")
        return None

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        # Routes of FastAPI leave themselves; those of Starlette, which have no parameters here, what they call.
        route = str(getattr(scope.get("route"), "path", scope["path"] if "endpoint" in scope else "other"))
        self.metrics.count(route, status, seconds)
        if log.isEnabledFor(logging.INFO):
            fields = {"method": scope["method"], "route": route, "status": status}
            log.info("request", extra={"fields": {**fields, "ms": round(1000 * seconds, 2)}})
