"""Recall@1 in the rendered town when the query is driven in another lane, in a condition that the map has not seen.

One by one with each fusion; then as a drive that adapts the matching and moves its pictures back: frame by frame,
followed and smoothed. Then, how many frames of a drive in each lane are lined up by sight within two frames, a third of
them dropped. Last, with the shared data, real pictures of a railway: a map of their left parts, asked for clips and
drives of their right parts, which are shifted by a sixth of their width, by day and in the dark of the other season.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks._measure import header, row
from benchmarks._other_light import dark
from benchmarks._shared import shared_folder
from displace import PlaceMap, ReferenceSet, build, get_fusion
from displace.datasets import town
from displace.errors import InputError
from displace.images import read_image
from displace.models import get_model
from displace.places import Places
from displace.recall import percent
from displace.sequence.alignment import align

FUSIONS = ("displace", "hops", "pooling")
LANES = (0.0, -1.6, -3.2)
"""Metres to the right of the usual line: in it, astride the middle of the road, in the lane of oncoming cars."""
CLIPS, STRETCH = (30, 60, 90), 250
"""Frames of clips along the railway, and of the stretches of it that are mapped."""
SEEN = 6 / 7
"""Share of the width that a part of a picture has."""


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
            row(f"{query}, {fusion.title}", *(f"{recall(fusion.predict(seen[lane])):.1f}" for lane in LANES))
        along = Places(refs.place_ids, frames=np.arange(len(refs.place_ids), dtype=float))
        place_map = build(
            ReferenceSet(refs.vectors, refs.places, refs.traversals, info=along), model=model.fingerprint()
        )
        row(
            f"{query}, adapted",
            *(f"{recall(place_map.locate(seen[lane], adapt='batch').places[:, 0]):.1f}" for lane in LANES),
        )
        row(f"{query}, followed", *(f"{recall(followed(place_map, seen[lane])):.1f}" for lane in LANES))
        row(
            f"{query}, smoothed",
            *(f"{recall([fix.place for fix in place_map.smooth(seen[lane])]):.1f}" for lane in LANES),
        )
        for grid in (None, model.grid) if model.grid else (None,):
            moved = ", moved" if grid else ""
            row(
                f"{query}, lined up with sun{moved}",
                *(lined_up(references["sun"], seen[lane], grid) for lane in LANES),
            )
    railway(model)


def railway(model) -> None:
    """Clips and drives along a railway whose pictures are shifted against those of the map."""
    folder = shared_folder() / "data" / "nordland811"
    if not folder.is_dir():
        print(f"skipped: no {folder}")
        return
    header(
        f"{model.name}, railway, R@1 (±2)",
        *(f"{n} frames, smoothed" for n in CLIPS),
        f"{STRETCH} frames, followed",
    )
    rng = np.random.default_rng(0)
    right: dict[str, list[list[float]]] = {}
    for first in (0, 180, 360, 540):
        pictures = {
            season: [read_image(folder / season / file) for file in files[first : first + STRETCH]]
            for season in ("summer", "winter")
            for files in [sorted(file.name for file in (folder / season).iterdir())]
        }
        frames = np.arange(STRETCH)
        refs = ReferenceSet(
            described(model, [part(picture, 0.0) for picture in pictures["summer"]]),
            frames,
            np.full(STRETCH, "summer"),
            info=Places(frames, frames=frames.astype(float)),
        )
        place_map = build(refs, "hops", model=model.fingerprint(), tolerance="2 frames")
        drives = {
            "summer": [part(picture, 1 - SEEN) for picture in pictures["summer"]],
            "winter, dark": [part(dark(picture, rng), 1 - SEEN) for picture in pictures["winter"]],
        }
        for name, drive in drives.items():
            vectors = described(model, drive)
            clips = [np.mean([clip(place_map, vectors, at, n) for at in (20, 90, 160)]) for n in CLIPS]
            places = np.array(followed(place_map, vectors)).astype(int)
            right.setdefault(name, []).append([*clips, percent(abs(places - frames) <= 2)])
    for name, shares in right.items():
        row(name, *(f"{share:.1f}" for share in np.mean(shares, axis=0)))


def part(picture: np.ndarray, left: float) -> np.ndarray:
    """The part of a picture that begins at a share of its width."""
    width = picture.shape[1]
    return np.ascontiguousarray(picture[:, round(left * width) : round((left + SEEN) * width)])


def clip(place_map: PlaceMap, vectors: np.ndarray, first: int, n: int) -> float:
    """R@1 (%) of a clip that is smoothed."""
    fixes = place_map.smooth(vectors[first : first + n])
    places = np.array([fix.place for fix in fixes]).astype(int)
    return percent(abs(places - np.arange(first, first + n)) <= 2)


def drive(model, query: str, places: int, lane: float) -> np.ndarray:
    """Descriptors of a drive in one lane."""
    return described(model, [town.render(place, query, lane=lane) for place in range(places)])


def described(model, images: list[np.ndarray]) -> np.ndarray:
    """Descriptors of pictures, in batches."""
    prepared = [model.prepare(image) for image in images]
    return np.concatenate(
        [model.describe(np.stack(prepared[at : at + 16])) for at in range(0, len(prepared), 16)]
    )


def followed(place_map: PlaceMap, frames: np.ndarray) -> list:
    """Places of a drive's frames, each with those before it."""
    follower = place_map.follow()
    return [follower.step(frame).place for frame in frames]


def recall(places) -> float:
    """R@1 (%) where the neighbouring place is right too."""
    found = np.asarray(places).astype(int)
    return percent(abs(found - np.arange(len(found))) <= 1)


def lined_up(anchor: np.ndarray, vectors: np.ndarray, grid) -> str:
    """Share (%) of the frames on the route that are within two frames; or that the drive was refused."""
    kept = np.sort(np.random.default_rng(0).choice(len(vectors), 2 * len(vectors) // 3, replace=False))
    try:
        found = align({"anchor": anchor, "drive": vectors[kept]}, anchor="anchor", grid=grid)
    except InputError:
        return "refused"
    stands = np.flatnonzero(found.tracks["anchor"].references)
    places = found.tracks["drive"].places
    on = places >= 0
    return f"{100 * np.mean(abs(stands[places[on]] - kept[on]) <= 2):.1f}"
