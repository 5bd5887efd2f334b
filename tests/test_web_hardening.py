"""A server under damaged uploads, requests made from its own document, load, replacement and the end.

``FUZZ_UPLOADS=10000 python -m pytest tests/test_web_hardening.py -k uploads -s`` sends that many, and compares the
server's memory after a tenth of them with that at the end. ``FUZZ_EXAMPLES`` is the number of requests for each route
that schemathesis makes up.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import logging
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra web")
pytest.importorskip("httpx", reason="needs the extra web")

from fastapi.testclient import TestClient
from PIL import Image

from displace import ReferenceSet, build
from displace.images import read_image
from displace.models import get_model
from displace.places import Places
from displace.web.api import make_app
from displace.web.batching import Batcher
from displace.web.limits import Limits
from displace.web.process import JsonLines
from displace.web.server import ServerSettings

UPLOADS = int(os.environ.get("FUZZ_UPLOADS", "300"))
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "8"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
PLACES = 8
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "PPM", "GIF")
KINDS = (
    "image/jpeg",
    "image/png",
    "image/*",
    "application/json",
    "application/octet-stream",
    "text/plain",
    "",
)


def drawn(place, seed):
    """A picture of a place: the same blots with other noise."""
    blots = np.random.default_rng(place).integers(0, 256, (6, 8, 3), np.uint8)
    base = np.asarray(Image.fromarray(blots).resize((96, 72), Image.Resampling.BICUBIC), np.float64)
    noisy = base + np.random.default_rng(1000 + seed).normal(0, 10, base.shape)
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def encoded(image, form):
    buffer = io.BytesIO()
    image.save(buffer, form)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """A map of three drives along drawn places."""
    folder = tmp_path_factory.mktemp("town")
    model, places = get_model("hog"), np.tile(np.arange(PLACES), 3)
    images = [encoded(drawn(place, seed), "PNG") for seed, place in enumerate(places)]
    vectors = model.describe(np.stack([model.prepare(read_image(image)) for image in images]))
    traversals = np.repeat(["sun", "rain", "dusk"], PLACES)
    info = Places(np.arange(PLACES), frames=np.arange(PLACES))
    refs = ReferenceSet(vectors, places, traversals, info=info)
    build(refs, model=model.fingerprint()).save(folder / "town.displace")
    return folder / "town.displace"


class Serving:
    """`displace serve` in a process of its own, on a port that it chose itself."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "displace", "serve", *map(str, arguments), "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.lines, self.port = [], None
        self.started = threading.Event()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"running on http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                self.started.set()
        self.started.set()

    def __enter__(self):
        self.started.wait()
        assert self.port is not None, "".join(self.lines)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stderr.close()

    def children(self):
        """Processes that it started (Linux)."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(pid) for thread in threads for pid in thread.read_text().split()]

    def resident(self):
        """Bytes of memory that the process holds (Linux)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmRSS:\s+(\d+)", status)[1])


def seeds():
    """Bodies to damage: images of every format, forms, and descriptors."""
    images = [encoded(drawn(place, place), form) for place, form in enumerate(FORMATS)]
    form = b"".join(
        b'--bound\r\ncontent-disposition: form-data; name="image"; filename="x.png"\r\n\r\n' + image + b"\r\n"
        for image in images[:2]
    )
    vector = np.full(3168, 0.01, "<f4")
    return [
        *((image, "image/jpeg") for image in images),
        (form + b"--bound--\r\n", "multipart/form-data; boundary=bound"),
        (vector.tobytes(), "application/octet-stream"),
        (json.dumps({"descriptors": [vector.round(3).tolist()]}).encode(), "application/json"),
    ]


def damaged(body, rng):
    """A copy with a few bytes changed, cut, doubled or put in; sometimes none."""
    made = bytearray(body)
    for _ in range(rng.choice((0, 1, 1, 2, 5, 20))):
        if not made:
            break
        at = rng.randrange(len(made))
        action = rng.randrange(6)
        if action <= 2:
            # Heads are small, and decide most.
            made[at if action else at % 64] = rng.randrange(256)
        elif action == 3:
            del made[at : at + rng.choice((1, 10, 1000, 10**6))]
        elif action == 4:
            made[at:at] = made[at : at + rng.choice((1, 10, 1000))]
        else:
            made[at:at] = rng.randbytes(rng.choice((1, 4, 100)))
    return bytes(made)


