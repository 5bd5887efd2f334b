"""The verbs that make and use maps, typed as a user would."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys

import cv2
import numpy as np
import pytest
from commands import commands_in
from drawn import SMALL, copy_drawn
from PIL import Image
from rich.console import Console

from displace import PlaceMap, ReferenceSet, verbs
from displace import build as maps_build
from displace.arrays import l2_normalize
from displace.cli import console, console_maps
from displace.descriptors.imported import write_store
from displace.descriptors.store import DescriptorStore, Queries
from displace.errors import InputError, RouteWarning
from displace.fusion import FUSIONS
from displace.geo import Positions
from displace.manifest.table import Manifest
from displace.places import Places
from displace.threads import limit_threads, n_threads

PLACES = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small town: four traversals described, one more recording, and one that was never seen."""
    folder = tmp_path_factory.mktemp("walk")
    copy_drawn(folder / "town", PLACES, size=SMALL)
    for name in ("rain", "night"):
        (folder / "town" / name).rename(folder / name)
    (folder / "town" / "manifest.csv").unlink()
    for name, sources in (("route", [folder / "town"]), ("night", [folder / "night"])):
        against = folder / "route.csv" if name == "night" else None
        verbs.manifest(sources, folder / f"{name}.csv", layout="names", against=against)
        verbs.extract(folder / f"{name}.csv", folder / f"{name}.desc")
    verbs.build(folder / "route.desc", folder / "town.displace")
    return folder


