"""Stores and maps of images that an earlier release wrote: they load, give the same answers, and are added to."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from displace import PlaceMap
from displace.descriptors.extraction import extract
from displace.descriptors.store import DescriptorStore
from displace.models import open_model


@pytest.fixture
def folder(request, tmp_path):
    shutil.copytree(request.path.parent / "golden" / "store_v1", tmp_path / "store")
    return tmp_path / "store"


def test_a_released_store_holds_the_same_descriptors(folder):
    store = DescriptorStore(folder / "route.desc")
    np.testing.assert_array_equal(store.vectors(), np.load(folder / "answers.npz")["vectors"])
    assert store.references().info.frames.tolist() == list(range(8))


def test_a_released_store_is_not_described_again(folder):
    store = DescriptorStore(folder / "route.desc")
    model = open_model(store.model)
    model.describe = None  # describing one image would fail
    again = extract(store.manifest, model, folder / "route.desc").store
    np.testing.assert_array_equal(again.vectors(), store.vectors())


def test_a_released_map_answers_the_same_for_descriptors_and_images(folder):
    place_map, answers = PlaceMap.load(folder / "town.displace"), np.load(folder / "answers.npz")
    vectors = DescriptorStore(folder / "route.desc").queries("night").vectors
    images = [folder / "night" / f"{place}.png" for place in range(8)]
    for queries in (vectors, images):
        found = place_map.locate(queries, k=3)
        np.testing.assert_array_equal(found.places, answers["places"])
        np.testing.assert_allclose(found.scores, answers["scores"], atol=1e-3)
