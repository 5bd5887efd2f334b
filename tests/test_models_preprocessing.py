"""Image sizes, crops and masks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from displace.errors import ImageError, InputError, UnknownNameError
from displace.models import comparable, differences, get_model, open_model
from displace.models._preprocessing import parse_size, target_size


def picture(height: int = 60, width: int = 80, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ("native", None),
        (512, 512),
        ("512", 512),
        ((480, 640), (480, 640)),
        ([480, 640], (480, 640)),
        ("640x480", (480, 640)),
        ("640×480", (480, 640)),
        (np.int64(7), 7),
    ],
)
def test_sizes(given: object, size: object) -> None:
    assert parse_size(given) == size


@pytest.mark.parametrize(
    "given", ["", "big", "640x", "1x2x3", 0, -5, (1, 2, 3), (), None, "640x0", 20000, {}]
)
def test_bad_sizes(given: object) -> None:
    with pytest.raises(InputError, match=r"image_size=.*640x480"):
        parse_size(given)


@pytest.mark.parametrize(
    ("shape", "size", "target"),
    [
        ((480, 640), None, (480, 640)),
        ((480, 640), 512, (512, 682)),
        ((640, 480), 512, (682, 512)),
        ((333, 500), 512, (512, 768)),
        ((333, 500), (20, 30), (20, 30)),
    ],
)
def test_target_size(shape: tuple[int, int], size: object, target: tuple[int, int]) -> None:
    assert target_size(shape, size) == target


torch_only = pytest.mark.skipif(
    not __import__("importlib.util").util.find_spec("torch"), reason="needs torch"
)


@torch_only
@pytest.mark.parametrize(
    ("name", "size", "shape"),
    [
        ("cosplace", None, (60, 80)),
        ("cosplace", 30, (30, 40)),
        ("cosplace", "50x20", (20, 50)),
        ("netvlad", None, (60, 80)),
        ("netvlad", "hloc", (60, 80)),
        ("mixvpr", None, (320, 320)),
        ("mixvpr", 320, (320, 320)),
        ("mixvpr", "pil-bicubic", (320, 320)),
        ("salad", None, (322, 322)),
        ("salad", 200, (196, 266)),
        ("megaloc", (140, 280), (140, 280)),
        ("efficientnet_lite", None, (224, 224)),
    ],
)
def test_prepared_shapes(name: str, size: object, shape: tuple[int, int]) -> None:
    prepared = get_model(name, image_size=size).prepare(picture())
    assert prepared.shape == (3, *shape)
    assert prepared.dtype == np.float32


@torch_only
@pytest.mark.parametrize(
    ("name", "size", "reason"),
    [
        ("mixvpr", 512, "takes 320x320 only, 'pil-bilinear', 'pil-bicubic'"),
        ("efficientnet_lite", "native", "takes 224x224 only"),
        ("netvlad", "hlok", "also takes 'hloc'"),
        ("cosplace", "pil-bilinear", "image_size='pil-bilinear' must be"),
    ],
)
def test_sizes_a_model_refuses(name: str, size: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        get_model(name, image_size=size)


@torch_only
def test_images_too_small() -> None:
    with pytest.raises(ImageError, match=r"80×15 is too small for cosplace:vgg16-512.*16 pixels"):
        get_model("cosplace:vgg16-512").prepare(picture(15, 80))
    assert get_model("cosplace:vgg16-512").prepare(picture(16, 16)).shape == (3, 16, 16)
    assert get_model("cosplace").prepare(picture(1, 1)).shape == (3, 1, 1)
    with pytest.raises(ImageError, match=r"112×112 has 64 patches.*more than 64"):
        get_model("salad", image_size="native").prepare(picture(112, 112))
    assert get_model("salad", image_size="native").prepare(picture(112, 126)).shape == (3, 112, 126)


@torch_only
def test_prepare_in_threads_gives_the_same_bits() -> None:
    from concurrent.futures import ThreadPoolExecutor

    model = get_model("salad")
    images = [picture(90, 120, seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(model.prepare, images))
    for image, prepared in zip(images, together, strict=True):
        np.testing.assert_array_equal(prepared, model.prepare(image))


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((4, 4, 3)),
        np.zeros((0, 4, 3), np.uint8),
    ],
)
def test_only_rgb_bytes_are_images(image: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"RGB, uint8 \(H, W, 3\)"):
        get_model("hog").prepare(image)


@pytest.mark.parametrize(
    ("crop", "rows", "columns"),
    [
        ((10, 0, 0, 0), slice(10, 60), slice(0, 80)),
        ((0, 5, 0, 0), slice(0, 60), slice(0, 75)),
        ((0, 0, 7, 3), slice(0, 53), slice(3, 80)),
        ((0.1, 0, 0.25, 0), slice(6, 45), slice(0, 80)),
        ("0.1,0,15,8", slice(6, 45), slice(8, 80)),
    ],
)
def test_crop(crop: object, rows: slice, columns: slice) -> None:
    image = picture()
    model = get_model("hog", crop=crop)
    np.testing.assert_array_equal(model.framed(image), image[rows, columns])
    np.testing.assert_array_equal(model.prepare(image), get_model("hog").prepare(image[rows, columns]))


@pytest.mark.parametrize(
    "crop", ["10", (1, 2, 3), (-1, 0, 0, 0), (0.6, 0, 0.4, 0), "a,b,c,d", (1.5, 0, 0, 0), 7]
)
def test_bad_crops(crop: object) -> None:
    with pytest.raises(InputError, match="crop"):
        get_model("hog", crop=crop)


def test_crop_larger_than_the_image() -> None:
    with pytest.raises(ImageError, match=r"crop=30,0,30,0 .* leaves nothing of an image of 80×60"):
        get_model("hog", crop=(30, 0, 30, 0)).prepare(picture())


def write_mask(path: Path, height: int = 60, width: int = 80) -> Path:
    mask = np.full((height, width), 255, np.uint8)
    mask[height // 2 :] = 0
    Image.fromarray(mask).save(path)
    return path


def test_mask_hides_pixels(tmp_path: Path) -> None:
    model = get_model("hog", mask=write_mask(tmp_path / "mask.png"))
    image = picture()
    other = image.copy()
    other[30:] = 255 - other[30:]
    assert not np.array_equal(get_model("hog").prepare(image), get_model("hog").prepare(other))
    np.testing.assert_array_equal(model.prepare(image), model.prepare(other))
    framed = model.framed(image)
    np.testing.assert_array_equal(framed[:30], image[:30])
    # The mean colour of ImageNet is what the networks' normalisation maps to about zero.
    mean = 255 * np.array([0.485, 0.456, 0.406])
    assert np.abs(framed[30:] - mean).max() <= 0.5


def test_mask_fits_other_sizes_of_the_same_shape(tmp_path: Path) -> None:
    mask = write_mask(tmp_path / "mask.png", 120, 160)
    image = picture()
    np.testing.assert_array_equal(get_model("hog", mask=mask).framed(image)[:30], image[:30])
    with pytest.raises(ImageError, match="mask of 160×120 does not fit an image of 80×80"):
        get_model("hog", mask=mask).prepare(picture(80, 80))


def test_mask_comes_before_the_crop(tmp_path: Path) -> None:
    model = get_model("hog", mask=write_mask(tmp_path / "mask.png"), crop=(20, 0, 0, 0))
    framed, image = model.framed(picture()), picture()
    assert framed.shape == (40, 80, 3)
    np.testing.assert_array_equal(framed[:10], image[20:30])
    assert (framed[10:] == framed[-1, -1]).all()


def test_bad_masks(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.png"):
        get_model("hog", mask=tmp_path / "none.png")
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(InputError, match="cannot be read as an image"):
        get_model("hog", mask=tmp_path / "text.png")
    Image.new("L", (8, 8)).save(tmp_path / "black.png")
    with pytest.raises(InputError, match="dark everywhere"):
        get_model("hog", mask=tmp_path / "black.png")


def test_fingerprint_changes_with_everything_that_changes_descriptors(tmp_path: Path) -> None:
    mask = write_mask(tmp_path / "mask.png")
    other = write_mask(tmp_path / "other.png", 120, 160)
    models = [
        get_model("hog"),
        get_model("hog", crop=(1, 0, 0, 0)),
        get_model("hog", crop=(0, 1, 0, 0)),
        get_model("hog", mask=mask),
        get_model("hog", mask=other),
    ]
    texts = [json.dumps(model.fingerprint(), sort_keys=True) for model in models]
    assert len(set(texts)) == len(texts)
    assert texts[0] == json.dumps(get_model("hog", crop="0,0,0,0").fingerprint(), sort_keys=True)


@torch_only
def test_fingerprint_changes_with_the_image_size(tmp_path: Path) -> None:
    weights = tmp_path / "w.pth"
    weights.write_bytes(b"anything")
    sizes = [None, 512, "64x48", (64, 48), "hloc"]
    found = [get_model("netvlad", weights=weights, image_size=size).fingerprint() for size in sizes]
    assert len({str(one["preprocessing"]) for one in found}) == len(sizes)
    same = get_model("netvlad", weights=weights, image_size="native").fingerprint()
    assert same["image_size"] == "native"
    assert comparable(same) == comparable(found[0])


@torch_only
def test_fingerprints_stay_as_stores_know_them(tmp_path: Path) -> None:
    # Stores of earlier versions hold these: a change makes users extract everything again.
    weights = tmp_path / "w.pth"
    weights.write_bytes(b"")
    assert get_model("megaloc", weights=weights, crop=(1, 0, 0.5, 0)).fingerprint() == {
        "model": "megaloc",
        "variant": "8448",
        "dim": 8448,
        "revision": 1,
        "weights_sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "preprocessing": {"kind": "TensorResize", "size": [322, 322], "multiple": 14},
        "crop": [1.0, 0.0, 0.5, 0.0],
        "mask_sha256": None,
    }
    kinds = {
        ("cosplace", None): {"kind": "TensorResize", "size": None, "multiple": 1},
        ("netvlad", 512): {"kind": "Denormalized", "size": 512, "multiple": 1},
        ("netvlad", "hloc"): {"kind": "AreaLimit", "longest": 1024},
        ("mixvpr", "pil-bicubic"): {"kind": "PillowResize", "size": [320, 320], "filter": "BICUBIC"},
        ("hog", None): {"size": [108, 144], "orientations": 9, "cell": 12, "block": 2},
    }
    for (name, size), settings in kinds.items():
        assert get_model(name, image_size=size).settings() == settings


def test_unknown_names() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'cosplace'"):
        get_model("cosplaces")
    with pytest.raises(UnknownNameError, match="model 'hog' has no variants"):
        get_model("hog:small")
    with pytest.raises(UnknownNameError, match="unknown variant of mixvpr '4069'; did you mean '4096'"):
        get_model("mixvpr:4069")


def test_a_model_of_another_package_that_is_not_installed_is_named_with_the_way_out() -> None:
    theirs = type(
        "Theirs", (type(get_model("hog")),), {"name": "theirs", "__module__": "their_package.model"}
    )
    fingerprint = theirs().fingerprint()
    with pytest.raises(
        UnknownNameError, match="'theirs' of package 'their_package', which is not installed here"
    ):
        open_model(fingerprint)
    assert differences(fingerprint, fingerprint | {"package": "renamed"}) == {}
    del fingerprint["package"]  # recorded by an earlier version
    with pytest.raises(
        UnknownNameError, match=r"of another package, .* displace extract, and give their store"
    ):
        open_model(fingerprint)
    assert "package" not in get_model("hog").fingerprint()


@pytest.mark.parametrize("size", [(24, 32), [24, 32], np.array([24, 32]), (np.int64(24), np.int32(32))])
def test_settings_of_ones_own_model_are_recorded_as_they_are_read_again(size) -> None:
    """A tuple differed from the list in the map, which then refused every photo; numbers of numpy ended `extract`."""
    settings = {"settings": lambda _: {"size": size}, "name": "theirs"}
    fingerprint = type("Theirs", (type(get_model("hog")),), settings)().fingerprint()
    assert fingerprint == json.loads(json.dumps(fingerprint))
    assert fingerprint["preprocessing"] == {"size": [24, 32]}


def test_settings_that_cannot_be_recorded_are_named() -> None:
    settings = {"settings": lambda _: {"size": {24, 32}}, "name": "theirs"}
    with pytest.raises(
        InputError, match=r"settings\(\) of the model has \{.*\}, and must have text, numbers"
    ):
        type("Theirs", (type(get_model("hog")),), settings)().fingerprint()
