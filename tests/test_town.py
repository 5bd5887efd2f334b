"""The rendered town: determinism, variety, geometry of the route, and the folder it is written to."""

from __future__ import annotations

import csv
import hashlib
import itertools
import math
import subprocess
import sys

import cv2
import numpy as np
import pytest

from displace.datasets import DATASETS, town
from displace.datasets.town import writing
from displace.datasets.town.ground import View, shadow_map
from displace.datasets.town.looks import LOOKS
from displace.datasets.town.plan import SPACING, chainages, pose_at, streets
from displace.datasets.town.raster import MATT, ROOF, WALL, Camera, Quad, rasterize
from displace.datasets.town.scene import compose
from displace.datasets.town.sky import sky
from displace.errors import DatasetError, InputError, UnknownNameError

SMALL = (160, 120)


def digest(place: int, traversal: str, seed: int = 0) -> str:
    return hashlib.sha256(town.render(place, traversal, seed, SMALL).tobytes()).hexdigest()


@pytest.fixture(scope="module")
def pictures() -> dict[str, np.ndarray]:
    """Place 30 in every traversal."""
    return {name: town.render(30, name, size=SMALL) for name in town.TRAVERSALS}


def test_another_process_draws_the_same_pixels():
    code = (
        "import hashlib; from displace.datasets import town\n"
        f"[print(hashlib.sha256(town.render(p, t, 0, {SMALL}).tobytes()).hexdigest())"
        " for p, t in ((31, 'rain'), (12, 'night'), (12, 'sun'))]"
    )
    there = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    # In another order, and after other pictures: nothing drawn before may show.
    here = [digest(12, "sun"), digest(12, "night"), digest(31, "rain")]
    assert there == here[::-1]


def test_seeds_places_and_traversals_differ(pictures):
    found = [digest(30, "sun", seed) for seed in (0, 1)] + [digest(place, "sun") for place in (29, 31)]
    found += [hashlib.sha256(p.tobytes()).hexdigest() for name, p in pictures.items() if name != "sun"]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("size", [(320, 240), (97, 64), (240, 320)])
def test_size_is_width_and_height(size):
    picture = town.render(3, "snow", size=size)
    assert picture.shape == (size[1], size[0], 3)
    assert picture.dtype == np.uint8


def test_light_of_the_conditions(pictures):
    brightness = {name: picture.mean() for name, picture in pictures.items()}
    assert brightness["night"] < 0.7 * min(v for name, v in brightness.items() if name != "night")
    assert pictures["rain"].std() < pictures["sun"].std(), "rain takes the contrast"
    road = np.s_[95:118, 40:90]
    colour = {name: picture[road].reshape(-1, 3).mean(axis=0) for name, picture in pictures.items()}
    assert colour["snow"].mean() > colour["overcast"].mean() + 20
    sky = {
        name: pictures[name][:12, 60:100].reshape(-1, 3).mean(axis=0) for name in ("sun", "dusk", "overcast")
    }
    assert sky["sun"][2] > sky["sun"][0] + 15, "a clear sky is blue"
    assert sky["dusk"][0] > sky["dusk"][1] + 10, "a dusk sky is reddish"
    assert np.ptp(sky["overcast"]) < 15, "a closed sky is grey"


def test_the_sky_a_hair_west_of_north_is_that_of_the_north():
    """-1e-7 of a turn is a whole turn in float32, and no outline of the horizon is kept for that."""
    north = np.array([[[0.0, 0.0]], [[1.0, 1.0]], [[0.1, 0.1]]], np.float32)
    beside = north.copy()
    beside[0] = -1e-7
    for seed in range(3):
        drawn = (sky(rays, LOOKS["sun"], seed, 12.0) for rays in (beside, north))
        np.testing.assert_allclose(*drawn, atol=1e-5)


def test_noise_is_strongest_at_night(pictures):
    def grain(picture):
        grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY).astype(float)
        return (
            np.median(abs(grey - cv2.medianBlur(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), 3))) / grey.mean()
        )

    assert grain(pictures["night"]) > 2 * grain(pictures["overcast"])


