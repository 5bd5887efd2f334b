"""`displace build`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial as bound
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from displace.errors import FallbackWarning, InputError, RouteWarning
from displace.files.memory import physical_memory
from displace.progress import Progress, Stage, part
from displace.verbs._steps import Steps
from displace.verbs.base import (
    MAP_ENDING,
    Argument,
    Option,
    Output,
    PathLike,
    Sources,
    Traversals,
    beside,
    check_output,
    check_threads,
    listed,
    look_at_neighbours,
    showing,
    whole_store,
)

if TYPE_CHECKING:
    from displace.descriptors.store import DescriptorStore
    from displace.fusion.base import Fusion
    from displace.maps import PlaceMap
    from displace.references import ReferenceSet, ReferenceStream

BESIDE = (".csv", ".desc", ".frames")
"""Endings of the files beside a map, which the map must not replace."""

MEMORY_SHARE = 0.25
"""References above this share of the machine's memory are streamed: fitting makes copies of them."""


def build(
    store: Annotated[Sources, Argument("SOURCE")],
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
    topic: str | None = None,
    layout: str = "auto",
    anchor: str | None = None,
    alike: bool = False,
    cluster: Annotated[str | None, Option(metavar="ADDRESS")] = None,
    threads: int | None = None,
    partial: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PlaceMap:
    """Build a map: one file to deploy, and beside it one that an update needs.

    Takes recordings, a manifest or a store, and runs the missing steps: manifest, extract and, if no place is known,
    align. Their results go beside the map (``town.csv``, ``town.frames``, ``town.desc``). If it is interrupted, run
    it again to resume.

    Parameters
    ----------
    store : path-like or sequence of path-like
        A store made by `extract`, or several stores of one route; a manifest; a folder with one folder of images, video
        or bag for each traversal; or several of these recordings. A GPX track beside each (monday.mp4, monday.gpx)
        gives positions, as in `manifest`.
    output : path-like, optional
        The map; by default the source's name with ``.displace``. Required for several sources.
    fusion : str
        How references are fused (see: displace list fusions), or auto: what `advise` recommends.
    traversals : sequence of str, optional
        Traversals to use; by default all.
    exclude : sequence of str, optional
        Traversals to leave out.
    dtype : str
        How rows are stored: float16, float32 or int8.
    calibration : bool
        Learn from held-out traversals how likely a match is right; with one or two traversals this is weaker.
    tolerance : str, optional
        What counts as right for the confidence: 25m if places have positions, "2 frames" if they have an order along
        the route, or exact. By default 25 m; without positions "2 frames" if places were found by sight or are frames
        of one video or bag, else the exact place.
    keep_references : bool
        Keep the references beside the map, so that a traversal can be removed by name later.
    model : str, optional
        For recordings and manifests: model that describes the images (see: displace list models); by default
        efficientnet_lite if it is installed, else hog.
    weights : path-like, optional
        Weights file; by default the published one.
    device : str
        Where the model runs: auto, cpu, cuda, cuda:1 …
    every : str
        Video, bag: take every n-th frame (5), or one frame per interval (0.5s).
    topic : str, optional
        Bag: image topic; by default the only one.
    layout : str
        For recordings: how places are determined, as in `manifest`: auto, names, sight … With auto, recordings whose
        equal names turn out not to be equal places are lined up by sight; names trusts the names.
    anchor : str, optional
        Line the recordings up by sight, along this one: its frames become the places, as in `align`.
    alike : bool
        For recordings that are lined up by sight: the route has parts that look alike, such as aisles or floors of a
        car park, so accept recordings that seem to drive a part of it twice.
    cluster : str, optional
        Build with the workers of a Dask cluster: local, local:4, or a scheduler's address.
    threads : int, optional
        Cores to use for building; by default one for few references, else all. On a busy machine 1 is often faster.
    partial : bool
        Accept a store whose extraction is unfinished.
    overwrite : bool
        Replace an existing map, and the manifest that was made for it.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Examples
    --------
    ::

        displace build route.desc -o town.displace
        displace build drives/ -o town.displace --every 0.5s
        displace build monday.mp4 tuesday.mp4 -o town.displace
        displace build drives/ -o town.displace --anchor monday
        displace build route.desc --exclude night --dtype int8
        displace build route.desc snow.desc -o town.displace
        displace build route.desc --fusion auto
        displace build route.desc --cluster local
        displace build route.desc --cluster tcp://scheduler:8786
    """
    import numpy as np

    from displace.advise import advise
    from displace.descriptors.joined import joined
    from displace.descriptors.store import DescriptorStore
    from displace.descriptors.store_summary import own_tolerance
    from displace.files.lock import exclusive
    from displace.maps import building
    from displace.neighbours import sample
    from displace.threads import limit_threads, threads_for

    output = map_output(store, output)
    _check_ending(output)
    check_output(output, overwrite)
    check_threads(threads)
    _check_options(fusion, dtype, tolerance, layout)
    if anchor is not None:
        if layout not in ("auto", "sight"):
            raise InputError(
                f"anchor={anchor!r} is for places that are found by sight, but layout={layout!r} was given"
            )
        layout = "sight"
    with exclusive(output), limit_threads(threads):
        chosen: dict[str, Any] = {"traversals": traversals, "exclude": exclude or ()}
        if several := _stores(listed(store)):
            _check_alone(model, layout, alike, cluster)
            stores = [showing(whole_store(folder, partial), **chosen) for folder in several]
            stream = joined(stores, **chosen)
        else:
            steps = Steps(
                listed(store),
                output,
                layout,
                anchor,
                every,
                topic,
                overwrite,
                progress,
                traversals,
                exclude or (),
                alike,
            )
            described = whole_store(steps.described(model, weights, device), partial)
            with steps.tried():
                steps.place(described, partial)
                stores = [steps.showing(DescriptorStore(described.folder))]
            stream = stores[0].stream(**chosen)
        described = stores[0]
        tolerance = own_tolerance(*stores) if tolerance is None else tolerance
        streamed = cluster is not None or stream.nbytes > MEMORY_SHARE * physical_memory()
        if streamed:
            _check_streamable(fusion, keep_references)
        refs = sample(stream) if streamed else stream.take(np.arange(len(stream)))
        _warn_of_copies(refs)
        look_at_neighbours(refs, tolerance)
        options: dict[str, Any] = {"dtype": dtype, "calibration": calibration, "tolerance": tolerance}
        see = bound(_seen, stores=stores, chosen=chosen, progress=part(progress, "sketching"))
        if streamed:
            return _streamed(
                cluster, described, stream, fusion, chosen, output, see, progress=progress, **options
            )
        estimator: str | Fusion = fusion
        with limit_threads(threads_for(threads, *refs.vectors.shape)), warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)  # shown with the map
            if fusion == "auto":
                found = advise(refs, tolerance=tolerance, progress=part(progress, "comparing"))
                estimator = found.recommended.make()
            place_map = building.build(
                refs,
                estimator,
                described.model,
                keep_references=keep_references,
                progress=part(progress, "calibrating"),
                **options,
            )
        place_map = see(place_map)
        place_map.save(output)
    return place_map


