"""What every data set must keep, run over the registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from displace.datasets import DATASETS
from displace.datasets.base import Dataset, Protocol
from displace.errors import DisplaceError, PluginError, UnknownNameError


@pytest.fixture(params=DATASETS.names())
def dataset(request: pytest.FixtureRequest) -> Dataset:
    return DATASETS.get(request.param)()


def test_the_data_sets_are_there() -> None:
    assert {"folder", "gldv2_micro", "nordland", "pittsburgh30k", "robotcar"} <= set(DATASETS.names())


def test_is_named_after_its_file_and_described(dataset: Dataset) -> None:
    assert dataset.name in DATASETS.names()
    assert type(dataset).__module__ == f"displace.datasets.{dataset.name}"
    for text in (dataset.title, dataset.obtain, type(dataset).__doc__):
        assert text


def test_protocols_have_names_and_known_traversals(dataset: Dataset) -> None:
    names = [protocol.name for protocol in dataset.protocols]
    assert names
    assert len(set(names)) == len(names)
    for protocol in dataset.protocols:
        assert isinstance(protocol, Protocol)
        if dataset.traversals:
            assert {*protocol.queries, *protocol.references} <= set(dataset.traversals)
        assert dataset.protocol(protocol.name) is protocol
    assert dataset.protocol() is dataset.protocols[0]


def test_unknown_protocol_suggests_the_nearest(dataset: Dataset) -> None:
    first = dataset.protocol().name
    with pytest.raises(UnknownNameError, match=f"did you mean '{first}'"):
        dataset.protocol(first + "x")


def test_own_manifest_wins(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "1.jpg").write_bytes(b"")
    (tmp_path / "manifest.csv").write_text("image,place,traversal\n1.jpg,here,night\n")
    manifest = dataset.manifest(tmp_path)
    assert (manifest.places.tolist(), manifest.traversals.tolist()) == (["here"], ["night"])


def test_a_data_set_of_another_package_that_returns_no_manifest_is_named(tmp_path: Path) -> None:
    """A forgotten return ended in a traceback of this package."""
    forgetful = type("Forgetful", (DATASETS.get("folder"),), {"name": "mine", "read": lambda _, root: None})
    with pytest.raises(PluginError, match=r"the data set 'mine' read .* as None, and must return a Manifest"):
        forgetful().manifest(tmp_path)


def test_a_folder_of_something_else_is_refused(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    with pytest.raises(DisplaceError, match=tmp_path.name):
        dataset.manifest(tmp_path)
