"""Throughput of extraction, as a ratio to the model alone on the same images, interleaved in one run.

For a network: wall time of `extract` (hash, read, prepare, describe, write) against `describe` on images that are
prepared already; the overhead is what all the rest costs. For `hog`, whose work is done in worker processes: rate
of `extract` against reading and describing one image after the other in this process. "Once running" leaves out
the first batch, and with it the start of the worker processes (a second or two, once in a run).
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from benchmarks._measure import header, row
from displace.descriptors.extraction import extract
from displace.descriptors.preparation import n_cores
from displace.images import read_image
from displace.manifest.table import Manifest
from displace.models import get_model
from displace.models.base import DescriptorModel

BATCH = 16
N_PICTURES = 40


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks extraction", description=__doc__)
    parser.add_argument("--network", default="efficientnet_lite", help="model whose overhead is measured")
    parser.add_argument("--network-images", type=int, default=160)
    parser.add_argument("--hog-images", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args(argv)
    print(
        f"{n_cores()} cores; medians of {options.rounds} interleaved rounds; images 320×240 JPEG; "
        f"load average of the machine before the run {os.getloadavg()[0]:.1f}\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        header(
            "model",
            "images",
            "alone, img/s",
            "extraction, img/s",
            "once running, img/s",
            "ratio",
            "ratio once running",
            "target",
            "alone, CPU ms/img",
            "extraction, CPU ms/img",
        )
        network = get_model(options.network)
        network.load()
        route = make_images(Path(folder) / "network", options.network_images)
        batches = prepared(network, route)
        report(network, route, lambda: [network.describe(batch) for batch in batches], options.rounds)
        hog = get_model("hog")
        route = make_images(Path(folder) / "hog", options.hog_images)
        report(hog, route, lambda: one_by_one(hog, route), options.rounds)


def report(model: DescriptorModel, route: Manifest, alone: Callable[[], object], rounds: int) -> None:
    """Time the model alone and the extraction in turn, and print a row."""
    wall: dict[str, list[float]] = {"alone": [], "extraction": [], "running": []}
    cpu: dict[str, list[float]] = {"alone": [], "extraction": []}
    for number in range(rounds):
        # The order changes from round to round, so that a drift of the machine hits both alike.
        for name in ("alone", "extraction")[:: -1 if number % 2 else 1]:
            start, cpu_start = time.perf_counter(), cpu_seconds()
            if name == "alone":
                alone()
            else:
                wall["running"].append(extract_once(model, route, route.root / f"{number}.desc"))
            wall[name].append((time.perf_counter() - start) / len(route))
            cpu[name].append(1000 * (cpu_seconds() - cpu_start) / len(route))
    ratios = [
        statistics.median(a / b for a, b in zip(wall["alone"], wall[name], strict=True))
        for name in ("extraction", "running")
    ]
    rates = [f"{1 / statistics.median(values):,.1f}" for values in wall.values()]
    costs = [f"{statistics.median(values):,.1f}" for values in cpu.values()]
    target = "≥ 1.7" if model.prepare_is_heavy else "≥ 0.87"
    row(model.full_name, len(route), *rates, *(f"{ratio:.2f}" for ratio in ratios), target, *costs)


def cpu_seconds() -> float:
    """CPU time of this process and of the worker processes that have ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def extract_once(model: DescriptorModel, route: Manifest, store: Path) -> float:
    """Extract into a new store; return the seconds an image takes once the first batch is through."""
    marks: list[tuple[float, int]] = []

    def mark(stage: str, done: int, _total: int) -> None:
        if stage == "describing" and done:
            marks.append((time.perf_counter(), done))

    extract(route, model, store, batch_size=BATCH, progress=mark)
    (first, n_first), (last, n_last) = marks[0], marks[-1]
    return (last - first) / max(1, n_last - n_first)


def prepared(model: DescriptorModel, route: Manifest) -> list[np.ndarray]:
    """Batches of all images, ready for the model."""
    arrays = np.stack([model.prepare(read_image(path)) for path in route.paths()])
    return [arrays[start : start + BATCH] for start in range(0, len(arrays), BATCH)]


def one_by_one(model: DescriptorModel, route: Manifest) -> None:
    """Read and describe one image after the other."""
    for path in route.paths():
        model.describe(model.prepare(read_image(path))[None])


def make_images(folder: Path, n_images: int) -> Manifest:
    """Write JPEG files of different content: some pictures over and over, each with a number after its end."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    pictures = []
    for _ in range(N_PICTURES):
        coarse = rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)
        picture = cv2.resize(coarse, (320, 240), interpolation=cv2.INTER_CUBIC)
        pictures.append(cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes())
    names = [f"{number:06d}.jpg" for number in range(n_images)]
    for number, name in enumerate(names):
        (folder / name).write_bytes(pictures[number % N_PICTURES] + number.to_bytes(4, "big"))
    return Manifest(names, names, ["one"] * n_images, folder)
