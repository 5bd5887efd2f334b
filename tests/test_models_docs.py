"""The examples about models that a reader will copy."""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import displace.models
from displace.models import _preprocessing

DOCS = Path(__file__).resolve().parent.parent / "docs"


def test_the_model_in_add_a_model_works() -> None:
    code = re.findall(r"```python\n(.*?)```", (DOCS / "add_a_model.md").read_text("utf-8"), re.S)[0]
    found: dict[str, Any] = {"__name__": "example"}
    exec(code, found)
    model = found["Thumbnail"](crop=(0, 0, 0.5, 0))
    images = np.random.default_rng(0).integers(0, 256, (3, 96, 128, 3), np.uint8)
    vectors = model.describe(np.stack([model.prepare(image) for image in images]))
    assert vectors.shape == (3, model.dim)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    images[:, 48:] = 0
    np.testing.assert_array_equal(
        vectors, model.describe(np.stack([model.prepare(image) for image in images]))
    )
    assert model.fingerprint()["preprocessing"] == {"size": [24, 32]}
    assert model.full_name == "thumbnail"


def test_the_network_in_add_a_model_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra torch")

    def network(dim: int) -> Any:
        class Unit(torch.nn.Module):  # type: ignore[misc,name-defined]
            def forward(self, vectors: Any) -> Any:
                return torch.nn.functional.normalize(vectors)

        pooled = torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(48, dim)
        return torch.nn.Sequential(*pooled, Unit())

    monkeypatch.setitem(sys.modules, "mypackage", ModuleType("mypackage"))
    own = ModuleType("mypackage.network")
    monkeypatch.setattr(own, "network", network, raising=False)
    monkeypatch.setitem(sys.modules, "mypackage.network", own)
    torch.save(network(512).state_dict(), tmp_path / "own.pth")
    code = re.findall(r"```python\n(.*?)```", (DOCS / "add_a_model.md").read_text("utf-8"), re.S)[1]
    found: dict[str, Any] = {"__name__": "example"}
    exec(code, found)
    model = found["MyModel"](weights=tmp_path / "own.pth")
    image = np.random.default_rng(0).integers(0, 256, (96, 128, 3), np.uint8)
    vectors = model.describe(np.stack([model.prepare(image)]))
    assert vectors.shape == (1, 512)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("module", [displace.models, _preprocessing], ids=lambda m: m.__name__)
def test_docstring_examples(module: Any) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
