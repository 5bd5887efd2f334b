"""Which of the layouts some folders have."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from displace.manifest.recording import Recording
from displace.manifest.utm_names import is_utm_name

_MANY_FOLDERS = 20
_MANY_IMAGES = 20
"""More than these in one folder are a part of a recording (100APPLE, 101APPLE; left, right), and no place."""
_LONG = 10
ONLY_COUNTED = "their names only count the frames of each traversal"
_LAST_DIGITS = re.compile(r"\d{1,18}$")


def detect(recordings: Sequence[Recording]) -> str:
    """Tell the layout of some recordings: the first that fits of the seven below.

    1. every name has the form ``@east@north@…``: "utm";
    2. every recording has positions: "positions";
    3. more than 20 folders with images, and more folders than images in the largest: "landmarks";
    4. at least half of the images share their name with an image of another recording, and some of every
       recording's do, or there is only one recording: "names";
    5. every recording has the same number of images: "order";
    6. the images of every recording are in sub-folders, none of more than 20: "landmarks";
    7. there are several recordings: "sight", which leaves it to the images themselves.

    Where "names", "order" or "sight" is left, `build_manifest` looks for GPS in EXIF before it takes one of them.
    4 and 5 never fit frames that were merely counted: the n-th frame of two drives is not one place.
    """
    folders = Counter(image.parent for r in recordings for image in r.images)
    names = Counter(name for r in recordings for name in set(r.names))
    shared = [sum(names[name] > 1 for name in r.names) for r in recordings]
    nested = (
        all("/" in name for r in recordings for name in r.names) and max(folders.values()) <= _MANY_IMAGES
    )
    alone, counted = len(recordings) == 1 and not nested, len(recordings) > 1 and merely_counted(recordings)
    fits = {
        "utm": all(is_utm_name(image.name) for r in recordings for image in r.images),
        "positions": all(r.positions is not None for r in recordings),
        "landmarks": len(folders) > max(_MANY_FOLDERS, *folders.values()),
        "names": alone or (2 * sum(shared) >= sum(map(len, recordings)) and all(shared) and not counted),
        "order": len(recordings) > 1 and len({len(r) for r in recordings}) == 1 and not counted,
    }
    return next((layout for layout, fit in fits.items() if fit), "landmarks" if nested else "sight")


def alike_folders(recording: Recording) -> list[str]:
    """Sub-folders of many images of which at least half have the same names, as those of two cameras do."""
    inside: dict[str, set[str]] = {}
    for name in recording.names:
        folder, _, image = name.rpartition("/")
        inside.setdefault(folder, set()).add(image)
    many = {folder: images for folder, images in inside.items() if len(images) > _MANY_IMAGES}
    return [
        folder
        for folder, images in many.items()
        if any(2 * len(images & others) >= len(images) for other, others in many.items() if other != folder)
    ]


def merely_counted(recordings: Sequence[Recording], known: Sequence[str] = ()) -> bool:
    """Whether names, also those in order of what is `known`, say no more than "the n-th frame" of each recording.

    So it is with frames out of videos and bags (they have times), and with long gapless sequences of different
    length. Where names do mean places, a traversal that lacks some has gaps.
    """
    if any(r.times is not None for r in recordings):
        return True
    sequences = [*(r.names for r in recordings), *([known] if known else [])]
    lengths = [len(names) for names in sequences]
    if len(set(lengths)) == 1 or min(lengths) < _LONG:
        return False
    steps: set[int] = set()
    for names in sequences:
        numbers = [int(match.group()) for match in map(_LAST_DIGITS.search, names) if match]
        if len(numbers) < len(names):
            return False
        steps.update(np.diff(numbers).tolist())
    return len(steps) == 1
