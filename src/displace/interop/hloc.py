"""hloc (Hierarchical-Localization): its HDF5 file of global descriptors, and its file of image pairs.

The first has a group for each image, named by the image's path below hloc's image folder (``db/0001.jpg``), with a data
set ``global_descriptor`` of D numbers. The second has one ``query_image reference_image`` a line, best first for each
query; hloc matches local features of those pairs.
"""

from __future__ import annotations

import errno
import os
import posixpath
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from displace.arrays import Vectors, blocks, check_one_of
from displace.descriptors.imported import check_all_there, names_from, references_of
from displace.descriptors.store import DescriptorStore, Queries
from displace.errors import DisplaceError, FormatError, InputError
from displace.files.outputs import output_file, write_text
from displace.files.reading import PathLike, text_of
from displace.files.schema import MAX_DIM
from displace.interop.base import Exporter
from displace.manifest.table import Manifest
from displace.maps.located import Located
from displace.progress import Progress
from displace.references import ReferenceSet
from displace.registry import import_extra

KEY = "global_descriptor"
DTYPES = ("float16", "float32")
_AROUND = 600
"""Bytes of an image in the file beside its numbers; 460 were measured with names of 30 letters."""


def write_descriptors(
    store: DescriptorStore,
    path: PathLike,
    *,
    root: PathLike | None = None,
    dtype: str | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Write the descriptors of a store as hloc's global features, by custom ``global-feats-*.h5``.

    Names start from hloc's image folder `root`; by default they are as in the store's manifest. `dtype` is "float16",
    as hloc itself writes, or "float32"; by default the store's own. `progress` counts images.
    """
    h5py = _h5py()
    if dtype is not None:
        check_one_of(dtype, DTYPES, "dtype")
    names = names_from(store.manifest, root)
    _check_names(names, root)
    stored = np.dtype(dtype or store.dtype)
    with output_file(path) as temporary:
        _check_space(temporary, len(store) * (stored.itemsize * store.dim + _AROUND))
        with h5py.File(temporary, "w", libver="latest") as file:
            _write(file, store, names, stored, progress)
    return [Path(path)]


def _write(
    file: Any, store: DescriptorStore, names: Sequence[str], stored: np.dtype[Any], progress: Progress | None
) -> None:
    for rows in blocks(len(store), row_bytes=4 * store.dim):
        for name, vector in zip(names[rows], store.vectors(rows, stored), strict=True):
            file.create_group(name).create_dataset(KEY, data=vector)
        if progress:
            progress("writing", rows.stop, len(store))


def _check_space(path: Path, n_bytes: int) -> None:
    """Refuse a full disk before HDF5 meets it: its library ends the process then."""
    if shutil.disk_usage(path.parent).free < n_bytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read_names(path: PathLike) -> list[str]:
    """Names of all images with a global descriptor, sorted."""
    with _opened(path) as file:
        return _names(file)


def read_descriptors(
    path: PathLike, manifest: Manifest, *, root: PathLike | None = None, progress: Progress | None = None
) -> Queries:
    """Read hloc's global features of the images of a manifest, in its order; others in the file are not read.

    The file's names start from hloc's image folder `root`; by default they are as in the manifest. `Located.of` locates
    what is returned, `read_references` makes references of it, `descriptors.imported.write_store` a descriptor store.
    """
    names = names_from(manifest, root)
    with _opened(path) as file:
        try:
            vectors = _read(file, names, path, progress)
        except KeyError:
            there = _names(file)
            check_all_there(names, {*there}, path, there)
            raise
    return Queries(vectors, manifest.places, manifest)


def read_references(
    path: PathLike, manifest: Manifest, *, root: PathLike | None = None, progress: Progress | None = None
) -> ReferenceSet:
    """Read hloc's global features of the images that have a place, as references; see `read_descriptors`."""
    return references_of(read_descriptors(path, manifest, root=root, progress=progress))


def _read(file: Any, names: Sequence[str], path: PathLike, progress: Progress | None) -> Vectors:
    """Vectors of all names, (m, D), checked to be of one length and finite."""
    vectors = np.empty((0, 0), np.float32)
    for row, name in enumerate(names):
        vector = _vector(file, name, path)
        if row == 0:
            vectors = np.empty((len(names), len(vector)), np.float32)
        if len(vector) != vectors.shape[1]:
            raise FormatError(
                f"{path} has descriptors of unequal length: {names[0]} has {vectors.shape[1]}, {name} has {len(vector)}"
            )
        vectors[row] = vector
        if not np.isfinite(vectors[row]).all():
            raise FormatError(f"the descriptor of {name} in {path} has NaN or infinity; extract it again")
        if progress and (row % 1000 == 999 or row + 1 == len(names)):
            progress("reading", row + 1, len(names))
    return vectors


def _names(file: Any) -> list[str]:
    found: list[str] = []
    file.visit(found.append)  # follows no links to other files
    return sorted(posixpath.dirname(name) for name in found if posixpath.basename(name) == KEY)


def _vector(file: Any, name: str, path: PathLike) -> Vectors:
    data = _own(file, f"{name}/{KEY}", path)
    if getattr(data, "ndim", None) != 1 or data.dtype.kind != "f" or not len(data):
        raise FormatError(f"{name}/{KEY} in {path} is not a row of floating-point numbers")
    if data.external or data.is_virtual:
        raise FormatError(f"{name}/{KEY} in {path} lies in another file, which is not read; copy it in")
    if len(data) > MAX_DIM:
        raise FormatError(f"{name}/{KEY} in {path} has {len(data)} numbers; at most {MAX_DIM} are possible")
    vector: Vectors = data[()]
    return vector


def _own(file: Any, name: str, path: PathLike) -> Any:
    """Look up a name in the file itself: links, which may lead into other files, are refused."""
    h5py, found = _h5py(), file
    for part in filter(None, name.split("/")):
        link = found.get(part, getlink=True) if isinstance(found, h5py.Group) else None
        if link is None:
            raise KeyError(name)
        if not isinstance(link, h5py.HardLink):
            raise FormatError(
                f"{name} in {path} is a link, maybe into another file, which is not read; copy it in"
            )
        found = found[part]
    return found


def _check_names(names: Sequence[str], root: PathLike | None) -> None:
    """Refuse names that HDF5 would change."""
    folder = "the folder of the manifest" if root is None else f"hloc's image folder, root={str(root)!r}"
    for name in names:
        if name.startswith(("/", "../")):
            raise InputError(
                f"image {name} is not below {folder}, and hloc names images by their path below one folder: write "
                "the manifest into the folder that holds all images (displace manifest … -o FOLDER/route.csv), "
                "and extract again, which describes nothing twice"
            )


@contextmanager
def _opened(path: PathLike) -> Iterator[Any]:
    """Open for reading; whatever h5py raises on a damaged file becomes a FormatError."""
    h5py = _h5py()
    if not Path(path).is_file():
        raise FormatError(f"{path} is not there, or is no file: give hloc's file of global features")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError) as error:
        if isinstance(error, DisplaceError):
            raise
        raise FormatError(f"{path} is not an HDF5 file, or is damaged ({error})") from None


