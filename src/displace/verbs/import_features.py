"""`displace import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from displace.errors import FormatError
from displace.verbs.base import Argument, Option, Output, PathLike, Traversals, read_manifest

if TYPE_CHECKING:
    from displace.descriptors.store import Queries
    from displace.descriptors.store_summary import StoreSummary
    from displace.manifest.table import Manifest

COMMAND = "import"


def import_features(
    features: Annotated[PathLike, Argument("FEATURES")],
    manifest: PathLike,
    output: Output = None,
    *,
    model: Annotated[str, Option("-m")],
    traversals: Traversals = None,
    images: Annotated[PathLike | None, Option(metavar="FOLDER")] = None,
    side: str = "database",
    dtype: str = "float32",
    overwrite: bool = False,
) -> StoreSummary:
    """Import descriptors made by hloc or VPR-methods-evaluation into a store.

    Every verb accepts the store. A map built from it locates stores of the same `model`, not images, because only the
    other program can describe images.

    Parameters
    ----------
    features : path-like
        hloc's .h5 file; or the folder of VPR-methods-evaluation's .npy arrays.
    manifest : path-like
        CSV file with the columns image, place and traversal; each of its images must have a descriptor.
    output : path-like, optional
        The store, a folder; by default the manifest's name with ``.desc``.
    model : str
        A name for the model that made the descriptors, such as "hloc netvlad". Maps refuse queries of another name.
    traversals : sequence of str, optional
        Traversals to import; by default all.
    images : path-like, optional
        Image folder that the other program used: its names are relative to it; by default names are as in the manifest.
    side : {"database", "queries"}
        Which of the .npy arrays: database or queries.
    dtype : {"float32", "float16"}
        How numbers are stored: float32 or float16.
    overwrite : bool
        Discard the descriptors in the store and start over.

    Examples
    --------
    ::

        displace import feats.h5 --manifest route.csv -m "hloc netvlad" -o route.desc
        displace import logs/run --manifest pitts.csv -m salad --traversal database
    """
    from displace.descriptors.imported import write_store
    from displace.descriptors.store import DescriptorStore
    from displace.descriptors.store_summary import summarize_store

    table = read_manifest(manifest)
    if traversals:
        table = table.select_traversals(traversals)
    folder = Path(manifest).with_suffix(".desc") if output is None else Path(output)
    write_store(_read(Path(features), table, images, side), folder, model, dtype=dtype, overwrite=overwrite)
    return summarize_store(DescriptorStore(folder))


def _read(features: Path, manifest: Manifest, images: PathLike | None, side: str) -> Queries:
    from displace.interop import hloc, vpr_methods_evaluation

    if features.is_dir():
        return vpr_methods_evaluation.read_descriptors(features, side, manifest, images=images)
    if not features.is_file():
        raise FormatError(
            f"no features at {features}: give hloc's .h5 file, or the folder of VPR-methods-evaluation's arrays"
        )
    return hloc.read_descriptors(features, manifest, root=images)
