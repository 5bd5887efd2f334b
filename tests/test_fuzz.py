"""Files of every kind with damage behind right checksums: the package's own error, or an answer, and nothing else.

``make fuzz`` runs ten times as many cases with other seeds (FUZZ_CASES for each kind, FUZZ_SEED).
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from tiny import TinyModel, make_route

from displace import PlaceMap, ReferenceSet, build
from displace.cli import console, console_store
from displace.descriptors.extraction import extract
from displace.descriptors.store import DescriptorStore
from displace.errors import DisplaceError
from displace.evaluation.results import Results
from displace.evaluation.studies.study_files import load_study, save_study
from displace.evaluation.studies.task import Setting
from displace.evaluation.studies.tau import TauAblation, TauCurve
from displace.evaluation.suites import Suite
from displace.evaluation.tables import build_tables
from displace.files import tensors
from displace.geo import Positions
from displace.manifest.position_files import read_position_file
from displace.manifest.table import Manifest
from displace.synthetic import make_route as synthetic_route
from displace.verbs.inspect import inspect

CASES = int(os.environ.get("FUZZ_CASES", "200"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
GOLDEN = Path(__file__).parent / "golden"

STRANGE = (
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, -0.0, 1e308, -1e308),
    *(float("nan"), float("inf"), "", "x", "0", "../x", "\0", "\ud800", "ü" * 50, "9" * 5000, "nan"),
    *([], [[]], [None], ["x"], [1, 2, 3], {}, {"x": 1}, {"": None}, [[[[[[]]]]]]),
)


def damaged_json(record, rng):
    """A copy with one to three values replaced, removed, added or doubled."""
    record = copy.deepcopy(record)
    for _ in range(rng.randint(1, 3)):
        spots = list(_spots(record))
        if not spots:
            return copy.deepcopy(rng.choice(STRANGE))
        holder, key = rng.choice(spots)
        kind = rng.randrange(6)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        elif kind == 2 and isinstance(holder, dict):
            holder[rng.choice(["x", "", "format", key + "_"])] = copy.deepcopy(holder[key])
        elif kind == 3 and isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
            holder[key] = holder[key] * rng.choice([-1, 2, 1e300 if abs(holder[key]) < 1e8 else -2])
        else:
            holder[key] = copy.deepcopy(rng.choice(STRANGE))
    return record


def _spots(record):
    if isinstance(record, dict | list):
        for key, value in record.items() if isinstance(record, dict) else enumerate(record):
            yield record, key
            yield from _spots(value)


def damaged_array(array, rng):
    """A copy with other values, another shape or another type."""
    array = np.array(array)
    kind = rng.randrange(8)
    flat = array.reshape(-1)
    if kind <= 2 and flat.size:
        for _ in range(rng.randint(1, 3)):
            low, high = (-1e300, 1e300) if array.dtype.kind == "f" else (-(2**62), 2**62)
            value = rng.choice([0, 1, -1, 2, 1e-40, 127, 128, 40, 1e9, low, high, np.nan, np.inf])
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                flat[rng.randrange(flat.size)] = np.float64(value).astype(array.dtype)
        return array
    if kind == 3 and len(flat):
        return array[:-1] if array.ndim else array
    if kind == 4:
        return array[..., None] if rng.random() < 0.5 else flat
    if kind == 5:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return array.astype(rng.choice(list(tensors.DTYPES.values())))
    if kind == 6:
        return array[:0] if array.ndim else array
    return np.concatenate([array, array]) if array.ndim else array


def damaged_text(text, rng):
    """Bytes with parts removed, doubled, overwritten or exchanged."""
    raw = bytearray(text.encode())
    for _ in range(rng.randint(1, 4)):
        at, span = rng.randrange(len(raw) + 1), rng.randint(1, 12)
        part = rng.choice(
            [
                b"",
                b"\0",
                b"\r",
                b'"',
                b",",
                b"\n",
                b"inf",
                b"nan",
                b"-1e999",
                b"\xff\xfe",
                b"9" * 5000,
                b" ",
                b"=",
            ]
        )
        raw[at : at + rng.choice([0, span])] = part if rng.random() < 0.7 else raw[at : at + span] * 2
    return bytes(raw)


def damaged_tensors(path, kind, rng):
    """Write a file of arrays anew with damage in its header or its arrays, and right checksums."""
    header, arrays = tensors.read(path, kind, 1)
    arrays = {name: np.array(array) for name, array in arrays.items()}
    if rng.random() < 0.5:
        header = damaged_json(header, rng)
        if not isinstance(header, dict):
            header = {}
    else:
        for _ in range(rng.randint(1, 2)):
            name = rng.choice(sorted(arrays))
            if rng.random() < 0.1:
                del arrays[name]
                break
            arrays[name] = damaged_array(arrays[name], rng)
    try:
        tensors.write(path, header, arrays)
    except (KeyError, ValueError, TypeError, OverflowError):
        pytest.skip("cannot be written at all")


def tried(work):
    """Whether `work` gave an answer; the package's own error is the only other way out."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            work()
    except DisplaceError:
        return False
    return True


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    folder = tmp_path_factory.mktemp("maps")
    route = synthetic_route(n_places=12, n_traversals=3, dim=6)
    ids = np.array([f"p{p:02d}" for p in range(12)])
    refs = ReferenceSet(route.references.vectors, ids[route.references.places], route.references.traversals)
    where = {
        "positions": Positions(np.arange(24.0).reshape(12, 2), heading=np.arange(12.0)),
        "images": [f"{name}.jpg" for name in ids],
    }
    build(refs.without("t2"), "displace", calibration=False, keep_references=True, **where).save(folder / "a")
    build(refs, "pooling", dtype="int8", **where).save(folder / "b")
    return folder, refs, route.queries[:3].astype(np.float32)


