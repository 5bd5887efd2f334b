from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

import displace
from displace.errors import MissingExtraError, UnknownNameError
from displace.fusion import FUSIONS
from displace.registry import missing_extra


def test_names_are_the_files():
    assert set(FUSIONS.names()) >= {
        "bsf", "displace", "dmat_avg", "dmat_med", "dmat_min", "hops", "pooling", "single", "std_dmat_min"
    }  # fmt: skip
    assert "base" not in FUSIONS.names()


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
        "displace.registry.entry_points", lambda group: [entry] if group == "displace.fusion" else []
    )
    assert "shout" in FUSIONS.names()
    assert displace.get_fusion("shout").__name__ == "Hops"


def test_own_entries_are_found_without_searching_installed_packages(monkeypatch):
    """A map asks for its search backend with every query; reading all metadata took longer than searching."""

    def searched(**_):
        raise AssertionError("installed packages were searched")

    monkeypatch.setattr("displace.registry.entry_points", searched)
    assert displace.get_fusion("hops").__name__ == "Hops"
    assert displace.get_fusion("hops") is displace.get_fusion("hops")


def test_a_missing_extra_says_how_to_install_it():
    error = missing_extra("faiss-cpu", "faiss")
    assert isinstance(error, MissingExtraError)
    assert str(error) == "needs 'faiss-cpu': pip install 'displace[faiss]'"


def test_entries_of_the_package_are_found_without_reading_what_is_installed(monkeypatch):
    monkeypatch.setattr("displace.registry.entry_points", lambda group: pytest.fail("metadata were read"))
    assert FUSIONS.name_of(FUSIONS.get("hops")) == "hops"