def _seen(
    place_map: PlaceMap, stores: list[DescriptorStore], chosen: dict[str, Any], progress: Stage | None
) -> PlaceMap:
    """The map with sketches of the images that its references are of."""
    from displace.maps import PlaceMap
    from displace.maps.sketching import with_sketches

    return PlaceMap(with_sketches(place_map.state, stores, **chosen, progress=progress))


def _stores(sources: list[Path]) -> list[Path]:
    """The sources if they are several, and all are stores; else none."""
    from displace.descriptors.store import is_store

    return sources if len(sources) > 1 and all(map(is_store, sources)) else []


def _check_alone(model: str | None, layout: str, alike: bool, cluster: str | None) -> None:
    """Refuse options that several stores do not take."""
    for name, value, default in (
        ("model", model, None),
        ("layout", layout, "auto"),
        ("alike", alike, False),
        ("cluster", cluster, None),
    ):
        if value != default:
            raise InputError(f"{name}={value!r} is not possible with several stores; leave it out")


def _warn_of_copies(refs: ReferenceSet) -> None:
    """Warn of recordings that occur twice."""
    from displace.neighbours import copies

    for name, other in copies(refs).items():
        warnings.warn(
            f"images of {str(name)!r} are those of {str(other)!r}: a recording that counts twice tells "
            "nothing new, and how sure matches are is learned wrongly; leave the copy out (--exclude)",
            RouteWarning,
            stacklevel=3,
        )


def _check_options(fusion: str, dtype: str, tolerance: str | None, layout: str) -> None:
    """Refuse options that cannot be used before recordings are described, which takes long."""
    from displace.arrays import check_one_of
    from displace.manifest.layouts import LAYOUTS
    from displace.maps.fitting import fusion_of
    from displace.maps.rounding import DTYPES
    from displace.registry import check_known
    from displace.truth import Tolerance

    if fusion != "auto":
        fusion_of(fusion)
    check_known("layout", [layout], ["auto", *LAYOUTS])
    check_one_of(dtype, DTYPES, "dtype")
    if tolerance is not None:
        Tolerance.parse(tolerance)


def _check_ending(output: Path) -> None:
    """Refuse a name of the map that its manifest or store will have."""
    if output.suffix.lower() in BESIDE:
        raise InputError(
            f"cannot write {output}: beside a map, {output.with_suffix('.csv').name} is its manifest and "
            f"{output.with_suffix('.desc').name} its store; use a name that ends in {MAP_ENDING}"
        )


def resumes(given: Mapping[str, Any]) -> bool:
    """Whether an interrupted run resumes: frames and descriptors of recordings are kept."""
    from displace.descriptors.store import is_store

    return not any(map(is_store, listed(given["store"])))


def _streamed(
    cluster: str | None,
    store: DescriptorStore,
    stream: ReferenceStream,
    fusion: str,
    chosen: dict[str, Any],
    output: Path,
    see: Callable[[PlaceMap], PlaceMap],
    **options: Any,
) -> PlaceMap:
    """Build a map of more references than fit in memory: in blocks, or with the workers of a cluster."""
    from displace.cluster.session import connected
    from displace.cluster.summing import build_on_cluster
    from displace.files.temporary import folder_beside
    from displace.maps import PlaceMap
    from displace.maps.streaming import build_streamed

    with folder_beside(output) as folder:
        if cluster is None:
            see(build_streamed(stream, fusion, store.model, folder=folder, **options)).save(output)
        else:
            with connected(cluster) as client:
                see(build_on_cluster(client, store, fusion, folder=folder, **chosen, **options)).save(output)
    return PlaceMap.load(output, verify=False)


def _check_streamable(fusion: str, keep_references: bool) -> None:
    """Refuse options that need all references in memory."""
    if fusion == "auto":
        raise InputError(
            "fusion='auto' needs all references in memory to compare fusions: name one, such as displace"
        )
    if keep_references:
        raise InputError("--keep-references needs all references in memory: leave it out")


def map_output(store: Sources, output: PathLike | None) -> Path:
    """Path of the map of one or several sources."""
    if output is not None:
        return Path(output)
    sources = listed(store)
    if len(sources) != 1:
        raise InputError(
            f"a map of {len(sources)} sources needs a name: give one with -o, such as -o town{MAP_ENDING}"
        )
    return beside(sources[0], MAP_ENDING)