def shown(held, path):
    """What `inspect` prints, as text and as JSON."""
    with console.out.capture():
        console_store.show_inspect(held, {"source": path})
        console.show_json(console_store.record_inspect(held, {"source": path}))


def use_map(path, refs, queries):
    place_map = inspect(path)
    shown(place_map, path)
    matches = place_map.locate(queries, k=3)
    assert matches.places.shape[0] == len(queries)
    assert np.isfinite(matches.scores).all()
    assert (np.abs(matches.scores) < 1.2).all()
    assert matches.confidence is None or np.isfinite(matches.confidence).all()
    return place_map


@pytest.mark.parametrize("name", ["a", "b"])
def test_maps(town, tmp_path, name):
    folder, refs, queries = town
    rng, n_used = random.Random(SEED), 0
    for _ in range(2 * CASES):
        shutil.copy(folder / name, tmp_path / "m")
        try:
            damaged_tensors(tmp_path / "m", "displace map", rng)
        except pytest.skip.Exception:
            continue
        n_used += tried(lambda: use_map(tmp_path / "m", refs, queries))
    assert 0 < n_used < CASES


def test_statistics(town, tmp_path):
    folder, refs, queries = town
    rng = random.Random(SEED + 1)

    def change(case):
        place_map = PlaceMap.load(tmp_path / "m", verify=False)
        if case % 2:
            place_map.remove("t1")
        else:
            place_map.add(refs.only("t2"))
        assert np.isfinite(place_map.locate(queries).scores).all()
        place_map.save(tmp_path / "m")
        PlaceMap.load(tmp_path / "m")

    for case in range(CASES):
        shutil.copy(folder / "a", tmp_path / "m")
        shutil.copy(folder / "a-stats", tmp_path / "m-stats")
        try:
            damaged_tensors(tmp_path / "m-stats", "displace statistics", rng)
        except pytest.skip.Exception:
            continue
        tried(lambda case=case: change(case))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    extract(make_route(folder / "route"), TinyModel(), folder / "route.desc")
    return folder / "route.desc"


@pytest.mark.parametrize("part", ["index.json", "shards/000000.json"])
def test_stores(store, tmp_path, part):
    rng = random.Random(SEED + 2)
    folder = tmp_path / "s.desc"
    shutil.copytree(store, folder)
    record = json.loads((store / part).read_text())

    def use():
        opened = DescriptorStore(folder)
        repr(opened), opened.missing, opened.skipped, opened.model.get("model")
        opened.references(exclude=["night"])
        opened.queries("night")
        shown(inspect(folder), folder)

    for _ in range(CASES):
        (folder / part).write_text(json.dumps(damaged_json(record, rng)))
        tried(use)