def read_rows(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def run(folder, monkeypatch):
    return commands_in(folder, monkeypatch)


def test_build_shows_what_the_map_holds(run, folder):
    done = run("build", "route.desc", "-o", "shown.displace")
    assert done.exit_code == 0, done.output
    for text in (
        "24",
        "dusk (24)",
        "displace: ridge",
        "float16",
        "hog",
        "AUC",
        "how often matches were right, by descriptors alone",
        "photos are also compared with sketches of 24 places, 57.6 kB",
    ):
        assert text in done.stdout
    assert done.stdout.endswith("next: displace locate shown.displace PHOTO, FOLDER or VIDEO\n")
    again = run("build", "route.desc", "-o", "shown.displace")
    assert again.exit_code == 2
    assert (
        "shown.displace exists; choose another name with -o, or replace it with --overwrite" in again.stderr
    )


def test_a_map_without_sketches_says_so(run):
    """As one with several rows for a place has none; nothing told it from one that compares pictures."""
    said = "photos are judged by their descriptors alone: the map has no sketches of its places"
    for fusion, without in (("pooling", True), ("hops", False)):
        done = run("build", "route.desc", "-o", f"{fusion}.displace", "--fusion", fusion)
        assert done.exit_code == 0, done.output
        shown = " ".join(run("inspect", f"{fusion}.displace").stdout.split())
        assert (said in shown) == without


def test_a_map_of_a_few_places_is_not_told_to_be_built_again(run, folder):
    """That would give the same map."""
    for name in ("sun", "dusk"):
        (folder / "few" / name).mkdir(parents=True)
        for place in range(3):
            shutil.copy(folder / "town" / name / f"{place:04d}.jpg", folder / "few" / name)
    done = run("build", "few", "-m", "hog")
    assert done.exit_code == 0, done.output
    assert "as in maps of a few places. Add places or another traversal" in " ".join(done.stdout.split())
    without = run("build", "few.desc", "-o", "without.displace", "--no-calibration")
    assert "the map was built without it (--no-calibration)" in " ".join(without.stdout.split())


def test_build_of_recordings_names_the_images_that_it_could_not_read(run, folder):
    for name in ("sun", "dusk"):
        shutil.copytree(folder / "town" / name, folder / "two drives" / name)
    (folder / "two drives" / "sun" / "0003.jpg").write_text("no picture")
    done = run("build", "two drives", "-m", "hog")
    assert done.exit_code == 0, done.output
    assert "1 images are not in the map, because they could not be read" in done.stderr
    assert "two drives/sun/0003.jpg is not an image" in done.stderr


def test_build_of_two_traversals_says_that_its_confidence_is_weaker(run):
    done = run("build", "route.desc", "-o", "two.displace", "--traversal", "sun", "--traversal", "dusk")
    assert "less reliable than with three traversals" in " ".join(done.stdout.split())
    assert "same best place as with float32 for" in done.stdout


def test_build_names_the_parameter_that_a_fusion_of_another_package_needs(run, monkeypatch):
    """It ended in a traceback, and of recordings only after they had been described."""

    class Needy(FUSIONS.get("hops")):
        """It has a parameter without a default."""

        def __init__(self, *, power):
            self.power = power

    monkeypatch.setitem(FUSIONS._found, "needy", Needy)
    done = run("build", "town", "-o", "needy.displace", "--fusion", "needy")
    assert done.exit_code == 2
    assert "the fusion 'needy' needs a value for 'power'" in done.stderr
    assert "describing" not in done.stderr


def test_build_auto_takes_what_advise_recommends(run):
    recommended = json.loads(run("advise", "route.desc", "--json").stdout)["recommended"]
    run("build", "route.desc", "-o", "auto.displace", "--fusion", "auto", "--no-calibration")
    assert PlaceMap.load("auto.displace").fusion == recommended["fusion"]


def test_locate_one_image(run, folder):
    done = run("locate", "town.displace", "town/sun/0005.jpg", "-k", 3)
    assert done.exit_code == 0, done.output
    assert "at 0005, confidence" in done.stdout


def test_locate_a_folder_as_csv_and_json(run, folder):
    done = run("locate", "town.displace", "rain", "-o", "rain.csv")
    assert done.exit_code == 0, done.output
    rows = read_rows(folder / "rain.csv")
    assert len(rows) == PLACES
    records = json.loads(run("locate", "town.displace", "rain", "--json").stdout)
    assert [r["places"][0] for r in records] == [r["place"] for r in rows]
    assert np.mean([r["places"][0] == f"{i:04d}" for i, r in enumerate(records)]) > 0.3
    more = "showing the best place of each image; -o FILE or --json gives -k of them"
    assert more in run("locate", "town.displace", "rain", "-k", 2).stdout
    assert more not in run("locate", "town.displace", "rain").stdout


def test_locate_a_folder_without_images_names_what_is_in_there(run, folder):
    (folder / "films" / "one day").mkdir(parents=True)
    assert run("locate", "town.displace", "films").stderr.strip() == "error: no images in films"
    shutil.copy(folder / "town" / "sun" / "0000.jpg", folder / "films" / "one day")
    assert "no images in films itself; give what is in there, such as 'films/one day'" in (
        run("locate", "town.displace", "films").stderr
    )
    (folder / "disk" / "films").mkdir(parents=True)
    shutil.copytree(folder / "films" / "one day", folder / "disk" / "films" / "one day")
    assert "such as 'disk/films/one day'" in run("locate", "town.displace", "disk").stderr
    (folder / "films" / "a.MTS").write_bytes(b"")
    assert "such as films/a.MTS" in run("locate", "town.displace", "films").stderr


def test_what_a_folder_has_beside_its_images_is_not_left_out_without_a_word(run, folder, tmp_path):
    """Photos of a camera in 100APPLE, 101APPLE and a loose one: those further down were missing from the answer."""
    photo, deeper = folder / "town" / "sun" / "0000.jpg", tmp_path / "holiday" / "100 APPLE"
    (tmp_path / "holiday" / ".thumbnails").mkdir(parents=True)
    for path in (tmp_path / "holiday" / "0.jpg", tmp_path / "holiday" / ".thumbnails" / "0.jpg"):
        shutil.copy(photo, path)
    assert run("locate", "town.displace", tmp_path / "holiday").exit_code == 0, "nothing else, no warning"
    deeper.mkdir()
    shutil.copy(photo, deeper / "1.jpg")
    with pytest.warns(RouteWarning, match=r"only what is in the folder itself .*\(1 image\).*'.*100 APPLE'"):
        done = run("locate", "town.displace", tmp_path / "holiday", "--json")
    assert len(json.loads(done.stdout)) == 1
    assert len(json.loads(run("locate", "town.displace", deeper, "--json").stdout)) == 1


def test_locate_a_video_and_a_store(run, folder):
    writer = cv2.VideoWriter(str(folder / "evening.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 10, (160, 120))
    for place in range(6):
        writer.write(cv2.imread(str(folder / "town" / "dusk" / f"{place:04d}.jpg")))
    writer.release()
    records = json.loads(run("locate", "town.displace", "evening.avi", "--every", 2, "--json").stdout)
    assert [r["places"][0] for r in records] == ["0000", "0002", "0004"]
    assert all(type(record["frame"]) is int for record in records)
    assert [(r["image"], r["frame"], r["timestamp"]) for r in records] == [
        ("evening.avi", 0, 0),
        ("evening.avi", 2, pytest.approx(0.2)),
        ("evening.avi", 4, pytest.approx(0.4)),
    ]
    located = json.loads(
        run("locate", "town.displace", "night.desc", "--traversal", "night", "--json").stdout
    )
    assert len(located) == PLACES


def test_a_video_beside_an_image_has_a_row_for_each_frame_equal_from_run_to_run(run, folder):
    writer = cv2.VideoWriter(str(folder / "dusk.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 10, (160, 120))
    for place in range(4):
        writer.write(cv2.imread(str(folder / "town" / "dusk" / f"{place:04d}.jpg")))
    writer.release()
    for name in ("one.csv", "two.csv"):
        shown = run("locate", "town.displace", "dusk.avi", "rain/0003.jpg", "-o", name).stdout
    assert (folder / "one.csv").read_bytes() == (folder / "two.csv").read_bytes()
    rows = [(row["image"], row["frame"], row["timestamp"]) for row in read_rows(folder / "one.csv")]
    assert rows == [("dusk.avi", f"{n}", f"{n / 10:g}") for n in range(4)] + [("rain/0003.jpg", "", "")]
    assert all(text in shown for text in ("frame", "timestamp", "0.30"))


def test_frames_that_cannot_be_described_are_named_by_their_video(run, folder, monkeypatch):
    """Every second frame cannot be read; the others are located, and each has its row."""
    from displace.descriptors import preparation
    from displace.errors import ImageError

    writer = cv2.VideoWriter(str(folder / "half.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 10, (160, 120))
    for place in range(4):
        writer.write(cv2.imread(str(folder / "town" / "sun" / f"{place:04d}.jpg")))
    writer.release()
    read = preparation.read_image

    def read_even(path):
        if int(path[-5]) % 2:
            raise ImageError(f"cannot read image {path}: it is odd")
        return read(path)

    monkeypatch.setattr(preparation, "read_image", read_even)
    done = run("locate", "town.displace", "half.avi", "--min-confidence", 0.01, "-o", "half.csv")
    assert done.exit_code == 1
    assert "cannot read image half.avi frame 1: it is odd" in done.stderr
    rows = read_rows(folder / "half.csv")
    assert [(row["frame"], row["place"]) for row in rows] == [
        ("0", "0000"),
        ("1", ""),
        ("2", "0002"),
        ("3", ""),
    ]


def test_crop_is_that_of_the_map_and_a_mask_is_asked_for(run, folder):
    cv2.imwrite(str(folder / "mask.png"), np.vstack([np.full((90, 160), 255), np.zeros((30, 160))]))
    for name, options in (("crop", {"crop": "0,0,0.2,0"}), ("mask", {"mask": folder / "mask.png"})):
        verbs.extract(folder / "route.csv", folder / f"{name}.desc", **options)
        verbs.build(folder / f"{name}.desc", folder / f"{name}.displace", calibration=False)
    built = run("build", "mask.desc", "-o", "mask.displace", "--overwrite", "--no-calibration")
    assert "next: displace locate mask.displace PHOTO, FOLDER or VIDEO --mask FILE" in built.output
    done = run("locate", "crop.displace", "town/sun/0005.jpg", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)[0]["places"][0] == "0005"
    assert run("locate", "crop.displace", "town/sun/0005.jpg", "--crop", "0,0,0.1,0").exit_code == 2
    asked = run("locate", "mask.displace", "town/sun/0005.jpg")
    assert asked.exit_code == 2
    assert "described with a mask" in asked.stderr
    assert "--mask FILE" in asked.stderr
    assert run("locate", "mask.displace", "town/sun/0005.jpg", "--mask", "mask.png").exit_code == 0


def test_skipped_images_of_other_traversals_are_no_reason_to_fail(run, folder):
    rows = (folder / "route.csv").read_text().splitlines()
    absent = "absent.jpg,0001,dusk" + "," * (rows[0].count(",") - 2)
    (folder / "some.csv").write_text("\n".join([*rows, absent]) + "\n")
    verbs.extract(folder / "some.csv", folder / "some.desc")
    assert run("locate", "town.displace", "some.desc", "--traversal", "sun").exit_code == 0
    for arguments in (["--traversal", "dusk"], []):
        done = run("locate", "town.displace", "some.desc", *arguments)
        assert done.exit_code == 1
        assert "absent.jpg" in done.stderr


def test_below_the_confidence_it_is_not_in_the_map_and_the_exit_code_says_so(run, folder):
    noise = np.random.default_rng(0).integers(0, 256, (120, 160, 3), np.uint8)
    cv2.imwrite(str(folder / "noise.png"), noise)
    done = run("locate", "town.displace", "noise.png", "--min-confidence", 0.9)
    assert done.exit_code == 1
    assert "not in the map" in done.stdout


def test_a_recording_that_is_not_found_by_sight_may_be_assigned_by_name(run, folder):
    """Most of its names are not those of the map's places, so that they are not trusted unless asked for."""
    rng = np.random.default_rng(0)
    (folder / "yard").mkdir()
    for name in ("0003", *(f"yard{i}" for i in range(30))):
        cv2.imwrite(str(folder / "yard" / f"{name}.png"), rng.integers(0, 256, (120, 160, 3), np.uint8))
    ask = ("manifest", "yard", "-o", "yard.csv", "--against", "town.displace")
    done = run(*ask)
    assert done.exit_code == 2
    assert "does not seem to follow the map's route" in done.stderr
    assert done.stderr.rstrip().endswith("; if names tell the places: --layout names")
    assert run(*ask, "--layout", "names").exit_code == 0


def test_unreadable_images_are_named_and_the_others_located(run, folder):
    mixed = folder / "mixed"
    mixed.mkdir()
    (mixed / "good.jpg").write_bytes((folder / "town" / "sun" / "0003.jpg").read_bytes())
    (mixed / "bad.jpg").write_bytes(b"no image")
    done = run("locate", "town.displace", "mixed", "--json")
    assert done.exit_code == 1
    bad, good = json.loads(done.stdout)
    assert (bad["image"], bad["in_map"], bad["places"], bad["confidence"]) == (
        "mixed/bad.jpg",
        False,
        [],
        None,
    )
    assert good["places"][0] == "0003"
    assert "mixed/bad.jpg is not an image" in done.stderr
    shown = run("locate", "town.displace", "mixed", "-o", "mixed.csv").stdout
    assert "not readable" in shown
    assert "2 rows in mixed.csv\n" in shown  # nothing about places of images that are not in the map
    bad, good = read_rows(folder / "mixed.csv")
    assert (bad["image"], bad["place"], bad["score"]) == ("mixed/bad.jpg", "", "")
    assert (good["image"], good["place"]) == ("mixed/good.jpg", "0003")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["locate", "town.displace", "nowhere.jpg"], "no file or folder nowhere.jpg"),
        (["locate", "route.csv", "town/sun/0005.jpg"], "is not a displace map file"),
        (["locate", "nowhere.displace", "town/sun/0005.jpg"], "cannot read nowhere.displace: No such file"),
        (["locate", "town.displace", "town/sun/0005.jpg", "--crop", "0,0,0.2,0"], "they differ in"),
        (["locate", "town.displace", "town/sun/0005.jpg", "--search", "fais"], "did you mean 'faiss'"),
        (["build", "town", "-o", "x.csv"], "use a name that ends in .displace"),
        (["build", "route.desc", "-o", "x.displace", "--fusion", "bsf"], "exists for evaluation only"),
        (["build", "route.desc", "-o", "x.displace", "--exclude", "fog"], "unknown traversal 'fog'"),
        (
            ["update", "town.displace", "--add", "route.desc"],
            "already has references of dusk, overcast, snow, sun",
        ),
        (["update", "town.displace"], "give either --add or --remove"),
        (["update", "town.displace", "--remove", "sun"], "built without --keep-references"),
        (["export", "town.displace", "--to", "onx", "-o", "x"], "did you mean 'onnx'"),
        (
            ["locate", "town/sun/0005.jpg", "town.displace"],
            "the map comes first: displace locate town.displace",
        ),
        (["locate", "town/sun/0005.jpg", "town/sun"], "it is a picture: the map comes first"),
        (["locate", "route.desc", "town/sun/0005.jpg"], "make a map of it with: displace build route.desc"),
        (["locate", "route.csv", "town/sun/0005.jpg"], "make a map of it with: displace build route.csv"),
        (["serve", "no.displace"], "make a map with: displace build SOURCE -o no.displace"),
        (["locate", "town.displace", "town/sun", "--traversal", "sun"], "applies to a descriptor store"),
        (
            ["locate", "town.displace", "route.csv"],
            "displace extract route.csv -o STORE, and locate that store",
        ),
        (
            ["locate", "town.displace", "town/sun/0005.jpg", "--crop", "0,0,0.2,0"],
            "displace extract MANIFEST -o STORE -m hog",
        ),
        (["advise", "route.csv"], "make one with: displace extract route.csv"),
        (["advise", "town"], "make one with: displace manifest town -o route.csv"),
        (["advise", "town.displace"], "it is a map: give the store that it was built from"),
        (
            ["update", "town.displace", "--add", "night"],
            "displace manifest night -o new.csv --against town.displace, then displace extract new.csv -m hog",
        ),
        (["export", "town.displace", "--to", "hloc", "-o", "x"], "with --queries STORE"),
        (["export", "route.desc", "--to", "onnx", "-o", "x"], "displace build route.desc makes a map of it"),
        (
            ["export", "town.displace", "--to", "onnx", "--queries", "night.desc", "-o", "x"],
            "leave --queries out",
        ),
        (
            ["export", "town.displace", "--to", "csv", "--traversal", "sun", "-o", "x"],
            "with --queries STORE, or leave --traversal out",
        ),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(run, arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.output


def test_a_file_says_what_it_has_of_images_that_are_not_in_the_map(run, folder):
    flat = folder / "flat"
    flat.mkdir(exist_ok=True)
    for name in ("a", "b"):
        Image.new("RGB", (64, 48), "grey").save(flat / f"{name}.png")
    shown = run("locate", "town.displace", "flat", "-o", "flat.csv").stdout
    assert "2 rows in flat.csv; it has the likeliest place of images not in the map, too" in shown
    assert all(row["place"] for row in read_rows(folder / "flat.csv"))
    limited = ("locate", "town.displace", "flat", "-o", "flat.csv", "--overwrite", "--min-confidence", "0.5")
    assert "likeliest" not in run(*limited).stdout
    assert not any(row["place"] for row in read_rows(folder / "flat.csv"))


def test_places_of_a_map_come_with_the_commands_that_add_the_recording(run, folder):
    done = run("manifest", "night", "-o", "snow.csv", "--against", "town.displace")
    assert "next: displace extract snow.csv -m hog, then displace update town.displace --add snow.desc" in (
        done.stdout
    )
    assert "1 traversal\n" in done.stdout
    (folder / "elsewhere").mkdir()
    shutil.copy(folder / "town" / "sun" / "0000.jpg", folder / "elsewhere" / "unheard-of.jpg")
    none = run("manifest", "elsewhere", "-o", "none.csv", "--against", "town.displace", "--layout", "names")
    assert "0 places" in none.stdout
    assert "next: " not in none.stdout


@pytest.mark.filterwarnings("ignore::displace.errors.FallbackWarning")
def test_the_last_traversal_that_is_left_is_not_told_of_as_two(run):
    run("build", "route.desc", "-o", "pair.displace", "--traversal", "sun", "--traversal", "dusk")
    done = run("update", "pair.displace", "--remove", "dusk", "--references", "route.desc")
    assert done.exit_code == 0, done.output
    assert "does not hold for the one that is left" in done.stdout
    assert "the projection moved" not in done.stdout


def test_update_adds_and_removes(run, folder):
    before = PlaceMap.load(folder / "town.displace").traversals
    added = run("update", "town.displace", "--add", "night.desc", "-o", "more.displace")
    assert added.exit_code == 0, added.output
    assert f"added {PLACES} references of night: more.displace" in added.stdout
    assert "the projection moved by" in added.stdout
    assert "confidence: learned again from" in added.stdout
    assert PlaceMap.load(folder / "more.displace").traversals == {**before, "night": PLACES}
    assert not json.loads(run("inspect", "more.displace", "--json").stdout)["calibration_is_stale"]
    (record,) = json.loads(run("locate", "more.displace", "town/sun/0005.jpg", "--json").stdout)
    assert record["in_map"] == (record["confidence"] >= 0.5)
    removed = run("update", "more.displace", "--remove", "night", "--references", "night.desc")
    assert f"removed {PLACES} references of night: more.displace" in removed.stdout
    assert PlaceMap.load(folder / "more.displace").traversals == before


def test_a_recording_of_another_route_is_not_added_under_equal_ids(run, folder):
    """Without positions only the looks tell; the map stays as it was."""
    seen = l2_normalize(np.random.default_rng(0).standard_normal((60, 32))).astype(np.float32)
    again = l2_normalize(seen + 0.1 * np.random.default_rng(1).standard_normal(seen.shape)).astype(np.float32)
    elsewhere = l2_normalize(np.random.default_rng(2).standard_normal((60, 32))).astype(np.float32)
    for name, vectors in (("sun", seen), ("rain", again), ("other", elsewhere)):
        places = [f"{place:04d}" for place in range(60)]
        images = [f"{name}/{place}.jpg" for place in places]
        manifest = Manifest(images, places, [name] * 60, folder / "images")
        write_store(Queries(vectors, manifest.places, manifest), folder / f"{name}60.desc", "made")
    assert run("build", "sun60.desc", "-o", "sixty.displace", "--fusion", "hops").exit_code == 0
    before = (folder / "sixty.displace").read_bytes()
    refused = run("update", "sixty.displace", "--add", "other60.desc")
    assert refused.exit_code == 2
    assert "traversal 'other' does not look like the map's places: " in refused.stderr
    assert "of 60 images at places of the same ids are found there, as by chance" in refused.stderr
    assert "displace manifest NEW --against MAP. If" in refused.stderr
    assert (folder / "sixty.displace").read_bytes() == before
    asked_for = run(
        "update", "sixty.displace", "--add", "other60.desc", "--no-check-looks", "-o", "both.displace"
    )
    assert asked_for.exit_code == 0, asked_for.output
    assert run("update", "sixty.displace", "--add", "rain60.desc").exit_code == 0


def test_an_update_hands_over_what_is_known_of_places(folder, monkeypatch):
    given = []
    monkeypatch.setattr(PlaceMap, "add", lambda town, *args, **options: given.extend(args))
    monkeypatch.setattr(PlaceMap, "save", lambda town, path: None)
    verbs.update(folder / "town.displace", add=folder / "night.desc")
    (refs,) = given
    images, positions = refs.info.images, refs.info.positions
    assert refs.place_ids.tolist() == [f"{place:04d}" for place in range(PLACES)]
    assert [image.rsplit("/", 1)[-1] for image in images] == [f"{place:04d}.jpg" for place in range(PLACES)]
    assert positions is None or len(positions) == PLACES


def test_an_update_replaces_no_other_map_unasked(run, folder):
    first = run("update", "town.displace", "--add", "night.desc", "-o", "once.displace")
    assert first.exit_code == 0
    again = run("update", "town.displace", "--add", "night.desc", "-o", "once.displace")
    assert again.exit_code == 2
    assert "once.displace exists; choose another name with -o, or replace it with --overwrite" in again.stderr
    done = run("update", "town.displace", "--add", "night.desc", "-o", "once.displace", "--overwrite")
    assert done.exit_code == 0


@pytest.mark.parametrize("fusion", ["displace", "hops"])
def test_a_traversal_that_is_not_in_the_map_is_not_removed(run, folder, fusion):
    run("build", "route.desc", "-o", f"{fusion}.displace", "--fusion", fusion, "--no-calibration")
    before = (folder / f"{fusion}.displace").read_bytes()
    done = run("update", f"{fusion}.displace", "--remove", "night", "--references", "night.desc")
    assert done.exit_code == 2
    assert "the map has no traversal 'night'; it has" in done.stderr
    assert (folder / f"{fusion}.displace").read_bytes() == before


def test_a_map_of_one_traversal_says_once_that_it_is_plain_retrieval_and_is_updated(run, folder):
    """HOG has more dimensions than 24 places give deviations: the ridge must be decided now."""
    built = run("build", "route.desc", "-o", "one.displace", "--traversal", "sun")
    assert built.output.count("plain retrieval") == 1
    assert "by a fixed rule, and never above 0.75 by a photo's descriptor alone" in " ".join(
        built.stdout.split()
    )
    refused = run("locate", "one.displace", "night")
    assert "the map has seen the route only once" in refused.stdout
    assert "the map has seen" not in run("locate", "one.displace", "night", "--min-confidence", "0.2").stdout
    assert "the map has seen" not in run("locate", "one.displace", "town/sun").stdout
    done = run("update", "one.displace", "--add", "night.desc")
    assert done.exit_code == 0, done.output
    assert "settings chosen, which one traversal had left open: ridge" in done.stdout


def test_build_of_one_traversal_warns_of_nothing(run, recwarn):
    """That it is plain retrieval stands in what is shown of the map."""
    options = ("--traversal", "sun", "--no-calibration", "--tolerance", "exact")
    done = run("build", "route.desc", "-o", "quiet.displace", *options)
    assert done.exit_code == 0, done.output
    assert [str(warning.message) for warning in recwarn] == []


def test_warnings_are_lines_without_the_place_in_the_code(folder):
    verbs.build(
        folder / "route.desc",
        folder / "w.displace",
        traversals=["sun", "dusk"],
        calibration=False,
        keep_references=True,
    )
    command = [sys.executable, "-m", "displace", "update", "w.displace", "--remove", "dusk"]
    shown = subprocess.run(command, cwd=folder, capture_output=True, text=True).stderr
    (line,) = [line for line in shown.splitlines() if "plain retrieval" in line]
    assert line.startswith("warning: ")
    assert ".py" not in shown


def test_outputs_that_cannot_be_written_are_refused_before_anything_is_computed(run, folder, monkeypatch):
    def must_not_run(*args, **kwargs):
        raise AssertionError("computed")

    monkeypatch.setattr("displace.maps.building.build", must_not_run)
    monkeypatch.setattr(PlaceMap, "add", must_not_run)
    (folder / "folder.displace").mkdir(exist_ok=True)
    names = sorted(p.name for p in folder.iterdir())
    for verb in (["build", "route.desc"], ["update", "town.displace", "--add", "night.desc"]):
        missing = run(*verb, "-o", "nowhere/town.displace")
        assert missing.exit_code == 2
        assert "cannot write nowhere/town.displace: there is no folder nowhere; create it" in missing.stderr
        is_folder = run(*verb, "-o", "folder.displace", "--overwrite")
        assert is_folder.exit_code == 2
        assert "cannot write folder.displace: it is a folder" in is_folder.stderr
        inside_a_file = run(*verb, "-o", "route.csv/town.displace")
        assert inside_a_file.exit_code == 2
    assert sorted(p.name for p in folder.iterdir()) == names


@pytest.mark.parametrize(
    "command",
    [
        ["locate", "town.displace", "town/sun/0005.jpg", "-o", "nowhere/x.csv"],
        ["export", "town.displace", "--to", "csv", "-o", "nowhere/x.csv"],
        ["export", "route.desc", "--to", "vme", "-o", "nowhere/x.csv"],
        ["align", "route.desc", "--overwrite", "-o", "nowhere/x.csv"],
        ["manifest", "town", "-o", "nowhere/x.csv"],
    ],
    ids=" ".join,
)
def test_no_verb_makes_the_folder_of_a_file(run, folder, command):
    refused = run(*command)
    assert refused.exit_code == 2
    assert "cannot write nowhere/x.csv: there is no folder nowhere; create it" in refused.stderr
    assert not (folder / "nowhere").exists()


def test_two_writers_of_one_map(run, folder):
    code = """
import pathlib, sys
from displace.files.lock import exclusive
with exclusive(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
    command = [sys.executable, "-c", code, str(folder / "town.displace")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        done = run("update", "town.displace", "--add", "night.desc")
        assert done.exit_code == 2
        assert "town.displace is being written by another process" in done.stderr
        assert run("build", "route.desc", "-o", "town.displace", "--overwrite").exit_code == 2
        assert run("locate", "town.displace", "town/sun/0005.jpg").exit_code == 0
        other.stdin.close()


def test_names_are_shown_as_they_are(run, folder):
    """Square brackets are markup to the library that prints."""
    names = ["cam[left]", "[/left]", "[red]x[/red]"]
    for name in names:
        target = folder / "brackets" / name
        target.mkdir(parents=True)
        (target / "1.jpg").write_bytes((folder / "town" / "sun" / "0003.jpg").read_bytes())
    images = [f"brackets/{name}/1.jpg" for name in names]
    done = run("locate", "town.displace", *images)
    assert done.exit_code == 0, done.output
    assert all(image in done.stdout for image in images)
    town = PlaceMap.load(folder / "town.displace")
    places = Places(np.array([f"[/b]{place}" for place in town.place_ids]), town.positions, town.images)
    town = town.changed(places=places, traversals={f"[/{name}]": n for name, n in town.traversals.items()})
    town.save(folder / "[x]names.displace")
    shown = run("inspect", "[x]names.displace")
    assert shown.exit_code == 0, shown.output
    assert "[x]names.displace" in shown.stdout
    assert "[/sun] (24)" in shown.stdout
    for sources in (images[:1], images):
        located = run("locate", "[x]names.displace", *sources, "-o", "[y].csv", "--overwrite")
        assert located.exit_code == 0, located.output
        assert "[/b]0003" in located.stdout
        rows = "1 row" if len(sources) == 1 else f"{len(sources)} rows"
        assert f"{rows} in [y].csv" in located.stdout


def test_folders_are_shown_as_they_are(capsys):
    from types import SimpleNamespace as Record

    from displace.cli import console_evaluation, console_store

    store = type(
        "Store", (list,), {"folder": "[/a]", "dim": 3, "dtype": "float32", "model": {"model": "[/m]"}}
    )([1])
    console_store.show_extraction(
        Record(store=store, n_described=1, n_reused=0, n_unlisted=0, skipped={}, seconds=1.0)
    )
    results = Record(folder="[/b]")
    console_evaluation.show_outcome(
        Record(results=results, n_computed=1, cells=[1], seconds=1.0, absent={}, impossible={}, title="[/c]"),
    )
    printed = capsys.readouterr()
    assert "[/a]: 1 × 3 float32, by [/m]" in printed.out
    assert printed.err.endswith("in 1.0 s: [/b]\n")


def test_a_new_recording_is_assigned_to_the_places_of_a_map(run, folder):
    done = run("manifest", "rain", "-o", "rain_against.csv", "--against", "town.displace")
    assert done.exit_code == 0, done.output
    rows = read_rows(folder / "rain_against.csv")
    assert [row["place"] for row in rows] == [f"{place:04d}" for place in range(PLACES)]


def test_inspect_shows_a_map(run, folder):
    shown = run("inspect", "town.displace")
    assert shown.exit_code == 0
    assert "beside it, needed only to update" in shown.stdout
    assert re.search(r"R@1 of \d+ held-out queries \(exact place\): ", " ".join(shown.stdout.split()))
    assert "% as float32, " in shown.stdout
    record = json.loads(run("inspect", "town.displace", "--json").stdout)
    assert (record["places"], record["fusion"], record["dim"]) == (PLACES, "displace", 3168)
    assert 0 <= record["calibration"]["auc"] <= 1


def test_inspect_takes_frames_as_a_tolerance(run, folder):
    assert "exact place" in run("inspect", "route.desc").stdout
    assert json.loads(run("inspect", "route.desc", "--tolerance", "2 frames", "--json").stdout)[
        "tolerance"
    ] == ("±2 frames")
    refused = run("inspect", "route.desc", "--tolerance", "25m")
    assert refused.exit_code == 2
    assert "needs positions of the places" in refused.stderr
    run("build", "route.desc", "-o", "kept.displace", "--keep-references")
    before = (folder / "kept.displace").read_bytes()
    exact, near = (
        json.loads(run("inspect", "kept.displace", *given, "--json").stdout)
        for given in ([], ["--tolerance", "2 frames"])
    )
    built = verbs.build(folder / "route.desc", folder / "near.displace", tolerance="2 frames")
    assert near["calibration"]["n_correct"] == built.calibration.n_correct > exact["calibration"]["n_correct"]
    assert (folder / "kept.displace").read_bytes() == before
    without = run("inspect", "town.displace", "--tolerance", "2 frames")
    assert without.exit_code == 2
    assert "is not that of the map (exact place)" in without.stderr
    assert run("inspect", "town.displace", "--tolerance", "exact").exit_code == 0


def test_advise_takes_frames_as_a_tolerance(run):
    exact, near = (
        json.loads(run("advise", "route.desc", *given, "--json").stdout)
        for given in ([], ["--tolerance", "2 frames"])
    )
    assert (exact["protocol"], near["protocol"]) == ("exact place", "±2 frames")
    assert near["scores"] != exact["scores"]
    refused = run("advise", "route.desc", "--tolerance", "25m")
    assert refused.exit_code == 2
    assert "needs positions of the places" in refused.stderr


def test_build_auto_asks_for_advice_with_the_tolerance(run, monkeypatch):
    asked = {}

    def noted(refs, **options):
        asked.update(options)
        raise InputError("enough")

    monkeypatch.setattr("displace.advise.advise", noted)
    run("build", "route.desc", "-o", "near_auto.displace", "--fusion", "auto", "--tolerance", "2 frames")
    assert asked["tolerance"] == "2 frames"


def drive_store(folder, name, behind):
    """Store of two drives without positions; of the second one that many frames at the beginning are missing."""
    noise = np.random.default_rng(0).standard_normal((84, 12))
    seen = l2_normalize(sum(noise[shift : shift + 80] for shift in range(5)))  # a frame is like the next one
    vectors = np.concatenate([seen[: 80 - behind], seen[behind:] + 1e-3]).astype(np.float32)
    number, names = np.tile(np.arange(80 - behind), 2), np.repeat(["sun", "night"], 80 - behind)
    images = [f"{name}/{place:04d}.jpg" for name, place in zip(names, number, strict=True)]
    manifest = Manifest(images, [f"p{place:04d}" for place in number], names, folder / "images", frame=number)
    write_store(Queries(vectors, manifest.places, manifest), folder / name, "made")


@pytest.mark.parametrize("verb", ["build", "advise", "evaluate"])
def test_drives_are_looked_at(run, folder, verb, recwarn):
    """A hint where the next frame counts as wrong, and a warning where equal numbers are not equal places."""
    for behind in (0, 8):
        drive_store(folder, f"{verb}{behind}.desc", behind)
    short = ["--fusion", "hops"] if verb != "advise" else []
    hint, off = "the next frame counts as wrong", "better when shifted"
    for behind, option, expected in (
        (0, [], [hint]),
        (0, ["--tolerance", "2 frames"], []),
        (8, ["--tolerance", "2 frames"], [off]),
    ):
        recwarn.clear()
        output = (
            ["-o", f"{verb}{behind}{len(option)}.displace", "--no-calibration"] if verb == "build" else []
        )
        done = run(verb, f"{verb}{behind}.desc", *output, *option, *short)
        assert done.exit_code == 0, done.output
        said = [str(warning.message) for warning in recwarn if warning.category is RouteWarning]
        assert [next(text for text in (hint, off) if text in line) for line in said] == expected


def test_advise_prints_a_table(run):
    shown = run("advise", "route.desc")
    assert shown.exit_code == 0, shown.output
    assert all(name in shown.stdout for name in ("displace", "hops", "sun", "snow"))
    assert (
        "not possible with these references: displace ridge=0 center=False; --json says why" in shown.stdout
    )
    assert "singular" not in shown.stdout


def test_export(run, folder):
    assert run("export", "town.displace", "--to", "csv", "-o", "places.csv").exit_code == 0
    assert len(read_rows(folder / "places.csv")) == PLACES
    done = run(
        "export", "town.displace", "--to", "hloc", "--queries", "night.desc", "-k", 2, "-o", "pairs.txt"
    )
    assert done.exit_code == 0, done.output
    assert len((folder / "pairs.txt").read_text().splitlines()) == 2 * PLACES


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--search", "fais"], "did you mean 'faiss'?"),
        (["--search", "exact:int4"], "unknown kind of exact index 'int4'; did you mean 'int8'?"),
        (["-k", 0], "k=0 must be a whole number"),
        (["--min-confidence", 50], "must be a probability"),
        (["--adapt", "bach"], "adapt='bach' must be one of none, batch, auto"),
        (["-o", "x.txt"], "use a name that ends in .csv"),
        (["-o", "x.geojson"], "the map has no positions"),
    ],
)
def test_options_of_locate_are_checked_before_anything_is_described(run, monkeypatch, options, message):
    monkeypatch.setattr("displace.descriptors.extraction.describe", None)
    done = run("locate", "town.displace", "town/sun", *options)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())


def test_points_of_a_map_in_metres_are_refused_before_anything_is_described(run, folder):
    """GeoJSON needs the UTM zone, which export takes and locate does not."""
    rng = np.random.default_rng(0)
    names = [f"{i:02}" for i in range(20)]
    refs = ReferenceSet(
        rng.standard_normal((40, 8)),
        names * 2,
        ["a"] * 20 + ["b"] * 20,
        info=Places(
            names, Positions(np.column_stack([np.full(20, 368000.0), 5761050.0 + 10 * np.arange(20)]), False)
        ),
    )
    maps_build(refs, calibration=False).save(folder / "metres.displace")
    done = run("locate", "metres.displace", "town/sun", "-o", "metres.geojson")
    assert done.exit_code == 2
    said = " ".join(done.stderr.split())
    assert "easting and northing in metres" in said
    assert "displace export MAP --to geojson --queries STORE --crs EPSG:32630" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fusion", "hopps"], "did you mean 'hops'?"),
        (["--dtype", "float8"], "must be one of float16, float32, int8"),
        (["--tolerance", "near"], "tolerance='near' must be"),
    ],
)
def test_options_of_build_are_checked_before_anything_is_described(run, folder, options, message):
    done = run("build", "town", "-o", "misspelt.displace", *options)
    assert done.exit_code == 2
    assert message in done.stderr
    assert not list(folder.glob("misspelt.*"))


def test_whether_a_photo_is_in_the_map_follows_the_limit_in_json_too(run):
    ask = ("locate", "town.displace", "night/0005.jpg", "--json")
    (record,) = json.loads(run(*ask).stdout)
    sure = record["confidence"]
    assert record["in_map"] == (sure >= 0.5)
    for limit, within in ((sure - 0.001, True), (sure + 0.001, False)):
        done = run(*ask, "--min-confidence", limit)
        assert json.loads(done.stdout)[0]["in_map"] is within
        assert done.exit_code == (0 if within else 1)


@pytest.mark.parametrize("source", [["night"], ["night.desc", "--traversal", "night"]], ids=" ".join)
def test_many_photos_follow_the_limit_too(run, source):
    ask = ("locate", "town.displace", *source)
    sure = sorted(record["confidence"] for record in json.loads(run(*ask, "--json").stdout))
    limit = (sure[9] + sure[10]) / 2
    done = run(*ask, "--min-confidence", limit)
    assert done.stdout.count("not in the map") == 10
    assert f"{PLACES - 10} of {PLACES} images are in the map" in done.stdout
    assert sum(r["in_map"] for r in json.loads(run(*ask, "--min-confidence", limit, "--json").stdout)) == (
        PLACES - 10
    )


def test_a_store_adapts_as_its_images_do(run, monkeypatch):
    """Many images of one condition adapt the matching, which is said; those of several traversals do not."""
    said = "the matching was adapted to the condition that these images share; --adapt none"
    run("build", "route.desc", "-o", "adapting.displace", "--no-calibration")
    ask = {"images": ["night"], "store": ["night.desc"], "some": ["night.desc", "--traversal", "night"]}

    def scores(*given):
        return [r["scores"] for r in json.loads(run("locate", "adapting.displace", *given, "--json").stdout)]

    adapted = scores(*ask["images"], "--adapt", "batch")
    assert scores(*ask["store"], "--adapt", "batch") == adapted != scores(*ask["images"])
    assert scores(*ask["store"]) == scores(*ask["images"])
    assert said not in run("locate", "adapting.displace", "night").stdout
    monkeypatch.setattr("displace.maps.driving.LEAST_QUERIES", PLACES)
    for given in ask.values():
        assert scores(*given) == adapted
        assert said in " ".join(run("locate", "adapting.displace", *given).stdout.split())
    assert said not in run("locate", "adapting.displace", "night", "--adapt", "none").stdout
    assert said not in run("locate", "adapting.displace", "route.desc").stdout


def test_a_map_of_plain_retrieval_keeps_no_identity(run, folder):
    assert run("build", "route.desc", "-o", "plain.displace", "--traversal", "sun").exit_code == 0
    place_map = PlaceMap.load(folder / "plain.displace")
    assert place_map.projection is None
    assert (folder / "plain.displace").stat().st_size < place_map.dim**2


def test_a_file_has_as_many_places_as_asked_for(run, folder):
    run("locate", "town.displace", "town/sun/0005.jpg", "-k", 3, "-o", "three.csv")
    header = (folder / "three.csv").read_text().splitlines()[0].split(",")
    assert [name for name in header if name.startswith("place")] == ["place", "place_2", "place_3"]


def test_an_exported_file_has_as_many_places_as_asked_for(run, folder):
    for asked, count in (([], 1), (["-k", 3], 3)):
        done = run(
            "export", "town.displace", "--to", "csv", "--queries", "night.desc", *asked, "-o", f"{count}.csv"
        )
        assert done.exit_code == 0, done.output
        header = (folder / f"{count}.csv").read_text().splitlines()[0].split(",")
        assert sum(name.startswith("place") for name in header) == count


@pytest.mark.parametrize("given", ["town.displace --to csv", "route.desc --to hloc"])
def test_a_number_of_places_without_queries_is_refused(run, folder, given):
    done = run("export", *given.split(), "-k", 3, "-o", "unasked")
    assert done.exit_code == 2
    assert "k=3 is the number of places of each query, but no queries" in " ".join(done.stderr.split())
    assert not (folder / "unasked").exists()


def test_one_source_needs_no_list_in_python(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert verbs.locate("town.displace", "town/sun/0005.jpg").matches.places[0, 0] == "0005"
    assert verbs.manifest("town", "sole.csv", layout="names").images == 4 * PLACES


def test_one_photo_has_its_position_in_full():
    from displace.cli.console_maps import _verdict

    record = {"places": ["a"], "in_map": True, "confidence": 0.9, "easting": 421337.25, "northing": 5761054.5}
    assert str(_verdict(record)) == "at a, confidence 0.90, easting 421337.2, northing 5761054.5"
    missed = {"places": ["a"], "in_map": False, "confidence": 0.9981}
    assert str(_verdict(missed)) == "not in the map: confidence 0.9981 that it is at a"
    degrees = {"places": ["a"], "in_map": True, "confidence": 0.9, "latitude": 52.0, "longitude": 13.0}
    assert "longitude 13.000000" in str(_verdict(degrees))


def test_a_photo_that_fits_another_place_than_its_descriptor_says_so(capsys):
    """Better than the one that the descriptor is most like; another one yet may fit as well."""
    from displace.cli.console_maps import _show_one

    record = {"image": "a.jpg", "places": ["b", "a", "c"], "in_map": True, "confidence": 0.9}
    _show_one({**record, "scores": [0.3, 0.5, 0.2]})
    assert (
        "the photo itself fits b better than a, which its descriptor is most like" in capsys.readouterr().out
    )
    _show_one({**record, "scores": [0.5, 0.3, 0.2]})
    assert "the photo itself" not in capsys.readouterr().out


def test_of_many_photos_those_that_are_not_in_the_map_have_no_position():
    """That of their likeliest place stood beside "not in the map"."""
    from displace.cli.console_maps import _show_many

    here = {
        "image": "a.jpg",
        "places": ["a"],
        "scores": [0.9],
        "confidence": 0.9,
        "easting": 42.5,
        "in_map": True,
    }
    other = {**here, "image": "b.jpg", "easting": 77.5, "in_map": False}
    unknown = {**here, "image": "c.jpg", "easting": 33.5, "in_map": None}
    shown = Console(file=io.StringIO(), width=100)
    _show_many(shown, [here, other, unknown], "")
    text = shown.file.getvalue()
    assert "42.5" in text
    assert "33.5" in text
    assert "not in the map" in text
    assert "77.5" not in text


def test_whether_a_photo_is_in_a_map_without_confidence_is_not_known(run):
    run("build", "route.desc", "-o", "unsure.displace", "--no-calibration")
    (record,) = json.loads(run("locate", "unsure.displace", "town/sun/0005.jpg", "--json").stdout)
    assert record["in_map"] is None
    for limit in ([], ["--min-confidence", "0"]):
        done = run("locate", "unsure.displace", "town/sun/0005.jpg", *limit)
        assert done.exit_code == 0
        assert "the map has no confidence" in done.stdout


@pytest.fixture
def unfinished(monkeypatch):
    """Every store lacks an image that no run has reached yet."""

    class Unfinished(DescriptorStore):
        def __init__(self, folder):
            super().__init__(folder)
            self.missing = ["town/sun/0003.jpg"]

    monkeypatch.setattr("displace.descriptors.store.DescriptorStore", Unfinished)


@pytest.mark.usefixtures("unfinished")
@pytest.mark.parametrize("verb", ["build", "advise", "evaluate"])
def test_a_store_that_is_not_finished_is_refused_unless_asked_for(run, verb):
    done = run(verb, "route.desc", *(["-o", "unfinished.displace"] if verb == "build" else []))
    assert done.exit_code == 2
    assert "1 of 96 images are not described yet" in done.stderr
    assert "--partial" in done.stderr
    output = ["-o", "unfinished.displace"] if verb == "build" else []
    assert run(verb, "route.desc", *output, "--partial").exit_code == 0


@pytest.mark.usefixtures("unfinished")
def test_half_a_recording_is_not_added_unless_asked_for(run):
    add = ("update", "town.displace", "--add", "night.desc", "-o", "half.displace")
    done = run(*add)
    assert done.exit_code == 2
    assert f"night.desc is not finished: 1 of {PLACES} images are not described yet" in done.stderr
    assert run(*add, "--partial").exit_code == 0
    remove = ("update", "half.displace", "--remove", "night", "--references", "night.desc")
    assert run(*remove).exit_code == 2
    assert run(*remove, "--partial").exit_code == 0


@pytest.mark.usefixtures("unfinished")
@pytest.mark.parametrize(
    "command",
    [
        ["locate", "town.displace", "night.desc"],
        ["export", "night.desc", "--to", "hloc", "-o", "unfinished.h5"],
        ["export", "town.displace", "--to", "csv", "--queries", "night.desc", "-o", "unfinished.csv"],
    ],
    ids=" ".join,
)
def test_what_is_written_of_half_a_store_says_so(run, command):
    with pytest.warns(RouteWarning, match=f"night.desc is not finished: 1 of {PLACES} images"):
        done = run(*command)
    assert done.exit_code == 0, done.output


def test_exports_of_a_store_say_which_option_they_want(run):
    for options, why in (
        (
            ["--queries", "night.desc"],
            "--queries takes a store to locate in a map, but route.desc is itself a store",
        ),
        ([], "vme separates queries from references"),
    ):
        done = run("export", "route.desc", "--to", "vme", "-o", "logs", *options)
        assert done.exit_code == 2
        assert why in done.stderr
        assert "--traversal (dusk" in done.stderr


def test_build_takes_a_store_or_its_folder_from_python(folder):
    built = [
        maps_build(given, calibration=False) for given in (folder / "route.desc", str(folder / "route.desc"))
    ]
    built.append(maps_build(DescriptorStore(folder / "route.desc"), calibration=False))
    for place_map in built:
        assert len(place_map.places) == PLACES
        assert place_map.model["model"] == "hog"


def test_places_and_traversals_swapped_are_told():
    vectors = np.random.default_rng(0).standard_normal((300, 8))
    with pytest.raises(InputError, match="seem to be swapped"):
        maps_build(ReferenceSet(vectors, np.repeat(["a", "b", "c"], 100), np.tile(np.arange(100), 3)))
    with pytest.raises(InputError, match="a map is built from"):
        maps_build(vectors)


@pytest.mark.parametrize(
    ("verb", "works"),
    [
        ("build", "displace.maps.building.build"),
        ("advise", "displace.advise.advise"),
        ("evaluate", "displace.evaluation.benchmark.run_suite"),
    ],
)
def test_threads_are_those_that_were_asked_for_or_one_where_little_is_to_do(run, monkeypatch, verb, works):
    """On a busy machine threads of small problems wait for each other."""
    seen = []

    def noted(*_, **__):
        seen.append(n_threads())
        raise InputError("enough")

    monkeypatch.setattr(works, noted)
    output = ["-o", "threads.displace"] if verb == "build" else []
    with limit_threads(2):
        run(verb, "route.desc", *output)
        run(verb, "route.desc", *output, "--threads", 3)
        monkeypatch.setattr("displace.threads.SMALL", 0)
        run(verb, "route.desc", *output)
    assert seen == [1, 3, 2]


@pytest.mark.parametrize("verb", ["build", "advise"])
def test_threads_are_checked(run, verb):
    done = run(verb, "route.desc", "--threads", 0)
    assert done.exit_code == 2
    assert "threads=0 must be at least 1" in done.stderr


@pytest.mark.parametrize(("width", "listed"), [(200, "drives/night/left/a.jpg"), (40, "│ left/a.jpg")])
def test_names_that_would_be_folded_are_listed_without_the_folder_that_all_are_in(width, listed):
    record = {"places": ["0001"], "scores": [0.5], "in_map": True}
    records = [{"image": f"drives/night/{name}.jpg", **record} for name in ("left/a", "right/b")]
    with (shown := console.Console(width=width)).capture() as text:
        console_maps._show_many(shown, records, "")
    assert listed in text.get()
    assert ("images in drives/night\n" in text.get()) == (width == 40)
    mixed = ["/a/very/long/folder/for/a/picture.jpg", "night/b.jpg"]
    assert console_maps._within(shown, mixed) == ("", mixed)


def test_a_video_is_named_above_its_frames_and_not_in_each_row():
    record = {"image": "drives/a very long name of a drive at night.mp4", "places": ["0001"], "scores": [0.5]}
    record |= {"in_map": True, "confidence": 1.0, "latitude": 51.752134, "longitude": -1.258021}
    records = [{**record, "frame": frame, "timestamp": frame / 4} for frame in (8, 9)]
    with (shown := console.Console(width=80)).capture() as text:
        console_maps._show_many(shown, records, "")
    title, _, head, _, *rows, _ = text.get().splitlines()
    assert title == "frames of drives/a very long name of a drive at night.mp4"
    assert "image" not in head
    assert [row.split()[1] for row in rows] == ["8", "9"]
    with shown.capture() as text:
        console_maps._show_many(shown, [*records, {**records[0], "image": "b.mp4"}], "")
    assert "frames of" not in text.get()
    assert "│ b.mp4 " in text.get()


def test_numbers_that_a_narrow_screen_has_no_room_for_are_folded_and_not_cut_off():
    record = {
        "image": "run.mcap",
        "frame": 3,
        "timestamp": 1_800_000_000.25,
        "places": ["0001"],
        "scores": [0.5],
    }
    record |= {"in_map": True, "confidence": 0.875, "latitude": 60.019314, "longitude": -120.000003}
    with (shown := console.Console(width=60)).capture() as text:
        console_maps._show_many(shown, [record], "")
    assert "…" not in text.get()
    cells = zip(*(line.split("│")[1:-1] for line in text.get().splitlines() if "│" in line), strict=True)
    numbers = ["".join(part.strip() for part in cell) for cell in cells]
    assert numbers == ["3", "1800000000.25", "0001", "0.500", "0.88", "60.019314", "-120.000003"]


@pytest.mark.parametrize(("n", "said"), [(40, False), (41, True)])
def test_of_more_images_than_are_shown_it_is_said_how_many_are_in_the_map(n, said):
    """Also if all are: the table ends before the others."""
    record = {"image": "a.jpg", "places": ["0001"], "scores": [0.5], "in_map": True, "confidence": 0.9}
    with (shown := console.Console(width=80)).capture() as text:
        console_maps._show_many(shown, [record] * n, "")
    assert (f"{n} of {n} images are in the map" in text.get()) == said


def test_where_the_images_are_that_are_not_shown_is_said_unless_it_was_given():
    """Of many images a table shows the first ones; with -o the others need no advice."""
    record = {"image": "a.jpg", "places": ["0001"], "scores": [0.5], "in_map": True}
    for where in ("", "; -o FILE or --json gives all"):
        with (shown := console.Console(width=200)).capture() as text:
            console_maps._show_many(shown, [record] * (console_maps.SHOWN + 2), where)
        assert text.get().rstrip().endswith(f"… and 2 more{where}")


def test_what_is_no_store_is_told_the_commands_that_make_one_for_this_map(run, folder):
    """Of a manifest, the command that was named makes a manifest of recordings."""
    said = run("update", "town.displace", "--add", "night.csv").stderr
    assert "displace extract night.csv -m " in said
    assert "then displace update town.displace --add night.desc" in said
    assert "displace manifest" not in said
    said = run("update", "town.displace", "--add", "night").stderr
    assert "displace manifest night -o new.csv --against town.displace, then displace extract new.csv" in said


def test_a_traversal_that_neither_has_is_told_those_of_the_map(run, folder):
    said = run("update", "town.displace", "--remove", "fog", "--references", "night.desc").stderr
    assert "the map has no traversal 'fog'; it has dusk, overcast, snow, sun" in said


def test_half_an_area_and_a_store_among_images_are_refused_in_words_of_their_own(run, folder):
    said = run("locate", "town.displace", "night", "--radius", "5").stderr
    assert said == "error: near and radius belong together: give both\n"
    said = run("locate", "town.displace", "night.desc", "night").stderr
    assert "night.desc is a descriptor store, which is located alone" in said


def test_every_is_not_ignored_without_a_word_where_there_are_images(run, folder, tmp_path):
    with pytest.warns(RouteWarning, match="every='5' is for videos and bags: all images of night are taken"):
        run("locate", "town.displace", "night", "--every", "5")
    with pytest.warns(RouteWarning, match="every='5' is for videos and bags: all images of town are taken"):
        run("manifest", "town", "-o", tmp_path / "route.csv", "--every", "5")
    assert run("locate", "town.displace", next((folder / "night").iterdir()), "--every", "5").exit_code == 0


def test_a_map_of_several_stores_is_the_map_of_one_that_has_all(run, folder):
    """After updates, 'build again from all references' is advised: this is how."""
    stores = [DescriptorStore(folder / f"{name}.desc") for name in ("route", "night")]
    refs = [store.references() for store in stores]
    whole = ReferenceSet(
        np.concatenate([part.vectors for part in refs]),
        np.concatenate([part.places for part in refs]),
        np.concatenate([part.traversals for part in refs]),
        info=refs[0].info,
    )
    expected = maps_build(whole, model=stores[0].model)
    done = run("build", "route.desc", "night.desc", "-o", "joined-all.displace")
    assert done.exit_code == 0, done.output
    made = PlaceMap.load(folder / "joined-all.displace")
    assert made.traversals == expected.traversals
    assert np.array_equal(made.place_ids, expected.place_ids)
    assert np.allclose(np.asarray(made.vectors, float), np.asarray(expected.vectors, float), atol=2e-3)
    few = run(
        "build",
        "route.desc",
        "night.desc",
        "-o",
        "joined-few.displace",
        "--traversal",
        "sun",
        "--traversal",
        "night",
    )
    assert list(PlaceMap.load(folder / "joined-few.displace").traversals) == ["night", "sun"], few.output


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("night.desc", "night.desc"), "traversal 'night' is in night.desc and in night.desc"),
        (
            ("route.desc", "night.desc", "--exclude", "fog"),
            "unknown traversal 'fog'. Known: dusk, overcast, snow",
        ),
        (("route.desc", "night.desc", "-m", "hog"), "model='hog' is not possible with several stores"),
        (("route.desc", "night.desc", "--alike"), "alike=True is not possible with several stores"),
        (("route.desc", "night.csv"), "build takes one manifest, or stores, or recordings"),
    ],
)
def test_stores_that_cannot_be_joined_are_refused(run, given, said):
    done = run("build", *given, "-o", "joined-none.displace")
    assert done.exit_code == 2
    assert said in done.stderr


def test_an_update_after_which_to_build_again_says_how(run, folder):
    """From one traversal to two."""
    run("build", "route.desc", "-o", "rebuilt.displace", "--traversal", "sun")
    done = run("update", "rebuilt.displace", "--add", "night.desc")
    assert "to build it again: displace build STORE STORE … -o rebuilt.displace --overwrite" in done.stdout


def test_an_address_without_its_scheme_is_told_from_a_map_that_is_not_there(run):
    said = run("locate", "robot.local:8008", "night").stderr
    assert "if it is the address of a server, write http://robot.local:8008" in said
    assert "displace build SOURCE -o nowhere.displace" in run("locate", "nowhere.displace", "night").stderr
