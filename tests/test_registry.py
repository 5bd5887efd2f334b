from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import displace
from displace.advise.advising import choices_of
from displace.datasets import DATASETS
from displace.errors import InputError, MissingExtraError, PluginError, UnknownNameError
from displace.evaluation.methods import methods_named
from displace.fusion import FUSIONS
from displace.interop import EXPORTERS
from displace.models import MODELS
from displace.models.base import DescriptorModel
from displace.registry import looks_the_same, missing_extra, unknown
from displace.search import INDEXES
from displace.sequence import SEQUENCES
from displace.verbs.listing import listing


def test_names_are_the_files():
    assert set(FUSIONS.names()) >= {
        "bsf", "displace", "dmat_avg", "dmat_med", "dmat_min", "hops", "pooling", "single", "std_dmat_min"
    }  # fmt: skip
    assert "base" not in FUSIONS.names()
    assert repr(FUSIONS).startswith("<Registry of displace.fusion: bsf, displace, ")


def test_the_groups_of_entry_points_that_are_told_are_those_of_the_registries():
    page = (Path(__file__).resolve().parent.parent / "ARCHITECTURE.md").read_text("utf-8")
    told = page.split("From another package")[1].split("A `pyproject.toml`")[0]
    registries = (FUSIONS, MODELS, DATASETS, INDEXES, SEQUENCES, EXPORTERS)
    assert re.findall(r"`(displace[\w.]+)`", told) == [registry.package for registry in registries]


def test_listing_imports_nothing():
    code = (
        "import sys; from displace.models import MODELS; MODELS.names();"
        "print([m for m in sys.modules if m.startswith('displace.models.')])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(
        UnknownNameError, match=r"unknown fusion 'hop'; did you mean 'hops'\? Known: bsf, displace"
    ):
        displace.get_fusion("hop")


def test_a_package_elsewhere_adds_an_entry(monkeypatch):
    entry = EntryPoint("shout", "displace.fusion.hops:Hops", "displace.fusion")
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: [entry] if group == "displace.fusion" else []
    )
    assert "shout" in FUSIONS.names()
    assert displace.get_fusion("shout").__name__ == "Hops"


BROKEN = {
    "absent": ("displace_nowhere:Nothing", "cannot be loaded: ModuleNotFoundError: No module named"),
    "misspelt": ("displace.fusion.hops:Hosp", "cannot be loaded: AttributeError"),
    "module": (
        "numpy:linalg",
        r"must be a class that inherits from displace.fusion.base.Fusion; got <module",
    ),
    "stranger": ("pathlib:Path", r"must be a class that inherits .*; got <class 'pathlib.Path'>"),
    "half": ("displace.fusion.base:ScoreFusion", r"must be a class that inherits .* and defines _fuse"),
}


@pytest.fixture
def broken_plugins(monkeypatch):
    entries = [EntryPoint(name, value, "displace.fusion") for name, (value, _) in BROKEN.items()]
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: entries if group == "displace.fusion" else []
    )


@pytest.mark.parametrize("name", BROKEN)
def test_a_package_elsewhere_that_is_broken_is_named(broken_plugins, name):
    with pytest.raises(PluginError, match=rf"the fusion '{name}' of another package .* {BROKEN[name][1]}"):
        displace.get_fusion(name)


def test_a_broken_package_elsewhere_leaves_all_others(broken_plugins, caplog):
    """One such package made every evaluation, advice and listing end in its traceback."""
    own = set(FUSIONS.names()) - set(BROKEN)
    assert set(FUSIONS.usable()) == own
    assert caplog.text.count("left out: the fusion '") == len(BROKEN)
    assert {method.fusion for method in methods_named("all")} == own
    assert {choice.fusion for choice in choices_of(None)} == own
    assert {entry.name for entry in listing("fusions")} == own


def test_an_entry_elsewhere_of_a_name_that_is_taken_is_told_of(monkeypatch, caplog):
    """The fusion of this package, or of the package that was read last, was used under that name without a word."""
    values = {"hops": ["mine:Hops"], "shout": ["displace.fusion.bsf:Bsf", "displace.fusion.hops:Hops"]}
    entries = [EntryPoint(name, value, "displace.fusion") for name in values for value in values[name]]
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: entries if group == "displace.fusion" else []
    )
    assert FUSIONS.usable()["shout"].__name__ == "Hops"
    told = [record.getMessage().partition(" has the name")[0] for record in caplog.records]
    assert told == [
        "left out: the fusion 'hops' of another package (mine:Hops)",
        "left out: the fusion 'shout' of another package (displace.fusion.bsf:Bsf)",
    ]


def test_a_copied_fusion_that_kept_its_title_is_told_apart(monkeypatch):
    """Every `evaluate` was refused, as two methods are called HOPS; alone it was called HOPS itself."""
    entry = EntryPoint("shout", "displace.fusion.hops:Hops", "displace.fusion")
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: [entry] if group == "displace.fusion" else []
    )
    labels = {method.fusion: method.label for method in methods_named("all")}
    assert (labels["hops"], labels["shout"]) == ("HOPS", "HOPS (shout)")
    assert [method.label for method in methods_named(["shout", "hops", "hops"])] == ["HOPS (shout)", "HOPS"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("displace.models.hog:Hog", "has name='hog'; it must be that of the entry point"),
        ("test_registry:Unnamed", "must define name, licence, paper"),
    ],
)
def test_a_model_elsewhere_is_called_what_its_entry_point_is_called(monkeypatch, value, message):
    """Its descriptors were recorded under a name that no model has."""
    entry = EntryPoint("edges", value, "displace.models")
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: [entry] if group == "displace.models" else []
    )
    with pytest.raises(PluginError, match=rf"the model 'edges' of another package .* {message}"):
        MODELS.get("edges")
    assert "hog" in {entry.name for entry in listing("models")}


class Unnamed(DescriptorModel):
    """A model without what lists show of it."""

    dim = 1

    def prepare(self, image):
        return image

    def describe(self, batch):
        return batch

    def settings(self):
        return {}


def test_own_entries_are_found_without_searching_installed_packages(monkeypatch):
    """A map asks for its search backend with every query; reading all metadata took longer than searching."""

    def searched(**_):
        raise AssertionError("installed packages were searched")

    monkeypatch.setattr("importlib.metadata.entry_points", searched)
    assert displace.get_fusion("hops").__name__ == "Hops"
    assert displace.get_fusion("hops") is displace.get_fusion("hops")


def test_a_missing_extra_says_how_to_install_it():
    error = missing_extra("faiss-cpu", "faiss")
    assert isinstance(error, MissingExtraError)
    assert str(error) == "needs 'faiss-cpu': pip install 'displace[faiss]'"


def test_entries_of_the_package_are_found_without_reading_what_is_installed(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: pytest.fail("metadata were read"))
    assert FUSIONS.name_of(FUSIONS.get("hops")) == "hops"


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_name_that_looks_like_a_known_one_is_explained(forms):
    """ "did you mean" was said of a name with an umlaut, and the same name, letter for letter."""
    known, given = (unicodedata.normalize(form, "früh") for form in forms)
    assert "looks the same" in unknown("traversal", given, ["dusk", known])
    assert "copy the name from here. Known: dusk" in unknown("traversal", given, ["dusk", known])
    assert looks_the_same("fruh", [known]) == looks_the_same("1", [1]) == ""
    place_map = displace.build(displace.ReferenceSet(np.eye(4), [0, 0, 1, 1], ["dusk", known] * 2))
    with pytest.raises(InputError, match=r"looks the same.*copy the name from here\. It has dusk"):
        place_map.remove(given)
