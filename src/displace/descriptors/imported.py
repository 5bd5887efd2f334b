"""Descriptors of another program, matched with the images of a manifest."""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors, as_vectors, blocks
from displace.descriptors.store import DescriptorStore, Queries
from displace.descriptors.store_writing import opened_for_writing
from displace.errors import FormatError, InputError
from displace.files.reading import PathLike, open_regular
from displace.manifest.table import Manifest
from displace.references import ReferenceSet, view_groups


def names_from(manifest: Manifest, root: PathLike | None) -> list[str]:
    """Names of a manifest's images as seen from the folder `root`; as the manifest has them without."""
    if root is None:
        return [posixpath.normpath(image) for image in manifest.images]
    start = Path.cwd() / root
    return [Path(os.path.relpath(Path.cwd() / path, start)).as_posix() for path in manifest.paths()]


def described(
    manifest: Manifest, names: Sequence[str], vectors: Vectors, root: PathLike | None, source: PathLike
) -> Queries:
    """Give each image of a manifest its vector, by name.

    Names start from the folder `root`, by default as in the manifest; messages name the vectors' `source`.
    """
    row_of = {posixpath.normpath(name): row for row, name in enumerate(names)}
    wanted = names_from(manifest, root)
    check_all_there(wanted, row_of, source, names)
    chosen = vectors[[row_of[name] for name in wanted]]
    return Queries(chosen, manifest.places, manifest)


def read_array_file(path: PathLike, way_out: str = "") -> NDArray[Any]:
    """Return the array in a ``.npy`` file, mapped."""
    try:
        open_regular(path).close()
        # Mapped, so that the declared shape is compared with the file's size before memory is allocated.
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}{way_out}") from None
    except Exception as error:  # numpy raises nearly every type on damaged headers
        raise FormatError(f"{path} is not an array of numbers, or is damaged ({error})") from None
    return array


def read_rows(path: PathLike, manifest: Manifest, traversals: Sequence[str] | None = None) -> Queries:
    """Read descriptors that have no names: row i is that of the manifest's image i.

    The file is a ``.npy`` with an array (m, D). Or a ``.npz`` with one such array; or with one for each traversal,
    under its name, whose rows are in the order of the traversal's images in the manifest. Returned are those of
    `traversals`, by default of all; a single array may have rows for these alone.
    """
    packed = Path(path).suffix.lower() == ".npz"
    arrays = _packed_arrays(path) if packed else {"": read_array_file(path)}
    chosen = manifest.select_traversals(traversals) if traversals else manifest
    if len(arrays) == 1:
        (array,) = arrays.values()
        if np.shape(array)[:1] == (len(manifest),):
            array = array[np.isin(manifest.traversals, chosen.traversal_names())]
        of = f"traversals {', '.join(traversals)}" if traversals else "the manifest"
        return Queries(_rows_for(array, len(chosen), path, of), chosen.places, chosen)
    names = chosen.traversal_names()
    if missing := [name for name in names if name not in arrays]:
        raise FormatError(
            f"{path} has no array {missing[0]!r}; it has {', '.join(arrays) or 'none'}. It needs one array for all "
            "images of the manifest, or one for each traversal, under its name"
        )
    own = [chosen.traversals == name for name in names]
    parts = [
        _rows_for(arrays[name], int(rows.sum()), path, f"traversal {name!r}")
        for name, rows in zip(names, own, strict=True)
    ]
    if len({part.shape[1] for part in parts}) > 1:
        dims = ", ".join(f"{name} {part.shape[1]}" for name, part in zip(names, parts, strict=True))
        raise FormatError(f"{path} has arrays of different dimensions: {dims}")
    vectors = np.empty((len(chosen), parts[0].shape[1]), np.result_type(*parts))
    for rows, part in zip(own, parts, strict=True):
        vectors[rows] = part
    return Queries(vectors, chosen.places, chosen)


def _packed_arrays(path: PathLike) -> dict[str, NDArray[Any]]:
    """Arrays of a ``.npz`` file by their names."""
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # as above
        raise FormatError(f"{path} is not a .npz file, or is damaged ({error})") from None


def _rows_for(array: NDArray[Any], n: int, path: PathLike, of: str) -> Vectors:
    """Check that there is a row for each of `n` images."""
    vectors = as_vectors(array, f"the descriptors of {of} in {path}")
    if len(vectors) != n:
        raise FormatError(
            f"{path} has {len(vectors):,} rows for the {n:,} images of {of}: row i must be the descriptor of image i"
        )
    return vectors


def check_all_there(
    wanted: Sequence[str], there: Container[str], source: PathLike, names: Sequence[str]
) -> None:
    """Raise an error with examples of both sides if some wanted names are not `there`."""
    missing = [name for name in wanted if name not in there]
    if missing:
        example = f"it has {len(names)}, such as {names[0]}" if names else "it has none"
        raise FormatError(
            f"{source} has no descriptor for {len(missing)} of the manifest's {len(wanted)} images, first "
            f"{missing[0]}; {example}. Where only the folders differ, give the folder that its names start "
            "from (--images; in Python root or images)"
        )


def references_of(images: Queries) -> ReferenceSet:
    """Images with a known place, as references."""
    keep = images.places != ""
    if not keep.any():
        raise InputError("no image of the manifest has a place: fill its column 'place'")
    known = images.manifest.select(keep)
    groups = view_groups(known.places, known.traversals, known.camera, known.heading)
    return ReferenceSet(images.vectors[keep], known.places, known.traversals, groups=groups)


def write_store(
    images: Queries, folder: PathLike, model: str, *, dtype: str = "float32", overwrite: bool = False
) -> DescriptorStore:
    """Keep descriptors of another program in a descriptor store, which every verb of the command line takes.

    `model` is what made them, such as "hloc netvlad": maps refuse queries of another name. `overwrite` replaces the
    descriptors of a store that is there.
    """
    if not len(images.manifest):
        raise InputError("the manifest lists no images; there is nothing to keep")
    vectors = images.vectors
    # The image files may not be on this machine, so the hash of the vector replaces that of the content.
    with np.errstate(over="ignore"):  # refused by the shards
        keys = [hashlib.sha256(vector.astype(np.float32).tobytes()).hexdigest() for vector in vectors]
    fingerprint = {"model": model, "imported": True}
    with opened_for_writing(Path(folder), fingerprint, vectors.shape[1], dtype, overwrite) as store:
        fresh = [row for row, key in enumerate(keys) if key not in store.shards]
        for rows in blocks(len(fresh), row_bytes=vectors[0].nbytes):
            store.shards.append([keys[row] for row in fresh[rows]], vectors[fresh[rows]])
        store.index.listing(images.manifest, keys).write(store.folder)
    return DescriptorStore(folder)
