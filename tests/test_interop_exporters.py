"""The list of exporters: every entry works, and says what it takes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from interop_route import NIGHT, make_town

from displace.errors import InputError, UnknownNameError
from displace.interop import EXPORTERS, KINDS, export

NEEDS = {"hloc": "h5py", "onnx": "onnx", "faiss": "faiss"}
REQUIRED = {("vme", "DescriptorStore"): {"queries": NIGHT}}
ENTRIES = [(name, kind) for name, exporter in EXPORTERS.items() for kind in exporter.functions]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    case = make_town()
    store = case.store(tmp_path_factory.mktemp("route") / "route.desc")
    return {"PlaceMap": case.town, "Locations": case.locations, "DescriptorStore": store}


@pytest.mark.parametrize(("name", "kind"), ENTRIES)
def test_every_exporter_writes_the_files_it_names(sources, tmp_path, name, kind):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"the extra {name} is not installed")
    written = export(name, sources[kind], tmp_path / "out", **REQUIRED.get((name, kind), {}))
    assert sorted(written) == sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert all(path.stat().st_size > 0 for path in written)


@pytest.mark.parametrize(("name", "kind"), ENTRIES)
def test_every_exporter_is_documented_with_its_options(name, kind):
    documentation = EXPORTERS[name].writer(kind).__doc__
    assert "Parameters" in documentation
    assert "Returns" in documentation
    assert all(option in documentation for option in EXPORTERS[name].options(kind))


def test_sources_are_those_that_exist(sources):
    assert set(KINDS) == set(sources) == {type(source).__name__ for source in sources.values()}


def test_unknown_names_sources_and_options(sources, tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'geojson'"):
        export("geojsn", sources["PlaceMap"], tmp_path / "a")
    with pytest.raises(
        InputError, match=r"takes a map with queries \(Locations\) or a descriptor store, not a map"
    ):
        export("hloc", sources["PlaceMap"], tmp_path / "a")
    with pytest.raises(InputError, match="export geojson of a map has no option 'dtype'; it has: crs"):
        export("geojson", sources["PlaceMap"], tmp_path / "a", dtype="float16")
    with pytest.raises(InputError, match="export vme of a descriptor store needs the option 'queries'"):
        export("vme", sources["DescriptorStore"], tmp_path / "a")
    assert EXPORTERS["vme"].options("DescriptorStore") == {"queries": True, "database": False}
    assert not list(tmp_path.iterdir())


def test_listing_exporters_imports_none_of_them():
    code = "import sys, displace.interop as i; i.EXPORTERS; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"h5py", "onnx", "faiss", "displace.interop.onnx", "displace.interop.hloc"} & set(loaded)