def overlap(first: int, second: int) -> float:
    """Share of what is seen at one place, sky aside, that is seen at another: points carried over by their depth."""
    cameras, depths = [], []
    for place in (first, second):
        scene = compose(0, place, LOOKS["overcast"])
        at = scene.pose
        eye = (at.easting, at.northing, at.height)
        camera = Camera.place(eye, at.heading, at.pitch, at.roll, math.radians(72), town.SIZE)
        # Without the ground, which looks the same everywhere.
        cameras.append(camera)
        depths.append(rasterize(camera, [q for q in scene.quads if q.kind in (WALL, ROOF)]).depth)
    seen = np.isfinite(depths[0])
    world = cameras[0].rays()[:, seen] * depths[0][seen] + cameras[0].centre[:, None]
    x, y, depth = cameras[1].to_pixels @ (world - cameras[1].centre[:, None])
    column, row = (np.round(v / depth / 1.5).astype(int) for v in (x, y))
    inside = (depth > 1) & (column >= 0) & (column < 320) & (row >= 0) & (row < 240)
    there = depths[1][row[inside], column[inside]]
    return float(np.count_nonzero(abs(there - depth[inside]) < 0.05 * depth[inside]) / seen.sum())


def test_neighbours_show_the_same_houses():
    near = [overlap(place, place + 1) for place in (40, 100, 160)]
    far = [overlap(place, place + 40) for place in (40, 100, 160)]
    assert min(near) > 0.3
    assert max(far) < 0.05


def test_places_are_evenly_spaced_along_the_route():
    at = chainages(0)
    steps = np.diff(at)
    assert len(at) == town.MAX_PLACES
    assert SPACING[0] <= steps.min()
    assert steps.max() <= SPACING[1]
    points = np.array([pose_at(0, float(c))[:2] for c in at[:300]])
    distances = np.linalg.norm(np.diff(points, axis=0), axis=1)
    assert distances.min() > 4
    assert distances.max() <= SPACING[1] + 1e-9, "a chord is no longer than the way"


def test_route_bends_and_never_comes_back():
    headings = np.array([street.heading for street in streets(0)])
    turns = abs(np.degrees(np.diff(headings)))
    assert turns.min() > 15
    assert turns.max() < 100
    ends = np.array([street.start for street in streets(0)])
    ahead = ends @ (np.sin(headings.mean()), np.cos(headings.mean()))
    assert (np.diff(ahead) > 0).all()


def test_position_is_near_the_place_and_looks_along_the_route():
    for place, name in itertools.product((0, 57, 180), town.TRAVERSALS):
        easting, northing, heading = town.position(place, name)
        x, y, along = pose_at(0, float(chainages(0)[place]))
        assert math.dist((easting, northing), (x, y)) < 5
        assert abs((heading - math.degrees(along) + 180) % 360 - 180) < 20


def test_rasteriser_projects_as_a_pinhole():
    """A red square before a green one, where the pin-hole formula puts them."""
    camera = Camera.place((0.0, 0.0, 0.0), 0.0, 0.0, 0.0, math.radians(90), (200, 100))

    def square(colour, distance, half):
        texture = np.full((8, 8, 4), (*colour, MATT), np.uint8)
        return Quad(
            (lambda t: texture, (colour,)), (-half, distance, half), (2 * half, 0, 0), (0, 0, -2 * half), WALL
        )

    buffer = rasterize(camera, [square((0, 255, 0), 20.0, 8.0), square((255, 0, 0), 10.0, 2.0)])
    # Focal length 100 pixels: half widths of 100·8/20 = 40 and 100·2/10 = 20 pixels.
    middle = buffer.colour[:, 50]
    assert [int(np.count_nonzero(middle[c] > 127)) for c in (0, 1)] == pytest.approx([40, 40], abs=1)
    assert buffer.depth[50, 100] == pytest.approx(10, rel=1e-4)
    assert buffer.depth[50, 65] == pytest.approx(20, rel=1e-4)
    assert np.isinf(buffer.depth[5, 5])
    assert buffer.normal[:, 50, 100] == pytest.approx([0, -1, 0])