@pytest.mark.parametrize("part", ["cells", "questions"])
def test_results(tmp_path, part):
    rng = random.Random(SEED + 3)
    shutil.copytree(GOLDEN / "results_v1", tmp_path / "r")
    paths = sorted((tmp_path / "r" / part).glob("*.json" if part == "cells" else "*.npz"))
    paths += sorted((tmp_path / "r" / "cells").glob("*.npz"))[: 2 if part == "questions" else 0]
    results = Results.open(tmp_path / "r")

    def use():
        for result in results:
            results.complete([result])
            if result.ok:
                results.ranking(result).hits(1)
                asked = results.questions(result)
                [asked.truth_of(query) for query in range(len(asked))]
                asked.correct(results.ranking(result).places)
        build_tables(results)

    for _ in range(CASES):
        path = rng.choice(paths)
        before = path.read_bytes()
        if path.suffix == ".json":
            path.write_text(json.dumps(damaged_json(json.loads(before), rng)))
        else:
            with np.load(path) as arrays:
                kept = dict(arrays)
            name = rng.choice(sorted(kept))
            if kept[name].dtype.kind == "U":
                kept[name] = kept[name][:-1] if kept[name].ndim else np.array("../..")
            else:
                kept[name] = damaged_array(kept[name], rng)
            np.savez_compressed(path, **kept)
        tried(use)
        path.write_bytes(before)


def test_studies(tmp_path):
    rng, path = random.Random(SEED + 4), tmp_path / "tau-x.json"
    about = dict.fromkeys(Setting.__dataclass_fields__, "x")
    study = TauAblation(Setting(**about), [0.5, 0.9], 0.9, [])
    curve = dict.fromkeys(TauCurve.__dataclass_fields__, 1.0)
    study.curves.append(TauCurve(**curve))
    save_study(study, path)
    record = json.loads(path.read_text())
    for _ in range(CASES // 2):
        path.write_text(json.dumps(damaged_json(record, rng)))
        tried(lambda: load_study(path))


MANIFEST = "image,place,traversal,easting,northing,heading,frame,timestamp\n" + "".join(
    f"{name}/{row}.jpg,{row},{name},{row}.5,-{row},90,{row},14000000{row}\n"
    for name in ("sun", "night")
    for row in range(4)
)


def test_manifests_and_positions(tmp_path):
    rng, path = random.Random(SEED + 5), tmp_path / "m.csv"

    def use():
        manifest = Manifest.read(path)
        manifest.write(tmp_path / "again.csv")
        again = Manifest.read(tmp_path / "again.csv")
        assert again.places.tolist() == manifest.places.tolist()
        manifest.positions()

    for _ in range(CASES):
        path.write_bytes(damaged_text(MANIFEST, rng))
        tried(use)
        tried(lambda: read_position_file(path).for_images(["0.jpg", "1.jpg"], None, 2.0))


TRACKS = {
    "a.gpx": "<gpx><trk><trkseg>"
    + "".join(
        f'<trkpt lat="5{row}.5" lon="-{row}">\n<time>2027-01-15T12:00:0{row}.5+01:00</time></trkpt>'
        for row in range(4)
    )
    + "</trkseg></trk></gpx>",
    "a.nmea": "".join(f"$GPRMC,12000{row},A,5030.5,N,00815.5,E,,,150127,,\r\n" for row in range(4)),
}


@pytest.mark.parametrize("name", TRACKS)
def test_tracks(tmp_path, name):
    rng, path = random.Random(SEED + 7), tmp_path / name
    for _ in range(CASES // 2):
        path.write_bytes(damaged_text(TRACKS[name], rng))
        tried(lambda: read_position_file(path).for_images(["0.jpg"], np.array([1.8e9 + 14_401]), 2.0))


def test_suites(tmp_path):
    rng, path = random.Random(SEED + 6), tmp_path / "s.toml"
    shipped = Suite.read("town").text
    for _ in range(CASES // 2):
        path.write_bytes(damaged_text(shipped, rng))
        tried(lambda: Suite.read(path))
