"""Throughput of extraction, as a ratio to the model alone on the same images, interleaved in one run.

For a network: wall time of `extract` (hash, read, prepare, describe, write) against `describe` on images that are
prepared already; the overhead is what all the rest costs. For `hog`, whose work is done in worker processes: rate
of `extract` against reading and describing one image after the other in this process.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from benchmarks._measure import header, row
from displace.extraction import extract
from displace.images import read_image
from displace.manifest import Manifest
from displace.models import get_model
from displace.models.base import DescriptorModel
from displace.preparation import n_cores

BATCH = 16
N_PICTURES = 40


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks extraction", description=__doc__)
    parser.add_argument("--network", default="efficientnet_lite", help="model whose overhead is measured")
    parser.add_argument("--network-images", type=int, default=96)
    parser.add_argument("--hog-images", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    print(f"{n_cores()} cores; medians of {options.rounds} interleaved rounds; images 320×240 JPEG\n")
    with tempfile.TemporaryDirectory() as folder:
        header("model", "images", "alone, img/s", "extraction, img/s", "ratio", "target")
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
    seconds: dict[str, list[float]] = {"alone": [], "extraction": []}
    for number in range(rounds):
        store = route.root / f"{number}.desc"
        runs = {
            "alone": alone,
            "extraction": lambda store=store: extract(route, model, store, batch_size=BATCH),
        }
        # The order changes from round to round, so that a drift of the machine hits both alike.
        for name in sorted(runs, reverse=bool(number % 2)):
            start = time.perf_counter()
            runs[name]()
            seconds[name].append(time.perf_counter() - start)
    ratio = statistics.median(a / e for a, e in zip(seconds["alone"], seconds["extraction"], strict=True))
    rates = [f"{len(route) / statistics.median(times):,.1f}" for times in seconds.values()]
    target = "≥ 1.7" if model.prepare_is_heavy else "≥ 0.87 (overhead ≤ 15 %)"
    row(model.full_name, len(route), *rates, f"{ratio:.2f}", target)


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
