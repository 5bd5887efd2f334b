"""Pittsburgh30k test split: panoramas of Street View, each cut into 24 views."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.datasets.base import Counts, Dataset, Protocol
from displace.images import find_images
from displace.manifest.table import Manifest
from displace.manifest.utm_names import NOTE, PANORAMA, TILE, field, utm_positions
from displace.truth import Tolerance

_VIEW = re.compile(r"(?P<place>\d{6})_(?P<view>pitch[12]_yaw\d{1,2})\.", re.IGNORECASE)
_VIEWS = tuple(f"pitch{pitch}_yaw{yaw}" for pitch in (1, 2) for yaw in range(1, 13))
_QUERIES = "queries"


class Pittsburgh30k(Dataset):
    """417 panoramas as places, their 24 views as traversals, and 6,816 queries known by position only."""

    name = "pittsburgh30k"
    title = "Pittsburgh30k (test)"
    paper = "Torii, Sivic, Okutomi, Pajdla: Visual place recognition with repetitive structures (PAMI 2015)"
    obtain = (
        "Ask the authors of Pittsburgh250k for the images. Needed is the original folder (000/ … 006/, queries_real/ "
        "and pitts30k_test.mat, there or in datasets/), or images/test/database and images/test/queries as "
        "VPR-datasets-downloader makes them"
    )
    traversals = (*_VIEWS, _QUERIES)
    protocols = (
        Protocol(
            "pittsburgh30k-25m",
            Tolerance("metres", 25),
            queries=(_QUERIES,),
            references=_VIEWS,
            expected=Counts(places=417, references=10_000, queries=6_816),
            note="NetVLAD's split and tolerance; places are panoramas as in DisPlace and HOPS",
        ),
    )

    def read(self, root: Path) -> Manifest:
        """Read the original folder by its MATLAB file, or the renamed files of VPR-datasets-downloader."""
        mats = [p / "pitts30k_test.mat" for p in (root, root / "datasets", root / "structure", root / "raw")]
        if mat := next((path for path in mats if path.is_file()), None):
            return self._from_mat(root, mat)
        pairs = (root / "images" / "test", root / "test", root)
        test = next((path for path in pairs if (path / "database").is_dir()), None)
        if test is None:
            raise self.wrong(root, "there is neither pitts30k_test.mat nor a folder database")
        return self._from_names(root, test)

    def _from_mat(self, root: Path, mat: Path) -> Manifest:
        try:
            names, points, query_names, query_points = _database_struct(mat)
        except Exception as error:  # scipy raises its own and many other types on files that are not MATLAB's
            raise self.wrong(root, f"{mat} is not a file of NetVLAD's data sets ({error})") from None
        tops = [root, root / "Pittsburgh250k", root / "Pittsburgh", root / "raw/Pittsburgh"]
        folders = [top / part for top in tops for part in ("", "images", "database")]
        query_folders = [top / part for top in tops for part in ("queries_real", "queries", "query")]
        database = next((f for f in folders if names and (f / names[0]).is_file()), None)
        queries = next((f for f in query_folders if query_names and (f / query_names[0]).is_file()), None)
        if database is None or queries is None:
            first = names[:1] if database is None else [f"queries_real/{name}" for name in query_names[:1]]
            raise self.wrong(
                root, f"{mat.name} lists {first[0] if first else 'no images'}, which is not there"
            )
        views = [_VIEW.match(Path(name).name) for name in names]
        if wrong := [name for name, view in zip(names, views, strict=True) if not view]:
            raise self.wrong(root, f"{wrong[0]} is not named NNNNNN_pitchP_yawY")
        images = [*(database / name for name in names), *(queries / name for name in query_names)]
        places = [view["place"] for view in views if view]
        traversals = [view["view"].lower() for view in views if view]
        return _table(root, images, places, traversals, np.concatenate([points, query_points]))

    def _from_names(self, root: Path, test: Path) -> Manifest:
        database = find_images(test / "database", recursive=True)
        folder = test / "queries"
        queries = find_images(folder, recursive=True) if folder.is_dir() else []
        if not database or not queries:
            raise self.wrong(
                root, f"{test} has {len(database)} images in database and {len(queries)} in queries"
            )
        places = [field(image.name, PANORAMA) for image in database]
        views = [_view(image.name) for image in database]
        if wrong := [i.name for i, p, v in zip(database, places, views, strict=True) if not (p and v)]:
            raise self.wrong(root, f"{wrong[0]} has no panorama or view in its name")
        images = [*database, *queries]
        return _table(root, images, places, views, utm_positions(images).points)


def _view(name: str) -> str:
    """View of a renamed file: its note ``pitch1_yaw2``, or from its tile number (24 × pitch + yaw, from 0)."""
    note, tile = field(name, NOTE).lower(), field(name, TILE)
    if note in _VIEWS:
        return note
    pitch, yaw = divmod(int(tile), 24) if tile.isdecimal() else (9, 0)
    view = f"pitch{pitch + 1}_yaw{yaw + 1}"
    return view if view in _VIEWS else ""


def _table(
    root: Path, images: Sequence[Path], places: list[str], views: list[str], points: NDArray[np.float64]
) -> Manifest:
    """Put references and queries together; the place of a query is blank, its position known."""
    n_queries = len(images) - len(places)
    return Manifest(
        [image.relative_to(root).as_posix() for image in images],
        [*places, *[""] * n_queries],
        [*views, *[_QUERIES] * n_queries],
        root,
        easting=points[:, 0],
        northing=points[:, 1],
    )


def _database_struct(path: Path) -> tuple[list[str], NDArray[Any], list[str], NDArray[Any]]:
    """Image names and positions of database and queries in NetVLAD's `dbStruct`."""
    from scipy.io import loadmat

    struct = loadmat(path)["dbStruct"].item()
    # whichSet, dbImageFns, utmDb, qImageFns, utmQ, …
    return (
        [str(cell[0].item()) for cell in struct[1]],
        np.asarray(struct[2], np.float64).T,
        [str(cell[0].item()) for cell in struct[3]],
        np.asarray(struct[4], np.float64).T,
    )
