"""A client of `displace serve`: the map of another machine, from Python.

>>> from displace.client import Client                                      # doctest: +SKIP
>>> with Client("http://robot:8008", token="…") as town:                    # doctest: +SKIP
...     town.locate("photo.jpg")["results"][0]["places"][0]
...     with town.drive() as drive:
...         for frame in frames:
...             print(drive.step(frame)["place"])
"""

from __future__ import annotations

import mimetypes
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from displace.arrays import check_count
from displace.errors import DisplaceError, ImageError, InputError
from displace.files.reading import PathLike
from displace.registry import missing_extra

if TYPE_CHECKING:
    import httpx

Query = PathLike | bytes | NDArray[np.floating[Any]]
"""An image file, the content of one, or descriptors (D,) or (q, D)."""
TRY_AGAIN = (429, 502, 503, 504)


class ServerError(DisplaceError):
    """The server refused, or could not be reached; `status` is that of HTTP, if it answered."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Client:
    """Asks a server where pictures were taken.

    Parameters
    ----------
    address : str
        Such as ``http://127.0.0.1:8008``.
    token : str, optional
        Token of the server, if it requires one; by default the environment's DISPLACE_TOKEN.
    tries : int
        How often a request is sent if the server is busy or cannot be reached.
    timeout : float
        Seconds until a try has failed.
    wait : callable
        Called with the seconds to wait between two tries.
    transport : httpx.BaseTransport, optional
        For tests: what carries the requests.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        *,
        tries: int = 4,
        timeout: float = 30.0,
        wait: Callable[[float], None] = time.sleep,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise missing_extra("httpx", "web") from None
        check_count(tries, "tries")
        token = token or os.environ.get("DISPLACE_TOKEN")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self.tries, self.wait = tries, wait
        try:
            self.http = httpx.Client(base_url=address, headers=headers, timeout=timeout, transport=transport)
        except httpx.InvalidURL as error:
            raise ServerError(f"{address} is no address of a server: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.http.close()

    def map(self) -> dict[str, Any]:
        """What the map holds."""
        return self._json("GET", "/v1/map")

    def locate(self, query: Query, k: int = 5, **options: Any) -> dict[str, Any]:
        """Locate an image or descriptors.

        Parameters
        ----------
        query : path, bytes or array
        k : int
            Places for each query.
        **options
            Further parameters of ``/v1/locate``: `min_confidence`, `adapt`, `near` (a pair of numbers) with `radius`.

        Returns
        -------
        dict
            ``map``, the version that answered, and ``results``: places, scores, confidence, in_map of each query.
        """
        body, kind = _body(query)
        near = options.get("near")
        if isinstance(near, Iterable) and not isinstance(near, str):
            options["near"] = ",".join(map(str, near))  # a pair would be sent as two parameters
        return self._json(
            "POST", "/v1/locate", params={"k": k, **options}, content=body, headers={"content-type": kind}
        )

    def describe(self, image: PathLike | bytes) -> NDArray[np.float32]:
        """Describe an image by the map's model, shape (D,)."""
        body, kind = _body(image)
        answer = self.send("POST", "/v1/describe", content=body, headers={"content-type": kind})
        return np.frombuffer(answer.content, "<f4").astype(np.float32)

    def compare(self, image: PathLike | bytes, record: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """Record of a located descriptor in view of its image: which of its places it shows, and how surely.

        `record` is one of the results of `locate`, with some eight places; give the same `min_confidence`, if any.
        `locate` of images does so by itself.
        """
        body, kind = _body(image)
        params = {
            "place": record["places"],
            "score": record["scores"],
            "confidence": record["confidence"],
            **options,
        }
        answer = self._json(
            "POST", "/v1/compare", params=params, content=body, headers={"content-type": kind}
        )
        return {**record, **answer}

    def drive(self, adapt: str = "online", **options: Any) -> RemoteDrive:
        """Begin a drive, which is followed frame by frame; `adapt` and `begins_off` as for `PlaceMap.follow`."""
        return RemoteDrive(
            self, self._json("POST", "/v1/drives", params={"adapt": adapt, **options})["drive"]
        )

    def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        try:
            answer = self.send(method, path, **options).json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ServerError(f"{self.http.base_url} answered what no map server answers")
        return answer

    def send(self, method: str, path: str, tries: int | None = None, **options: Any) -> httpx.Response:
        """Send a request, and again if the server is busy or cannot be reached; raise the error that it reports.

        It is sent `tries` times at most, by default the client's; `options` are those of `httpx.Client.request`.
        """
        import httpx

        tries = self.tries if tries is None else tries
        for attempt in range(1, tries + 1):
            try:
                response = self.http.request(method, path, **options)
            except httpx.TransportError as error:
                if attempt == tries:
                    raise ServerError(f"{self.http.base_url} cannot be reached: {error}") from error
            else:
                if response.status_code < 400:
                    return response
                if response.status_code not in TRY_AGAIN or attempt == tries:
                    raise ServerError(_explained(response), response.status_code)
            self.wait(0.2 * 2**attempt)
        raise AssertionError("unreachable")


class RemoteDrive:
    """A drive that a server follows, under the server's name for it."""

    def __init__(self, client: Client, name: str) -> None:
        self.client, self.name = client, name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def step(self, frame: Query, belief: int = 0) -> dict[str, Any]:
        """Send the next frame; returns place, probability and off_map, and the ten likeliest places with their scores.

        Parameters
        ----------
        frame : path, bytes or array
        belief : int
            Also return the belief over the whole route, summed over so many stretches of it.
        """
        body, kind = _body(frame)
        # Sent once: a repeated frame would be an extra step.
        return self.client._json(
            "POST",
            f"/v1/drives/{self.name}/frames",
            tries=1,
            params={"belief": belief} if belief else {},
            content=body,
            headers={"content-type": kind},
        )

    def end(self) -> None:
        """End the drive; the server has already ended one that was idle too long."""
        try:
            self.client.send("DELETE", f"/v1/drives/{self.name}")
        except ServerError as error:
            if error.status != 404:
                raise


def _body(query: Query) -> tuple[bytes, str]:
    if isinstance(query, np.ndarray):
        if query.ndim not in (1, 2) or query.dtype == np.uint8:
            raise InputError(
                f"an array of shape {query.shape} and {query.dtype} is no descriptors, (D,) or (q, D): send pixels as "
                "the bytes of an image file (cv2.imencode, PIL's Image.save)"
            )
        return np.ascontiguousarray(np.atleast_2d(query), "<f4").tobytes(), "application/octet-stream"
    if isinstance(query, bytes):
        return query, "image/jpeg"
    if not isinstance(query, str | os.PathLike):
        raise InputError(f"a query is an image file, its bytes or an array; got {type(query).__name__}")
    try:
        content = Path(query).read_bytes()
    except OSError as error:
        raise ImageError(f"cannot read image {query}: {error.strerror}") from None
    return content, mimetypes.guess_type(os.fspath(query))[0] or "image/jpeg"


def _explained(response: httpx.Response) -> str:
    try:
        message = response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = response.reason_phrase
    return f"the server refused ({response.status_code}): {message}"
