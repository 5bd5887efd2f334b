"""A served map under load on this machine: clients that each send a query as soon as the last one is answered.

``vectors``: descriptors of a map of Nordland's size, one a request, compared with `PlaceMap.locate` in a process by
itself, with batches of the sizes that the server came to, in the same shares; each counts as the upper end of its
bucket in the server's histogram, which favours `locate`. ``images``: JPEG of the rendered town with hog, likewise,
described and located, and also with as many at a time as there are clients: the server describes each by itself.
Server and `locate` take turns; the median of the rounds counts. ``reload``: the map's file is replaced all the while.
``stop``: SIGTERM while requests are in work. Server and clients share the cores of this machine, and CPU time of both
is given.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import IO

import numpy as np
import uvloop

from benchmarks._measure import header, row
from benchmarks._sizes import SIZES, traversals
from displace import PlaceMap, ReferenceSet, build, get_fusion
from displace.descriptors.preparation import n_cores
from displace.web.describer import default_workers

DIM, WIDTH = 512, 256
ROUNDS = 5
"""In which server and comparison take turns, so that both meet the same machine; the median counts."""
FLOATS, JPEG = "application/octet-stream", "image/jpeg"


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks serve", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="|".join(PARTS), help="by default all")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--keep", type=Path, help="folder for the maps, used again by the next run")
    options = parser.parse_args(argv)
    if unknown := {*options.parts} - {*PARTS}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as temporary:
        work = options.keep or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        failed = [
            part for part in options.parts or PARTS if not PARTS[part](work, options.clients, options.seconds)
        ]
    if failed:
        sys.exit(f"not reached: {', '.join(failed)}")


@dataclass
class Load:
    """What came back."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    versions: set[bytes] = field(default_factory=set)
    lost: int = 0

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.latencies) / self.seconds

    def milliseconds(self, percent: float) -> float:
        """A percentile of the time from a request to its answer."""
        return float(1000 * np.percentile(self.latencies, percent))

    @property
    def is_whole(self) -> bool:
        """Whether every request was answered with 200."""
        return not self.lost and set(self.statuses) == {200}


