"""The steps from recordings to a store with places, for `displace build`: manifest, descriptors, places by sight."""

from __future__ import annotations

import logging
import shlex
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from displace.errors import DisplaceError, InputError, RouteWarning
from displace.progress import Progress
from displace.verbs.base import PathLike, Sources, listed, showing

if TYPE_CHECKING:
    from displace.descriptors.store import DescriptorStore
    from displace.manifest.table import Manifest

WAY_OUT = "Choose another name with -o, or start over with --overwrite, which reuses existing descriptors"
DESCRIBE = "Pass the recordings or the manifest instead, so that their images are described"
DESCRIBE_AGAIN = "Choose another name for the map with -o, or describe the images again first: "

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Steps:
    """The steps from a source to a store with places."""

    sources: list[Path]
    """Recordings; or one manifest or store."""
    output: Path
    """The map; results of the steps are written beside it."""
    layout: str
    """How the places of recordings are determined."""
    anchor: str | None
    """Recording whose frames become the places, by sight."""
    every: str
    """Frames to take from videos and bags."""
    topic: str | None
    """Image topic of bags."""
    overwrite: bool
    """Make the manifest again."""
    progress: Progress | None
    traversals: Sequence[str] | None = None
    """Recordings that the map is built of; None for all."""
    exclude: Sequence[str] = ()
    """Recordings that it is built without."""
    alike: bool = False
    """Whether parts of the route look alike, so that what seems to be a second lap is none."""

    @property
    def source(self) -> Path | list[Path]:
        """The source, or the list of several recordings."""
        return self.sources[0] if len(self.sources) == 1 else self.sources

    @property
    def table(self) -> Path:
        """The manifest that is made from recordings."""
        return self.output.with_suffix(".csv")

    @property
    def of_recordings(self) -> bool:
        """Whether recordings are given, and the manifest is made here."""
        return not any(map(_has_places, self.sources))

    def described(self, model: str | None, weights: PathLike | None, device: str) -> Path:
        """Return the store of the sources, after describing images that it lacks."""
        from displace.descriptors.store import DescriptorStore, is_store
        from displace.manifest.table import Manifest
        from displace.verbs.extract import extract

        _check_together(self.sources)
        if self.layout != "auto" and self.anchor is None and not self.of_recordings:
            raise InputError(
                f"layout={self.layout!r} is for recordings; {named(self.source)} already names the place of each image"
            )
        folder = store_beside(self.source, self.output)
        if is_store(folder) and folder in self.sources:
            _check_model(model, folder, DESCRIBE)
            self._check_anchor(DescriptorStore(folder).manifest)
            return folder
        table = self._manifest() if self.of_recordings else self.sources[0]
        known = Manifest.read(table)
        self._check_anchor(known)
        with self.tried():
            self._check_enough(known)
        if is_store(folder):
            again = ["displace", "extract", str(table), "-o", str(folder), "-m", str(model), "--overwrite"]
            _check_model(model, folder, DESCRIBE_AGAIN + shlex.join(again))
        extract(table, folder, model=model, weights=weights, device=device, progress=self.progress)
        return folder

    def place(self, store: DescriptorStore, partial: bool) -> None:
        """Line recordings up by sight if no image has a place, or if the images contradict equal names."""
        from displace.neighbours import sample
        from displace.verbs._sight import check_names
        from displace.verbs.align import align

        if self.anchor is not None or (store.places == "").all():
            made = self.table if self.table.exists() else None
            names = store.chosen(self.traversals, self.exclude)
            done = align(
                store.folder,
                made,
                anchor=self.anchor,
                traversals=names,
                alike=self.alike,
                partial=partial,
                overwrite=True,
                progress=self.progress,
            )
            lined = done.found()
        elif self.of_recordings and self.layout == "auto" and self._told_by_names(store.manifest):
            refs = sample(store.stream(self.traversals, self.exclude))
            lined = check_names(store, refs, self.table, self.progress, self.alike)
        else:
            lined = []
            self._check_lined_up(store.manifest)
        if any("--anchor" in line for line in lined):
            lined.append("  another anchor: run build again with --anchor NAME --overwrite")
        for line in lined:
            logger.warning("%s", line)

    def _check_anchor(self, known: Manifest) -> None:
        """Refuse an anchor that is no recording, or where nothing is lined up because the places are known."""
        from displace.registry import check_known

        if self.anchor is None:
            return
        check_known("anchor", [self.anchor], known.traversal_names())
        why = None
        if known.place_ids() and "alignment" not in known.numbers:
            why = "names the places already: leave it out (displace align --overwrite replaces places of a store)"
        elif self.of_recordings and _all_located(known):
            why = "has positions, which tell the places: leave it out, or give it to displace manifest"
        if why is not None:
            raise InputError(
                f"anchor={self.anchor!r} is for recordings that are lined up by sight, but {named(self.source)} {why}"
            )

    def _chosen(self, manifest: Manifest) -> list[str]:
        """Recordings of a manifest that the map is built of."""
        names = manifest.traversal_names() if self.traversals is None else self.traversals
        return [name for name in names if name not in self.exclude]

    def showing(self, store: DescriptorStore) -> DescriptorStore:
        """The store without places of images that show nothing; refuses recordings of which that leaves one."""
        shown = showing(store, self.traversals, self.exclude)
        before, left = self._placed(store), self._placed(shown)
        if self.of_recordings and len(left) == 1 < len(before):
            name, dark = *left, ", ".join(map(repr, sorted(before - left)))
            raise self._one_only(f"{name!r}, that shows anything ({dark}: black, covered or of one colour)")
        return shown

    def _placed(self, store: DescriptorStore) -> set[str]:
        """Recordings of the map that have images with a place."""
        return set(store.traversals[store.places != ""].tolist()).intersection(self._chosen(store.manifest))

    def _check_lined_up(self, manifest: Manifest) -> None:
        """Refuse recordings that an earlier run left out when it lined up the others."""
        placed = set(manifest.traversals[manifest.places != ""].tolist())
        lacking = [name for name in self._chosen(manifest) if name not in placed]
        if self.of_recordings and "alignment" in manifest.numbers and lacking:
            raise InputError(f"{self.table} was lined up without {', '.join(lacking)}. {WAY_OUT}")

    def _told_by_names(self, manifest: Manifest) -> bool:
        """Whether places are still the equal names or numbers of files that were taken as places at first."""
        by_name = manifest.frame is not None and "alignment" not in manifest.numbers
        by_name = by_name and not _all_located(manifest)
        return by_name and _agree(_labelled(manifest), self._as_made)

    def _manifest(self) -> Path:
        """Make the manifest of the recordings, or continue with the one that an earlier run made."""
        from displace.manifest.table import Manifest
        from displace.verbs.manifest import check_is_manifest, manifest

        if self.table.exists():
            check_is_manifest(self.table)
        if self.table.exists() and not self.overwrite:
            check_made_of(self.source, self.table, self.every, self.topic)
            if not self._outdated():
                return self.table
        frames = self.table.with_suffix(".frames")
        kept = frames.exists()
        self._check_several_videos(frames)
        manifest(
            self.sources,
            self.table,
            layout=self.layout,
            every=self.every,
            topic=self.topic,
            overwrite=True,
            progress=self.progress,
        )
        made = Manifest.read(self.table)
        if len(names := made.traversal_names()) == 1:
            self.table.unlink()
            if not kept:
                shutil.rmtree(frames, ignore_errors=True)
            raise self._one_only(f"{names[0]!r} with {len(made):,} images")
        return self.table

    def _check_several_videos(self, frames: Path) -> None:
        """Refuse a single video or bag before extracting its frames, which takes long."""
        from displace.recordings.sources import folders_of

        recordings = folders_of(self.source, frames)
        if len(recordings) == 1 and not set(recordings) & set(recordings.values()):
            raise self._one_only(repr(next(iter(recordings.values())).name))

    def _one_only(self, which: str) -> InputError:
        return InputError(
            f"{named(self.source)} holds one recording only, {which}: a map fuses several drives of a route. Record "
            "the route again and pass both recordings. To build from one anyway, make a manifest first: displace "
            f"manifest {quote(str(self.sources[0]))} -o route.csv, then displace build route.csv"
        )

    def _check_enough(self, known: Manifest) -> None:
        """Refuse recordings of too few frames to line up before any are described."""
        from displace.sequence.alignment import LEAST_FRAMES

        if known.place_ids():
            return
        chosen = self._chosen(known)
        counts = Counter(name for name in known.traversals.tolist() if name in chosen)
        few = min(counts, key=lambda name: counts[name], default=None)
        if few is None or counts[few] >= LEAST_FRAMES:
            return
        taken, more = "", ""
        if self.of_recordings and self.every != "1":
            taken, more = f" with every={self.every!r}", "use a smaller --every to take more, or "
        raise InputError(
            f"recording {few!r} has {counts[few]} frames{taken}; at least {LEAST_FRAMES} are needed to line it up: "
            f"{more}leave it out with --exclude {quote(few)}"
        )

    @contextmanager
    def tried(self) -> Iterator[None]:
        """Where what follows is refused, remove the manifest of the recordings: the next run may have others.

        One that was edited, lined up or belongs to a map stays.
        """
        try:
            yield
        except DisplaceError:
            with suppress(DisplaceError, OSError):
                if self.of_recordings and not self.output.exists() and self._is_as_made():
                    self.table.unlink()
            raise

    def _is_as_made(self) -> bool:
        """Whether the manifest is, to the letter, the one that the recordings give now."""
        again = self.table.with_name(f".{self.table.name}.again")
        try:
            self._remade(self.layout).write(again)
            return again.read_bytes() == self.table.read_bytes()
        finally:
            again.unlink(missing_ok=True)

    @cached_property
    def _as_made(self) -> dict[Path, str]:
        """Place of each image as the recordings give it now."""
        return self._made("auto")

    def _made(self, layout: str) -> dict[Path, str]:
        return _labelled(self._remade(layout))

    def _remade(self, layout: str) -> Manifest:
        from displace.manifest.builder import build_manifest
        from displace.recordings.sources import unpack

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RouteWarning)  # shown when the manifest is made
            frames = self.table.with_suffix(".frames")
            folders = unpack(self.source, frames, every=self.every, topic=self.topic)
            return build_manifest(folders, layout)

    def _outdated(self) -> bool:
        """Whether the manifest must be made again: images were added, or another layout was given.

        A manifest that was edited is never replaced without --overwrite.
        """
        from displace.manifest.table import Manifest

        known = Manifest.read(self.table)
        ours, made = _labelled(known), self._as_made
        wanted = made if self.layout == "auto" else self._made(self.layout)
        by_sight = "alignment" in known.numbers
        untouched = by_sight or _agree(ours, made) or _agree(ours, wanted)
        if self.layout != "auto" and not _agree(ours, wanted) and not (by_sight and self.layout == "sight"):
            what = f"{self.table} has other places than layout={self.layout!r} gives"
            if not untouched:
                raise InputError(f"{what}; they were edited by hand or come from another --layout. {WAY_OUT}")
            logger.warning("%s: it is rewritten", what)
            return True
        by_position = _all_located(known)
        if by_position and not untouched:
            logger.warning(
                "%s has other places than the recordings' positions give now: it is kept; --overwrite rewrites it",
                self.table,
            )
        lacking = [] if by_position else sorted(set(wanted) - set(ours))  # layouts by position leave some out
        if not lacking:
            return False
        what = f"{self.table} lacks {len(lacking):,} images ({lacking[0].parent.name}/{lacking[0].name} …)"
        if untouched and self._are_new(lacking):
            logger.warning("%s that were added since: it is rewritten", what)
            return True
        logger.warning("%s: they are left out; --overwrite rewrites it and includes them", what)
        return False

    def _are_new(self, images: list[Path]) -> bool:
        """Whether images were never described; described ones were removed from the manifest on purpose."""
        from displace.descriptors.store import DescriptorStore, is_store
        from displace.images import content_hash

        folder = store_beside(self.source, self.output)
        if not is_store(folder):
            return False
        known = DescriptorStore(folder).shards
        return not any(content_hash(image) in known for image in images)


