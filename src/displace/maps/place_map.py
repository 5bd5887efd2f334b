"""PlaceMap, the public face of a map: load, locate photos, follow and smooth drives, update, save.

It holds one `MapState` (`state`) and joins it with `sequence` for drives and with `updating` for changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from displace.arrays import (
    Indices,
    Vectors,
    as_array,
    as_vectors,
    blocks,
    check_count,
    check_not_masked,
    check_one_of,
    l2_normalize,
    shows_something,
    top_k,
)
from displace.errors import InputError
from displace.fork_lock import ForkLock
from displace.geo import Area, Positions
from displace.maps import file
from displace.maps.calibration import Calibration
from displace.maps.comparing import Shown, compared, shown_by
from displace.maps.driving import chosen_mode, course_of, likeliest, similarity_of, tenable_mode
from displace.maps.place_sketches import AMONG
from displace.maps.questions import PIXELS, as_images, check_no_pixels, check_same_model
from displace.maps.state import CHOSEN_AT, MapState
from displace.matches import Matches
from displace.models import grid_of, model_name
from displace.places import Places
from displace.search._database import is_address
from displace.sequence.adaptation import LEAST_QUERIES, advance
from displace.sequence.following import Course, Fix, Follower, Frame, Photo, smooth_fixes
from displace.sequence.stops import in_the_dark, without_stops
from displace.sequence.stride import right_in_order
from displace.sequence.tracking import BEGINS_OFF
from displace.sequence.viewpoint import LEAST_VIEW_FRAMES, Grid, check_view, moved_by, view_of
from displace.sketches import Sketches
from displace.truth import Tolerance

if TYPE_CHECKING:
    from displace.maps.statistics import MapStatistics
    from displace.maps.updating import Update
    from displace.models.base import DescriptorModel
    from displace.progress import Stage
    from displace.references import ReferenceSet

Picture = str | os.PathLike[str] | bytes | NDArray[np.uint8]
"""An image: its file, the content of its file, or its pixels, RGB (height, width, 3)."""


class PlaceMap:
    """Places, each with one or more rows; a query is projected and a place scores as its best row.

    Made by `displace.build` or `PlaceMap.load`. What it holds is one frozen `MapState`; `add` and `remove` put the next
    one in its place, so that threads which locate meanwhile see the old or the new map and never a mixture.

    Parameters
    ----------
    state : MapState
        What the map holds.
    """

    def __init__(self, state: MapState) -> None:
        self.state = state
        self._changing, self._opening = ForkLock(), ForkLock()
        self._model: DescriptorModel | None = None
        self._known_course: tuple[MapState, Course] | None = None

    def __repr__(self) -> str:
        state = self.state
        return (
            f"PlaceMap({len(state.places)} places from {len(state.traversals)} traversals, {state.fusion}, "
            f"{state.vectors.shape[1]} of {state.dim} dimensions, {state.vectors.dtype})"
        )

    def __reduce__(self) -> tuple[type[Self], tuple[MapState]]:
        """Copies, and what other processes get, open the model and make locks for themselves."""
        return type(self), (self.state,)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the map to `path`, and what an update needs to ``path-stats``; atomically."""
        file.save(self.state.in_memory(), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], verify: bool = True) -> Self:
        """Read a map.

        Parameters
        ----------
        path : path-like
            A file, or the address of a map in a database, ``postgresql://…#name`` (docs/databases.md).
        verify : bool
            Read all bytes and compare their checksum. Without, the rows are memory-mapped and read when used; all else
            is checked as far as a map made of it works.
        """
        if not isinstance(path, str | os.PathLike):
            raise InputError(f"path={path!r} must be the file of a map, or its address in a database")
        if is_address(path):
            from displace.maps.in_database import opened

            return cls(opened(path))
        return cls(file.load(path, verify))

    def within(self, near: tuple[float, float], radius: float) -> PlaceMap:
        """Return the same map for photos that are known to be in an area: only places inside are found.

        Parameters
        ----------
        near : pair of float
            Latitude and longitude, or easting and northing: as the map's positions are.
        radius : float
            Metres.
        """
        return PlaceMap(self.state.within(Area(near, radius)))

    @property
    def places(self) -> Places:
        """Who the places are: ids, positions, images, route order."""
        return self.state.places

    @property
    def place_ids(self) -> NDArray[Any]:
        """Sorted ids of the places, shape (N,)."""
        return self.state.places.ids

    @property
    def positions(self) -> Positions | None:
        """Where each place is."""
        return self.state.places.positions

    @property
    def has_positions(self) -> bool:
        """Whether it is known where places are."""
        return self.positions is not None

    @property
    def in_degrees(self) -> bool:
        """Whether positions of places are latitude and longitude."""
        return self.positions is not None and self.positions.degrees

    @property
    def has_order(self) -> bool:
        """Whether the places have an order along a route, so that drives can be followed."""
        return self.places.order is not None

    @property
    def images(self) -> list[str] | None:
        """One reference image of each place."""
        return self.state.places.images

    @property
    def vectors(self) -> NDArray[Any]:
        """Rows as stored, shape (R, n)."""
        return self.state.vectors

    @property
    def row_places(self) -> Indices:
        """Index of each row's place, shape (R,)."""
        return self.state.row_places

    @property
    def scales(self) -> Vectors | None:
        """For int8 rows: row = scale · stored."""
        return self.state.scales

    @property
    def projection(self) -> Vectors | None:
        """P, shape (D, n); None where queries are not projected."""
        return self.state.projection

    @property
    def mean(self) -> Vectors | None:
        """What is subtracted from queries before projecting."""
        return self.state.mean

    @property
    def dim(self) -> int:
        """D, the dimension of a descriptor."""
        return self.state.dim

    @property
    def fusion(self) -> str:
        """Name of the fusion that made it."""
        return self.state.fusion

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters of the fusion, with what was "auto" decided."""
        return self.state.settings

    @property
    def reason(self) -> str:
        """Why those settings."""
        return self.state.reason

    @property
    def model(self) -> dict[str, Any] | None:
        """Fingerprint of the descriptor model; None for maps of bare vectors."""
        return self.state.model

    @property
    def traversals(self) -> dict[str, int]:
        """References of each traversal that went in."""
        return self.state.traversals

    @property
    def calibration(self) -> Calibration | None:
        """Calibration of the confidence; None where the map has none."""
        return self.state.calibration

    @property
    def tolerance(self) -> Tolerance:
        """What "correct" meant in the calibration."""
        return self.state.tolerance

    @property
    def notes(self) -> dict[str, Any]:
        """Further figures that `inspect` shows."""
        return self.state.notes

    @property
    def statistics(self) -> MapStatistics | None:
        """What an update needs."""
        return self.state.statistics

    @property
    def no_statistics(self) -> str:
        """Why a map that was read from a file has no statistics."""
        return self.state.no_statistics

    @property
    def nbytes(self) -> int:
        """Bytes needed to locate: rows, projection and mean, as stored."""
        state = self.state
        arrays = (state.vectors, state.scales, state.projection, state.mean)
        return sum(array.nbytes for array in arrays if array is not None)

    @property
    def calibration_is_stale(self) -> bool:
        """Whether an update has changed the references since the confidence was learned."""
        return self.state.calibration is not None and self.state.calibrated_on != self.state.traversals

    @property
    def model_name(self) -> str:
        """Name of the model, with its variant, as `get_model` takes it."""
        return model_name(self.model or {})

    def locate(
        self,
        queries: ArrayLike | Picture | Sequence[Picture],
        k: int = 5,
        *,
        search: str = "auto",
        near: tuple[float, float] | None = None,
        radius: float | None = None,
        adapt: str = "none",
        model: DescriptorModel | None = None,
        pictures: Sequence[Picture] | None = None,
        progress: Stage | None = None,
    ) -> Matches:
        """Find the places of queries.

        Parameters
        ----------
        queries : array of shape (q, D), or images
            Descriptors by the map's model; or images to be described with it: paths, the bytes of files, or pixels
            (height, width, 3), RGB, uint8; one of them or several.
        k : int
            Places to return for each query; all of them where there are fewer.
        search : str
            Backend: "exact", "faiss", or "auto" (faiss for float16 rows where it is installed); with a kind,
            "faiss:int8" (docs/scaling.md).
        near, radius : pair of float and float, optional
            Where the queries are known to be: places within `radius` metres of `near` (latitude and longitude, or
            easting and northing) are searched, exactly.
        adapt : {"none", "batch", "online", "auto"}
            Whether the matching adapts to the condition that the queries share: "batch", from all of them; "online",
            from those before each; "auto", as a batch from 100 queries on if the map has a confidence for such matches.
            Fewer than ten queries, or pictures of one spot, adapt nothing as a batch: what they share is the place. As
            a batch, 100 or more are also shifted back if they are from another lane (`view_of`), and their confidence
            takes their share of right matches into account, so that photos of another route are refused. For photos of
            several conditions use "none".
        model : DescriptorModel, optional
            Describes the images; by default the map's own, with its crop and image size.
        pictures : sequence of images, optional
            Where `queries` are descriptors: the images that they describe. A map that has sketches of its places
            compares each with its best eight: the place that it shows comes first, though another may have a higher
            score, and the confidence is surer.
        progress : callable, optional
            Called as ``progress(done, total)`` while pictures are compared.

        Returns
        -------
        Matches
            With `confidence` where the map is calibrated, and `positions` where it has them.
        """
        check_count(k, "k")
        if near is not None or radius is not None:
            if near is None or radius is None:
                raise InputError("near and radius go together: give both")
            nearby = self.within(near, radius)  # whose model, where it describes images, is this one's
            vectors, pictures = self._asked(queries, model, pictures)
            return nearby.locate(vectors, k, search=search, adapt=adapt, pictures=pictures, progress=progress)
        state = self.state
        if state.area is not None and adapt in ("batch", "online"):
            raise InputError(
                f"adapt={adapt!r} compares the queries with the whole map: leave out near and radius, or adapt"
            )
        # `state` is read once: an update may replace it while images are described.
        described, pictures = self._asked(queries, model, pictures)
        vectors, view = self._moved_back(state, described, adapt)
        projected = state.project(vectors)
        mode = _mode_of(state, adapt, len(projected))
        if mode == "batch":
            mode = tenable_mode(mode, self._course(state).rows, projected)
        compares = pictures is not None and self.compares_pictures
        wanted = max(k, AMONG) if compares else k
        best, scores = state.best(projected, max(wanted, state.ranked_at_least), search)
        many = mode == "none" and adapt in ("batch", "auto") and len(vectors) >= LEAST_QUERIES
        confidence = state.confidence(vectors, best, scores, together=many)
        if mode != "none":
            found = replace(self._adapted(state, projected, wanted, mode, confidence), view=view)
        else:
            ids = state.places.ids[best[:, :wanted]]
            found = Matches(ids, scores[:, :wanted], confidence, state.places.positions_of(ids[:, 0]), view)
        if pictures is not None and compares:
            found = compared(state, found, shown_by(state, pictures, progress)).best(k)
        return found.refusing(~shows_something(described))

    @property
    def compares_pictures(self) -> bool:
        """Whether it has a confidence, and sketches of its places with which photos are compared for it."""
        return self.state.calibration is not None and self.state.sketches is not None

    def compared(self, matches: Matches, pictures: Sequence[Picture]) -> Matches:
        """Matches of photos in view of the pictures themselves: which of its places each shows, and how surely.

        The place that is chosen comes first, the others after it as before. `locate` does so for photos; this is for
        descriptors that were located without them, with some eight places each (`k`).
        """
        state, images = self.state, _pictures(pictures, len(matches), "matches")
        return compared(state, matches, shown_by(state, images))

    def follow(
        self,
        *,
        adapt: str = "online",
        begins_off: float = BEGINS_OFF,
        lag: int = 0,
        view: tuple[int, int] | None = None,
    ) -> Follower:
        """Follow a drive frame by frame: ``follower.step(query)`` returns a `Fix`.

        Places must have an order along the route (`places.order`); on a map without one, each frame is located by
        itself.

        Parameters
        ----------
        adapt : {"online", "none"}
            Whether the matching adapts to the drive's condition online.
        begins_off : float
            Prior probability that the drive begins off the map. Use 0.5 where that is as likely as not: else a drive
            that begins beside the map is located somewhere on it for a while.
        lag : int
            Frames before the last that are kept: after a step, ``follower.ago(n)`` says where the frame n before the
            last was taken, given all frames since (fixed-lag smoothing). The time of an answer grows with n.
        view : (int, int), optional
            Offset of the camera's pictures against those of the map, from `view_of` of an earlier drive; (0, 0) for
            none. By default a drive that adapts finds it out itself after 25 frames, 50, 100 and so on, as
            ``follower.view``; that step takes longer.

        Returns
        -------
        Follower
            Its `step` takes an image, a descriptor (D,), or a descriptor and its image; a map that has sketches of its
            places compares images with them. It has state: use one for each drive. ``copy.deepcopy`` of
            it is a drive of its own from here on, along the same map; `pickle` keeps drive and map.
        """
        check_one_of(adapt, ("online", "none"), "adapt")
        if not (isinstance(begins_off, float | np.floating) and 0 < begins_off < 1):
            raise InputError(f"begins_off={begins_off!r} must be between 0 and 1, and neither")
        if not (isinstance(lag, int | np.integer) and lag >= 0):
            raise InputError(f"lag={lag!r} must be 0 or more frames, a whole number")
        state, grid = self.state, grid_of(self.model)
        _check_everywhere(state)
        if view is not None:
            check_view(view, grid)
        course, adapts = self._course(state), adapt == "online"
        told = view is not None or not adapts or grid is None
        view_of = None if told else partial(self._view_of, state, least=LEAST_VIEW_FRAMES)
        return Follower(
            course,
            partial(self._frame, state),
            partial(_shifted_back, state, grid),
            partial(_alone, state),
            adapts,
            begins_off,
            int(lag),
            view or (0, 0),
            view_of,
        )

    def _frame(self, state: MapState, query: Any, picture: Picture | None = None) -> Frame:
        """Descriptor (D,) of one frame, and its sketch where there is an image."""
        if picture is None and state.takes(query):
            return query, None
        shown: Sequence[Picture] | None = as_images(query)
        frames: Any = shown
        if shown is None:
            check_not_masked(query, "queries")
            frames = self.describe(np.atleast_2d(as_array(query, "queries")))
            shown = None if picture is None else _pictures(picture, 1, "a step")
        if len(frames) != 1:
            raise InputError(f"a step takes one frame; got {len(frames)}: give them one by one")
        if shown is None or state.sketches is None:
            return self.describe(frames)[0], None
        decoded = [_decoded(shown[0])]
        vector = self.describe(decoded if shown is frames else frames)[0]
        return vector, shown_by(state, decoded)(np.zeros(1, np.intp))[0]

    def smooth(
        self,
        queries: ArrayLike | Picture | Sequence[Picture],
        *,
        adapt: str = "auto",
        pictures: Sequence[Picture] | None = None,
        progress: Stage | None = None,
    ) -> list[Fix]:
        """Say where each frame of a drive was taken, given all frames.

        Parameters
        ----------
        queries : as for `locate`
            In the order in which they were taken.
        adapt : {"auto", "batch", "none"}
            As for `locate`.
        pictures : sequence of images, optional
            Where `queries` are descriptors: the images that they describe. A map that has sketches of its places
            compares each with its best eight.
        progress : callable, optional
            Called as ``progress(done, total)`` while pictures are compared.
        """
        state = self.state  # read once, before images are described: an update may replace it
        vectors, pictures = self._asked(queries, None, pictures)
        shown = None if pictures is None else shown_by(state, pictures, progress)
        return self._smooth(state, vectors, adapt, shown, progress)[0]

    def _smooth(
        self,
        state: MapState,
        vectors: Vectors,
        adapt: str,
        shown: Shown | None,
        progress: Stage | None = None,
    ) -> tuple[list[Fix], tuple[int, int]]:
        """As `smooth`, and the offset by which the pictures were shifted back."""
        check_one_of(adapt, ("auto", "batch", "none"), "adapt")
        _check_everywhere(state)
        if not len(vectors):
            return [], (0, 0)
        mode = chosen_mode(adapt, len(vectors))
        unseen = in_the_dark(vectors)
        vectors, view = self._moved_back(state, vectors, adapt, LEAST_VIEW_FRAMES)
        projected, course = state.project(vectors), self._course(state)
        first = stands = np.arange(len(projected))
        if course.ordered:
            means, first, stands = without_stops(projected, partial(advance, course.rows))
            projected = l2_normalize(means)
        mode = tenable_mode(mode, course.rows, projected)
        similarity, plain = similarity_of(course.rows, projected, mode), None
        if course.pictures is not None and shown is not None:
            # Of a stop, the frame with which it begins.
            plain = similarity
            similarity = course.pictures.heeded_by_all(plain, lambda rows: shown(first[rows]))
            if progress is not None and first[-1] + 1 < len(stands):  # it ends with a stop
                progress(len(stands), len(stands))
        fixes, in_order = smooth_fixes(course, similarity, plain)
        found = [fixes[frame] for frame in stands]
        if not in_order:
            found = [
                fix.as_photo(photo) for fix, photo in zip(found, _photos(state, vectors, shown), strict=True)
            ]
        for frame in np.flatnonzero(unseen):
            found[frame] = found[frame].no_surer(0.0)
        return found, view

    def smoothed(
        self,
        queries: ArrayLike | Picture | Sequence[Picture],
        k: int = 5,
        *,
        adapt: str = "auto",
        pictures: Sequence[Picture] | None = None,
        progress: Stage | None = None,
    ) -> Matches:
        """Like `smooth`, as matches: the k likeliest places of each frame, with probabilities as scores."""
        check_count(k, "k")
        state = self.state
        vectors, pictures = self._asked(queries, None, pictures)
        shown = None if pictures is None else shown_by(state, pictures, progress)
        places, (fixes, view) = state.places, self._smooth(state, vectors, adapt, shown, progress)
        best, scores = likeliest(fixes, places, k)
        found = places.ids[best]
        return Matches(
            found,
            scores,
            np.array([fix.probability for fix in fixes]),
            places.positions_of(found[:, 0]),
            view,
        )

    def view_of(self, queries: ArrayLike | Picture | Sequence[Picture]) -> tuple[int, int]:
        """Offset of a drive's pictures against those of the map, by another lane or camera mount.

        In rows and columns of the descriptor's grid over the picture; (0, 0) where there is none, where pictures are
        fewer than 100, and where a descriptor is no such grid. `locate` and `smooth` shift pictures back where many
        queries adapt the matching.
        """
        return self._view_of(self.state, self.describe(queries)) or (0, 0)

    def _view_of(
        self, state: MapState, vectors: Vectors, least: int = LEAST_QUERIES
    ) -> tuple[int, int] | None:
        """Offset of a drive's pictures; None where it cannot be told, as from fewer than `least`."""
        grid = grid_of(state.model)
        if grid is None or prod(grid) != state.dim or len(vectors) < least:
            return None
        return view_of(vectors, grid, state.usual, state.project, self._course(state).rows)

    def _moved_back(
        self, state: MapState, vectors: Vectors, adapt: str, least: int = LEAST_QUERIES
    ) -> tuple[Vectors, tuple[int, int]]:
        """Queries shifted back to the map's viewpoint, if they are many and adaptation is allowed; and their offset."""
        asked = adapt == "batch" or (adapt == "auto" and state.at_hand and state.area is None)
        view, grid = (asked and self._view_of(state, vectors, least)) or (0, 0), grid_of(state.model)
        return moved_by(vectors, grid, view, state.usual) if grid and any(view) else vectors, view

    def _course(self, state: MapState) -> Course:
        """The map as the sequence model sees it, made once for each state: followers share its rows."""
        known = self._known_course
        if known is None or known[0] is not state:
            known = self._known_course = (state, course_of(state))
        return known[1]

    def _adapted(
        self, state: MapState, projected: Vectors, k: int, mode: str, plain: Vectors | None
    ) -> Matches:
        """Matches with batch or online adaptation; `plain` is the confidence of the queries without it."""
        course = self._course(state)
        online, similarity = mode == "online", similarity_of(course.rows, projected, mode)
        best, scores, features = [], [], []  # places by their index along the route
        for rows in blocks(len(projected), row_bytes=8 * len(course.rows.vectors)):
            some = similarity.block(rows)
            columns = top_k(some, k)
            best.append(columns)
            scores.append(np.take_along_axis(some, columns, axis=1))
            features.append(course.features(some))
        judge, columns = course.calibration, np.concatenate(best)
        told = course.ordered and not online
        order = right_in_order(columns[:, 0], len(course.ids)) if told else None
        sure = None if judge is None else judge.located(np.concatenate(features), plain, online, order)
        if sure is not None and state.calibration is not None:
            sure = np.minimum(sure, state.calibration.ceiling)
        found = course.ids[columns]
        positions = state.places.positions_of(found[:, 0])
        return Matches(found, np.concatenate(scores), sure, positions, adapted=True)

    def adapts(self, adapt: str, n_queries: int) -> str:
        """Mode in which `locate` adapts the matching to so many queries: "none", "batch" or "online"."""
        return _mode_of(self.state, adapt, n_queries)

    def scores(self, queries: ArrayLike | Picture | Sequence[Picture]) -> Iterator[Vectors]:
        """Score every place for every query, in blocks of queries of bounded memory.

        Parameters
        ----------
        queries : as for `locate`

        Yields
        ------
        array of shape (b, N)
            Scores of the next queries; the places in route order (`places.order`), or in the order of their ids where
            they have none.
        """
        state = self.state
        vectors, order = self.describe(queries), state.places.order
        for rows in blocks(len(vectors), row_bytes=4 * (len(state.row_places) + len(state.places))):
            scores = state.scores(state.project(vectors[rows]))
            yield scores if order is None else scores[:, order]

    def describe(
        self, queries: ArrayLike | Picture | Sequence[Picture], *, model: DescriptorModel | None = None
    ) -> Vectors:
        """Return the descriptors of images, or check descriptors that are given; shape (q, D)."""
        images = as_images(queries)
        if images is not None:
            return self._described(images, model)
        check_no_pixels(queries, self.dim)
        vectors = as_vectors(queries, "queries")  # type: ignore[arg-type]
        if vectors.shape[1] != self.dim:
            raise InputError(f"queries have {vectors.shape[1]} dimensions; the map has {self.dim}")
        return vectors

    def project(self, queries: Vectors) -> Vectors:
        """Bring descriptors into the space of the rows: normalise((q − mean)·projection)."""
        return self.state.project(queries)

    def rows(self) -> Vectors:
        """The rows as numbers: float16 or float32, int8 rows multiplied out."""
        return self.state.rows()

    def to_json(self) -> dict[str, Any]:
        """Make a record of what the map holds, for other programs."""
        return {
            "places": len(self.place_ids),
            "traversals": self.traversals,
            "fusion": self.fusion,
            "settings": self.settings,
            "reason": self.reason,
            "rows": list(self.vectors.shape),
            "dtype": str(self.vectors.dtype),
            "dim": self.dim,
            "storage": {
                name: value for name, value in self.notes.items() if name not in ("spectrum", CHOSEN_AT)
            },
            "spectrum": self.notes.get("spectrum"),
            "model": self.model,
            "compares_pictures": self.compares_pictures,
            "has_positions": self.positions is not None,
            "tolerance": str(self.tolerance),
            "no_statistics": self.no_statistics,
            "statistics_bytes": None if self.statistics is None else self.statistics.nbytes,
            "calibration": None if self.calibration is None else self.calibration.to_json(),
            "calibration_is_stale": self.calibration_is_stale,
        }

    def open_model(self, **options: Any) -> DescriptorModel:
        """Make the model that described the map's references, with the crop and image size that they had.

        Parameters
        ----------
        **options
            `weights`, `device`, `mask`, `image_size`, `crop` of `displace.models.open_model`.
        """
        from displace.models import open_model

        if self.model is None:
            raise InputError("the map was built from bare vectors: it knows no model to describe images with")
        model = open_model(self.model, **options)
        self.check_model(model.fingerprint())
        return model

    def own_model(self, **options: Any) -> DescriptorModel:
        """The model that describes images given to `locate`, opened once, with the `options` of `open_model`."""
        with self._opening:  # weights are read once
            self._model = self._model or self.open_model(**options)
            return self._model

    def check_model(self, fingerprint: Mapping[str, Any] | None) -> None:
        """Raise an error that names both where `fingerprint` is not the map's model."""
        check_same_model(self.model, fingerprint)

    def add(
        self,
        refs: ReferenceSet,
        positions: Positions | None = None,
        images: Sequence[str] | None = None,
        *,
        check_looks: bool = True,
    ) -> Update:
        """Add new traversals, of known or new places. Needs the statistics, not the old references.

        Parameters
        ----------
        refs : ReferenceSet
            Of traversals that the map does not have. What it knows of its places is given to new places, and its
            positions are compared with the map's.
        positions : Positions, optional
            Of `refs`' places, in the order of its `place_ids`, where `refs` itself does not know them.
        images : sequence of str, optional
            One reference image of each of these places, likewise.
        check_looks : bool
            Without positions, refuse a traversal whose images at places of the same ids are found there no more often
            than by chance: it is of another route.
        """
        from displace.maps import updating

        with self._changing:
            self.state, update = updating.added(self.state, refs, positions, images, check_looks=check_looks)
        return update

    def remove(self, refs: ReferenceSet | str | int) -> Update:
        """Remove traversals: given all their references, or by name where the references were kept."""
        from displace.maps import updating

        with self._changing:
            self.state, update = updating.removed(self.state, refs)
        return update

    def with_tolerance(self, tolerance: str | float) -> PlaceMap:
        """Return a map whose confidence is learned with another tolerance, from the references that this one keeps."""
        from displace.maps import updating

        return PlaceMap(updating.with_tolerance(self.state, tolerance))

    def changed(self, **fields: Any) -> PlaceMap:
        """Return a map with some fields of its state replaced; this one stays as it is."""
        return PlaceMap(replace(self.state, **fields))

    def _asked(
        self,
        queries: ArrayLike | Picture | Sequence[Picture],
        model: DescriptorModel | None,
        pictures: Sequence[Picture] | None,
    ) -> tuple[Vectors, Sequence[Picture] | None]:
        """Descriptors of queries, and the images that they describe, if these are known."""
        images = as_images(queries)
        if images is None:
            vectors = self.describe(queries)
            pictures = None if pictures is None else _pictures(pictures, len(vectors), "queries")
            return vectors, pictures
        if len(images) == 1 and self.compares_pictures:
            images = [_decoded(images[0])]
        return self._described(images, model), images

    def _described(self, images: list[Any], model: DescriptorModel | None) -> Vectors:
        """Describe images with the map's model, or with `model`, which must have the same fingerprint."""
        from displace.descriptors.extraction import describe

        if model is None:
            model = self.own_model()
        else:
            self.check_model(model.fingerprint())
        return describe(model, images)


