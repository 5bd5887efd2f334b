"""The models that need no download: HOG and EfficientNet-Lite."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from displace.errors import InputError, MissingExtraError
from displace.models import get_model


def naive_hog(grey: np.ndarray) -> np.ndarray:
    """Histograms of gradients, written out from Dalal and Triggs: 9 orientations, 12×12 cells, 2×2 blocks."""
    grey = grey.astype(np.float64)
    height, width = grey.shape
    down, right = np.zeros_like(grey), np.zeros_like(grey)
    down[1:-1] = grey[2:] - grey[:-2]
    right[:, 1:-1] = grey[:, 2:] - grey[:, :-2]
    size = np.hypot(down, right)
    angle = np.rad2deg(np.arctan2(down, right)) % 180
    cells = np.zeros((height // 12, width // 12, 9))
    for y in range(height):
        for x in range(width):
            cells[y // 12, x // 12, min(int(angle[y, x] // 20), 8)] += size[y, x]
    cells /= 144
    blocks = []
    for y in range(cells.shape[0] - 1):
        for x in range(cells.shape[1] - 1):
            block = cells[y : y + 2, x : x + 2]
            block = block / np.sqrt((block**2).sum() + 1e-10)
            block = np.minimum(block, 0.2)
            blocks.append(block / np.sqrt((block**2).sum() + 1e-10))
    flat = np.concatenate([block.ravel() for block in blocks])
    return flat / np.linalg.norm(flat)


def area_resized(image: np.ndarray) -> np.ndarray:
    """Grey at 144×108 by averaging; exact where both sides are whole multiples."""
    grey = np.rint(image @ np.array([0.299, 0.587, 0.114]))
    return np.rint(grey.reshape(108, image.shape[0] // 108, 144, image.shape[1] // 144).mean((1, 3)))


def street(seed: int, height: int = 216, width: int = 288) -> np.ndarray:
    coarse = np.random.default_rng(seed).integers(0, 256, (54, 72, 3), np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


@pytest.mark.parametrize("seed", [0, 1])
def test_hog_is_the_textbook_descriptor(seed: int) -> None:
    image = street(seed)
    found = get_model("hog").prepare(image)
    assert found.shape == (3168,)
    assert found.dtype == np.float32
    # Rounding of the grey values differs by one at a few pixels, and with it a gradient's direction.
    assert found @ naive_hog(area_resized(image)) > 0.999
    assert found @ naive_hog(area_resized(street(seed + 10))) < 0.97


def test_hog_on_the_exact_grid_equals_the_textbook() -> None:
    grey = np.random.default_rng(3).integers(0, 256, (108, 144), np.uint8)
    image = np.repeat(grey[..., None], 3, axis=2)
    np.testing.assert_allclose(get_model("hog").prepare(image), naive_hog(grey), atol=1e-6)


def test_hog_ignores_brightness_and_contrast() -> None:
    image = street(4).astype(np.float64)
    dark = np.rint(image / 2).astype(np.uint8)
    bright = np.rint(image / 2 + 100).astype(np.uint8)
    model = get_model("hog")
    assert model.prepare(dark) @ model.prepare(bright) > 0.999


def test_hog_of_a_covered_camera_is_zero_and_a_faint_picture_is_not() -> None:
    """Normalised block by block, the noise of a black picture would be edges in all directions."""
    rng, model = np.random.default_rng(0), get_model("hog")
    for level in (6, 128, 250):
        covered = np.clip(rng.normal(level, 4, (480, 640, 3)), 0, 255).astype(np.uint8)
        assert not model.prepare(covered).any()
    faint = np.rint(100 + street(5) / 12.0).astype(np.uint8)
    assert 2.0 < area_resized(faint).std() < 6.0
    assert model.prepare(faint) @ model.prepare(street(5)) > 0.95


def test_hog_describes_batches_and_plain_images() -> None:
    model = get_model("hog")
    batch = np.stack([model.prepare(street(seed)) for seed in range(3)])
    vectors = model.describe(batch)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert not model.prepare(np.full((50, 50, 3), 7, np.uint8)).any()
    assert model.prepare(np.zeros((1, 1, 3), np.uint8)).shape == (3168,)
    with pytest.raises(InputError, match=r"\(b, 3168\)"):
        model.describe(batch[0])


def test_hog_travels_to_worker_processes() -> None:
    model = get_model("hog", crop=(0, 0, 0.1, 0))
    assert model.prepare_is_heavy
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.prepare(street(5)), model.prepare(street(5)))
    assert twin.fingerprint() == model.fingerprint()


@pytest.mark.parametrize("options", [{"weights": "w.pth"}, {"image_size": 320}, {"device": "cuda"}])
def test_hog_refuses_what_it_cannot_use(options: dict[str, object]) -> None:
    (name,) = options
    with pytest.raises(InputError, match=name):
        get_model("hog", **options)


def test_efficientnet_reproduces_stored_descriptors(shared: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch", reason="needs the extra 'lite'")
    model = get_model("efficientnet_lite", device="cpu")
    with np.load(shared / "data" / "sped400_efficientnet_lite0.npz") as stored:
        for folder in ("query", "ref2"):
            files = sorted((shared / "data" / "sped400" / folder).iterdir())[::34]
            target = stored[folder][::34].astype(np.float32)
            images = [np.asarray(Image.open(file).convert("RGB")) for file in files]
            vectors = model.describe(np.stack([model.prepare(image) for image in images]))
            assert len(vectors) == 12
            assert vectors.shape[1] == model.dim == 1792
            np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
            cosines = (vectors * target).sum(axis=1) / np.linalg.norm(target, axis=1)
            assert cosines.min() >= 0.999


def test_efficientnet_weights_are_those_of_the_package() -> None:
    pytest.importorskip("efficientnet_lite_pytorch", reason="needs the extra 'lite'")
    assert get_model("efficientnet_lite").fingerprint()["weights_sha256"].startswith("57934424")


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("cosplace", "torch", "torch"),
        ("netvlad", "torch", "torch"),
        ("efficientnet_lite", "efficientnet_lite_pytorch", "lite"),
    ],
)
def test_missing_extra_is_named(name: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="another package would be missing first")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"needs '{module}': pip install 'displace\[{extra}\]'"):
        get_model(name)


def test_hog_and_the_list_do_without_torch() -> None:
    code = """if True:
        import builtins, importlib.util
        import numpy as np

        def without_torch(real, absent):
            return lambda name, *rest: absent(name) if name.partition(".")[0] == "torch" else real(name, *rest)

        def fail(name):
            raise ModuleNotFoundError(name)

        builtins.__import__ = without_torch(builtins.__import__, fail)
        importlib.util.find_spec = without_torch(importlib.util.find_spec, lambda name: None)
        from displace.models import get_model, list_models

        rows = {row.name: row for row in list_models()}
        assert not rows["megaloc:8448"].installed and rows["hog"].installed and rows["hog"].weights_here
        model = get_model("hog")
        assert model.describe(model.prepare(np.zeros((9, 9, 3), np.uint8))[None]).shape == (1, 3168)
        """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unusable_device_is_named() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("efficientnet_lite_pytorch", reason="needs the extra 'lite'")
    for device in ("gpu", "cuda:77"):
        if device == "cuda:77" and torch.cuda.device_count() > 77:
            pytest.skip("there is such a device")
        with pytest.raises(InputError, match=f"device='{device}' cannot be used"):
            get_model("efficientnet_lite", device=device).load()
