"""Exporters: every one works, says what it takes, and may come from another package."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from interop_route import NIGHT, make_town

from displace import verbs
from displace.descriptors.store import DescriptorStore
from displace.errors import InputError, PluginError, UnknownNameError
from displace.interop import EXPORTERS, export
from displace.interop.base import Exporter
from displace.maps import PlaceMap
from displace.maps.located import Located

NEEDS = {"hloc": "h5py", "onnx": "onnx", "faiss": "faiss"}
REQUIRED = {("vme", DescriptorStore): {"queries": NIGHT}}
ENTRIES = [(name, kind) for name in EXPORTERS.names() for kind in EXPORTERS.get(name).takes()]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    case = make_town()
    store = case.store(tmp_path_factory.mktemp("route") / "route.desc")
    return {PlaceMap: case.town, Located: case.locations, DescriptorStore: store}


def test_the_names_that_the_command_line_takes():
    assert EXPORTERS.names() == ["csv", "faiss", "geojson", "hloc", "onnx", "vme"]


@pytest.mark.parametrize(("name", "kind"), ENTRIES)
def test_every_exporter_writes_the_files_it_names(sources, tmp_path, name, kind):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"the extra {name} is not installed")
    written = export(name, sources[kind], tmp_path / "out", **REQUIRED.get((name, kind), {}))
    assert sorted(written) == sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert all(path.stat().st_size > 0 for path in written)


@pytest.mark.parametrize(("name", "kind"), ENTRIES)
def test_every_exporter_is_documented_with_its_options(name, kind):
    exporter = EXPORTERS.get(name)
    assert exporter.about()
    documentation = exporter.writer(kind)[0].__doc__
    assert all(option in documentation for option in exporter.options(kind))


def test_subclasses_of_a_source_are_written_as_it_is(sources, tmp_path):
    class MyMap(PlaceMap):
        """A map with something of its own."""

    class MyLocated(Located):
        """Located images with something of their own."""

    place_map, located = sources[PlaceMap], sources[Located]
    mine = MyMap.__new__(MyMap)
    mine.__dict__.update(vars(place_map))
    export("csv", place_map, tmp_path / "theirs.csv")
    export("csv", mine, tmp_path / "mine.csv")
    assert (tmp_path / "mine.csv").read_text() == (tmp_path / "theirs.csv").read_text()
    fields = {name: getattr(located, name) for name in ("place_map", "manifest", "matches", "vectors")}
    export("csv", MyLocated(**fields), tmp_path / "night.csv")
    assert len((tmp_path / "night.csv").read_text().splitlines()) == len(located) + 1


class Names(Exporter):
    """The names of a map's places, one a line."""

    @staticmethod
    def write_map(place_map, path, *, end="\n"):
        """Write the names."""
        Path(path).write_text(end.join(map(str, place_map.place_ids)))
        return [Path(path)]


def test_an_exporter_of_another_package(sources, tmp_path, monkeypatch):
    entry = SimpleNamespace(name="names", value="their_package:Names", load=lambda: Names)
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: [entry] if group == "displace.interop" else []
    )
    assert "names" in EXPORTERS.names()
    export("names", sources[PlaceMap], tmp_path / "names.txt", end=" ")
    assert (tmp_path / "names.txt").read_text().split()[:2] == ["000", "001"]
    with pytest.raises(InputError, match=r"takes a map, not a descriptor store \(The names of a map"):
        export("names", sources[DescriptorStore], tmp_path / "a")


def test_an_exporter_that_does_not_say_what_it_wrote_is_named(sources, tmp_path, monkeypatch):
    """A forgotten return ended in a traceback of this package; of a string each letter was printed as a file."""
    silent = type("Silent", (Exporter,), {"write_map": staticmethod(lambda place_map, path: str(path))})
    monkeypatch.setitem(EXPORTERS._found, "silent", silent)
    with pytest.raises(PluginError, match=r"export silent of a map returned '.*', and must return the list"):
        export("silent", sources[PlaceMap], tmp_path / "a")


def test_unknown_names_sources_and_options(sources, tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'geojson'"):
        export("geojsn", sources[PlaceMap], tmp_path / "a")
    with pytest.raises(
        InputError, match=r"takes a map with queries \(Located\) or a descriptor store, not a map"
    ):
        export("hloc", sources[PlaceMap], tmp_path / "a")
    with pytest.raises(InputError, match="not str"):
        export("csv", "town.displace", tmp_path / "a")
    with pytest.raises(InputError, match="export geojson of a map has no option 'dtype'; it has: crs"):
        export("geojson", sources[PlaceMap], tmp_path / "a", dtype="float16")
    with pytest.raises(InputError, match="export vme of a descriptor store needs the option 'queries'"):
        export("vme", sources[DescriptorStore], tmp_path / "a")
    assert EXPORTERS.get("vme").options(DescriptorStore) == {"queries": True, "database": False}
    assert not list(tmp_path.iterdir())


def test_located_images_refuse_what_is_no_probability(sources):
    with pytest.raises(InputError, match="min_confidence=2 must be a probability"):
        replace(sources[Located], min_confidence=2)


def test_listing_exporters_imports_none_of_them():
    code = "import sys, displace.interop as i; i.EXPORTERS.names(); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"h5py", "onnx", "faiss", "displace.interop.onnx", "displace.interop.hloc"} & set(loaded)


def test_a_misspelt_format_is_told_before_what_else_is_missing():
    with pytest.raises(UnknownNameError, match=r"unknown export 'geojsn'; did you mean 'geojson'"):
        verbs.export("town.displace", to="geojsn")
