"""Which model is taken where none is named."""

from __future__ import annotations

import importlib.util

import pytest

from displace.models import default_model


@pytest.mark.parametrize(("installed", "model"), [(True, "efficientnet_lite"), (False, "hog")])
def test_the_network_where_it_is_installed(monkeypatch, installed, model):
    monkeypatch.delenv("DISPLACE_MODEL")
    found = importlib.util.find_spec

    def find(name):
        return (object() if installed else None) if "efficientnet" in name or name == "torch" else found(name)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    assert default_model() == model


def test_the_environment_has_the_last_word(monkeypatch):
    monkeypatch.setenv("DISPLACE_MODEL", "megaloc")
    assert default_model() == "megaloc"
