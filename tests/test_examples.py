"""The examples run, and do what they say."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from drawn import copy_drawn

from displace import PlaceMap

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def walk():
    spec = importlib.util.spec_from_file_location("walk", ROOT / "examples" / "walk.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["walk"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["walk"]


def test_the_walk_on_the_town(walk, tmp_path, capsys):
    copy_drawn(tmp_path / "town", 60, walk.TOWN)
    done = walk.main(["--work", str(tmp_path)])
    assert done.updated_recall >= done.first_recall > 100 / 60 * 10, (
        "ten times chance, and better with more drives"
    )
    town = PlaceMap.load(done.map_file)
    assert len(town.place_ids) == 60
    assert sorted(town.traversals) == ["overcast", "rain", "sun"]
    assert town.calibration is not None
    rows = (tmp_path / "positions.csv").read_text().splitlines()
    assert len(rows) == 61
    assert {row.traversal for row in done.advice.worth} == {"overcast", "rain", "sun"}
    shown = capsys.readouterr().out
    for text in (
        "120 images described",
        "added 60 references of 'sun'",
        "recommended:",
        "with a confidence of",
    ):
        assert text in shown


def test_the_walk_on_real_images(walk, shared, tmp_path, capsys):
    images = shared / "data" / "sped400"
    if not images.is_dir():
        pytest.skip(f"no images at {images}")
    for folder in sorted(images.iterdir()):
        (tmp_path / "images" / folder.name).mkdir(parents=True)
        for file in sorted(folder.iterdir())[::4]:
            (tmp_path / "images" / folder.name / file.name).symlink_to(file)
    done = walk.main(["--images", str(tmp_path / "images"), "--work", str(tmp_path / "work")])
    assert done.first_recall > 75
    assert done.updated_recall > done.first_recall
    assert done.advice.recommended.fusion == "displace"
    assert "added 100 references of 'ref3'" in capsys.readouterr().out


def test_the_walk_names_what_is_missing(walk, tmp_path):
    from displace.errors import InputError

    with pytest.raises(InputError, match="has 0 folders with images"):
        walk.main(["--images", str(tmp_path), "--work", str(tmp_path / "w")])


def test_the_core_of_the_ros_node_needs_no_ros(tmp_path):
    """Frames as a camera's topic has them, compressed, become records."""
    import io

    import numpy as np
    from PIL import Image

    from displace import ReferenceSet, build
    from displace.models import get_model
    from displace.places import Places

    spec = importlib.util.spec_from_file_location("ros2_node", ROOT / "examples" / "ros2_node.py")
    node = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(node)
    rng, model, frames, vectors = np.random.default_rng(0), get_model("hog"), [], []
    for _ in range(8):
        base = Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8)).resize((80, 60))
        buffer = io.BytesIO()
        base.save(buffer, "PNG")
        frames.append(buffer.getvalue())
        vectors += [model.prepare(np.asarray(base))]
    refs = ReferenceSet(model.describe(np.stack(vectors)), np.arange(8), ["sun"] * 8)
    for places in (Places(np.arange(8)), Places(np.arange(8), frames=np.arange(8))):
        known = ReferenceSet(refs.vectors, refs.places, refs.traversals, info=places)
        locate = node.Locator(build(known, "hops", model=model.fingerprint()))
        published, warned = [], []
        received = node.receiver(locate, published.append, warned.append)
        for number, frame in enumerate((*frames, b"damaged", frames[7])):
            stamp = SimpleNamespace(sec=number, nanosec=5)
            received(SimpleNamespace(header=SimpleNamespace(stamp=stamp), data=frame))
        found = [json.loads(text) for text in published]
        assert [record["place"] for record in found][2:] == [*range(2, 8), 7]
        assert [record["stamp"]["sec"] for record in found] == [*range(8), 9]
        assert len(warned) == 1
        assert "8.000000005" in warned[0]


def test_services_have_a_folder_for_weights_that_they_may_write():
    """Neither a dynamic user nor one without a home has a cache of its own: no weights could be downloaded."""
    for name, folder in (
        ("serve.service", "Environment=DISPLACE_CACHE=/var/cache/displace"),
        ("Dockerfile", "ENV DISPLACE_CACHE="),
    ):
        assert folder in (ROOT / "examples" / name).read_text("utf-8")
    unit = (ROOT / "examples" / "serve.service").read_text("utf-8")
    assert "/etc/systemd/system/displace.service" in unit  # the name that systemctl is given
