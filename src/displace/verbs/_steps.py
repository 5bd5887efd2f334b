"""The steps before a map, done beside it where they are missing: manifest, descriptors, places by sight."""

from __future__ import annotations

import logging
import shlex
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from displace.errors import InputError, RouteWarning
from displace.progress import Progress
from displace.verbs.base import PathLike, Sources, listed

if TYPE_CHECKING:
    from displace.descriptors.store import DescriptorStore
    from displace.manifest.table import Manifest

WAY_OUT = "Choose another name with -o, or start over with --overwrite, which reuses existing descriptors"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Steps:
    """The steps from a source to a store with places."""

    sources: list[Path]
    """Recordings, a manifest or a store; of the last two, one."""
    output: Path
    """The map."""
    layout: str
    """How the places of recordings are told."""
    anchor: str | None
    """Recording whose frames become the places, by sight."""
    every: str
    """Frames to take from videos and bags."""
    topic: str | None
    """Image topic of bags."""
    overwrite: bool
    """Make the manifest anew."""
    progress: Progress | None

    @property
    def source(self) -> Path | list[Path]:
        """What is given; several recordings are a list."""
        return self.sources[0] if len(self.sources) == 1 else self.sources

    @property
    def table(self) -> Path:
        """Manifest of recordings."""
        return self.output.with_suffix(".csv")

    @property
    def of_recordings(self) -> bool:
        """Whether the manifest is made here: neither it nor a store is given."""
        return not any(map(_tells_places, self.sources))

    def described(self, model: str | None, weights: PathLike | None, device: str) -> Path:
        """Store of whatever is given."""
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
            if model is not None:
                _check_holds(model, folder)
            self._check_anchor(DescriptorStore(folder).manifest)
            return folder
        table = self._manifest() if self.of_recordings else self.sources[0]
        self._check_anchor(Manifest.read(table))
        if model is not None and is_store(folder):
            _check_described_by(model, folder, table)
        extract(table, folder, model=model, weights=weights, device=device, progress=self.progress)
        return folder

    def place(
        self, store: DescriptorStore, partial: bool, traversals: Sequence[str] | None, exclude: Sequence[str]
    ) -> None:
        """Line recordings up by sight where no image has a place, or where sight contradicts equal names."""
        from displace.neighbours import sample
        from displace.verbs._sight import names_looked_at
        from displace.verbs.align import align

        if self.anchor is not None or (store.places == "").all():
            made = self.table if self.table.exists() else None
            names = store.chosen(traversals, exclude)
            done = align(
                store.folder,
                made,
                anchor=self.anchor,
                traversals=names,
                partial=partial,
                overwrite=True,
                progress=self.progress,
            )
            lined = done.found()
        elif self.of_recordings and self.layout == "auto" and self._told_by_names(store.manifest):
            refs = sample(store.stream(traversals, exclude))
            lined = names_looked_at(store, refs, self.table, self.progress)
        else:
            lined = []
            self._check_lined_up(store.manifest, traversals, exclude)
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

    def _check_lined_up(
        self, manifest: Manifest, traversals: Sequence[str] | None, exclude: Sequence[str]
    ) -> None:
        """Refuse a recording that was left out when the others were lined up by an earlier run."""
        names = manifest.traversal_names() if traversals is None else traversals
        placed = set(manifest.traversals[manifest.places != ""].tolist())
        lacking = [name for name in names if name not in placed and name not in exclude]
        if self.of_recordings and "alignment" in manifest.numbers and lacking:
            raise InputError(f"{self.table} was lined up without {', '.join(lacking)}. {WAY_OUT}")

    def _told_by_names(self, manifest: Manifest) -> bool:
        """Whether places are no more than equal names or numbers of files, as they were before anybody changed them."""
        by_name = manifest.frame is not None and "alignment" not in manifest.numbers
        by_name = by_name and not _all_located(manifest)
        return by_name and _agree(_labelled(manifest), self._as_made)

    def _manifest(self) -> Path:
        """Manifest of recordings; one that was made before is gone on with."""
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
        if (refusal := self._refusal(made)) is not None:
            self.table.unlink()
            if not kept:
                shutil.rmtree(frames, ignore_errors=True)
            raise refusal
        return self.table

    def _check_several_videos(self, frames: Path) -> None:
        """Refuse a single video or bag before its frames are taken, which takes long."""
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

    def _refusal(self, made: Manifest) -> InputError | None:
        """Why no map can be made of a manifest: one recording, or `every` leaves too few frames to line up."""
        from displace.sequence.alignment import LEAST_FRAMES

        counts = {name: int((made.traversals == name).sum()) for name in made.traversal_names()}
        few = min(counts, key=lambda name: counts[name])
        if len(counts) == 1:
            return self._one_only(f"{few!r} with {len(made):,} images")
        if self.every != "1" and not made.place_ids() and counts[few] < LEAST_FRAMES:
            return InputError(
                f"recording {few!r} has {counts[few]} frames with every={self.every!r}; at least {LEAST_FRAMES} are "
                "needed to line it up: use a smaller --every to take more"
            )
        return None

    @cached_property
    def _as_made(self) -> dict[Path, str]:
        """Place of each image as recordings give it by themselves."""
        return self._made("auto")

    def _made(self, layout: str) -> dict[Path, str]:
        from displace.manifest.builder import build_manifest
        from displace.recordings.sources import unpack

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RouteWarning)  # said where the manifest is made
            frames = self.table.with_suffix(".frames")
            folders = unpack(self.source, frames, every=self.every, topic=self.topic)
            return _labelled(build_manifest(folders, layout))

    def _outdated(self) -> bool:
        """Whether the manifest is to be made anew: images were added, or another layout is asked for.

        One that somebody has changed is never replaced unasked.
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
        lacking = [] if by_position else sorted(set(wanted) - set(ours))  # by position some are left out
        if not lacking:
            return False
        what = f"{self.table} lacks {len(lacking):,} images ({lacking[0].parent.name}/{lacking[0].name} …)"
        if untouched and self._are_new(lacking):
            logger.warning("%s that were added since: it is rewritten", what)
            return True
        logger.warning("%s: they are left out; --overwrite rewrites it and includes them", what)
        return False

    def _are_new(self, images: list[Path]) -> bool:
        """Whether images were never described: what was, somebody has taken out of the manifest."""
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
    """Whether every recording has positions, by which places are told then."""
    return manifest.geo is not None and set(manifest.traversals) == set(
        manifest.traversals[manifest.geo.known]
    )


def _agree(ours: dict[Path, str], theirs: dict[Path, str]) -> bool:
    """Whether the images of a manifest have the same places in another one, which may have more images."""
    return all(theirs.get(image) == place for image, place in ours.items())


def _tells_places(source: Path) -> bool:
    """Whether a source is a manifest or a store, and no recording."""
    from displace.descriptors.store import is_store

    return is_store(source) or (source.is_file() and source.suffix.lower() == ".csv")


def _check_together(sources: list[Path]) -> None:
    """Refuse a manifest or a store beside other sources, as each says of all recordings what is which place.

    A source that is not there is refused, too, before the frames of another are taken.
    """
    if len(sources) == 1:
        return
    if gone := [source for source in sources if not source.exists()]:
        raise InputError(f"no recording found at {named(gone)}; nothing was done")
    if told := list(filter(_tells_places, sources)):
        raise InputError(
            f"{told[0]} is a manifest or a store, but one of {len(sources)} sources: build takes either one manifest "
            "or store, or several recordings (videos, bags, folders of frames)"
        )


def named(sources: Sources) -> str:
    """What messages call a source, or several."""
    return ", ".join(map(str, listed(sources)))


def store_beside(sources: Sources, output: Path) -> Path:
    """Store of a source: itself, or the one that is made beside the map."""
    from displace.descriptors.store import is_store

    given = listed(sources)
    return given[0] if len(given) == 1 and is_store(given[0]) else output.with_suffix(".desc")


def check_made_of(source: Sources, table: Path, every: str = "1", topic: str | None = None) -> None:
    """Refuse to go on with a manifest that an earlier run made of other recordings, or of other frames of them."""
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


def _check_holds(model: str, folder: Path) -> None:
    """Refuse another model than that of a store that is given: its images are described already."""
    if (made := _made_by_another(model, folder)) is not None:
        raise InputError(
            f"{folder} holds descriptors of {made}, but model={model!r} was given: pass the recordings or the manifest "
            "instead, so that their images are described"
        )


def _made_by_another(model: str, folder: Path) -> str | None:
    """Name of the model that made a store, where it is another one."""
    from displace.descriptors.store import DescriptorStore
    from displace.models import model_name

    made = DescriptorStore(folder).model
    return model_name(made) if made.get("model") != model.partition(":")[0] else None


def _check_described_by(model: str, folder: Path, table: Path) -> None:
    """Refuse another model than that of the store beside the map: replacing a map does not drop its descriptors."""
    if (made := _made_by_another(model, folder)) is not None:
        raise InputError(
            f"{folder} holds descriptors of {made}, but model={model!r} was given. Choose another name "
            f"for the map with -o, or describe the images again first: {described_anew(table, folder, model)}"
        )


def described_anew(table: PathLike, folder: PathLike, model: str) -> str:
    """Return the command that describes the images of a manifest by another model."""
    return shlex.join(["displace", "extract", str(table), "-o", str(folder), "-m", model, "--overwrite"])
