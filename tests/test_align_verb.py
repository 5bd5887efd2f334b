"""`align`, and `build` from whatever there is, on small drives along a painted wall."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from drives import drive_along

from displace import verbs
from displace.descriptors.store import DescriptorStore
from displace.errors import InputError, ManifestError
from displace.manifest.table import Manifest

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
    assert len(both) > 30
    assert np.mean([abs(int(a) - int(b)) <= 2 for a, b in both]) >= 0.95


def test_it_goes_on_where_it_was(built: Path, recorded: tuple[Path, dict[str, np.ndarray]]) -> None:
    before = built.read_bytes()
    built.unlink()
    stages: dict[str, int] = {}
    verbs.build(recorded[0], built, progress=lambda stage, done, total: stages.update({stage: total}))
    assert stages.get("describing", 0) == 0
    assert "aligning" not in stages
    assert len(built.read_bytes()) == len(before)


def test_places_are_given_checked_and_taken_back(
    recorded: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    store = tmp_path / "route.desc"
    verbs.manifest([recorded[0]], tmp_path / "route.csv")
    verbs.extract(tmp_path / "route.csv", store)
    lined = verbs.align(store, tmp_path / "aligned.csv", anchor="noon", check=True)
    text = str(lined)
    assert "places along 'noon'" in text
    assert "on the route" in text
    assert lined.page is not None
    page = lined.page.read_text(encoding="utf-8")
    assert "Weakest stretches" in page
    assert page.count("data:image/jpeg") >= 8
    assert verbs.read_manifest(tmp_path / "aligned.csv").place_ids()
    verbs.align(store, anchor="dusk")  # its own places may be replaced
    verbs.align(store, undo=True)
    assert DescriptorStore(store).manifest.place_ids() == []
    with pytest.raises(InputError, match="never aligned"):
        verbs.align(store, undo=True)


def test_places_of_others_are_not_replaced_unasked(built: Path, tmp_path: Path) -> None:
    manifest = verbs.read_manifest(built.with_suffix(".csv"))
    manifest.places[:] = [f"{i:03d}" for i in range(len(manifest))]
    manifest.write(tmp_path / "named.csv")
    verbs.extract(tmp_path / "named.csv", tmp_path / "named.desc")
    with pytest.raises(InputError, match=r"have places already; replace them with --overwrite"):
        verbs.align(tmp_path / "named.desc")


def test_different_routes_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for name, seed in (("here", 1), ("there", 2)):
        record(tmp_path / "drives" / name, wall(seed, 40), drive_along(40, rng)[: 30 + seed], rng, 1.0)
    with pytest.raises(InputError, match="different routes"):
        verbs.build(tmp_path / "drives", tmp_path / "x.displace")
    assert not (tmp_path / "x.displace").exists()
    assert DescriptorStore(tmp_path / "x.desc").manifest.place_ids() == []


def test_one_recording_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    record(tmp_path / "drives" / "noon", wall(1, 15), np.arange(12), rng, 1.0)
    with pytest.raises(
        InputError, match=r"holds one recording only, 'noon' with 12 images: a map fuses several"
    ):
        verbs.build(tmp_path / "drives", tmp_path / "x.displace")
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["drives"]


def test_a_video_is_followed(
    built: Path, recorded: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    rng = np.random.default_rng(9)
    at = drive_along(60, rng, stops=1)
    record(tmp_path / "tonight", wall(0, 60), at, rng, 1.5)
    video = cv2.VideoWriter(
        str(tmp_path / "tonight.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 10, (WIDTH, HEIGHT)
    )
    for file in sorted((tmp_path / "tonight").glob("*.png")):
        video.write(cv2.imread(str(file)))
    video.release()
    located = verbs.locate(built, [tmp_path / "tonight.avi"], k=2)
    store = DescriptorStore(built.with_suffix(".desc")).manifest
    true = {p: int(q) for p, q in zip(store.places.tolist(), _places(store, recorded[1]), strict=True) if p}
    found = np.array([true[place] for place in located.matches.places[:, 0]])
    assert located.matches.scores.shape == (len(at), 2)
    assert (np.abs(found - at) <= 3).mean() > 0.9
    single = verbs.locate(built, [tmp_path / "tonight.avi"], follow=False)
    assert (single.matches.scores[:, 0] > 0).all()


def _places(manifest: Manifest, at: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([at[name] for name in manifest.traversal_names()])


def test_a_new_drive_is_assigned_to_a_map_by_sight(
    built: Path, recorded: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    rng = np.random.default_rng(12)
    at = drive_along(60, rng, stops=1)[:47]
    record(tmp_path / "snow", wall(0, 60), at, rng, 1.2)
    verbs.manifest([tmp_path / "snow"], tmp_path / "snow.csv", against=built)
    store = DescriptorStore(built.with_suffix(".desc")).manifest
    true = {p: int(q) for p, q in zip(store.places.tolist(), _places(store, recorded[1]), strict=True) if p}
    placed = verbs.read_manifest(tmp_path / "snow.csv")
    on = placed.places != ""
    assert on.mean() > 0.4  # one frame for each place: not all of a stop
    assert np.mean([abs(true[p] - a) <= 3 for p, a in zip(placed.places[on], at[on], strict=True)]) > 0.9
    assert len(set(placed.places[on].tolist())) == on.sum()


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
    with pytest.raises(InputError, match=r"town\.csv is of other recordings than .*right.*--overwrite"):
        verbs.build(tmp_path / "right", output)
    record(tmp_path / "wrong" / "night", wall(0, 8), np.arange(4), rng, 1.0)
    with pytest.raises(InputError, match=r"town\.csv was made of .*wrong without night\..*--overwrite"):
        verbs.build(tmp_path / "wrong", output)
    assert "night" in verbs.build(tmp_path / "wrong", output, overwrite=True).traversals


def test_a_map_in_another_model_says_how_to_describe_the_images_anew(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for drive in ("dusk", "noon"):
        record(tmp_path / "drives" / drive, wall(0, 8), np.arange(4), rng, 1.0)
    verbs.build(tmp_path / "drives", tmp_path / "town.displace", model="hog")
    with pytest.raises(InputError, match=r"extract \S+town\.csv -o \S+town\.desc -m netvlad --overwrite"):
        verbs.build(tmp_path / "drives", tmp_path / "town.displace", model="netvlad", overwrite=True)


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
    with pytest.raises(ManifestError, match=r"'elsewhere' does not seem to follow the map's route: \d of"):
        verbs.manifest([tmp_path / "elsewhere"], tmp_path / "elsewhere.csv", against=built)
    record(tmp_path / "again", wall(0, 60), drive_along(60, rng), rng, 1.3)
    verbs.manifest([tmp_path / "again"], tmp_path / "again.csv", against=built)
    assert len(verbs.read_manifest(tmp_path / "again.csv").place_ids()) > 30


def test_frames_that_were_taken_otherwise_are_not_gone_on_with(tmp_path: Path) -> None:
    rng, drives = np.random.default_rng(5), tmp_path / "drives"
    drives.mkdir()
    for name, n in (("dusk", 12), ("noon", 14)):
        writer = cv2.VideoWriter(
            str(drives / f"{name}.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 5, (WIDTH, HEIGHT)
        )
        for _ in range(n):
            writer.write(rng.integers(0, 255, (HEIGHT, WIDTH, 3), np.uint8))
        writer.release()
    verbs.manifest([drives], tmp_path / "town.csv", every="2")
    with pytest.raises(InputError, match=r"town\.csv has the frames that every='2' took, and every='3' is"):
        verbs.build(drives, tmp_path / "town.displace", every="3")
