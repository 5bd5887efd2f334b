"""The examples about models that a reader will copy."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
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


@pytest.mark.parametrize("module", [displace.models, _preprocessing], ids=lambda m: m.__name__)
def test_docstring_examples(module: Any) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
