"""GPS in EXIF: four hemispheres, what is none, and routes of photos that are paired by it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from PIL.TiffImagePlugin import IFDRational

from displace import verbs
from displace.errors import RouteWarning
from displace.manifest.builder import build_manifest
from displace.manifest.exif_positions import gps_of
from displace.manifest.place_assignment import KnownPlaces
from displace.manifest.table import Manifest

GPS = 0x8825
METRE = 1 / 111_320
"""Degrees of latitude."""


def angle(degrees: float) -> tuple[float, float, float]:
    """Degrees, minutes and seconds, which EXIF keeps as fractions."""
    minutes, seconds = divmod(abs(degrees) * 3600, 60)
    return (*map(float, divmod(minutes, 60)), round(seconds, 4))  # type: ignore[return-value]


def tags_of(latitude: float, longitude: float) -> dict[int, Any]:
    return {
        1: "S" if latitude < 0 else "N",
        2: angle(latitude),
        3: "W" if longitude < 0 else "E",
        4: angle(longitude),
    }


def photo(path: Path, tags: dict[int, Any] | None, seed: int = 0, quality: int = 75) -> Path:
    """Write a picture, with GPS where there is any."""
    path.parent.mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    exif[0x0110] = "a phone"
    if tags is not None:
        exif[GPS] = tags
    pixels = np.random.default_rng(seed).integers(0, 255, (6, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((64, 48)).save(path, exif=exif, quality=quality)
    return path


def walk(
    folder: Path, metres: list[float], names: str = "IMG_{:04d}.jpg", without: int = 0, quality: int = 75
) -> None:
    """Photos along a street that runs north; the last few have no GPS."""
    for number, at in enumerate(metres):
        known = number < len(metres) - without
        photo(
            folder / names.format(number),
            tags_of(48.5 + at * METRE, 9.05) if known else None,
            seed=round(at),
            quality=quality,
        )


def pairs(manifest: Manifest) -> dict[str, set[str]]:
    """Images of each place."""
    found: dict[str, set[str]] = {}
    for place, image in zip(manifest.places.tolist(), manifest.images, strict=True):
        found.setdefault(place, set()).add(image)
    return found


@pytest.mark.parametrize("latitude", [48.520834, -33.856784])
@pytest.mark.parametrize("longitude", [9.057645, -151.215297])
@pytest.mark.parametrize("ending", ["jpg", "png", "webp"])
def test_every_hemisphere(tmp_path, latitude, longitude, ending):
    found = gps_of(photo(tmp_path / f"a.{ending}", tags_of(latitude, longitude)))
    assert found == pytest.approx((latitude, longitude), abs=1e-7)


def test_decimal_minutes_lower_case_and_the_equator(tmp_path):
    tags = {1: "s", 2: (33.0, 51.40704, 0.0), 3: "e\0", 4: (0.0, 0.0, 0.0)}
    assert gps_of(photo(tmp_path / "a.jpg", tags)) == pytest.approx((-33.856784, 0.0), abs=1e-6)


@pytest.mark.parametrize(
    "changed",
    [
        {2: (0.0, 0.0, 0.0), 4: (0.0, 0.0, 0.0)},
        {2: (91.0, 0.0, 0.0)},
        {4: (180.0, 0.0, 1.0)},
        {2: (IFDRational(1, 0), 0.0, 0.0)},
        {2: (IFDRational(0, 0), IFDRational(0, 0), IFDRational(0, 0))},
        {2: (48.0, 31.0)},
        {2: 48.0},
        {1: "X"},
        {1: ""},
        {1: None},
        {4: None},
    ],
)
def test_what_cannot_be_a_position_is_none(tmp_path, changed):
    tags = {
        tag: value
        for tag, value in {**tags_of(48.5, 9.0), **changed}.items()
        if changed.get(tag, 0) is not None
    }
    assert gps_of(photo(tmp_path / "a.jpg", tags)) is None


def test_damaged_files_are_none_and_raise_nothing(tmp_path):
    whole = photo(tmp_path / "a.jpg", tags_of(48.5, 9.0)).read_bytes()
    start, rng = whole.index(b"Exif"), np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole)
        for at in rng.integers(start, start + 180, 6):
            damaged[at] = rng.integers(256)
        (tmp_path / "b.jpg").write_bytes(damaged[: rng.integers(40, len(damaged))])
        found = gps_of(tmp_path / "b.jpg")
        assert found is None or (abs(found[0]) <= 90 and abs(found[1]) <= 180)
    (tmp_path / "b.jpg").write_bytes(b"")
    assert gps_of(tmp_path / "b.jpg") is None
    assert gps_of(tmp_path / "nothing.jpg") is None


def test_tiff(tmp_path):
    exif = Image.Exif()
    exif.get_ifd(GPS).update(tags_of(48.5, -9.0))
    Image.new("RGB", (8, 6)).save(tmp_path / "a.tif", exif=exif, tiffinfo={GPS: dict(exif.get_ifd(GPS))})
    assert gps_of(tmp_path / "a.tif") == (48.5, -9.0)


def test_a_png_without_exif_is_not_decoded(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    Image.new("RGB", (8, 6)).save(path)
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda _: pytest.fail("it was decoded"))
    assert gps_of(path) is None


def test_photos_in_another_order_are_paired_by_position(tmp_path, caplog):
    there = [10.0 * i for i in range(12)]
    back = [10.0 * i + 2 for i in range(11, -1, -1)]
    walk(tmp_path / "june", there)
    walk(tmp_path / "october", back)
    with pytest.warns(RouteWarning, match="10 of 10 places are passed in opposite directions"):
        manifest = build_manifest(tmp_path)
    assert len(manifest.place_ids()) == 12
    for images in pairs(manifest).values():
        june, october = sorted(images)
        assert int(june[-8:-4]) + int(october[-8:-4]) == 11
    assert manifest.latitude is not None
    assert caplog.messages == [
        "positions are the GPS in EXIF: 12 of 12 images of june, 12 of 12 images of october have it"
    ]
    assert pairs(build_manifest(tmp_path, "names"))["IMG_0000"] == {
        "june/IMG_0000.jpg",
        "october/IMG_0000.jpg",
    }


def test_photos_without_gps_among_others_get_no_place_and_that_is_said(tmp_path, caplog):
    walk(tmp_path / "june", [10.0 * i for i in range(12)])
    walk(tmp_path / "october", [10.0 * i for i in range(8)], without=3)
    manifest = build_manifest(tmp_path)
    assert pairs(manifest)[""] == {f"october/IMG_{i:04d}.jpg" for i in (5, 6, 7)}
    assert "5 of 8 images of october have it; the others get no place" in caplog.text


def test_gps_of_few_photos_tells_no_places_and_that_is_said(tmp_path, caplog):
    walk(tmp_path / "june", [10.0 * i for i in range(12)])
    walk(tmp_path / "october", [10.0 * i for i in range(12)], without=8)
    manifest = build_manifest(tmp_path)
    assert manifest.places[0] == "IMG_0000"
    assert caplog.messages == [
        "positions do not tell places, as fewer than half of the images of october have GPS in EXIF (12 of 12 images "
        "of june, 4 of 12 images of october); those of june are kept"
    ]


def test_walks_with_gps_beside_one_without_keep_their_positions(tmp_path):
    for name, without in (("june", 0), ("july", 0), ("october", 12)):
        walk(tmp_path / name, [10.0 * i for i in range(12)], without=without)
    manifest = build_manifest(tmp_path)
    assert manifest.places[0] == "IMG_0000"
    located = np.isfinite(manifest.latitude)
    assert set(manifest.traversals[located]) == {"june", "july"}
    assert located.sum() == 24


def test_a_file_of_positions_wins(tmp_path, caplog):
    for name in ("june", "october"):
        walk(tmp_path / name, [10.0 * i for i in range(4)])
        rows = [f"IMG_{i:04d}.jpg,{i * 100},0" for i in range(4)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["image,easting,northing", *rows]))
    manifest = build_manifest(tmp_path)
    assert manifest.latitude is None
    assert manifest.easting is not None
    (tmp_path / "october.csv").unlink()  # metres cannot be compared with degrees
    assert build_manifest(tmp_path).places[0] == "IMG_0000"
    assert caplog.messages == ["GPS in EXIF is not used: it is degrees, and the positions of june are metres"]
    caplog.clear()
    (tmp_path / "june.csv").write_text(
        "image,lat,lon\n" + "\n".join(f"IMG_{i:04d}.jpg,{48.5 + 10 * i * METRE},9.05" for i in range(4))
    )
    assert build_manifest(tmp_path).latitude is not None
    assert caplog.messages == ["positions are the GPS in EXIF: 4 of 4 images of october have it"]


def test_a_folder_for_each_place_says_more_than_gps(tmp_path):
    for place in range(24):
        walk(tmp_path / f"place{place}", [100.0 * place, 100.0 * place + 1])
    assert len(build_manifest(tmp_path).place_ids()) == 24


def test_against_known_places(tmp_path, caplog):
    walk(tmp_path / "june", [10.0 * i for i in range(12)])
    walk(tmp_path / "new", [52.0, 41.0, 12.0])
    route = build_manifest(tmp_path / "june")
    manifest = build_manifest({"new": tmp_path / "new"}, against=route)
    assert manifest.places.tolist() == ["0005", "0004", "0001"]
    metric = KnownPlaces.of(Manifest(["june/IMG_0000.jpg"], ["a"], ["june"], easting=[0.0], northing=[0.0]))
    caplog.clear()
    (tmp_path / "new" / "IMG_0002.jpg").unlink()
    named = build_manifest({"new": tmp_path / "new"}, against=metric)  # whose positions are metres
    assert named.places.tolist() == ["a", ""]
    assert not caplog.messages


def test_a_map_of_photos_is_made_and_extended_by_gps(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    rng = np.random.default_rng(3)
    places = [10.0 * i for i in range(30)]
    for name, order, quality in (("june", rng.permutation(30), 75), ("october", rng.permutation(28), 85)):
        walk(tmp_path / "photos" / name, [places[i] for i in order], quality=quality)
    walk(tmp_path / "winter", [places[i] for i in rng.permutation(20)])
    built = verbs.build(tmp_path / "photos", tmp_path / "town.displace", model="hog")
    assert len(built.place_ids) in (28, 30)  # the anchor's
    assert "positions are the GPS in EXIF" in caplog.text
    assert built.positions is not None
    manifest = Manifest.read(tmp_path / "town.csv")
    for place in set(manifest.places.tolist()) - {""}:
        assert np.ptp(manifest.latitude[manifest.places == place]) < METRE
    verbs.manifest([tmp_path / "winter"], tmp_path / "winter.csv", against=tmp_path / "town.displace")
    added = Manifest.read(tmp_path / "winter.csv")
    assert (added.places != "").sum() >= 18
    by_place = dict(zip(manifest.places.tolist(), manifest.latitude.tolist(), strict=True))
    for place, latitude in zip(added.places.tolist(), added.latitude.tolist(), strict=True):
        assert not place or abs(by_place[place] - latitude) < METRE