def _labelled(manifest: Manifest) -> dict[Path, str]:
    """Place of each image."""
    paths = manifest.paths()
    folders = {folder: folder.resolve() for folder in {path.parent for path in paths}}
    full = (folders[path.parent] / path.name for path in paths)
    return dict(zip(full, manifest.places.tolist(), strict=True))


def _all_located(manifest: Manifest) -> bool:
    """Whether every recording has positions; places are determined by position then."""
    return manifest.geo is not None and set(manifest.traversals) == set(
        manifest.traversals[manifest.geo.known]
    )


def _agree(ours: dict[Path, str], theirs: dict[Path, str]) -> bool:
    """Whether the images of one manifest have the same places in another one, which may have more images."""
    return all(theirs.get(image) == place for image, place in ours.items())


def _has_places(source: Path) -> bool:
    """Whether a source is a manifest or a store rather than a recording."""
    from displace.descriptors.store import is_store

    return is_store(source) or (source.is_file() and source.suffix.lower() == ".csv")


def _check_together(sources: list[Path]) -> None:
    """Refuse a manifest or a store beside other sources, and missing sources, before any frames are extracted."""
    if len(sources) == 1:
        return
    if gone := [source for source in sources if not source.exists()]:
        raise InputError(f"no recording found at {named(gone)}; nothing was done")
    if placed := list(filter(_has_places, sources)):
        raise InputError(
            f"{placed[0]} is a manifest or a store, but one of {len(sources)} sources: build takes one manifest, "
            "or stores, or recordings (videos, bags, folders of frames)"
        )


