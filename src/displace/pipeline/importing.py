"""Descriptors of other programs into a store, as a function. Defaults live here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from displace.descriptors.store import DescriptorStore, Queries
from displace.descriptors.store_summary import StoreSummary, summarize_store
from displace.errors import FormatError
from displace.interop import hloc, vpr_methods_evaluation
from displace.interop.importing import write_store
from displace.manifest.table import Manifest
from displace.pipeline.recordings import read_manifest

PathLike = str | os.PathLike[str]


def import_features(
    features: PathLike,
    manifest: PathLike,
    output: PathLike | None = None,
    *,
    model: str,
    traversals: Sequence[str] | None = None,
    images: PathLike | None = None,
    side: str = "database",
    dtype: str = "float32",
    overwrite: bool = False,
) -> StoreSummary:
    """Keep the descriptors that another program made in a descriptor store, which every verb takes.

    Parameters
    ----------
    features : path-like
        hloc's HDF5 file of global features, or the folder to which VPR-methods-evaluation wrote its ``.npy`` arrays.
    manifest : path-like
        CSV file with image, place, traversal; each of its images must have a descriptor.
    output : path-like, optional
        The store; by default the manifest's name with ``.desc``.
    model : str
        What made the descriptors, such as "hloc netvlad". Maps refuse queries of another name.
    traversals : sequence of str, optional
        Which traversals of the manifest to take; by default all.
    images : path-like, optional
        The folder of images that the program was given, from which its names start; by default names are as in the
        manifest.
    side : {"database", "queries"}
        Which array of VPR-methods-evaluation.
    dtype, overwrite
        See `displace.interop.importing.write_store`.
    """
    table = read_manifest(manifest)
    if traversals:
        table = table.select_traversals(traversals)
    folder = Path(manifest).with_suffix(".desc") if output is None else Path(output)
    write_store(_read(Path(features), table, images, side), folder, model, dtype=dtype, overwrite=overwrite)
    return summarize_store(DescriptorStore(folder))


def _read(features: Path, manifest: Manifest, images: PathLike | None, side: str) -> Queries:
    if features.is_dir():
        return vpr_methods_evaluation.read_descriptors(features, side, manifest, images=images)
    if not features.is_file():
        raise FormatError(
            f"no features at {features}: give hloc's .h5 file, or the folder of VPR-methods-evaluation's arrays"
        )
    return hloc.read_descriptors(features, manifest, root=images)
