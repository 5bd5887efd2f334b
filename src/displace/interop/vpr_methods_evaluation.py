"""VPR-methods-evaluation: the two arrays that its ``--save_descriptors`` writes.

``database_descriptors.npy`` and ``queries_descriptors.npy`` are float32, (number of images, D), rows in the order of
its image lists: the lines of ``database_images_paths.txt`` beside the folder ``database`` where that file is there,
otherwise the folder's ``*.jpg`` files at any depth, sorted by path. It ranks by Euclidean distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from displace.arrays import Vectors, as_vectors
from displace.descriptors.imported import described, read_array_file, references_of
from displace.descriptors.store import DescriptorStore, Queries
from displace.errors import FormatError, InputError
from displace.files.outputs import output_file, write_text
from displace.files.reading import PathLike, text_of
from displace.interop.base import Exporter
from displace.manifest.table import Manifest
from displace.maps.located import Located
from displace.references import ReferenceSet

SIDES = ("database", "queries")


def write_descriptors(
    store: DescriptorStore, folder: PathLike, *, queries: str, database: Sequence[str] | None = None
) -> list[Path]:
    """Write the descriptors of a store, two arrays and two lists of image names, into a folder, which is made.

    The images of the traversal `queries` are the queries, those of the traversals `database` the database; by default
    of all others.
    """
    names = list(database or [name for name in store.manifest.traversal_names() if name != queries])
    if not names:
        raise InputError(f"the store has no traversal but {queries!r}: there is nothing to search in")
    if queries in names:
        raise InputError(f"queries={queries!r} is also in database={names}: queries would find themselves")
    chosen = {"database": names, "queries": [queries]}
    images = {side: store.manifest.select_traversals(chosen[side]).images for side in SIDES}
    written = []
    for side in SIDES:
        vectors = store.vectors(np.isin(store.traversals, chosen[side]))
        written += _write_side(folder, side, vectors, images[side])
    return written


def write_locations(located: Located, folder: PathLike) -> list[Path]:
    """Write the rows of a map as database and located images, projected as the map does, as queries.

    Nearest by Euclidean distance is then best by the map's score. The database has a list of image names if the map has
    images. `located` must have its `vectors`.
    """
    place_map = located.whole_map
    if located.vectors is None:
        raise InputError("the located images have no vectors: make them with Located.of(place_map, queries)")
    rows = place_map.rows().astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1)
    if np.abs(lengths - 1).max() > 0.02:  # int8 rows are off by up to 1 %
        raise InputError(
            f"the rows of a map by {place_map.fusion} have unequal lengths "
            f"({lengths.min():.3g} … {lengths.max():.3g}), which Euclidean distance would rank otherwise than the map; "
            "use displace, hops, pooling or single"
        )
    images = None if place_map.images is None else [place_map.images[place] for place in place_map.row_places]
    projected = place_map.project(located.vectors)
    return [
        *_write_side(folder, "database", rows, images),
        *_write_side(folder, "queries", projected, located.manifest.images),
    ]


def read_array(folder: PathLike, side: str) -> Vectors:
    """Read the array of one side, "database" or "queries", shape (m, D)."""
    if side not in SIDES:
        raise InputError(f"side={side!r} must be 'database' or 'queries'")
    path = Path(folder) / f"{side}_descriptors.npy"
    way_out = "; VPR-methods-evaluation writes it with --save_descriptors"
    return as_vectors(read_array_file(path, way_out), str(path))


def image_order(folder: PathLike) -> list[str]:
    """Names of the images of a data set's folder, relative to it, in the order of the arrays' rows."""
    folder = Path(folder)
    listed = folder.with_name(folder.name + "_images_paths.txt")
    if listed.is_file():
        return text_of(listed, "a list of images").rstrip("\n").split("\n")
    found = sorted(path.relative_to(folder).as_posix() for path in folder.glob("**/*.jpg"))
    # The program uses glob.glob, which leaves out hidden files.
    return [name for name in found if not any(part.startswith(".") for part in name.split("/"))]


def read_descriptors(
    folder: PathLike, side: str, manifest: Manifest, *, images: PathLike | None = None
) -> Queries:
    """Read the descriptors of one side, "database" or "queries", for the images of a manifest, in its order.

    The arrays are in `folder`, in VPR-methods-evaluation a run's folder below ``logs``. Names and their order are those
    of the folder `images`, which the program was given for this side; by default of the list
    ``database_images_paths.txt`` beside the arrays, with names as in the manifest. Images that the manifest does not
    list are left out.
    """
    vectors = read_array(folder, side)
    names = image_order(Path(folder) / side if images is None else images)
    if len(names) != len(vectors):
        raise FormatError(
            f"{side}_descriptors.npy in {folder} has {len(vectors)} rows, but there are {len(names)} images in "
            f"{images if images is not None else f'{side}_images_paths.txt beside it'}; give the folder of images that "
            "it was made from as images"
        )
    return described(manifest, names, vectors, images, Path(folder) / f"{side}_descriptors.npy")


def read_references(folder: PathLike, manifest: Manifest, *, images: PathLike | None = None) -> ReferenceSet:
    """Read the database's descriptors of images that have a place, as references; see `read_descriptors`."""
    return references_of(read_descriptors(folder, "database", manifest, images=images))


def _write_side(folder: PathLike, side: str, vectors: Vectors, images: list[str] | None) -> list[Path]:
    """Write one array and its list of names, if any; the list of an earlier export is removed."""
    array, names = (Path(folder) / f"{side}_{rest}" for rest in ("descriptors.npy", "images_paths.txt"))
    with output_file(array) as temporary, temporary.open("wb") as file:
        names.unlink(missing_ok=True)
        np.save(file, np.ascontiguousarray(vectors, np.float32), allow_pickle=False)
    if images is None:
        return [array]
    write_text(names, "".join(f"{image}\n" for image in images))
    return [array, names]


class VprMethodsEvaluation(Exporter):
    """VPR-methods-evaluation: database and queries descriptors as .npy, with lists of images."""

    write_located = staticmethod(write_locations)
    write_store = staticmethod(write_descriptors)