def named(sources: Sources) -> str:
    """Name of a source, or of several, in messages."""
    return ", ".join(map(str, listed(sources)))


def store_beside(sources: Sources, output: Path) -> Path:
    """The store of a source: itself, or the one beside the map."""
    from displace.descriptors.store import is_store

    given = listed(sources)
    return given[0] if len(given) == 1 and is_store(given[0]) else output.with_suffix(".desc")


def check_made_of(source: Sources, table: Path, every: str = "1", topic: str | None = None) -> None:
    """Refuse to continue with a manifest that an earlier run made from other recordings or frames."""
    from displace.manifest.table import Manifest
    from displace.recordings.frames import is_of, taken_with
    from displace.recordings.sources import folders_of

    recordings = folders_of(source, table.with_suffix(".frames"))
    waiting = {folder.resolve() for folder in recordings}
    known = frozenset(waiting)
    for folder, recording in recordings.items():
        if not is_of(folder, recording):
            raise InputError(f"{recording} has changed since {table} was made from it. {WAY_OUT}")
    for folder in {path.parent for path in Manifest.read(table).paths()}:
        within = folder.resolve()
        above = {within, *within.parents}
        if not above & known:
            raise InputError(
                f"{table} belongs to other recordings than {named(source)}: it has images in {folder}. {WAY_OUT}"
            )
        taken = taken_with(within)
        for name, given in {"every": str(every), "topic": topic}.items():
            if taken.get(name, given) != given:
                raise InputError(
                    f"{table} has frames taken with {name}={taken[name]!r}, but {name}={given!r} was given. {WAY_OUT}"
                )
        waiting -= above
    if waiting:
        names = ", ".join(sorted(folder.name for folder in waiting))
        raise InputError(f"{table} was made from {named(source)} without {names}. {WAY_OUT}")


def _check_model(model: str | None, folder: Path, way_out: str) -> None:
    """Refuse another model than the one that made a store."""
    from displace.descriptors.store import DescriptorStore
    from displace.models import model_name

    made = DescriptorStore(folder).model
    if model is not None and made.get("model") != model.partition(":")[0]:
        raise InputError(
            f"{folder} holds descriptors of {model_name(made)}, but model={model!r} was given. {way_out}"
        )