class Asking(asyncio.Protocol):
    """One client: a connection on which a request follows the answer to the last one."""

    def __init__(self, requests: Iterator[bytes], load: Load) -> None:
        self.requests, self.load, self.buffer = requests, load, b""
        self.waits = False
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self.transport = transport
        self._next()

    def _next(self) -> None:
        request = next(self.requests, None)
        self.waits = request is not None
        if request is None:
            self.transport.close()
        else:
            self.sent = time.perf_counter()
            self.transport.write(request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Note an answer once it is whole, and send the next request."""
        self.buffer += data
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        length = re.search(rb"content-length: (\d+)", self.buffer[:head])
        if length is None or len(self.buffer) < head + 4 + int(length[1]):
            return
        self.load.latencies.append(time.perf_counter() - self.sent)
        self.load.statuses[int(self.buffer[9:12])] += 1
        self.load.versions.update(re.findall(rb'"map":"(\w+)"', self.buffer))
        self.buffer, self.waits = b"", False
        self._next()

    def connection_lost(self, _: Exception | None) -> None:
        """Note a request that got no answer."""
        self.load.lost += self.waits
        self.closed.set_result(None)


async def clients(port: int, n: int, requests: Callable[[], Iterator[bytes]]) -> Load:
    """Answers that `n` clients got, each with requests of its own."""
    load, loop = Load(), asyncio.get_running_loop()
    start = time.perf_counter()
    made = [
        await loop.create_connection(lambda: Asking(requests(), load), "127.0.0.1", port) for _ in range(n)
    ]
    await asyncio.gather(*(client.closed for _, client in made))
    load.seconds = time.perf_counter() - start
    return load


def for_seconds(requests: list[bytes], seconds: float) -> Callable[[], Iterator[bytes]]:
    """Requests in turn until the time is over, shared by all clients."""
    end, turn = time.perf_counter() + seconds, cycle(requests)

    def some() -> Iterator[bytes]:
        while time.perf_counter() < end:
            yield next(turn)

    return some


def post(body: bytes, kind: str) -> bytes:
    """A request as it goes over the wire."""
    lines = [
        "POST /v1/locate?k=5 HTTP/1.1",
        "host: 127.0.0.1",
        f"content-type: {kind}",
        f"content-length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


@contextmanager
def serving(map_file: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`displace serve` on a free port."""
    command = [sys.executable, "-m", "displace", "serve", str(map_file), "--port", "0", "--rate", "1e9"]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen([*command, *options], stderr=log)
        try:
            while not (found := re.search(r"running on http://127\.0\.0\.1:(\d+)", _written(log))):
                if process.poll() is not None:
                    raise RuntimeError(f"the server did not start: {_written(log)}")
                time.sleep(0.1)
            yield process, int(found[1])
        finally:
            process.terminate()
            process.wait()


def _written(log: IO[str]) -> str:
    log.seek(0)
    return log.read()


def metrics(port: int) -> dict[str, float]:
    """Counters of the server without labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def started_by(process: subprocess.Popen[bytes]) -> list[int]:
    """Processes that a process has started (Linux)."""
    threads = Path(f"/proc/{process.pid}/task").glob("*/children")
    return [int(pid) for thread in threads for pid in thread.read_text().split()]


def resident(pid: int) -> float:
    """MiB of memory that a process holds (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """CPU time of a process and those that it started, so far (Linux)."""
    pids = (process.pid, *started_by(process))
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


def vectors(work: Path, n: int, seconds: float) -> bool:
    """Print throughput and latency of descriptors; whether 60 % of `locate` was reached."""
    town, queries = nordland(work)
    print(f"\nvectors: {PlaceMap.load(town)}, {n} clients, one descriptor a request\n")
    requests = [post(query.tobytes(), FLOATS) for query in queries]
    return compare(town, requests, queries, n, seconds, wanted=0.6)


def images(work: Path, n: int, seconds: float) -> bool:
    """Print throughput and latency of images; whether 80 % of `locate` of images was reached as a server starts."""
    town, photos = rendered(work)
    requests = [post(photo, JPEG) for photo in photos]
    reached = []
    for options, processes in (((), default_workers(n_cores())), (("--workers", "0"), 0)):
        how = " ".join(options) or "as it starts"
        print(f"\nimages: {PlaceMap.load(town)}, hog, {n} clients, one JPEG a request, {how}\n")
        reached.append(
            compare(
                town,
                requests,
                photos,
                n,
                seconds,
                wanted=0.8,
                both=True,
                options=options,
                processes=processes,
            )
        )
    return reached[0]


@dataclass
class Round:
    """One turn of the server, and of `locate` by itself at the same batch sizes."""

    load: Load
    sizes: Counter[int]
    server_cpu: float
    client_cpu: float
    alone: float
    alone_cpu: float
    together: float

    @property
    def share(self) -> float:
        """Throughput of the server as a share of that of `locate` at the same batch sizes."""
        return self.load.rate / self.alone

    @property
    def share_together(self) -> float:
        """The same of `locate` with as many at a time as there are clients."""
        return self.load.rate / self.together


def compare(
    town: Path,
    requests: list[bytes],
    queries: np.ndarray | list[bytes],
    n: int,
    seconds: float,
    wanted: float,
    both: bool = False,
    options: tuple[str, ...] = (),
    processes: int = 0,
) -> bool:
    """Print a server's throughput beside that of `PlaceMap.locate`, in turns; whether the share was reached."""
    place_map, rounds = PlaceMap.load(town), []
    with serving(town, *options) as (process, port):
        warm = True
        while warm or metrics(port)["displace_describing_processes"] < processes:
            uvloop.run(clients(port, n, for_seconds(requests, 2)))  # opens the model, builds the index
            warm = False
        by_itself(place_map, queries, Counter({n: 1}), 0)
        for _ in range(ROUNDS):
            before, cpu, own = batches(port), cpu_seconds(process), time.process_time()
            load = uvloop.run(clients(port, n, for_seconds(requests, seconds / ROUNDS)))
            own, cpu = time.process_time() - own, cpu_seconds(process) - cpu
            sizes = batches(port) - before
            alone, alone_cpu = by_itself(place_map, queries, sizes, seconds / ROUNDS)
            together, _ = by_itself(place_map, queries, Counter({n: 1}), seconds / ROUNDS)
            per_query = 1000 / len(load.latencies)
            rounds.append(Round(load, sizes, cpu * per_query, own * per_query, alone, alone_cpu, together))
        held = [resident(pid) for pid in (process.pid, *started_by(process))]
    show(sorted(rounds, key=lambda each: each.share)[ROUNDS // 2], n)
    print(f"memory in MiB, of the server and of its processes: {', '.join(f'{size:.0f}' for size in held)}")
    shares = [each.share for each in rounds], [each.share_together for each in rounds]
    print()
    for what, found in zip(("at the same batch sizes", f"with {n} at a time"), shares, strict=True):
        listed = ", ".join(f"{100 * share:.0f} %" for share in found)
        print(f"server / locate {what}: {100 * np.median(found):.0f} %, the median of {listed}")
    reached = min(map(np.median, shares[: 1 + both]))
    print(f"wanted: {100 * wanted:.0f} %{' of both' if both else ' at the same batch sizes'}")
    return all(each.load.is_whole for each in rounds) and bool(reached >= wanted)


def show(found: Round, n: int) -> None:
    """Print one round."""
    load, total = found.load, found.sizes.total()
    header("", "queries a second", "CPU ms a query", "p50, ms", "p99, ms")
    times = (f"{load.milliseconds(percent):.1f}" for percent in (50, 99))
    row("server", f"{load.rate:.0f}", f"{found.server_cpu:.2f}", *times)
    row("its clients, one process", "", f"{found.client_cpu:.2f}", "", "")
    row("`PlaceMap.locate`, batches as at the server", f"{found.alone:.0f}", f"{found.alone_cpu:.2f}", "", "")
    row(f"`PlaceMap.locate`, {n} at a time", f"{found.together:.0f}", "", "", "")
    parts = (f"up to {size}: {100 * count / total:.0f} %" for size, count in sorted(found.sizes.items()))
    print(
        f"\nbatches at the server ({len(load.latencies) / total:.1f} queries on average): {', '.join(parts)}"
    )


def batches(port: int) -> Counter[int]:
    """Batches that a server has located so far, by the upper end of their size's bucket."""
    found = re.compile(r'displace_batch_queries_bucket\{le="(\d+)"\}')
    sums = sorted((int(match[1]), n) for name, n in metrics(port).items() if (match := found.match(name)))
    return Counter({size: int(n - m) for (size, n), (_, m) in zip(sums, [(0, 0.0), *sums], strict=False)})


def by_itself(
    place_map: PlaceMap, queries: np.ndarray | list[bytes], sizes: Counter[int], seconds: float
) -> tuple[float, float]:
    """Queries a second of `locate` in this process, and CPU milliseconds of each, with batches of `sizes` mixed."""
    mixed = np.random.default_rng(0).permutation(list(sizes.elements())).tolist()
    turn, start, cpu, done = cycle(mixed), time.perf_counter(), time.process_time(), 0
    while not done or time.perf_counter() - start < seconds:
        size = next(turn)
        at = done % max(1, len(queries) - size)
        place_map.locate(queries[at : at + size], k=5)
        done += len(queries[at : at + size])
    return done / (time.perf_counter() - start), 1000 * (time.process_time() - cpu) / done


def reload(work: Path, n: int, seconds: float) -> bool:
    """Print what became of requests while the map's file was replaced; whether none was lost."""
    town, photos = rendered(work)
    served, other = work / "served.displace", work / "other.displace"
    PlaceMap.load(town).changed(reason="another").save(other)
    shutil.copy(town, served)
    requests, replaced = [post(photo, JPEG) for photo in photos], 0
    with serving(served) as (_, port):

        async def both() -> Load:
            nonlocal replaced
            asking = asyncio.create_task(clients(port, n, for_seconds(requests, seconds)))
            while not asking.done():
                temporary = work / "next.displace"
                await asyncio.to_thread(shutil.copy, other if replaced % 2 == 0 else town, temporary)
                temporary.replace(served)
                replaced += 1
                await asyncio.wait([asking], timeout=0.2)
            return await asking

        load = uvloop.run(both())
    print(
        f"\nreload: the file replaced {replaced} times under {n} clients: {dict(load.statuses)}, {load.lost} lost, "
        f"{len(load.versions)} versions answered"
    )
    return load.is_whole and len(load.versions) == 2


def stop(work: Path, n: int, _: float) -> bool:
    """Print what became of requests that were in work at SIGTERM; whether all were answered and the server ended."""
    town, photos = rendered(work)
    requests = iter([post(photo, JPEG) for photo in photos[:1] * n])
    with serving(town) as (process, port):

        async def ask() -> Load:
            asking = asyncio.create_task(clients(port, n, lambda: iter([next(requests)])))
            arrived = 0.0
            while arrived < n:
                counts = await asyncio.to_thread(metrics, port)
                answered = counts.get('displace_requests_total{route="/v1/locate",status="200"}', 0)
                arrived = answered + counts["displace_requests_in_progress"] - 1  # which is this very request
            process.send_signal(signal.SIGTERM)
            return await asking

        load = uvloop.run(ask())
        code = process.wait()
    print(
        f"\nstop: SIGTERM while {n} requests were in work: {dict(load.statuses)}, {load.lost} lost, exit code {code}"
    )
    return load.is_whole and len(load.latencies) == n


def nordland(work: Path) -> tuple[Path, np.ndarray]:
    """A calibrated map of Nordland's size, and queries of it."""
    town, size = work / "nordland.displace", SIZES["nordland"]
    if not town.exists():
        parts = {f"t{k}": part for k, part in enumerate(traversals(size, DIM))}
        build(ReferenceSet.from_traversals(parts), get_fusion("displace")(n_components=WIDTH)).save(town)
    return town, next(iter(traversals(size, DIM, seed=1)))[:2000]


def rendered(work: Path) -> tuple[Path, list[bytes]]:
    """A map of the rendered town, and photos of a traversal that it does not hold."""
    from displace import verbs
    from displace.datasets.town import write

    town, folder = work / "town.displace", work / "town"
    if not town.exists():
        write(folder, 60, ("sun", "overcast", "rain", "dusk"))
        verbs.build(folder / "manifest.csv", town, model="hog", exclude=["dusk"])
    return town, [path.read_bytes() for path in sorted((folder / "dusk").glob("*.jpg"))]


PARTS = {"vectors": vectors, "images": images, "reload": reload, "stop": stop}