def _check_everywhere(state: MapState) -> None:
    """Refuse to follow a drive in an area."""
    if state.area is not None:
        raise InputError("a drive is followed along the whole route: use the map itself, not within an area")


def _shifted_back(
    state: MapState, grid: Grid | None, descriptor: Vectors, view: tuple[int, int]
) -> tuple[Vectors, Vectors]:
    """A descriptor without the offset of its picture, and its unit vector in the space of the rows."""
    if grid is not None and any(view):
        descriptor = moved_by(descriptor[None], grid, view, state.usual)[0]
    one = state.project_one(descriptor)
    return descriptor, state.project(descriptor[None])[0] if one is None else one


def _decoded(image: Any) -> Any:
    """Pixels of an image that is described and compared, as large ones take long to decode; itself if it is damaged."""
    from displace.descriptors.preparation import Failure, attempt
    from displace.images import read_image

    pixels = attempt(read_image, image)
    return image if isinstance(pixels, Failure) else pixels


def _pictures(pictures: Picture | Sequence[Picture], n: int, of: str) -> Sequence[Picture]:
    """The pictures of `n` queries."""
    images = as_images(pictures)
    if images is None or any(
        isinstance(one, np.ndarray) and not (one.size and one.shape[2] == 3) for one in images
    ):
        raise InputError(f"pictures must be images: paths, encoded files, or {PIXELS}")
    if len(images) != n:
        raise InputError(f"pictures has {len(images)} images, {of} has {n}: one for each")
    return images


