"""Oxford RobotCar: one route through Oxford in six conditions."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

from displace.datasets.base import Counts, Dataset, Protocol, first_folder
from displace.images import has_images, is_hidden, natural_key
from displace.manifest.layouts import Route, by_order, by_positions
from displace.manifest.place_assignment import Rule
from displace.manifest.position_files import read_position_file
from displace.manifest.recording import Recording, read_recording
from displace.manifest.table import Manifest
from displace.truth import Tolerance

_EXPECTED = Counts(places=3_876, references=5 * 3_876, queries=3_876)
_CONDITIONS = ("sun", "dusk", "night", "overcast", "overcast2", "rain")
_DATES = {"2015-08-12-15-04-18": "sun", "2015-10-29-12-18-17": "rain", "2014-11-21-16-07-03": "dusk"}
"""Recordings whose condition is published; the dates of night and the two overcasts are not certain."""
_SPACING = Rule(spacing=1.0, radius=2.5)


class RobotCar(Dataset):
    """3,876 places about a metre apart × 6 traversals; the i-th image of each traversal is place i."""

    name = "robotcar"
    title = "Oxford RobotCar"
    paper = "Maddern, Pascoe, Linegar, Newman: 1 year, 1000 km: the Oxford RobotCar dataset (IJRR 2017)"
    obtain = (
        "Register at robotcar-dataset.robots.ox.ac.uk, download stereo/left (and gps) of the traversals, and demosaic "
        "the images. Needed is one folder for each traversal, named sun, dusk, night, overcast, overcast2, rain or "
        "by its date: either with the same number of images in each, the i-th showing place i, or as downloaded "
        "(DATE/stereo/left/*.png and DATE/gps/ins.csv), in which case places are made every metre. Which date is "
        "which condition can be said by the folder's name or by a manifest.csv"
    )
    traversals = _CONDITIONS
    protocols = (
        Protocol("robotcar-5", Tolerance("frames", 5), expected=_EXPECTED, note="DisPlace"),
        Protocol("robotcar-2", Tolerance("frames", 2), expected=_EXPECTED, note="HOPS"),
    )

    def read(self, root: Path) -> Manifest:
        """Read subsampled folders in equal order, or the original download by position."""
        recordings = _recordings(root)
        if not recordings:
            raise self.wrong(root, "there are no folders of images")
        names = [r.name for r in recordings]
        if twice := {name for name in names if names.count(name) > 1}:
            raise self.wrong(root, f"more than one folder is {', '.join(sorted(twice))}")
        # As in the paper, a traversal is one image of each place: others are neither references nor queries.
        route = Route(recordings, root, _SPACING, keep_off_route=False)
        if len({len(r) for r in recordings}) == 1:
            return by_order(route)
        if without := [r.name for r in recordings if r.positions is None]:
            counts = ", ".join(f"{r.name} {len(r)}" for r in recordings)
            raise self.wrong(
                root, f"numbers of images differ ({counts}) and {', '.join(without)} has no gps/ins.csv"
            )
        return by_positions(route)

    def notes(self, root: Path, manifest: Manifest) -> list[str]:
        """Note how many images of a download are left out."""
        kept = Counter(manifest.traversals.tolist())
        return [
            f"{recording.name}: {len(recording) - kept[recording.name]:,} of {len(recording):,} images are off the "
            "route or nearer to a place that has another, and are left out"
            for recording in _recordings(root)
            if len(recording) > kept[recording.name]
        ]


def condition(folder_name: str) -> str:
    """Condition of a folder's name, or the name itself.

    >>> condition("ORC_Overcast-2"), condition("2015-08-12-15-04-18"), condition("2014-12-16-18-44-24")
    ('overcast2', 'sun', '2014-12-16-18-44-24')
    """
    plain = re.sub(r"^(orc|oxford|robotcar)|[ _-]", "", folder_name.lower())
    plain = re.sub(r"^(orc|oxford|robotcar)", "", plain)
    return plain if plain in _CONDITIONS else _DATES.get(folder_name, folder_name)


def _recordings(root: Path) -> list[Recording]:
    """Read all traversals that have images."""
    folders = [path for path in root.iterdir() if path.is_dir() and not is_hidden(path.name)]
    found = [_recording(path) for path in sorted(folders, key=lambda path: natural_key(path.name))]
    return [recording for recording in found if len(recording)]


def _recording(folder: Path) -> Recording:
    """Read one traversal: stereo/left if there is one, otherwise all images below the folder."""
    deeper = [path for path in folder.iterdir() if path.is_dir()]
    images = first_folder([folder / "stereo/left", *(path / "stereo/left" for path in deeper)]) or folder
    if not has_images(images):
        return Recording(folder.name, [], [])
    recording = read_recording(condition(folder.name), images)
    logs = [
        path / log
        for path in (folder, *deeper)
        for log in ("gps/rtk.csv", "rtk.csv", "gps/ins.csv", "ins.csv")
    ]
    logs.insert(0, folder.parent / "rtk" / folder.name / "rtk.csv")  # where the RTK archive unpacks
    log = next((path for path in logs if path.is_file()), None)
    if recording.positions is None and log is not None:
        names = [image.name for image in recording.images]
        return replace(recording, positions=read_position_file(log).for_images(names, None, max_gap=1.0))
    return recording
