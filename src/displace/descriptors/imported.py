"""Descriptors of another program, matched with the images of a manifest."""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Container, Sequence
from pathlib import Path

import numpy as np

from displace.arrays import Vectors, blocks
from displace.descriptors.store import DescriptorStore, Queries
from displace.descriptors.store_writing import opened_for_writing
from displace.errors import FormatError, InputError
from displace.files.reading import PathLike
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
    vectors = np.ascontiguousarray(images.vectors, np.float32)
    # The image files may not be on this machine, so the hash of the vector replaces that of the content.
    keys = [hashlib.sha256(vector.tobytes()).hexdigest() for vector in vectors]
    fingerprint = {"model": model, "imported": True}
    with opened_for_writing(Path(folder), fingerprint, vectors.shape[1], dtype, overwrite) as store:
        fresh = [row for row, key in enumerate(keys) if key not in store.shards]
        for rows in blocks(len(fresh), row_bytes=vectors[0].nbytes):
            store.shards.append([keys[row] for row in fresh[rows]], vectors[fresh[rows]])
        store.index.listing(images.manifest, keys).write(store.folder)
    return DescriptorStore(folder)