def test_shadow_has_the_length_of_the_sun():
    """A wall of 10 m under a sun at 45° in the south shades 10 m to its north."""
    view = View((0.0, 0.0), 0.0, -20.0, 40.0, 20.0, 4.0)
    wall = np.array([[-15.0, 0.0], [15.0, 0.0], [15.0, 1.0], [-15.0, 1.0]])
    shade = shadow_map(view, [(wall, 10.0)], [], (180.0, 45.0))
    column = shade[:, shade.shape[1] // 2][::-1]
    north = (np.arange(len(column)) + 0.5) / view.scale - 20
    shaded = north[(column > 0.25) & (north > 1)]
    assert shaded.max() == pytest.approx(10.75, abs=0.6)
    assert not (column[north < -0.5] > 0).any(), "nothing is shaded towards the sun"
    assert column[np.argmin(abs(north - 6))] == pytest.approx(5, abs=0.6)


def test_write_makes_a_folder_that_the_data_set_reads(tmp_path):
    seen: list[tuple[int, int]] = []
    path = town.write(
        tmp_path / "t", 3, ("sun", "night"), size=(64, 48), workers=1, progress=lambda *a: seen.append(a)
    )
    assert path == tmp_path / "t" / "manifest.csv"
    assert seen[-1] == (6, 6)
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["image"] for row in rows][:4] == [
        "sun/0000.jpg",
        "sun/0001.jpg",
        "sun/0002.jpg",
        "night/0000.jpg",
    ]
    assert (float(rows[4]["easting"]), float(rows[4]["northing"])) == pytest.approx(
        town.position(1, "night")[:2], abs=0.01
    )
    stored = cv2.imread(str(tmp_path / "t" / "sun/0001.jpg"))[:, :, ::-1].astype(float)
    drawn = town.render(1, "sun", size=(64, 48)).astype(float)
    assert abs(stored - drawn).mean() < 6
    data = DATASETS.get("town")()
    manifest = data.manifest(tmp_path / "t")
    assert manifest.traversal_names() == ["sun", "night"]
    assert manifest.place_ids() == ["0000", "0001", "0002"]
    assert not manifest.summary().missing


def test_a_script_that_lacks_its_guard_is_told_so_once(tmp_path, not_for_ever):
    """Each worker ran it again, and printed a traceback of its own in between."""
    script = tmp_path / "script.py"
    script.write_text(
        "import displace.datasets.town as town\n"
        f"town.write({str(tmp_path / 'town')!r}, 8, ('sun', 'rain'), size=(64, 48), workers=2)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 1
    assert (
        "DatasetError: a worker that draws the town died. In a script, call it under `if __name__"
        in done.stderr
    )
    assert "bootstrapping" not in done.stderr
    assert done.stderr.count("Traceback") <= 2  # of the broken pool, and of what it is to the user


def test_two_workers_draw_what_one_does(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_CHUNK", 1)
    for workers in (1, 2):
        town.write(tmp_path / str(workers), 2, ("rain",), seed=3, size=(64, 48), workers=workers)
    for name in ("rain/0000.jpg", "rain/0001.jpg", "manifest.csv"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_write_goes_on_where_it_stopped(tmp_path, monkeypatch):
    calls: list[int] = []
    real = writing.render

    def failing(place, *rest):
        calls.append(place)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(place, *rest)

    monkeypatch.setattr(writing, "render", failing)
    arguments = {"places": 4, "traversals": ("sun",), "size": (64, 48), "workers": 1}
    with pytest.raises(KeyboardInterrupt):
        town.write(tmp_path, **arguments)
    assert not (tmp_path / "manifest.csv").exists()
    with pytest.raises(DatasetError, match="not finished"):
        town.Town().manifest(tmp_path)
    town.write(tmp_path, **arguments)
    assert calls == [0, 1, 2, 2, 3], "finished pictures are not drawn again"
    assert sorted(p.name for p in (tmp_path / "sun").iterdir()) == [f"{i:04d}.jpg" for i in range(4)]


def test_write_refuses_another_folder(tmp_path):
    (tmp_path / "holiday.jpg").write_bytes(b"mine")
    with pytest.raises(DatasetError, match="choose an empty folder"):
        town.write(tmp_path, 1, ("sun",), size=(64, 48), workers=1)
    town.write(tmp_path / "t", 1, ("sun",), size=(64, 48), workers=1)
    with pytest.raises(DatasetError, match="another town"):
        town.write(tmp_path / "t", 1, ("sun",), seed=1, size=(64, 48), workers=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"places": 0}, "places=0 must be from 1 to 2000"),
        ({"seed": -1}, "seed=-1"),
        ({"size": (8, 240)}, "width must be from 32 to 1600"),
        ({"traversals": ()}, "sequence of names"),
        ({"traversals": ("sun", "sun")}, "twice"),
        ({"workers": 0}, "workers=0 must be a whole number of at least 1"),
    ],
)
def test_write_refuses_arguments_before_writing(tmp_path, arguments, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        town.write(tmp_path / "t", **arguments)
    assert not (tmp_path / "t").exists()


def test_render_names_what_is_wrong():
    with pytest.raises(UnknownNameError, match="did you mean 'night'"):
        town.render(0, "nigth")
    with pytest.raises(InputError, match="place=2000 must be from 0 to 1999"):
        town.render(2000, "sun")
