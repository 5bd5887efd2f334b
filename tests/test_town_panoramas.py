"""Panoramas of the rendered town: several headings at a place, queries from another lane."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from displace.datasets import town, town_panoramas
from displace.errors import DatasetError, InputError
from displace.manifest.table import Manifest

SMALL = (64, 48)


@pytest.fixture(scope="module")
def panoramas(tmp_path_factory):
    folder = tmp_path_factory.mktemp("panoramas")
    path = town_panoramas.write(folder, 2, ("sun", "snow"), headings=3, size=SMALL, workers=1)
    return Manifest.read(path)


def test_every_place_is_seen_in_every_heading(panoramas):
    assert len(panoramas) == 2 * 2 * 3
    assert panoramas.place_ids() == ["0000", "0004"]
    for place in panoramas.place_ids():
        for traversal in ("sun", "snow"):
            mine = (panoramas.places == place) & (panoramas.traversals == traversal)
            turned = np.diff(np.r_[panoramas.heading[mine], panoramas.heading[mine][0]]) % 360
            np.testing.assert_allclose(turned, 120, atol=0.05)
            assert len(set(panoramas.easting[mine])) == 1


def test_the_first_picture_is_the_drive_s_own(panoramas):
    first = Image.open(panoramas.paths()[0])
    drawn = town.render(0, "sun", size=SMALL).astype(float)
    assert np.abs(np.asarray(first, float) - drawn).mean() < 6  # what JPEG loses
    other = np.asarray(Image.open(panoramas.paths()[1]), float)
    assert np.abs(other - drawn).mean() > 15


def test_another_lane_is_metres_aside():
    at = [np.array(town.position(8, "snow", lane=lane)[:2]) for lane in (0.0, -1.5)]
    assert np.hypot(*(at[0] - at[1])) == pytest.approx(1.5, abs=0.01)
    assert town.position(8, "snow", turn=90)[2] == pytest.approx((town.position(8, "snow")[2] + 90) % 360)


def test_a_folder_of_other_panoramas_and_wrong_numbers_are_refused(panoramas):
    with pytest.raises(DatasetError, match="another town"):
        town_panoramas.write(panoramas.root, 2, ("sun", "snow"), headings=4, size=SMALL, workers=1)
    with pytest.raises(InputError, match="headings=0"):
        town_panoramas.write(panoramas.root, 2, headings=0)
    with pytest.raises(InputError, match="places=5000"):
        town_panoramas.write(panoramas.root, 5000)
