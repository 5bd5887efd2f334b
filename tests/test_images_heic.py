"""Pictures as phones write them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from displace.errors import ImageError
from displace.images import find_images, read_image

pillow_heif = pytest.importorskip("pillow_heif", reason="needs the extra heic")


@pytest.fixture
def photo(tmp_path):
    pixels = np.full((48, 64, 3), (200, 100, 50), np.uint8)
    pillow_heif.from_bytes("RGB", (64, 48), pixels.tobytes()).save(tmp_path / "IMG_1.HEIC")
    return tmp_path / "IMG_1.HEIC"


def test_it_is_found_and_read(photo):
    assert [path.name for path in find_images(photo.parent)] == ["IMG_1.HEIC"]
    image = read_image(photo)
    assert image.shape == (48, 64, 3)
    assert np.abs(image.astype(int) - (200, 100, 50)).max() < 12


def test_what_is_missing_is_named(photo, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(ImageError, match=r"pip install 'displace\[heic\]'"):
        read_image(photo)
