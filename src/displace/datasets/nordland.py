"""Nordland: one railway line in four seasons, frame by frame the same places."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from displace.datasets.base import Counts, Dataset, Protocol, first_folder
from displace.files.reading import text_of
from displace.images import has_images
from displace.manifest.layouts import Route, by_names
from displace.manifest.place_assignment import Rule
from displace.manifest.recording import Recording, read_recording
from displace.manifest.table import Manifest
from displace.manifest.utm_names import PANORAMA, field, is_utm_name
from displace.truth import Tolerance

_EXPECTED = Counts(places=27_592, references=3 * 27_592, queries=27_592)
_SEASON = re.compile(r"(spring|summer|fall|autumn|winter)", re.IGNORECASE)
_LISTS = (
    "cleanImageNames.txt",
    "nordland_imageNames.txt",
    "*/cleanImageNames.txt",
    "*/nordland_imageNames.txt",
)


class Nordland(Dataset):
    """27,592 places × 4 seasons; the same file name is the same place."""

    name = "nordland"
    title = "Nordland"
    paper = "Sünderhauf, Neubert, Protzel: Are we there yet? Challenging SeqSLAM on a 3000 km journey (2013)"
    obtain = (
        "Needed are folders spring, summer, fall and winter with files images-00202.png … images-35582.png of equal "
        "names (27,592 each), as the Nordland download of Patch-NetVLAD and VPRTempo unpacks; of the full 35,768 "
        "frames, put the list cleanImageNames.txt (or nordland_imageNames.txt) beside them. The summer/winter "
        "folders database and queries of VPR-datasets-downloader are read too"
    )
    traversals = ("fall", "spring", "summer", "winter")
    protocols = (
        Protocol("nordland-exact", Tolerance("exact"), expected=_EXPECTED, note="DisPlace, HOPS"),
        Protocol(
            "nordland-10", Tolerance("frames", 10), expected=_EXPECTED, note="Patch-NetVLAD, VPR benchmarks"
        ),
    )

    def read(self, root: Path) -> Manifest:
        """Read season folders, or the two folders of VPR-datasets-downloader."""
        seasons = _season_folders(root)
        pair = first_folder(root / part for part in ("images/test", "test", "."))
        if not seasons and pair is not None and (pair / "database").is_dir() and (pair / "queries").is_dir():
            recordings = [_renamed(pair / "database", "summer"), _renamed(pair / "queries", "winter")]
        elif seasons:
            chosen = _chosen_names(root)
            recordings = [_filtered(read_recording(name, folder), chosen) for name, folder in seasons.items()]
        else:
            raise self.wrong(root, "there are no season folders")
        if empty := [r.name for r in recordings if not len(r)]:
            raise self.wrong(root, f"there are no images of {', '.join(empty)}")
        return by_names(Route(recordings, root, Rule()))


def _season_folders(root: Path) -> dict[str, Path]:
    """Folders whose name begins with a season, in `root` or one folder below."""
    for parent in (root, *sorted(path for path in root.iterdir() if path.is_dir())):
        folders = {}
        for path in sorted(parent.iterdir()):
            match = _SEASON.match(path.name) if path.is_dir() else None
            if match and has_images(path):
                folders[match.group(1).lower().replace("autumn", "fall")] = path
        if folders:
            return folders
    return {}


def _chosen_names(root: Path) -> set[str] | None:
    """Names of the frames that are used, without their ending, if there is a list of them."""
    for pattern in _LISTS:
        for path in sorted(root.glob(pattern)):
            lines = text_of(path, "a list of frames").splitlines()
            return {Path(line.strip()).stem for line in lines if line.strip()}
    return None


def _filtered(recording: Recording, chosen: set[str] | None) -> Recording:
    if chosen is None:
        return recording
    return recording.take(np.array([i for i, name in enumerate(recording.names) if name in chosen], np.intp))


def _renamed(folder: Path, season: str) -> Recording:
    """Read ``@0@north@@@@@number@…`` files; the number of the frame is their name in common."""
    recording = read_recording(season, folder)
    if not all(is_utm_name(image.name) for image in recording.images):
        return recording
    return replace(recording, names=[field(image.name, PANORAMA) for image in recording.images])
