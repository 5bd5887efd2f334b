"""The town as drives: speeds, stops and detours with known truth."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from displace.datasets import town, town_drives
from displace.datasets.town_drives import DRIVES, ELSEWHERE, driven
from displace.errors import DatasetError, InputError
from displace.manifest.table import Manifest

SMALL = (64, 48)


@pytest.mark.parametrize("name", DRIVES)
def test_a_drive_goes_on_along_the_route(name):
    at = driven(name)
    on_route = at[at < ELSEWHERE]
    assert (np.diff(on_route) > 0).all()
    assert (on_route >= 0).all()
    assert (on_route < town_drives.PLACES).all()
    assert (np.diff(on_route) < 0.01).sum() >= 4  # it stands
    assert ((at >= ELSEWHERE).sum() > 10) == (DRIVES[name].detour is not None)
    np.testing.assert_array_equal(at, driven(name))


def test_drives_differ_in_length_and_share_a_detour():
    assert len({len(driven(name)) for name in DRIVES}) == len(DRIVES)
    rain, dusk, night = (at[at >= ELSEWHERE] for at in map(driven, ("rain", "dusk", "night")))
    assert np.abs(rain[:, None] - dusk).min(axis=1).max() < 2
    assert np.abs(rain[:, None] - night).min() > 50


@pytest.fixture(scope="module")
def drives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drives")
    return Manifest.read(town_drives.write(folder, 40, ("snow",), size=SMALL, workers=1))


def test_frames_are_drawn_where_they_were_taken(drives):
    at = driven("snow", 40)
    assert len(drives) == len(at)
    assert drives.places[5] == f"{round(at[5]):04d}"
    assert drives.numbers["frame"][5] == round(at[5])
    drawn = town.render(float(at[5]), "snow", size=SMALL).astype(float)
    assert np.abs(np.asarray(Image.open(drives.paths()[5]), float) - drawn).mean() < 6  # what JPEG loses
    assert drives.easting[5] == pytest.approx(town.position(float(at[5]), "snow")[0], abs=0.01)


def test_between_two_places_is_between_them():
    here, there, between = (np.array(town.position(p, "sun")[:2]) for p in (12, 13, 12.5))
    assert np.hypot(*(between - (here + there) / 2)) < 4  # each picture has a line of its own
    np.testing.assert_array_equal(town.render(12.0, "sun", size=SMALL), town.render(12, "sun", size=SMALL))


def test_other_drives_and_wrong_numbers_are_refused(drives):
    with pytest.raises(DatasetError, match="another town"):
        town_drives.write(drives.root, 60, ("snow",), size=SMALL, workers=1)
    with pytest.raises(InputError, match="places=30 must be from 40"):
        town_drives.write(drives.root, 30)