def _h5py() -> Any:
    return import_extra("h5py", "hloc")


def write_pairs(
    located: Located,
    path: PathLike,
    *,
    references: Manifest | None = None,
    query_prefix: str = "",
    reference_prefix: str = "",
    min_confidence: float = 0.0,
) -> list[Path]:
    """Write the pairs file of located images, by custom ``pairs-*.txt``: each with the images of its best places.

    Places per image (`k`) are hloc's ``num_matched``; images below `min_confidence` are left out: not in the map. With
    `references` all images of a place in that manifest are paired, by default the one that the map has. `query_prefix`
    and `reference_prefix` make the images' names start from hloc's image folder (``"query/"``, ``"db/"``).
    """
    images = _images_of_places(located, references)
    accepted = located.accepted(min_confidence)
    lines = []
    for query, places, kept in zip(
        located.manifest.images, located.matches.places.tolist(), accepted, strict=True
    ):
        if kept:
            found = [image for place in places for image in images.get(place, ())]
            lines += [_line(query_prefix + query, reference_prefix + image) for image in found]
    if not lines:
        raise InputError("no pair to write: no image is located at a place with a reference image")
    write_text(path, "\n".join(lines) + "\n")
    return [Path(path)]


def read_pairs(path: PathLike) -> dict[str, list[str]]:
    """Read a pairs file: reference images of each query image, in the file's order."""
    pairs: dict[str, list[str]] = {}
    for number, line in enumerate(text_of(path, "a pairs file").split("\n"), start=1):
        names = line.split()
        if not names:
            continue
        if len(names) != 2:
            raise FormatError(
                f"{path} is not a pairs file: line {number} has {len(names)} names, not 2: {line[:80]!r}"
            )
        pairs.setdefault(names[0], []).append(names[1])
    return pairs


def _images_of_places(located: Located, references: Manifest | None) -> dict[Any, list[str]]:
    """Reference images of each place of the map."""
    ids = located.whole_map.place_ids.tolist()
    if references is not None:
        # Place ids in manifests are strings; in maps of bare vectors they may be numbers.
        named: dict[str, list[str]] = {}
        for place, image in zip(references.places.tolist(), references.images, strict=True):
            named.setdefault(place, []).append(image)
        return {place: named.get(str(place), []) for place in ids}
    if located.whole_map.images is None:
        raise InputError(
            "the map has no reference images to pair with: build it with images, or give the manifest of its references"
        )
    return {
        place: [image] if image else [] for place, image in zip(ids, located.whole_map.images, strict=True)
    }


def _line(query: str, reference: str) -> str:
    line = f"{query} {reference}"
    if line.split() != [query, reference]:
        raise InputError(
            f"hloc separates names by blanks, and one of {query!r}, {reference!r} has blanks: rename it"
        )
    if query == reference:
        raise InputError(
            f"{query} would be paired with itself, as it is a reference image of its place: locate images in a map of "
            "the other traversals (displace build STORE --exclude TRAVERSAL)"
        )
    return line


class Hloc(Exporter):
    """hloc: pairs file of located images, or HDF5 global features of a store."""

    write_located = staticmethod(write_pairs)
    write_store = staticmethod(write_descriptors)
