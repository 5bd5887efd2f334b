"""Times and positions of recordings from the files beside them."""

from __future__ import annotations

import numpy as np
import pytest

from displace.manifest.position_files import read_position_file, times_in_names
from displace.manifest.recording import read_recording


def test_times_follow_the_images_not_the_rows(tmp_path):
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "frames.csv").write_text("image,timestamp\nb.jpg,2\ngone.jpg,9\na.jpg,1\n")
    np.testing.assert_array_equal(read_recording("t", tmp_path).times, [1, 2, np.nan])


def test_take(tmp_path):
    for i in range(4):
        (tmp_path / f"{i}.jpg").write_bytes(b"")
    (tmp_path / "p.csv").write_text(
        "image,timestamp,x,y\n" + "".join(f"{i}.jpg,{i},{i * 10},0\n" for i in range(4))
    )
    part = read_recording("t", tmp_path).take(np.array([3, 1]))
    assert part.names == ["3", "1"]
    assert part.times.tolist() == [3, 1]
    np.testing.assert_array_equal(part.positions.points, [[30, 0], [10, 0]])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["1418381798086398.png", "1418381798148909.png"], [1418381798.086398, 1418381798.148909]),
        (["frame_12.5.jpg", "frame_13.jpg"], [12.5, 13]),
        (["left/0007.jpg"], [7]),
        (["a1.jpg", "b.jpg"], None),
        ([], None),
    ],
)
def test_times_in_names(names, expected):
    found = times_in_names(names)
    assert (found is None) == (expected is None)
    if expected is not None:
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_columns_by_other_names(tmp_path):
    path = tmp_path / "gps.csv"
    path.write_text("Time,LAT,Lng,Bearing,speed\n1,50,8,90,fast\n\n2,51,9,,slow\n")
    file = read_position_file(path)
    assert file.images is None
    assert file.times.tolist() == [1, 2]
    assert file.positions.degrees
    np.testing.assert_array_equal(file.positions.points, [[50, 8], [51, 9]])
    np.testing.assert_array_equal(file.positions.heading, [90, np.nan])
