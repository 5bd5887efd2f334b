"""What every descriptor model must keep, run over the registry."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from displace.errors import InputError, UnknownNameError
from displace.models import MODELS, ModelRow, get_model, list_models
from displace.models.base import shows_nothing

ROWS = {row.name: row for row in list_models()}


@pytest.fixture(params=ROWS)
def row(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelRow:
    """One model in one variant, on a machine without any weights."""
    monkeypatch.setenv("DISPLACE_CACHE", str(tmp_path))
    found = ROWS[request.param]
    if not found.installed:
        pytest.skip(f"{found.name} needs the extra '{found.extra}'")
    return found


def test_the_models_are_there() -> None:
    published = {"cosplace", "eigenplaces", "megaloc", "mixvpr", "netvlad", "salad"}
    assert {*published, "efficientnet_lite", "hog"} <= set(MODELS.names())


def test_metadata_is_complete(row: ModelRow) -> None:
    assert row.paper.startswith("https://")
    assert row.licence
    assert row.weights_licence
    assert row.dim > 0
    assert (row.weights_address is None) == (row.weights_licence == "no weights")
    assert row.weights_address is None or row.weights_address.startswith("https://")


def test_one_default_variant(row: ModelRow) -> None:
    family = row.name.partition(":")[0]
    defaults = [
        other.name for other in ROWS.values() if other.name.partition(":")[0] == family and other.is_default
    ]
    assert len(defaults) == 1
    assert get_model(family).full_name == defaults[0]


def test_made_without_weights(row: ModelRow) -> None:
    model = get_model(row.name)
    assert model.full_name == row.name
    assert model.name == row.name.partition(":")[0]
    assert model.dim == row.dim
    assert (model.weights is None) == (row.weights_address is None)
    numbers = re.findall(r"\d+", model.variant)
    assert not numbers or int(numbers[-1]) == model.dim


def test_prepare_needs_no_weights_and_leaves_the_image(row: ModelRow) -> None:
    image = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
    before = image.copy()
    model = get_model(row.name)
    prepared = model.prepare(image)
    assert prepared.dtype == np.float32
    assert np.isfinite(prepared).all()
    np.testing.assert_array_equal(image, before)
    np.testing.assert_array_equal(prepared, model.prepare(image))
    np.testing.assert_array_equal(prepared, model.prepare(image[::-1, ::-1][::-1, ::-1]))


def test_network_has_the_dimension(row: ModelRow) -> None:
    model = get_model(row.name)
    if row.extra is None:
        assert model.describe(model.prepare(np.zeros((48, 64, 3), np.uint8))[None]).shape == (1, row.dim)
        return
    import torch

    with torch.device("meta"):
        network = model.build().eval()
        outputs = network(torch.zeros(2, *model.prepare(np.zeros((48, 64, 3), np.uint8)).shape))
    assert tuple(outputs.shape) == (2, row.dim)


@pytest.mark.parametrize(
    "row", [row for row in ROWS.values() if row.installed and row.weights_here], ids=lambda r: r.name
)
def test_describes_unit_vectors(row: ModelRow) -> None:
    model = get_model(row.name)
    images = np.random.default_rng(0).integers(0, 256, (2, 48, 64, 3), np.uint8)
    vectors = model.describe(np.stack([model.prepare(image) for image in images]))
    assert vectors.shape == (2, row.dim)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    fingerprint = model.fingerprint()
    assert json.loads(json.dumps(fingerprint)) == fingerprint
    assert fingerprint["model"] == model.name
    assert fingerprint["variant"] == model.variant


def test_what_shows_nothing_is_told_by_the_prepared_image(row: ModelRow) -> None:
    """Whatever a model does to grey levels: a covered camera, noise included, and a faint picture."""
    model, rng = get_model(row.name), np.random.default_rng(0)
    covered = np.clip(rng.normal(20, 4, (480, 640, 3)), 0, 255).astype(np.uint8)
    faint = np.rint(100 + 10 * np.sin(np.arange(640) / 50) * np.ones((480, 1))).astype(np.uint8)
    shown = np.repeat(faint[..., None], 3, axis=2)
    if row.extra is None:
        assert not model.prepare(covered).any()
        assert model.prepare(shown).any()
        return
    for image, nothing in ((covered, True), (shown, False)):
        assert shows_nothing(model.prepare(image).mean(axis=0), model._grey_level) == nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "row", [row for row in ROWS.values() if row.installed and row.weights_here], ids=lambda r: r.name
)
def test_an_image_that_shows_nothing_has_the_zero_descriptor(row: ModelRow) -> None:
    model, seen = get_model(row.name), np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
    images = [seen, np.full_like(seen, 3), np.repeat(np.repeat(seen[:12, :16], 4, axis=0), 4, axis=1)]
    vectors = model.describe(np.stack([model.prepare(image) for image in images]))
    assert vectors.any(axis=1).tolist() == [True, False, True]


def test_bad_options_are_refused(row: ModelRow) -> None:
    for options in ({"image_size": "huge"}, {"crop": "half"}, {"mask": "absent.png"}):
        with pytest.raises(InputError):
            get_model(row.name, **options)
    with pytest.raises(UnknownNameError):
        get_model(f"{row.name.partition(':')[0]}:nonsense")
    with pytest.raises(TypeError):
        get_model(row.name, colour="blue")


def test_listing_imports_no_torch() -> None:
    code = "import sys; from displace.models import list_models; list_models(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_model_is_in_the_docs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")
    for name in ROWS:
        family, _, variant = name.partition(":")
        line = next((line for line in text.splitlines() if line.startswith(f"| `{family}`")), None)
        assert line is not None, f"docs/models.md has no row for {family}"
        assert not variant or f"`{variant}`" in line, f"docs/models.md does not list {name}"


def test_extras_are_those_of_the_package() -> None:
    for row in ROWS.values():
        modules = MODELS.get(row.name.partition(":")[0]).packages
        assert row.installed == all(importlib.util.find_spec(module) for module in modules)
        assert (row.extra is None) == (not modules)
