"""hloc (Hierarchical-Localization): its HDF5 file of global descriptors.

It has a group for each image, named by the image's path below hloc's image folder (``db/0001.jpg``), with a data set
``global_descriptor`` of D numbers.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from displace.arrays import Vectors, blocks
from displace.descriptors.store import DescriptorStore, Queries
from displace.errors import FormatError, InputError
from displace.interop.importing import check_all_there, names_from, references_of
from displace.interop.outputs import PathLike, output_file
from displace.manifest.table import Manifest
from displace.references import ReferenceSet
from displace.registry import missing_extra

Progress = Callable[[str, int, int], None]
KEY = "global_descriptor"
DTYPES = ("float16", "float32")


def write_descriptors(
    store: DescriptorStore,
    path: PathLike,
    *,
    root: PathLike | None = None,
    dtype: str | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Write the descriptors of a store as hloc's global features.

    Parameters
    ----------
    store : DescriptorStore
    path : path-like
        By custom ``global-feats-*.h5``.
    root : path-like, optional
        hloc's image folder, from which names start; by default they are as in the store's manifest.
    dtype : {"float16", "float32"}, optional
        By default the store's own; hloc itself writes float16.
    progress : callable, optional
        Called as ``progress("writing", done, total)``.

    Returns
    -------
    list of Path
        The file.
    """
    h5py = _h5py()
    if dtype not in (None, *DTYPES):
        raise InputError(f"dtype={dtype!r} must be one of {', '.join(DTYPES)}")
    names = names_from(store.manifest, root)
    _check_names(names)
    stored = np.dtype(dtype or store.dtype)
    with output_file(path) as temporary, h5py.File(temporary, "w", libver="latest") as file:
        for rows in blocks(len(store), row_bytes=4 * store.dim):
            for name, vector in zip(names[rows], store.vectors(rows, stored), strict=True):
                file.create_group(name).create_dataset(KEY, data=vector)
            if progress:
                progress("writing", rows.stop, len(store))
    return [Path(path)]


def read_names(path: PathLike) -> list[str]:
    """Names of all images with a global descriptor, sorted."""
    with _opened(path) as file:
        return _names(file)


def read_descriptors(
    path: PathLike, manifest: Manifest, *, root: PathLike | None = None, progress: Progress | None = None
) -> Queries:
    """Read hloc's global features of the images of a manifest.

    Parameters
    ----------
    path : path-like
        HDF5 file; images that the manifest does not list are not read.
    manifest : Manifest
        Says which place and traversal each image belongs to.
    root : path-like, optional
        hloc's image folder, from which the file's names start; by default they are as in the manifest.
    progress : callable, optional
        Called as ``progress("reading", done, total)``.

    Returns
    -------
    Queries
        Vectors (m, D) in the manifest's order, places, and the manifest. `Locations.of` locates them, `read_references`
        makes references of them, `importing.write_store` a descriptor store.
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
    file.visit(found.append)
    return sorted(posixpath.dirname(name) for name in found if posixpath.basename(name) == KEY)


def _vector(file: Any, name: str, path: PathLike) -> Vectors:
    data = file[f"{name}/{KEY}"]
    if getattr(data, "ndim", None) != 1 or data.dtype.kind != "f" or not len(data):
        raise FormatError(f"{name}/{KEY} in {path} is not a row of floating-point numbers")
    vector: Vectors = data[()]
    return vector


def _check_names(names: Sequence[str]) -> None:
    """Refuse names that HDF5 would change."""
    for name in names:
        if name.startswith(("/", "../")):
            raise InputError(
                f"image {name} is not below hloc's image folder: give that folder as root, or a manifest with "
                "paths relative to it"
            )


@contextmanager
def _opened(path: PathLike) -> Iterator[Any]:
    """Open for reading; whatever h5py stumbles over in a damaged file becomes one error."""
    h5py = _h5py()
    if not Path(path).is_file():
        raise FormatError(f"{path} is not there, or is no file: give hloc's file of global features")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, KeyError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} is not an HDF5 file, or is damaged ({error})") from None


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise missing_extra("h5py", "hloc") from None
    return h5py
