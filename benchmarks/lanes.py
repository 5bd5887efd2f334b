"""Recall@1 in the rendered town when the query is driven in another lane, in a condition that the map has not seen."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks._measure import header, row
from displace import ReferenceSet, get_fusion
from displace.datasets import town
from displace.images import read_image
from displace.models import get_model

FUSIONS = ("displace", "hops", "pooling")
LANES = (0.0, -1.6, -3.2)
"""Metres to the right of the usual line: in it, astride the middle of the road, in the lane of oncoming cars."""


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks lanes", description=__doc__)
    parser.add_argument("--places", type=int, default=town.PLACES)
    parser.add_argument("--model", default="hog")
    parser.add_argument("--query", nargs="+", default=["overcast", "night"])
    parser.add_argument("--folder", type=Path, help="where the town is drawn and kept; by default nowhere")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        town.write(folder, options.places)
        model = get_model(options.model)
        model.load()
        references = {
            name: described(
                model, [read_image(folder / name / f"{p:04d}.jpg") for p in range(options.places)]
            )
            for name in town.TRAVERSALS
        }
    header(
        f"{options.model}, {options.places} places, town-1",
        *(f"{abs(lane):g} m to the left" for lane in LANES),
    )
    for query in options.query:
        refs = ReferenceSet.from_traversals({name: v for name, v in references.items() if name != query})
        seen = {lane: drive(model, query, options.places, lane) for lane in LANES}
        for name in FUSIONS:
            fusion = get_fusion(name)().fit(refs.vectors, refs.places, refs.traversals)
            row(f"{query}, {fusion.title}", *(f"{recall(fusion, seen[lane]):.1f}" for lane in LANES))


def drive(model, query: str, places: int, lane: float) -> np.ndarray:
    """Descriptors of a drive in one lane."""
    return described(model, [town.render(place, query, lane=lane) for place in range(places)])


def described(model, images: list[np.ndarray]) -> np.ndarray:
    """Descriptors of pictures, in batches."""
    prepared = [model.prepare(image) for image in images]
    return np.concatenate(
        [model.describe(np.stack(prepared[at : at + 16])) for at in range(0, len(prepared), 16)]
    )


def recall(fusion, queries: np.ndarray) -> float:
    """R@1 (%) where the neighbouring place is right too."""
    return 100 * float(np.mean(abs(fusion.predict(queries).astype(int) - np.arange(len(queries))) <= 1))
