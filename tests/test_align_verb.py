"""`align`, and `build` from whatever there is, on small drives along a painted wall."""

from __future__ import annotations

import base64
import errno
import importlib
import logging
import os
import re
import shutil
import warnings
from pathlib import Path

import cv2
import numpy as np
import pytest
from drives import drive_along
from typer.testing import CliRunner

from displace import verbs
from displace.cli.app import app
from displace.descriptors.store import DescriptorStore
from displace.descriptors.store_index import INDEX
from displace.descriptors.store_summary import summarize_store
from displace.descriptors.store_writing import relabel
from displace.errors import (
    DisplaceError,
    ImageError,
    InputError,
    ManifestError,
    RouteWarning,
    UnknownNameError,
)
from displace.manifest.table import Manifest
from displace.maps import PlaceMap
from displace.places import Places
from displace.references import ReferenceSet
from displace.report.html.alignment_page import weakest_stretches, write_alignment_page
from displace.sequence.alignment import Alignment, Track
from displace.threads import limit_threads, n_threads
from displace.verbs._sight import _layout
from displace.verbs.base import look_at_neighbours

WIDTH, HEIGHT = 72, 54


def wall(seed: int, n_places: int) -> np.ndarray:
    """A wall to drive along: grey noise of several sizes."""
    rng = np.random.default_rng(seed)
    size = (WIDTH + 12 * n_places, HEIGHT)
    layers = [
        cv2.resize(rng.random((HEIGHT // cell + 1, size[0] // cell + 1)), size, interpolation=cv2.INTER_CUBIC)
        for cell in (6, 12, 24)
    ]
    return np.sum(layers, axis=0) / 3


def record(folder: Path, seen: np.ndarray, at: np.ndarray, rng: np.random.Generator, gamma: float) -> None:
    """Write the frames of a drive."""
    folder.mkdir(parents=True)
    for number, place in enumerate(at):
        view = seen[:, 12 * place : 12 * place + WIDTH]
        noisy = 255 * np.clip(view, 0, 1) ** gamma + rng.normal(0, 8, view.shape)
        cv2.imwrite(str(folder / f"{number:04d}.png"), np.clip(noisy, 0, 255).astype(np.uint8))


def film(file: Path, frames: list[np.ndarray]) -> None:
    """Write frames as a video."""
    file.parent.mkdir(exist_ok=True)
    writer = cv2.VideoWriter(str(file), cv2.VideoWriter_fourcc(*"MJPG"), 5, (WIDTH, HEIGHT))
    for frame in frames:
        writer.write(frame)
    writer.release()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    """Two drives of different length, and the place of each frame."""
    folder, rng = tmp_path_factory.mktemp("recorded") / "drives", np.random.default_rng(1)
    at = {name: drive_along(60, rng, stops=1) for name in ("dusk", "noon")}
    at["dusk"] = at["dusk"][:50]  # drives of equal length with equal names would count as synchronised
    for name, gamma in (("dusk", 2.2), ("noon", 0.7)):
        record(folder / name, wall(0, 60), at[name], rng, gamma)
    return folder, at


@pytest.fixture(scope="module")
def built(recorded: tuple[Path, dict[str, np.ndarray]]) -> Path:
    """The map, made from the folder in one go."""
    output = recorded[0].parent / "town.displace"
    place_map = verbs.build(recorded[0], output)
    assert place_map.places.order is not None
    return output


def test_build_takes_a_folder_of_recordings(
    built: Path, recorded: tuple[Path, dict[str, np.ndarray]]
) -> None:
    _, at = recorded
    store = DescriptorStore(built.with_suffix(".desc"))
    manifest = store.manifest
    assert {"frame", "alignment", "lo", "hi"} <= set(manifest.numbers)
    true = np.concatenate([at[name] for name in manifest.traversal_names()])
    shown = {p: true[(manifest.places == p)] for p in manifest.place_ids()}
    both = [numbers for numbers in shown.values() if len(numbers) == 2]
    for name in ("frame", "alignment", "lo", "hi"):
        assert np.isfinite(manifest.numbers[name][manifest.places != ""]).all()
    assert len(both) > 30
    assert np.mean([abs(int(a) - int(b)) <= 2 for a, b in both]) >= 0.95


def test_a_store_lined_up_by_sight_says_what_its_map_counts_as_right(built: Path) -> None:
    store = verbs.inspect(built.with_suffix(".desc"))
    assert store.tolerance == str(verbs.inspect(built).state.truth.tolerance) == "±2 frames"
    assert verbs.inspect(built.with_suffix(".desc"), tolerance="exact").tolerance == "exact place"


def test_it_goes_on_where_it_was(built: Path, recorded: tuple[Path, dict[str, np.ndarray]]) -> None:
    before = built.read_bytes()
    built.unlink()
    stages: dict[str, int] = {}
    verbs.build(recorded[0], built, progress=lambda stage, done, total: stages.update({stage: total}))
    assert stages.get("describing", 0) == 0
    assert "aligning" not in stages
    assert len(built.read_bytes()) == len(before)


def test_recordings_can_be_named_one_by_one(
    recorded: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    """``displace build monday.mp4 tuesday.mp4`` was refused for its second argument."""
    folder, output = recorded[0], tmp_path / "town.displace"
    drives = [str(folder / "dusk"), str(folder / "noon")]
    command = ["build", *drives, "-o", str(output), "-m", "hog"]
    assert CliRunner().invoke(app, command).exit_code == 0
    place_map = PlaceMap.load(output)
    assert set(place_map.traversals) == {"dusk", "noon"}
    output.unlink()
    todo: dict[str, int] = {}
    verbs.build(drives, output, model="hog", progress=lambda name, done, total: todo.update({name: total}))
    assert not todo.get("describing")  # it goes on with what is there
    output.unlink()
    record(tmp_path / "third", wall(0, 60), np.arange(20), np.random.default_rng(0), 1.0)
    with pytest.raises(InputError, match=r"town\.csv was made from .*dusk, .*noon, .*third without third"):
        verbs.build([*drives, tmp_path / "third"], output, model="hog")


def test_a_store_or_a_manifest_is_no_recording_among_others(built: Path, tmp_path: Path) -> None:
    for told in (built.with_suffix(".desc"), built.with_suffix(".csv")):
        with pytest.raises(InputError, match=r"is a manifest or a store, but one of 2 sources"):
            verbs.build([tmp_path, told], tmp_path / "x.displace")


def test_recordings_that_are_not_there_are_named_before_anything_is_done(
    recorded: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"no recording found at .*gone\.mp4, .*lost; nothing was done"):
        verbs.build([recorded[0] / "dusk", tmp_path / "gone.mp4", tmp_path / "lost"], tmp_path / "x.displace")
    assert not list(tmp_path.iterdir())


def test_a_map_of_several_sources_is_given_its_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a map of 2 sources .* -o town\.displace"):
        verbs.build([tmp_path / "a.mp4", tmp_path / "b.mp4"])


@pytest.mark.parametrize("stage", ["describing", "aligning"])
def test_stopped_anywhere_it_goes_on(
    stage: str, recorded: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    def stop(name: str, done: int, total: int) -> None:
        if name == stage and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verbs.build(recorded[0], tmp_path / "town.displace", model="hog", progress=stop)
    assert not (tmp_path / "town.displace").exists()
    todo: dict[str, int] = {}
    verbs.build(
        recorded[0],
        tmp_path / "town.displace",
        model="hog",
        progress=lambda name, done, total: todo.update({name: total}),
    )
    n_images = sum(map(len, recorded[1].values()))
    assert todo.get("describing", 0) < (n_images if stage == "describing" else 1)
    assert "aligning" in todo


@pytest.mark.parametrize("ending", [".csv", ".desc"])
def test_a_manifest_or_a_store_is_built_as_it_is(ending: str, built: Path, tmp_path: Path) -> None:
    source = built.with_suffix(ending)
    place_map = verbs.build(source, tmp_path / "again.displace")
    assert place_map.traversals == PlaceMap.load(built).traversals
    made = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    steps = {"again.desc"} if ending == ".csv" else set()
    assert made == {"again.displace", "again.displace-stats", *steps}


def test_places_are_given_checked_and_taken_back(
    recorded: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    store = tmp_path / "route.desc"
    blank = verbs.manifest([recorded[0]], tmp_path / "route.csv")
    assert "no place is known yet; next: displace extract, then displace align" in str(blank)
    verbs.extract(tmp_path / "route.csv", store)
    lined = verbs.align(store, tmp_path / "aligned.csv", anchor="noon", check=True)
    text = str(lined)
    assert "places along 'noon'" in text
    assert "on the route" in text
    assert text.splitlines()[-1] == f"next: displace build {store}"
    assert lined.page is not None
    page = lined.page.read_text(encoding="utf-8")
    assert "Weakest stretches" in page
    assert page.count("data:image/jpeg") >= 8
    assert "frame 0 → place 0" in page
    assert path_in(page) > 100
    assert verbs.read_manifest(tmp_path / "aligned.csv").place_ids()
    verbs.align(store, anchor="dusk")  # its own places may be replaced
    named = DescriptorStore(store).images
    verbs.align(store, undo=True)
    assert DescriptorStore(store).manifest.place_ids() == []
    assert DescriptorStore(store).images == named
    with pytest.raises(InputError, match="nothing to undo: it was undone already, or never aligned"):
        verbs.align(store, undo=True)


def path_in(page: str) -> int:
    """Coloured dots in the matrix of a check page, which itself is grey."""
    (text,) = re.findall(r"data:image/png;base64,([^\"]+)", page)
    picture = cv2.imdecode(np.frombuffer(base64.b64decode(text), np.uint8), cv2.IMREAD_COLOR).astype(int)
    matrix = picture[:, : int(0.7 * picture.shape[1])]  # beside it is the bar of colours
    return int((matrix.max(axis=2) - matrix.min(axis=2) > 60).sum())


def test_the_check_page_begins_with_the_weakest() -> None:
    places, sure = np.arange(100), np.repeat([0.9, 0.3, 0.8, 0.5, 0.7], 20)
    shown = weakest_stretches(Track(places, places, places, sure, np.ones(100, bool)))
    assert [(s.first, s.last) for s in shown] == [(20, 39), (60, 79), (80, 99), (40, 59), (0, 19)]


def test_names_on_the_check_page_are_shown_as_they_are(
    recorded: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    places = np.arange(30)
    track = Track(places, places, places, np.ones(30), np.ones(30, bool))
    names = r"a $\frac$ <b>", "c"
    found = Alignment(names[1], 30, dict.fromkeys(names, track), [])
    vectors = np.random.default_rng(0).standard_normal((30, 8)).astype(np.float32)
    pictures = sorted((recorded[0] / "noon").glob("*.png"))[:30]
    write_alignment_page(
        tmp_path / "page.html", found, dict.fromkeys(names, vectors), dict.fromkeys(names, pictures)
    )
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert r"<h2>a $\frac$ &lt;b&gt;</h2>" in page
    assert path_in(page) > 100


@pytest.fixture
def blank(recorded: tuple[Path, dict[str, np.ndarray]], built: Path, tmp_path: Path) -> Path:
    """A store of both drives, without places."""
    shutil.copytree(built.with_suffix(".desc"), tmp_path / "route.desc")
    verbs.align(tmp_path / "route.desc", undo=True)
    return tmp_path / "route.desc"


def test_a_store_that_cannot_be_written_to_is_said_before_the_work(
    blank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a read-only disk the error came after the drives were lined up, and named a file that nobody knows."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match="copy it to a disk"):
        verbs.align(blank)


def test_nothing_is_written_beside_the_recordings(
    recorded: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    """They may lie on a disk that cannot be written to."""
    card = tmp_path / "card"
    shutil.copytree(recorded[0] / "noon", card / "drives" / "noon")
    film(card / "drives" / "dusk.avi", [cv2.imread(str(f)) for f in sorted((recorded[0] / "dusk").iterdir())])
    (tmp_path / "home").mkdir()

    def listed() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in card.rglob("*")}

    before = listed()
    verbs.manifest([card / "drives"], tmp_path / "home" / "route.csv")
    verbs.build(card / "drives", tmp_path / "home" / "town.displace", model="hog")
    verbs.locate(tmp_path / "home" / "town.displace", [card / "drives" / "dusk.avi"])
    assert listed() == before


def test_unsure_frames_are_no_references(blank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("displace.verbs.align"), "LEAST_CONFIDENCE", 1.5)
    verbs.align(blank)
    manifest = DescriptorStore(blank).manifest
    assert manifest.place_ids() == []
    assert np.isfinite(manifest.numbers["frame"]).mean() > 0.9


def test_an_anchor_with_positions_is_taken(blank: Path) -> None:
    chosen = verbs.align(blank).alignment.anchor
    verbs.align(blank, undo=True)
    (other,) = {"dusk", "noon"} - {chosen}
    manifest = DescriptorStore(blank).manifest
    known = np.where(manifest.traversals == other, np.arange(len(manifest)), np.nan)
    located = Manifest(
        manifest.images,
        manifest.places.tolist(),
        manifest.traversals,
        manifest.root,
        **{**manifest.numbers, "easting": 500000 + known, "northing": 5000000 + 0 * known},
    )
    relabel(blank, located)
    assert verbs.align(blank).alignment.anchor == other
    assert verbs.build(blank, blank.with_suffix(".displace")).positions is not None


def test_positions_that_are_at_odds_with_sight_are_said(
    blank: Path, recorded: tuple[Path, dict[str, np.ndarray]]
) -> None:
    """A place's position is the mean of its images': where one jumped by kilometres, the map was far off, unsaid."""
    manifest = DescriptorStore(blank).manifest
    at = 12.0 * _places(manifest, recorded[1])
    jumped = (manifest.traversals == "dusk") & (at > 120) & (at < 360)

    def said(north: np.ndarray) -> str:
        columns = {"easting": 500000 + at, "northing": 5000000 + north}
        images = manifest.images, manifest.places.tolist(), manifest.traversals, manifest.root
        relabel(blank, Manifest(*images, **{**manifest.numbers, **columns}))
        return str(verbs.align(blank))

    assert "at odds" not in said(np.zeros(len(at)))
    verbs.align(blank, undo=True)
    told = said(np.where(jumped, 2000.0, 0.0))
    assert re.search(
        r"positions contradict the images at \d+ places: images lie up to 1,000 m from their mean", told
    )
    assert "(dusk, noon)" in told


def test_a_disk_that_is_full_leaves_the_places_as_they_were(
    blank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def full(source: str, target: str) -> None:
        if Path(target).name == INDEX:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(DisplaceError, match="No space left"):
            verbs.align(blank)
    assert DescriptorStore(blank).manifest.place_ids() == []
    assert verbs.align(blank).store.manifest.place_ids()


def test_places_of_others_are_not_replaced_unasked(built: Path, tmp_path: Path) -> None:
    manifest = verbs.read_manifest(built.with_suffix(".csv"))
    manifest.places[:] = [f"{i:03d}" for i in range(len(manifest))]
    manifest.write(tmp_path / "named.csv")
    verbs.extract(tmp_path / "named.csv", tmp_path / "named.desc")
    with pytest.raises(InputError, match=r"already have places; replace them with --overwrite"):
        verbs.align(tmp_path / "named.desc")


def test_different_routes_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for name, seed in (("here", 1), ("there", 2)):
        record(tmp_path / "drives" / name, wall(seed, 40), drive_along(40, rng)[: 30 + seed], rng, 1.0)
    with pytest.raises(InputError, match="different routes"):
        verbs.build(tmp_path / "drives", tmp_path / "x.displace")
    assert not (tmp_path / "x.displace").exists()
    assert DescriptorStore(tmp_path / "x.desc").manifest.place_ids() == []


def test_a_recording_that_is_left_out_is_not_lined_up(tmp_path: Path) -> None:
    rng, drives = np.random.default_rng(3), tmp_path / "drives"
    for number, (name, seed) in enumerate((("here", 1), ("again", 1), ("there", 2))):
        record(drives / name, wall(seed, 60), np.arange(50 + number), rng, 1.0)
    with pytest.raises(
        InputError, match=r"different routes.*\. Leave them out \(build --exclude, align --tr"
    ):
        verbs.build(drives, tmp_path / "x.displace", model="hog")
    with pytest.raises(UnknownNameError, match="did you mean 'there'"):
        verbs.build(drives, tmp_path / "x.displace", model="hog", exclude=["their"])
    assert DescriptorStore(tmp_path / "x.desc").manifest.place_ids() == []
    place_map = verbs.build(drives, tmp_path / "x.displace", model="hog", exclude=["there"])
    assert sorted(place_map.traversals) == ["again", "here"]
    chosen = verbs.build(drives, tmp_path / "y.displace", model="hog", traversals=["here", "again"])
    assert len(chosen.places.ids) == len(place_map.places.ids)


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ("other", "different routes"),
        ("black", "'there' shows nothing to line it up by: 32 of its 32 frames"),
        ("three", "'there' has 3 frames; at least 10"),
        ("backwards", "opposite direction"),
        ("twice", "'there' drives a part of its route twice"),
    ],
)
def test_videos_that_cannot_be_lined_up_are_refused_and_nothing_is_written(
    there: str, message: str, tmp_path: Path
) -> None:
    rng, along = np.random.default_rng(3), np.arange(60)
    at = {"three": along[:3], "backwards": along[::-1], "twice": np.r_[along[:50], along[5:50]]}
    record(tmp_path / "here", wall(1, 60), along, rng, 1.0)
    seen = wall(2 if there == "other" else 1, 60) * (there != "black")
    record(tmp_path / "there", seen, at.get(there, along[:32]), rng, 1.5)
    for name in ("here", "there"):
        shown = [cv2.imread(str(file)) for file in sorted((tmp_path / name).glob("*.png"))]
        dark = there == "black" and name == "there"
        film(tmp_path / "drives" / f"{name}.avi", [0 * frame if dark else frame for frame in shown])
    with pytest.raises(InputError, match=message):
        verbs.build(tmp_path / "drives", tmp_path / "x.displace", model="hog")
    assert not (tmp_path / "x.displace").exists()
    if there == "three":  # nothing was described
        verbs.manifest([tmp_path / "drives"], tmp_path / "x.csv")
        verbs.extract(tmp_path / "x.csv", model="hog")
    with pytest.raises(InputError, match=message):
        verbs.align(tmp_path / "x.desc", tmp_path / "places.csv", check=True)
    assert not (tmp_path / "places.csv").exists()
    assert not (tmp_path / "x.align.html").exists()
    assert not (tmp_path / "x.desc" / "before-align.csv").exists()
    assert DescriptorStore(tmp_path / "x.desc").manifest.place_ids() == []
    if there == "twice":  # who says that the route has parts that look alike is believed
        assert len(verbs.align(tmp_path / "x.desc", alike=True).store.manifest.place_ids()) >= 45
        verbs.align(tmp_path / "x.desc", undo=True)
        place_map = verbs.build(tmp_path / "drives", tmp_path / "x.displace", model="hog", alike=True)
        assert sorted(place_map.traversals) == ["here", "there"]


def test_one_recording_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    record(tmp_path / "drives" / "noon", wall(1, 15), np.arange(12), rng, 1.0)
    with pytest.raises(
        InputError, match=r"holds one recording only, 'noon' with 12 images: a map fuses several"
    ):
        verbs.build(tmp_path / "drives", tmp_path / "x.displace")
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["drives"]


def test_one_video_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    (tmp_path / "drives").mkdir()
    (tmp_path / "drives" / "noon.mp4").write_bytes(b"nothing that can be decoded")
    with pytest.raises(InputError, match=r"holds one recording only, 'noon\.mp4': a map fuses several"):
        verbs.build(tmp_path / "drives", tmp_path / "x.displace")


def test_the_next_frame_of_one_video_counts_as_right(tmp_path: Path) -> None:
    """By the exact place, as photos are judged, `build` would warn of it after the work."""
    record(tmp_path / "frames", wall(1, 60), np.arange(60), np.random.default_rng(3), 1.0)
    film(tmp_path / "noon.avi", [cv2.imread(str(file)) for file in sorted((tmp_path / "frames").iterdir())])
    verbs.manifest([tmp_path / "noon.avi"], tmp_path / "noon.csv")
    place_map = verbs.build(tmp_path / "noon.csv", model="hog", calibration=False)
    assert str(place_map.tolerance) == "±2 frames"
    assert summarize_store(DescriptorStore(tmp_path / "noon.desc")).tolerance == "±2 frames"


def test_too_few_frames_of_videos_name_the_option_that_left_them_out(tmp_path: Path) -> None:
    rng, drives = np.random.default_rng(5), tmp_path / "drives"
    for name, n in (("dusk", 12), ("noon", 28)):
        film(drives / f"{name}.avi", list(rng.integers(0, 255, (n, HEIGHT, WIDTH, 3), np.uint8)))
    for every in ("4", "3"):  # nothing of the first run is in the way of the second
        with pytest.raises(
            InputError, match=rf"'dusk' has \d frames with every='{every}'; at least 10 .* smaller --every"
        ):
            verbs.build(drives, tmp_path / "x.displace", model="hog", every=every)


def test_too_few_frames_of_a_video_that_is_left_out_do_not_matter(tmp_path: Path) -> None:
    rng, drives, along = np.random.default_rng(5), tmp_path / "drives", np.arange(60)
    for name, at in (("noon", along), ("dusk", along), ("short", along[:3])):
        record(tmp_path / name, wall(1, 60), at, rng, 1.0)
        shown = [cv2.imread(str(file)) for file in sorted((tmp_path / name).glob("*.png"))]
        film(drives / f"{name}.avi", shown)
    place_map = verbs.build(drives, tmp_path / "x.displace", model="hog", every="2", exclude=["short"])
    assert sorted(place_map.traversals) == ["dusk", "noon"]


def test_too_few_frames_are_refused_before_any_is_described(tmp_path: Path) -> None:
    rng, drives = np.random.default_rng(5), tmp_path / "drives"
    for name, n in (("noon", 12), ("too short", 3)):
        film(drives / f"{name}.avi", list(rng.integers(0, 255, (n, HEIGHT, WIDTH, 3), np.uint8)))
    with pytest.raises(InputError, match=r"'too short' has 3 frames; at least 10 .* --exclude 'too short'$"):
        verbs.build(drives, tmp_path / "x.displace", model="hog")
    assert sorted(file.name for file in tmp_path.glob("x.*")) == ["x.frames"]
    blank = verbs.manifest([drives], tmp_path / "blank.csv")
    assert blank.places == 0
    with pytest.raises(InputError, match="'too short' has 3 frames; at least 10"):
        verbs.build(tmp_path / "blank.csv", model="hog")
    assert not (tmp_path / "blank.desc").exists()
    assert (tmp_path / "blank.csv").exists()


def three_drives(drives: Path) -> None:
    """Two drives along one wall, and a third along another, with the frames in files of their own names."""
    rng, along = np.random.default_rng(5), np.arange(60)
    for name, seed, n in (("noon", 1, 60), ("dusk", 1, 55), ("elsewhere", 7, 50)):
        record(drives / name, wall(seed, 60), along[:n], rng, 1.0)


def test_a_refused_build_is_not_in_the_way_of_the_next(tmp_path: Path) -> None:
    drives, town = tmp_path / "drives", tmp_path / "town.displace"
    three_drives(drives)
    with pytest.raises(InputError, match="elsewhere"):
        verbs.build(drives, town, model="hog")
    assert not any(path.name.endswith((".csv", ".again")) for path in tmp_path.iterdir())
    shutil.rmtree(drives / "elsewhere")
    described: list[int] = []
    place_map = verbs.build(
        drives,
        town,
        model="hog",
        progress=lambda stage, _, total: described.append(total) if stage == "describing" else None,
    )
    assert sorted(place_map.traversals) == ["dusk", "noon"]
    assert not any(described)  # what was described before is reused


def test_a_refused_build_keeps_a_manifest_that_was_edited(tmp_path: Path) -> None:
    drives, town = tmp_path / "drives", tmp_path / "town.displace"
    three_drives(drives)
    verbs.manifest([drives], tmp_path / "town.csv")
    edited = "".join((tmp_path / "town.csv").read_text().splitlines(keepends=True)[:-1])
    (tmp_path / "town.csv").write_text(edited)
    with pytest.raises(InputError, match="elsewhere"):
        verbs.build(drives, town, model="hog")
    assert (tmp_path / "town.csv").read_text() == edited


def test_frames_that_show_nothing_are_said_where_their_names_give_the_places(tmp_path: Path) -> None:
    for name in ("black", "covered"):
        (tmp_path / "dark" / name).mkdir(parents=True)
        for number in range(12):
            cv2.imwrite(
                str(tmp_path / "dark" / name / f"{number:04d}.png"), np.zeros((HEIGHT, WIDTH), np.uint8)
            )
    with pytest.raises(InputError, match="all images of 'black', 'covered' look the same"):
        verbs.build(tmp_path / "dark", tmp_path / "dark.displace")
    assert not (tmp_path / "dark.displace").exists()
    record(tmp_path / "dark" / "sun", wall(0, 40), np.arange(12), np.random.default_rng(0), 1.0)
    told = "are no references: 12 of 'black', 12 of 'covered'"
    alone = r"one recording only, 'sun', that shows anything \('black', 'covered': black, covered"
    with pytest.warns(RouteWarning, match=told), pytest.raises(InputError, match=alone):
        verbs.build(tmp_path / "dark", tmp_path / "some.displace")
    assert not (tmp_path / "some.displace").exists()
    verbs.manifest(tmp_path / "dark", tmp_path / "dark.csv")  # as the message says
    with pytest.warns(RouteWarning, match=told):
        verbs.build(tmp_path / "dark.csv", tmp_path / "some.displace")
    assert PlaceMap.load(tmp_path / "some.displace").traversals == {"sun": 12}


def test_recordings_whose_images_are_all_alike_are_named() -> None:
    """As of a camera that is stuck at one picture, which is not black."""
    rng, places = np.random.default_rng(0), np.arange(12)
    stuck, seen = np.tile(rng.standard_normal(8), (12, 1)), rng.standard_normal((12, 8))
    with pytest.raises(
        InputError, match=r"all images of 'a' look the same .*, so places cannot be told apart"
    ):
        look_at_neighbours(ReferenceSet(stuck, places, np.full(12, "a")), None)
    refs = ReferenceSet(np.concatenate([stuck, seen]), np.tile(places, 2), np.repeat(["a", "b"], 12))
    with pytest.warns(RouteWarning, match="all images of 'a' look the same .* leave such recordings out"):
        look_at_neighbours(refs, "exact")


def test_images_that_show_nothing_are_no_references_where_names_give_the_places(tmp_path: Path) -> None:
    """A tunnel, or a hand in front of the camera: as references, every black picture would be found there."""
    rng, black = np.random.default_rng(0), np.zeros((HEIGHT, WIDTH), np.uint8)
    for name in ("sun", "dusk", "rain"):
        record(tmp_path / "drives" / name, wall(0, 40), np.arange(40), rng, 1.0)
    files = {name: sorted((tmp_path / "drives" / name).glob("*.png")) for name in ("sun", "dusk", "rain")}
    for file in (*files["dusk"][3:6], *(files[name][20] for name in files)):
        cv2.imwrite(str(file), black)
    town, told = tmp_path / "town.displace", "no references: 4 of 'dusk', 1 of 'sun'"
    with pytest.warns(RouteWarning, match=told):
        verbs.build(tmp_path / "drives", town, model="hog", layout="names", exclude=["rain"])
    place_map = PlaceMap.load(town)
    assert place_map.traversals == {"sun": 39, "dusk": 36}
    assert files["sun"][20].stem not in place_map.place_ids
    store = DescriptorStore(town.with_suffix(".desc"))
    assert (store.places != "").all()  # evaluations have them all the same
    with pytest.warns(RouteWarning, match="no references: 1 of 'rain'"):
        verbs.update(town, add=store.folder, traversals=["rain"])
    assert PlaceMap.load(town).traversals["rain"] == 39
    verbs.update(town, remove="rain", references=store.folder)
    assert PlaceMap.load(town).traversals == {"sun": 39, "dusk": 36}


def test_a_video_is_followed(
    built: Path, recorded: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    rng = np.random.default_rng(9)
    at = drive_along(60, rng, stops=1)
    record(tmp_path / "tonight", wall(0, 60), at, rng, 1.5)
    film(tmp_path / "tonight.avi", [cv2.imread(str(f)) for f in sorted((tmp_path / "tonight").glob("*.png"))])
    located = verbs.locate(built, [tmp_path / "tonight.avi"], k=2)
    store = DescriptorStore(built.with_suffix(".desc")).manifest
    true = {p: int(q) for p, q in zip(store.places.tolist(), _places(store, recorded[1]), strict=True) if p}
    found = np.array([true[place] for place in located.matches.places[:, 0]])
    assert located.matches.scores.shape == (len(at), 2)
    assert (np.abs(found - at) <= 3).mean() > 0.9
    place_map, vectors = PlaceMap.load(built), located.vectors
    files = sorted((tmp_path / "tonight").glob("*.png"))  # the video's frames, but for its compression
    expected = place_map.smoothed(vectors, 2, pictures=files)
    np.testing.assert_array_equal(located.matches.places[:, 0], expected.places[:, 0])
    np.testing.assert_allclose(located.matches.scores, expected.scores, atol=0.05)
    single = verbs.locate(built, [tmp_path / "tonight.avi"], follow=False)
    np.testing.assert_allclose(single.matches.scores, place_map.locate(vectors).scores, atol=1e-6)
    described, follower, again = place_map.describe(files[:12]), place_map.follow(), place_map.follow()
    for file, vector in zip(files, described, strict=False):
        np.testing.assert_allclose(follower.step(file).belief, again.step(vector, file).belief, atol=1e-6)
    photos = verbs.locate(built, [tmp_path / "tonight"], k=5)  # photos stay single
    np.testing.assert_allclose(photos.matches.scores, place_map.locate(photos.vectors).scores, atol=1e-6)


def test_images_are_followed_where_that_is_asked_for(built: Path, tmp_path: Path) -> None:
    """Frames of a folder in the order of their names, files in the order given, a store's traversals."""
    rng = np.random.default_rng(9)
    record(tmp_path / "tonight", wall(0, 60), drive_along(60, rng, stops=1), rng, 1.5)
    place_map, files = PlaceMap.load(built), sorted((tmp_path / "tonight").glob("*.png"))
    folder = verbs.locate(built, [tmp_path / "tonight"], k=2, follow=True)
    assert folder.followed
    expected = place_map.smoothed(folder.vectors, 2, pictures=files)
    np.testing.assert_array_equal(folder.matches.scores, expected.scores)
    backwards = verbs.locate(built, files[::-1], k=2, follow=True)
    expected = place_map.smoothed(folder.vectors[::-1], 2, pictures=files[::-1])
    np.testing.assert_array_equal(backwards.matches.places, expected.places)

    verbs.manifest([tmp_path / "tonight"], tmp_path / "t.csv", layout="order")
    verbs.extract(tmp_path / "t.csv", tmp_path / "t.desc", model="hog")
    stored = verbs.locate(built, [tmp_path / "t.desc"], k=2, follow=True, min_confidence=0.5)
    by_descriptors = place_map.smoothed(folder.vectors, 2)
    np.testing.assert_allclose(stored.matches.scores, by_descriptors.scores, atol=1e-4)
    assert stored.min_confidence == 0.5

    with pytest.raises(InputError, match="follow and near exclude each other"):
        verbs.locate(built, files[:1], near="1,2", radius=5.0, follow=True)
    unordered = place_map.changed(places=Places(place_map.place_ids))
    unordered.save(tmp_path / "unordered.displace")
    with pytest.raises(InputError, match="no order along a route"):
        verbs.locate(tmp_path / "unordered.displace", files[:1], follow=True)

    told = "--follow locates them so"
    for options, said in (([], True), (["--follow"], False), (["--no-follow"], False)):
        shown = CliRunner().invoke(app, ["locate", str(built), str(tmp_path / "tonight"), *options])
        assert shown.exit_code == 0
        assert (told in " ".join(shown.stdout.split())) == said


def test_traversals_of_a_store_are_drives_of_their_own(built: Path) -> None:
    store = DescriptorStore(built.with_suffix(".desc"))
    located, place_map = verbs.locate(built, [store.folder], k=1, follow=True), PlaceMap.load(built)
    for name in store.manifest.traversal_names():
        own = store.manifest.traversals == name
        alone = place_map.smoothed(store.vectors()[own], 1)
        np.testing.assert_allclose(located.matches.scores[own], alone.scores, atol=1e-6)


def test_a_store_adapts_where_that_is_asked_for(built: Path, tmp_path: Path) -> None:
    store, file = built.with_suffix(".desc"), tmp_path / "plain.displace"
    place_map = verbs.build(store, file, calibration=False)
    for asked, meant in (("auto", "none"), ("batch", "batch")):
        located = verbs.locate(file, [store], adapt=asked)
        assert located.vectors is not None
        assert len(located) >= 100
        expected = place_map.locate(located.vectors, adapt=meant).scores
        np.testing.assert_allclose(located.matches.scores, expected, atol=1e-6)
    with pytest.raises(InputError, match="adapt='bach' must be one of none, batch, auto"):
        verbs.locate(built, ["no such file.jpg"], adapt="bach")


def _places(manifest: Manifest, at: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([at[name] for name in manifest.traversal_names()])


def test_a_new_drive_is_assigned_to_a_map_by_sight(
    built: Path, recorded: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    rng = np.random.default_rng(12)
    at = drive_along(60, rng, stops=1)[:47]
    record(tmp_path / "snow", wall(0, 60), at, rng, 1.2)
    counted = verbs.manifest([tmp_path / "snow"], tmp_path / "snow.csv", against=built)
    n_known = len(PlaceMap.load(built).place_ids)
    assert f"% of the {n_known} known places" in str(counted)
    assert counted.traversals[0].coverage == counted.places / n_known < 1
    store = DescriptorStore(built.with_suffix(".desc")).manifest
    true = {p: int(q) for p, q in zip(store.places.tolist(), _places(store, recorded[1]), strict=True) if p}
    placed = verbs.read_manifest(tmp_path / "snow.csv")
    on = placed.places != ""
    assert on.mean() > 0.4  # one frame for each place: not all of a stop
    assert np.mean([abs(true[p] - a) <= 3 for p, a in zip(placed.places[on], at[on], strict=True)]) > 0.9
    assert len(set(placed.places[on].tolist())) == on.sum()
    row = np.flatnonzero(on)[10]
    cv2.imwrite(
        str(placed.paths()[row]), np.zeros((HEIGHT, WIDTH), np.uint8)
    )  # as if the camera were covered
    verbs.manifest([tmp_path / "snow"], tmp_path / "snow.csv", against=built, overwrite=True)
    again = verbs.read_manifest(tmp_path / "snow.csv").places
    assert again[row] == ""
    assert (again != "").mean() > 0.4


def test_a_manifest_of_other_recordings_is_not_gone_on_with(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for name in ("wrong", "right"):
        for drive in ("dusk", "noon"):
            record(tmp_path / name / drive, wall(0, 8), np.arange(4), rng, 1.0)
    output = tmp_path / "town.displace"
    verbs.build(tmp_path / "wrong", output)
    output.unlink()  # as if it had been stopped
    verbs.build(tmp_path / "wrong", output)
    output.unlink()
    with pytest.raises(InputError, match=r"town\.csv belongs to other recordings than .*right.*--overwrite"):
        verbs.build(tmp_path / "right", output)
    record(tmp_path / "wrong" / "night", wall(0, 8), np.arange(4), rng, 1.0)
    with pytest.raises(InputError, match=r"town\.csv was made from .*wrong without night\..*--overwrite"):
        verbs.build(tmp_path / "wrong", output)
    assert "night" in verbs.build(tmp_path / "wrong", output, overwrite=True).traversals


def test_a_map_in_another_model_says_how_to_describe_the_images_anew(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for drive in ("dusk", "noon"):
        record(tmp_path / "drives" / drive, wall(0, 8), np.arange(4), rng, 1.0)
    verbs.build(tmp_path / "drives", tmp_path / "town.displace", model="hog")
    with pytest.raises(InputError, match=r"extract \S+town\.csv -o \S+town\.desc -m netvlad --overwrite"):
        verbs.build(tmp_path / "drives", tmp_path / "town.displace", model="netvlad", overwrite=True)
    with pytest.raises(
        InputError, match=r"town\.desc holds descriptors of hog, but model='netvlad' was given"
    ):
        verbs.build(tmp_path / "town.desc", tmp_path / "other.displace", model="netvlad")
    verbs.build(tmp_path / "town.desc", tmp_path / "other.displace", model="hog")


def test_a_store_that_is_not_finished_is_not_lined_up(
    recorded: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    def stop(stage: str, done: int, total: int) -> None:
        if stage == "describing" and 0 < done < total:
            raise KeyboardInterrupt

    verbs.manifest([recorded[0]], tmp_path / "route.csv")
    with pytest.raises(KeyboardInterrupt):
        verbs.extract(
            tmp_path / "route.csv", model="hog", batch_size=8, output=tmp_path / "route.desc", progress=stop
        )
    for verb in (verbs.align, verbs.build):
        with pytest.raises(InputError, match="are not described yet"):
            verb(tmp_path / "route.desc")
    assert DescriptorStore(tmp_path / "route.desc").manifest.place_ids() == []


def test_a_recording_of_another_route_gets_no_places_of_a_map(built: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    record(tmp_path / "elsewhere", wall(9, 60), drive_along(60, rng), rng, 1.0)
    with pytest.raises(
        ManifestError,
        match="'elsewhere' does not seem to follow the map's route: none of its 87 frames match",
    ):
        verbs.manifest([tmp_path / "elsewhere"], tmp_path / "elsewhere.csv", against=built)
    record(tmp_path / "again", wall(0, 60), drive_along(60, rng), rng, 1.3)
    verbs.manifest([tmp_path / "again"], tmp_path / "again.csv", against=built)
    assert len(verbs.read_manifest(tmp_path / "again.csv").place_ids()) > 30


def test_frames_without_a_place_of_a_map_are_counted_by_reason(
    built: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rng = np.random.default_rng(12)
    elsewhere = np.hstack([wall(0, 60), wall(9, 60)])
    record(tmp_path / "snow", elsewhere, np.r_[np.arange(60), np.full(6, 59), np.arange(80, 120)], rng, 1.2)
    (tmp_path / "snow" / "0003.png").write_bytes(b"no picture")
    counted = verbs.manifest([tmp_path / "snow"], tmp_path / "snow.csv", against=built, layout="sight")
    blank = counted.traversals[0].blank
    said = caplog.text.partition("snow: frames without a place: ")[2]
    assert {"off the map", "of a place that another frame shows more surely"} <= set(
        re.findall(r"\d+ ([a-z][^,\n]*)", said)
    )
    assert "1 unreadable" in said
    assert sum(map(int, re.findall(r"(\d+) [a-z]", said))) == blank
    assert "images without a place stay in the table; build and update leave them out" in str(counted)


def test_frames_of_a_refused_video_are_kept_and_that_is_said(
    built: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rng = np.random.default_rng(7)
    film(tmp_path / "other.avi", list(rng.integers(0, 255, (30, HEIGHT, WIDTH, 3), np.uint8)))
    with pytest.raises(
        ManifestError, match=r"'other' does not seem to .* place of their own \(\d+ [a-z].*\)"
    ):
        verbs.manifest([tmp_path / "other.avi"], tmp_path / "o.csv", against=built)
    assert f"the frames are kept in {tmp_path / 'o.frames'}: another try need not decode them" in caplog.text
    assert len(list((tmp_path / "o.frames" / "other").glob("*.jpg"))) == 30
    caplog.clear()
    (tmp_path / "empty.avi").write_bytes(b"")
    with pytest.raises(ImageError, match="cannot read video"):
        verbs.manifest([tmp_path / "empty.avi"], tmp_path / "e.csv", against=built)
    assert not (tmp_path / "e.frames").exists()
    assert "frames are kept" not in caplog.text


def test_a_recording_that_cannot_be_read_is_named(built: Path, tmp_path: Path) -> None:
    (tmp_path / "snow").mkdir()
    for number in range(3):
        (tmp_path / "snow" / f"{number}.png").write_bytes(b"no picture")
    with pytest.raises(ManifestError, match=r"'snow' cannot be .* none of its 3 images .*: .*0\.png"):
        verbs.manifest([tmp_path / "snow"], tmp_path / "snow.csv", against=built, layout="sight")


def test_frames_that_were_taken_otherwise_are_not_gone_on_with(tmp_path: Path) -> None:
    rng, drives = np.random.default_rng(5), tmp_path / "drives"
    for name, n in (("dusk", 12), ("noon", 14)):
        film(drives / f"{name}.avi", list(rng.integers(0, 255, (n, HEIGHT, WIDTH, 3), np.uint8)))
    verbs.manifest([drives], tmp_path / "town.csv", every="2")
    with pytest.raises(InputError, match=r"town\.csv has frames taken with every='2', but every='3' was"):
        verbs.build(drives, tmp_path / "town.displace", every="3")


def test_a_video_that_was_replaced_is_not_gone_on_with(tmp_path: Path) -> None:
    rng, drives = np.random.default_rng(5), tmp_path / "drives"
    for name, n in (("dusk", 3), ("noon", 14)):
        film(drives / f"{name}.avi", list(rng.integers(0, 255, (n, HEIGHT, WIDTH, 3), np.uint8)))
    for _ in range(2):  # going on says the same again
        with pytest.raises(InputError, match="'dusk' has 3 frames; at least 10"):
            verbs.build(drives, tmp_path / "town.displace", model="hog")
    verbs.manifest([drives], tmp_path / "town.csv")  # as if it had been stopped
    film(drives / "dusk.avi", list(rng.integers(0, 255, (12, HEIGHT, WIDTH, 3), np.uint8)))
    with pytest.raises(
        InputError, match=r"dusk\.avi has changed since .*town\.csv was made from it.*--overwrite"
    ):
        verbs.build(drives, tmp_path / "town.displace", model="hog")
    with pytest.raises(InputError, match="different routes"):
        verbs.build(drives, tmp_path / "town.displace", model="hog", overwrite=True)


def test_positions_that_changed_since_a_stopped_build_are_said_and_those_that_are_gone_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rng, drives = np.random.default_rng(3), tmp_path / "drives"
    for name in ("here", "there"):
        record(tmp_path / name, wall(1, 60), np.arange(30), rng, 1.0)
        film(
            drives / f"{name}.avi",
            [cv2.imread(str(file)) for file in sorted((tmp_path / name).glob("*.png"))],
        )
        (drives / f"{name}.csv").write_text("time,x,y\n0,0,0\n6,180,0\n")
    (drives / "there.csv").write_text("time,x,y\n0,12,0\n6,192,0\n")
    verbs.build(drives, tmp_path / "x.displace", model="hog")
    (tmp_path / "x.displace").unlink()
    (drives / "there.csv").write_text("time,x,y\n0,0,0\n6,180,0\n")
    assert "x.csv has other places than the recordings' positions give now" in said_by(
        caplog, drives, tmp_path / "x.displace"
    )
    for name in ("here", "there"):
        (drives / f"{name}.csv").unlink()
    without = verbs.build(drives, tmp_path / "x.displace", model="hog", overwrite=True)
    assert without.places.positions is None


def test_a_build_says_how_the_drives_were_lined_up(
    recorded: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "displace"):
        verbs.build(recorded[0], tmp_path / "town.displace")
    text = "\n".join(caplog.messages)
    assert re.search(r"\d+ places along '(dusk|noon)'", text)
    assert re.search(r"% on the route, \d+ references, mean probability of being right", text)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    """Two drives at other speeds with equal numbers of frames, and so with equal names; the place of each frame."""
    folder, rng = tmp_path_factory.mktemp("counted") / "drives", np.random.default_rng(4)
    at = {"dusk": np.arange(40), "noon": np.minimum((1.4 * np.arange(40)).round().astype(int), 55)}
    for name, gamma in (("dusk", 2.2), ("noon", 0.7)):
        record(folder / name, wall(0, 60), at[name], rng, gamma)
    return folder, at


def said_by(caplog: pytest.LogCaptureFixture, source: Path, output: Path, **options: object) -> str:
    """What a build says of how the drives line up."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, "displace"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RouteWarning)
        verbs.build(source, output, model="hog", calibration=False, **options)  # type: ignore[arg-type]
    return caplog.text


def test_equal_names_that_sight_contradicts_are_lined_up(
    counted: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, at = counted
    output = tmp_path / "town.displace"
    said = said_by(caplog, folder, output)
    assert "equal file names are not equal places (" in said
    assert "of the frames of" in said
    assert "lined up by sight; --layout names keeps the names" in said
    assert re.search(r"places along '(dusk|noon)'", said)
    for manifest in (
        DescriptorStore(output.with_suffix(".desc")).manifest,
        Manifest.read(tmp_path / "town.csv"),
    ):
        assert manifest.frame is not None
        (anchor,) = (
            name for name in at if np.ptp(manifest.frame[manifest.traversals == name]) == len(at[name]) - 1
        )
        placed = manifest.places != ""
        shown = np.concatenate([at[name] for name in manifest.traversal_names()])
        off = shown[placed] - at[anchor][manifest.frame[placed].astype(int)]
        assert np.mean(np.abs(off) <= 2) == 1
    output.unlink()  # as if it had been stopped: the manifest says which way was taken
    stages: set[str] = set()
    assert "equal file names" not in said_by(
        caplog, folder, output, progress=lambda stage, *_: stages.add(stage)
    )
    assert "aligning" not in stages


def test_images_of_equal_number_are_looked_at_as_well(
    counted: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(counted[0], tmp_path / "drives")
    for file in sorted((tmp_path / "drives" / "noon").iterdir()):
        file.rename(file.with_name(f"IMG_{2034 + int(file.stem)}.png"))
    said = said_by(caplog, tmp_path / "drives", tmp_path / "x.displace")
    assert "images of equal number are not equal places (" in said
    assert "--layout order keeps the order" in said


def test_names_that_were_asked_for_are_kept(
    counted: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    output = tmp_path / "town.displace"
    said_by(caplog, counted[0], output)
    said = said_by(caplog, counted[0], output.with_name("other.displace"), layout="sight")
    assert "equal file names" not in said
    assert "places along" in said
    output.unlink()
    place_map = verbs.build(counted[0], output, layout="names", model="hog", tolerance="2 frames")
    assert place_map.place_ids.tolist() == [f"{place:04d}" for place in range(40)]
    with pytest.raises(InputError, match="layout='names' is for recordings"):
        verbs.build(output.with_suffix(".desc"), tmp_path / "x.displace", layout="names")
    with pytest.raises(UnknownNameError, match="did you mean 'names'"):
        verbs.build(counted[0], tmp_path / "x.displace", layout="nams")


def test_names_that_sight_confirms_are_kept_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rng, stages = np.random.default_rng(5), set()
    for name, gamma in (("dusk", 2.2), ("night", 3.0), ("noon", 0.7)):
        record(tmp_path / "drives" / name, wall(0, 60), np.arange(40), rng, gamma)
    said = said_by(
        caplog, tmp_path / "drives", tmp_path / "x.displace", progress=lambda stage, *_: stages.add(stage)
    )
    assert said == ""
    assert "aligning" not in stages
    assert "alignment" not in Manifest.read(tmp_path / "x.csv").numbers


def test_different_routes_with_equal_names_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rng, drives = np.random.default_rng(6), tmp_path / "drives"
    for name, seed in (("dusk", 0), ("noon", 0), ("night", 1)):
        at = np.arange(40) if name != "noon" else np.minimum((1.4 * np.arange(40)).round().astype(int), 55)
        record(drives / name, wall(seed, 60), at, rng, 1.0)
    for _ in range(2):  # going on says the same again
        with pytest.raises(
            InputError, match=r"not equal places .* different routes.*--exclude.*--layout names"
        ):
            verbs.build(drives, tmp_path / "x.displace", model="hog")
    assert not (tmp_path / "x.displace").exists()
    said = said_by(caplog, drives, tmp_path / "x.displace", exclude=["night"])
    assert "lined up by sight" in said
    manifest = Manifest.read(tmp_path / "x.csv")
    assert set(manifest.places[manifest.traversals == "night"]) == {""}
    (tmp_path / "x.displace").unlink()
    with pytest.raises(InputError, match=r"x\.csv was lined up without night\..*--overwrite"):
        verbs.build(drives, tmp_path / "x.displace", model="hog")


def test_of_few_images_sight_cannot_tell(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(7)
    for name, n in (("dusk", 3), ("noon", 4)):
        record(tmp_path / "drives" / name, wall(0, 60), np.arange(n), rng, 1.0)
    said = said_by(caplog, tmp_path / "drives", tmp_path / "x.displace")
    assert (
        "equal numbers are taken as equal places: fewer than 10 images are too few to check that by sight"
        in said
    )
    assert said_by(caplog, tmp_path / "drives", tmp_path / "y.displace", traversals=["noon"]) == ""


def test_of_some_more_images_names_are_kept_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rng = np.random.default_rng(7)
    for name, seed in (("dusk", 0), ("noon", 1)):
        record(tmp_path / "drives" / name, wall(seed, 60), np.arange(24), rng, 1.0)
    said = said_by(caplog, tmp_path / "drives", tmp_path / "x.displace")
    assert "equal file names are taken as equal places, but the images do not confirm it (noon)" in said


def test_places_that_somebody_changed_are_not_lined_up(
    counted: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    output = tmp_path / "town.displace"
    verbs.manifest([counted[0]], tmp_path / "town.csv")
    text = (tmp_path / "town.csv").read_text().replace("noon/0007.png,0007", "noon/0007.png,0010")
    (tmp_path / "town.csv").write_text(text)
    assert "equal file names" not in said_by(caplog, counted[0], output)
    assert (tmp_path / "town.csv").read_text() == text
    output.unlink()
    with pytest.raises(InputError, match=r"other places than layout='order' gives; .*by hand.*--overwrite"):
        verbs.build(counted[0], output, model="hog", layout="order")


def test_what_the_recordings_say_is_said_once(tmp_path: Path) -> None:
    """The manifest is made once more to see whether somebody changed it, and all its warnings came again."""
    rng = np.random.default_rng(4)
    for name, gamma in (("mon", 1.0), ("tue", 0.8)):
        for side, seed in (("left", 0), ("right", 1)):
            record(tmp_path / "rec" / name / side, wall(seed, 24), np.arange(24), rng, gamma)
    with pytest.warns(RouteWarning) as caught:
        verbs.build(tmp_path / "rec", tmp_path / "town.displace", model="hog")
    assert sum("equal names in left, right" in str(warning.message) for warning in caught) == 1


@pytest.fixture
def going_on(tmp_path: Path) -> Path:
    """Two drives in step of which a map was made, and which have three frames more beside them, to be added."""
    rng = np.random.default_rng(8)
    for name in ("dusk", "noon"):
        record(tmp_path / "longer" / name, wall(0, 60), np.arange(33), rng, 1.0)
        shutil.copytree(tmp_path / "longer" / name, tmp_path / "drives" / name)
        for number in (30, 31, 32):
            (tmp_path / "drives" / name / f"{number:04d}.png").unlink()
    verbs.build(
        tmp_path / "drives", tmp_path / "town.displace", model="hog", calibration=False, tolerance="2 frames"
    )
    (tmp_path / "town.displace").unlink()
    return tmp_path


def test_frames_that_a_folder_gained_are_taken(going_on: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("dusk", "noon"):
        shutil.copytree(going_on / "longer" / name, going_on / "drives" / name, dirs_exist_ok=True)
    said = said_by(caplog, going_on / "drives", going_on / "town.displace")
    assert "town.csv lacks 6 images (dusk/0030.png …) that were added since: it is rewritten" in said
    assert len(PlaceMap.load(going_on / "town.displace").places) == 33


@pytest.mark.parametrize("change", ["place", "row"])
def test_a_manifest_that_somebody_changed_is_gone_on_with(
    change: str, going_on: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another place, and frames gained since; or a row taken out, which is not a frame gained."""
    table = going_on / "town.csv"
    if change == "place":
        text = table.read_text().replace("noon/0007.png,0007", "noon/0007.png,0008")
        shutil.copytree(going_on / "longer" / "noon", going_on / "drives" / "noon", dirs_exist_ok=True)
    else:
        text = "".join(line for line in table.read_text().splitlines(True) if "noon/0029" not in line)
    table.write_text(text)
    said = said_by(caplog, going_on / "drives", going_on / "town.displace")
    count, first = (3, "0030") if change == "place" else (1, "0029")
    assert f"town.csv lacks {count} images (noon/{first}.png …): they are left out; --overwrite" in said
    assert table.read_text() == text
    assert len(PlaceMap.load(going_on / "town.displace").places) == 30


@pytest.mark.parametrize("stage", ["describing", "aligning"])
def test_a_build_that_was_stopped_lines_equal_names_up_all_the_same(
    stage: str, counted: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def stop(name: str, done: int, total: int) -> None:
        if name == stage and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verbs.build(counted[0], tmp_path / "town.displace", model="hog", progress=stop)
    assert "equal file names are not equal places" in said_by(caplog, counted[0], tmp_path / "town.displace")
    assert "alignment" in Manifest.read(tmp_path / "town.csv").numbers


def test_equal_names_are_looked_at_where_not_all_recordings_have_positions(
    counted: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    drives = tmp_path / "drives"
    shutil.copytree(counted[0], drives)
    rows = [f"{image.name},{5 * row},0" for row, image in enumerate(sorted((drives / "dusk").iterdir()))]
    (drives / "dusk.csv").write_text("\n".join(["image,easting,northing", *rows]))
    said = said_by(caplog, drives, tmp_path / "town.displace")
    assert "equal file names are not equal places" in said
    assert "places along 'dusk'" in said  # among those with positions


def test_a_build_says_how_another_anchor_is_chosen(
    counted: tuple[Path, dict[str, np.ndarray]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lined = importlib.import_module("displace.verbs.align").Lined
    monkeypatch.setattr(lined, "found", lambda _: ["to map it, line up with --anchor noon"])
    said = said_by(caplog, counted[0], tmp_path / "town.displace", layout="sight")
    assert "another anchor: run build again with --anchor NAME --overwrite" in said


def test_a_build_is_told_its_anchor(
    counted: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It took four steps: manifest, extract, align with an anchor, and build of the store."""
    output = tmp_path / "town.displace"
    for options in ({}, {"overwrite": True}):  # lined up for the first time, and once more
        for name in counted[1]:
            said = said_by(caplog, counted[0], output, anchor=name, **options)
            assert f"40 places along {name!r}" in said
            output.unlink()
    store = output.with_suffix(".desc")
    assert "places along 'dusk'" in said_by(caplog, store, output, anchor="dusk")


def test_an_anchor_that_cannot_be_is_refused_with_the_way_out(
    counted: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    drives, output = tmp_path / "drives", tmp_path / "town.displace"
    shutil.copytree(counted[0], drives)
    with pytest.raises(
        InputError, match="anchor='noon' is for places that are found by sight, but layout='names'"
    ):
        verbs.build(drives, output, anchor="noon", layout="names")
    with pytest.raises(UnknownNameError, match="unknown anchor 'moon'; did you mean 'noon'"):
        verbs.build(drives, output, anchor="moon")
    assert not output.with_suffix(".desc").exists()
    verbs.manifest([drives], tmp_path / "named.csv", layout="names")
    with pytest.raises(InputError, match=r"named.csv names the places already: leave it out"):
        verbs.build(tmp_path / "named.csv", output, anchor="noon")
    for name in counted[1]:
        rows = [f"{image.name},{5 * row},0" for row, image in enumerate(sorted((drives / name).iterdir()))]
        (drives / f"{name}.csv").write_text("\n".join(["image,easting,northing", *rows]))
    with pytest.raises(InputError, match="drives has positions, which tell the places: leave it out"):
        verbs.build(drives, output, anchor="noon", overwrite=True)


@pytest.mark.parametrize("in_step", [True, False])
def test_real_seasons_with_equal_names_are_told_apart(
    in_step: bool, shared: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    at = {"summer": np.arange(400, 460), "winter": np.arange(400, 460)}
    if not in_step:
        at["winter"] = 400 + (0.7 * np.arange(60)).round().astype(int)
    for season, frames in at.items():
        files = sorted((shared / "data" / "nordland811" / season).glob("*.jpg"))
        (tmp_path / "drives" / season).mkdir(parents=True)
        for number, frame in enumerate(frames):
            (tmp_path / "drives" / season / f"{number:04d}.jpg").symlink_to(files[frame])
    said = said_by(caplog, tmp_path / "drives", tmp_path / "x.displace", fusion="hops")
    manifest = Manifest.read(tmp_path / "x.csv")
    if in_step:
        assert said == ""
        assert "alignment" not in manifest.numbers
        return
    assert "equal file names are not equal places" in said
    shown = {
        season: dict(zip(manifest.places[manifest.traversals == season].tolist(), frames, strict=True))
        for season, frames in at.items()
    }
    both = (shown["summer"].keys() & shown["winter"].keys()) - {""}
    assert len(both) >= 30
    assert all(abs(shown["summer"][place] - shown["winter"][place]) <= 2 for place in both)


@pytest.mark.parametrize(
    ("image", "layout"), [("a/a00000.jpg", "order"), ("a/000.jpg", "names"), ("000.jpg", "names")]
)
def test_numbers_in_order_are_not_called_names_where_names_end_in_them(image: str, layout: str) -> None:
    assert _layout(Manifest([image], ["000"], ["a"], Path())) == layout


def test_few_frames_are_lined_up_in_one_thread(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine threads of small problems wait for each other."""
    seen = []

    def noted(*_: object, **__: object) -> None:
        seen.append(n_threads())
        raise InputError("enough")

    monkeypatch.setattr("displace.sequence.alignment.align", noted)
    with limit_threads(2):
        for _ in range(2):
            with pytest.raises(InputError, match="enough"):
                verbs.align(built.with_suffix(".desc"))
            monkeypatch.setattr("displace.threads.SMALL", 0)
    assert seen == [1, 2]
