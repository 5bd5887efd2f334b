"""The whole walk: folders of images → manifest → descriptors → map → located photos → update → advice.

    python examples/walk.py                                   a small town, drawn on the spot
    python examples/walk.py --images ROUTE                    your own: a folder with a folder for each recording
    python examples/walk.py --images ROUTE --query night --later snow --model megaloc

Of the recordings one is the query, whose photos are located; one arrives later, as an update; all others make the
first map. With `--images` there must be four or more, in which the same file name (or order, or position) shows the
same place. Every step names the command that does the same.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from displace import recall_at, verbs
from displace.advise import Advice
from displace.datasets import town
from displace.errors import DisplaceError, InputError
from displace.images import has_images

TOWN = ("sun", "overcast", "rain", "night")


@dataclass(frozen=True)
class Walk:
    """What came of it."""

    first_recall: float | None
    """R@1 (%) of the query in the first map; None where the places of its photos are not known."""
    updated_recall: float | None
    """R@1 (%) after the later recording was added."""
    advice: Advice
    map_file: Path


def walk(images: Path, work: Path, query: str, later: str, model: str = "hog") -> Walk:
    """Go from the folders below `images` to a map, using it, updating it, and advice.

    Parameters
    ----------
    images : Path
        Has a folder of images for each recording.
    work : Path
        Where everything is written.
    query, later : str
        The recording that is located, and the one that arrives after the first map was made.
    model : str
        See ``displace list models``.
    """
    first = [images / name for name in recordings(images) if name not in (query, later)]
    route_csv, later_csv, query_csv, all_csv = (work / f"{n}.csv" for n in ("route", "later", "query", "all"))
    map_file, positions = work / "route.displace", work / "positions.csv"

    # Which image shows which place?      displace manifest ROUTE/sun ROUTE/rain -o route.csv
    print(verbs.manifest(first, route_csv, overwrite=True), end="\n\n")

    # Images to descriptors; resumable.   displace extract route.csv -o route.desc
    store = work / "route.desc"
    done = verbs.extract(route_csv, store, model=model)
    print(f"{done.n_described} images described, {done.n_reused} reused", end="\n\n")

    # One file to deploy.                 displace build route.desc -o route.displace
    print(verbs.build(store, map_file, overwrite=True))

    # Where were these photos taken?      displace locate route.displace ROUTE/night -o positions.csv
    verbs.locate(map_file, [images / query], positions, overwrite=True)
    print(f"located the photos of {query!r}: {positions}", end="\n\n")
    first_recall = recall_of(map_file, images / query, query_csv, route_csv)

    # A new recording arrives. Its images are assigned to the places that are known, and added to the map from the
    # map's own statistics: the old images and descriptors are not needed.
    #   displace manifest ROUTE/overcast -o later.csv --against route.csv
    #   displace extract later.csv
    #   displace update route.displace --add later.desc
    verbs.manifest([images / later], later_csv, against=route_csv, overwrite=True)
    verbs.extract(later_csv, model=model)
    update = verbs.update(map_file, add=work / "later.desc")
    print(
        f"added {update.n_references} references of {later!r}; the projection moved by {update.moved:.1f} %"
    )
    for line in update.advice:
        print(f"  do again: {line}")
    updated_recall = recall_of(map_file, images / query, query_csv, route_csv)
    if first_recall is not None:
        print(
            f"R@1 of {query!r}, exact place: {first_recall:.1f} % before, {updated_recall:.1f} % after",
            end="\n\n",
        )

    # Which fusion, which recordings?     displace manifest … -o all.csv; displace extract all.csv -o route.desc
    #                                     displace advise route.desc
    # The store knows images by their content: only those of the later recording are described.
    verbs.manifest([*first, images / later], all_csv, overwrite=True)
    verbs.extract(all_csv, store, model=model)
    advice = verbs.advise(store)
    print(f"recommended: {advice.recommended}, expected R@1 {advice.best.mean} ({advice.protocol})")
    for row in advice.worth:
        print(f"  {row.traversal}: {row.loss} points are lost without it")

    # With three recordings a map knows how sure it is: build again, as the update advised.
    #                                     displace build route.desc -o route.displace --overwrite
    #                                     displace locate route.displace ROUTE/night --min-confidence 0.5
    rebuilt = verbs.build(store, map_file, fusion=advice.recommended.fusion, overwrite=True)
    located = verbs.locate(map_file, [images / query], k=1)
    if rebuilt.calibration is not None:
        sure = located.accepted(0.5).sum()
        print(f"{sure} of {len(located)} photos of {query!r} are in the map with a confidence of 0.5 or more")
    return Walk(first_recall, updated_recall, advice, map_file)


def recall_of(map_file: Path, images: Path, manifest: Path, known: Path) -> float | None:
    """R@1 of a recording whose places can be told from its file names, order or positions."""
    verbs.manifest([images], manifest, against=known, overwrite=True)
    truth = dict(zip(*_paths_and_places(manifest), strict=True))
    located = verbs.locate(map_file, [images], k=1)
    places = [truth.get(path.resolve(), "") for path in located.manifest.paths()]
    return recall_at(located.matches, places, ks=(1,))[1] if any(places) else None


def _paths_and_places(manifest: Path) -> tuple[list[Path], list[str]]:
    table = verbs.read_manifest(manifest)
    return [path.resolve() for path in table.paths()], table.places.tolist()


def recordings(images: Path) -> list[str]:
    """Names of the folders with images."""
    names = sorted(path.name for path in images.iterdir() if path.is_dir() and has_images(path))
    if len(names) < 4:
        raise InputError(
            f"{images} has {len(names)} folders with images ({', '.join(names) or 'none'}); the walk takes four: "
            "two for a first map, one that arrives later, one to locate"
        )
    return names


def main(arguments: list[str] | None = None) -> Walk:
    """Read the command line and walk."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=Path, help="folder with a folder of images for each recording")
    parser.add_argument("--work", type=Path, default=Path("walk"), help="where to write (default: walk)")
    parser.add_argument("--query", help="recording to locate (default: night, or the first in the alphabet)")
    parser.add_argument("--later", help="recording that arrives later (default: the last of the others)")
    parser.add_argument("--model", default="hog", help="see: displace list models (default: hog)")
    parser.add_argument("--places", type=int, default=60, help="places of the town (default: 60)")
    options = parser.parse_args(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    images = options.images
    if images is None:
        images = options.work / "town"
        print(f"drawing {options.places} places of a town in {len(TOWN)} conditions …")
        town.write(images, options.places, TOWN)
    names = recordings(images)
    query = options.query or ("night" if "night" in names else names[0])
    later = options.later or [name for name in names if name != query][-1]
    for name in (query, later):
        if name not in names:
            raise InputError(f"no recording {name!r} in {images}; there are {', '.join(names)}")
    return walk(images, options.work, query, later, options.model)


if (
    __name__ == "__main__"
):  # the town is drawn, and images are read, by worker processes that import this file
    try:
        main()
    except DisplaceError as error:
        sys.exit(f"error: {error}")
