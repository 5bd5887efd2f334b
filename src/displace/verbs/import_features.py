"""`displace import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from displace.errors import FormatError, InputError
from displace.verbs.base import Argument, Option, Output, PathLike, Traversals, read_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """Import descriptors of your own or of another program (numpy, hloc, VPR-methods-evaluation) into a store.

    Every verb accepts the store. A map built from it locates stores of the same `model`, not images, because only the
    other program can describe images.

    Parameters
    ----------
    features : path-like
        A .npy file with an array (m, D) whose row i describes the manifest's image i, or a .npz file with one such
        array or one for each traversal, under its name; hloc's .h5 file; or the folder of VPR-methods-evaluation's
        arrays.
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
        Which of VPR-methods-evaluation's arrays: database or queries.
    dtype : {"float32", "float16"}
        How numbers are stored: float32 or float16.
    overwrite : bool
        Discard the descriptors in the store and start over.

    Examples
    --------
    ::

        displace import descriptors.npy --manifest route.csv -m "my model" -o route.desc
        displace import feats.h5 --manifest route.csv -m "hloc netvlad" -o route.desc
        displace import logs/run --manifest pitts.csv -m salad --traversal database
    """
    from displace.descriptors.imported import write_store
    from displace.descriptors.store import DescriptorStore
    from displace.descriptors.store_summary import summarize_store

    read = _read(Path(features), read_manifest(manifest), traversals, images, side)
    folder = Path(manifest).with_suffix(".desc") if output is None else Path(output)
    write_store(read, folder, model, dtype=dtype, overwrite=overwrite)
    return summarize_store(DescriptorStore(folder))


def _read(
    features: Path, manifest: Manifest, traversals: Sequence[str] | None, images: PathLike | None, side: str
) -> Queries:
    from displace.descriptors.imported import read_rows
    from displace.interop import hloc, vpr_methods_evaluation

    if features.is_file() and features.suffix.lower() in (".npy", ".npz"):
        if images is not None or side != "database":
            raise InputError(
                f"--images and --side are not for {features}: its rows are in the order of the manifest's images. They "
                "are for hloc's features, and for the folder of VPR-methods-evaluation's arrays"
            )
        return read_rows(features, manifest, traversals)
    chosen = manifest.select_traversals(traversals) if traversals else manifest
    if features.is_dir():
        return vpr_methods_evaluation.read_descriptors(features, side, chosen, images=images)
    if not features.is_file():
        raise FormatError(
            f"no features at {features}: give an array (.npy, .npz), hloc's .h5 file, or the folder of "
            "VPR-methods-evaluation's arrays"
        )
    return hloc.read_descriptors(features, chosen, root=images)