def _alone(state: MapState, descriptor: Vectors, sketch: Sketches | None) -> Photo:
    """Place, if the sketch is known, and confidence of a frame as those of a single photo."""
    (photo,) = _photos(state, descriptor[None], None if sketch is None else lambda _: sketch[None])
    return photo


def _photos(state: MapState, vectors: Vectors, shown: Shown | None) -> list[Photo]:
    """Places, if the pictures are compared, and confidences of frames as those of single photos."""
    compares = shown is not None and state.sketches is not None
    found = PlaceMap(state).locate(vectors, AMONG if compares else 1, adapt="none")
    if shown is not None:
        found = compared(state, found, shown)
    if found.confidence is None:
        return [(None, None)] * len(vectors)
    places = found.places[:, 0] if compares else [None] * len(vectors)
    return [(place, float(sure)) for place, sure in zip(places, found.confidence, strict=True)]


def _mode_of(state: MapState, adapt: str, n_queries: int) -> str:
    """See `PlaceMap.adapts`; "none" where there are no queries."""
    check_one_of(adapt, ("none", "batch", "online", "auto"), "adapt")
    sure = state.calibration is None or (state.driving is not None and state.driving.judges)
    allowed = adapt != "auto" or (sure and state.at_hand)
    return chosen_mode(adapt, n_queries) if n_queries and state.area is None and allowed else "none"