def requests(n, seed):
    """Damaged uploads for every route that takes some."""
    rng, bodies = random.Random(seed), seeds()
    for _ in range(n):
        body, kind = rng.choice(bodies)
        if rng.random() < 0.15:
            kind = rng.choice(KINDS)
        path = rng.choice(("/v1/locate", "/v1/locate?k=3&adapt=batch", "/v1/describe", "FRAMES"))
        yield path, {"content-type": kind}, damaged(body, rng)


def sent(port, drive, cases):
    """Statuses of the answers; each has a connection of its own, which no pause between two of them can end."""
    connection, statuses = http.client.HTTPConnection("127.0.0.1", port), Counter()
    for path, headers, body in cases:
        connection.request("POST", path.replace("FRAMES", f"/v1/drives/{drive}/frames"), body, headers)
        answer = connection.getresponse()
        content = answer.read()
        message = json.loads(content)["error"]["message"] if answer.status >= 400 else ""
        assert answer.status < 500, (answer.status, message, path, headers, body[:200])
        statuses[answer.status] += 1
        connection.close()  # the next request opens it again
    return statuses


def test_damaged_uploads_are_located_or_refused(town, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Serving(town, "--rate", "1000000") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("POST", "/v1/drives")
        drive = json.loads(connection.getresponse().read())["drive"]
        connection.close()
        cases, tenth = requests(UPLOADS, SEED), UPLOADS // 10
        statuses = sent(server.port, drive, islice(cases, tenth))
        early = server.resident()
        statuses += sent(server.port, drive, cases)
        late = server.resident()
        assert list(tmp_path.rglob("*")) == []  # nothing was left behind
        server.process.send_signal(signal.SIGTERM)
        server.process.wait()
    print(f"\n{UPLOADS} uploads: {dict(sorted(statuses.items()))}")
    print(
        f"memory {early / 2**20:.1f} MiB after {tenth}, {late / 2**20:.1f} MiB at the end: {late / early:.3f}"
    )
    assert statuses.total() == UPLOADS
    assert {200, 415, 422} <= set(statuses)
    if UPLOADS >= 10_000:
        assert late <= 1.05 * early
    assert not [line for line in server.lines if "Warning" in line]
    lines = [json.loads(line) for line in server.lines if line.startswith("{")]
    assert {line["event"] for line in lines} == {"request"}
    assert set(lines[0]) == {"time", "level", "event", "method", "route", "status", "ms"}


def test_requests_made_from_the_document_find_no_server_error(town):
    schemathesis = pytest.importorskip("schemathesis", reason="needs the extra dev")
    from hypothesis import HealthCheck, Phase, given, settings

    app = make_app(ServerSettings(town, limits=Limits(requests_per_second=1e9, drives=10**9)))
    document = schemathesis.openapi.from_asgi("/openapi.json", app)
    bounded = settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    asked = Counter()

    def explore(operation, drive):
        documented = {int(status) for status in operation.definition.raw["responses"]}

        @bounded
        @given(case=operation.as_strategy())
        def send(case):
            if operation.path.endswith("/frames"):
                case.path_parameters["drive"] = drive
            answer = case.call()
            assert answer.status_code in documented, (operation.label, answer.status_code, answer.text)
            asked[operation.label, answer.status_code] += 1

        send()

    with TestClient(app) as client:
        drive = client.post("/v1/drives").json()["drive"]
        for found in document.get_all_operations():
            explore(found.ok(), drive)
    for (label, status), n in sorted(asked.items()):
        print(f"{label} {status}: {n}")
    assert len({label for label, _ in asked}) == 12


class TestUnderLoad:
    def test_a_map_replaced_meanwhile_loses_no_request(self, town, tmp_path):
        served, other = tmp_path / "served.displace", tmp_path / "other.displace"
        shutil.copy(town, served)
        refs = np.eye(PLACES, 3168, dtype=np.float32)
        vectors, places = np.concatenate([refs, refs]), np.tile(np.arange(PLACES), 2)
        build(ReferenceSet(vectors, places, np.repeat(["a", "b"], PLACES)), "hops").save(other)
        body = np.full(3168, 0.01, "<f4").tobytes()
        headers = {"content-type": "application/octet-stream"}
        with TestClient(make_app(ServerSettings(served))) as client, ThreadPoolExecutor(5) as pool:

            def ask(_):
                answer = client.post("/v1/locate", content=body, headers=headers)
                return answer.status_code, answer.json().get("map")

            def replace():
                for turn in range(10):
                    following = tmp_path / "next.displace"
                    shutil.copy(town if turn % 2 else other, following)
                    following.replace(served)
                    ask(turn)

            replacing = pool.submit(replace)
            answers = list(pool.map(ask, range(100)))
            replacing.result()
            answers.append(ask(0))
        assert {status for status, _ in answers} == {200}
        assert len({version for _, version in answers}) <= 2

    @pytest.mark.skipif(sys.platform != "linux", reason="finds processes as Linux lists them")
    def test_a_process_that_is_killed_loses_no_request_and_none_is_left_behind(self, town):
        body = encoded(drawn(3, 3), "JPEG")

        def ask(server):
            connection = http.client.HTTPConnection("127.0.0.1", server.port)
            connection.request("POST", "/v1/locate", body, {"content-type": "image/jpeg"})
            answer = connection.getresponse()
            found = answer.status, json.loads(answer.read())["results"][0]["places"][0]
            connection.close()
            return found

        def ready(server):
            connection = http.client.HTTPConnection("127.0.0.1", server.port)
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            connection.close()
            return float(re.search(r"displace_describing_processes (\d\S*)", text)[1])

        with (
            Serving(town, "--workers", "1", "--rate", "1000000") as server,
            ThreadPoolExecutor(16) as pool,
        ):
            answers = []
            while not ready(server):
                answers += pool.map(ask, [server] * 64)
            (killed,) = server.children()
            os.kill(killed, signal.SIGKILL)
            answers += pool.map(ask, [server] * 64)
            while not ready(server):
                answers += pool.map(ask, [server] * 64)
            (another,) = server.children()
            server.process.send_signal(signal.SIGTERM)
            server.process.wait()
            assert not Path(f"/proc/{another}").exists()
        assert set(answers) == {(200, 3)}
        assert killed != another
        assert [json.loads(line)["event"] for line in server.lines if "ended unexpectedly" in line]

    def test_what_was_accepted_is_answered_before_the_end(self, town, monkeypatch):
        import uvicorn

        arrived, gate = threading.Semaphore(0), threading.Event()
        locate = Batcher.locate

        async def held(self, *args, **options):
            arrived.release()
            await asyncio.to_thread(gate.wait)
            return await locate(self, *args, **options)

        monkeypatch.setattr(Batcher, "locate", held)
        server = uvicorn.Server(uvicorn.Config(make_app(ServerSettings(town)), log_level="warning"))
        body = np.full(3168, 0.01, "<f4").tobytes()

        def ask(port):
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("POST", "/v1/locate", body, {"content-type": "application/octet-stream"})
            answer = connection.getresponse()
            answer.read()
            connection.close()
            return answer.status

        with socket.socket() as listening, ThreadPoolExecutor(5) as pool:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            running = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
            running.start()
            answers = [pool.submit(ask, listening.getsockname()[1]) for _ in range(4)]
            for _ in answers:
                arrived.acquire()
            server.should_exit = True  # as SIGTERM does
            gate.set()
            assert [answer.result() for answer in answers] == [200] * 4
            running.join()


def test_logs_are_json():
    record = logging.LogRecord("displace.serve", logging.INFO, "", 0, "map %s", ("read",), None)
    record.fields = {"map": "abc"}
    line = json.loads(JsonLines().format(record))
    assert (line["level"], line["event"], line["map"]) == ("info", "map read", "abc")
    assert line["time"].endswith("+00:00")


def test_requests_that_were_gathered_are_a_line_each():
    record = logging.LogRecord("displace.serve", logging.INFO, "", 0, "request", (), None)
    record.lines = [(0.0, {"status": 200}), (1.5, {"status": 404})]
    first, second = (json.loads(line) for line in JsonLines().format(record).split("\n"))
    assert (first["time"], first["event"], first["status"]) == (
        "1970-01-01T00:00:00.000+00:00",
        "request",
        200,
    )
    assert (second["time"], second["level"], second["status"]) == (
        "1970-01-01T00:00:01.500+00:00",
        "info",
        404,
    )
