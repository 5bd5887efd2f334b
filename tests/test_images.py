"""Images against Pillow's own operations and hand-made files."""

from __future__ import annotations

import hashlib
import io
import os
import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from displace.errors import ImageError
from displace.images import content_hash, eight_bits, find_images, has_images, natural_key, read_image


def picture(height: int = 6, width: int = 8) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def save(path: Path, array: np.ndarray, mode: str | None = None, **options) -> Path:
    image = Image.fromarray(array)
    (image.convert(mode) if mode else image).save(path, **options)
    return path


def test_natural_order_counts_and_ignores_case():
    names = ["b10.jpg", "a2.jpg", "B9.jpg", "a10.jpg", "a1.jpg", "²3.jpg"]
    assert sorted(names, key=natural_key)[:5] == ["a1.jpg", "a2.jpg", "a10.jpg", "B9.jpg", "b10.jpg"]


def test_find_images(tmp_path):
    for name in ("10.JPG", "9.jpeg", "x.txt", ".hidden.jpg", "sub/1.png", ".cache/2.png", "@eaDir/3.png"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    assert [p.name for p in find_images(tmp_path)] == ["9.jpeg", "10.JPG"]
    assert [p.name for p in find_images(tmp_path, recursive=True)] == ["9.jpeg", "10.JPG", "1.png"]


@pytest.mark.parametrize("name", ["absent", "file.jpg"])
def test_find_images_needs_a_folder(tmp_path, name):
    (tmp_path / "file.jpg").write_bytes(b"")
    with pytest.raises(ImageError, match=name):
        find_images(tmp_path / name)


def test_png_is_exact_and_jpeg_is_pillows_decode(tmp_path):
    array = picture()
    np.testing.assert_array_equal(read_image(save(tmp_path / "a.png", array)), array)
    jpeg = save(tmp_path / "a.jpg", array)
    np.testing.assert_array_equal(read_image(jpeg), np.asarray(Image.open(jpeg).convert("RGB")))
    assert read_image(jpeg).flags.writeable


def test_grey_repeats_its_value(tmp_path):
    grey = picture()[..., 0]
    np.testing.assert_array_equal(
        read_image(save(tmp_path / "a.png", grey)), np.repeat(grey[..., None], 3, 2)
    )


@pytest.mark.parametrize("dtype", ["<u2", "<i4"])
def test_16_bit_grey_goes_from_its_darkest_to_its_brightest(tmp_path, dtype):
    """The high byte left eight greys of a thermal camera, whose scene fills 2,000 of 65,536 values."""
    grey = np.arange(256, dtype=dtype).reshape(16, 16)
    suffix = "png" if dtype == "<u2" else "tif"
    for number, deep in enumerate((257 * grey, 7000 + 8 * grey, grey)):
        read = read_image(save(tmp_path / f"{number}.{suffix}", deep.astype(dtype)))
        np.testing.assert_array_equal(read[..., 1], grey)


def test_dead_pixels_of_16_bits_leave_the_picture_as_it_is():
    deep = np.tile(7000 + 8 * np.arange(256, dtype=np.uint16), (16, 1))
    spoiled = deep.copy()
    spoiled[3, 5], spoiled[9, 200] = 0, 65535
    differ = eight_bits(spoiled) != eight_bits(deep)
    assert differ.sum() == 2


def test_noise_of_16_bits_is_not_made_a_picture():
    assert np.ptp(eight_bits(np.array([[7000, 7003, 7010]], np.uint16))) == 10


def test_16_bit_colour_png(tmp_path):
    """A 16-bit RGB PNG written by hand, for Pillow cannot write one."""
    path = tmp_path / "deep.png"
    raw = b"\0" + struct.pack(">6H", 0x12FF, 0x3400, 0xFFFF, 0, 255, 256)
    header = struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(raw)), chunk(b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    np.testing.assert_array_equal(read_image(path), [[[0x12, 0x34, 0xFF], [0, 0, 1]]])


def test_alpha_is_composited_on_black(tmp_path):
    rgba = np.array([[[200, 100, 50, 255], [200, 100, 50, 0], [200, 100, 50, 128]]], np.uint8)
    read = read_image(save(tmp_path / "a.png", rgba))
    np.testing.assert_array_equal(read[0, :2], [[200, 100, 50], [0, 0, 0]])
    np.testing.assert_allclose(read[0, 2], np.array([200, 100, 50]) * 128 / 255, atol=1)


def test_palette_with_a_transparent_colour(tmp_path):
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putdata([0, 1])
    image.save(tmp_path / "a.png", transparency=1)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), [[[10, 20, 30], [0, 0, 0]]])


@pytest.mark.parametrize("mode", ["CMYK", "L", "1", "P", "LA", "YCbCr"])
def test_other_modes_look_like_the_picture(tmp_path, mode):
    flat = np.full((16, 16, 3), 255, np.uint8)
    suffix = "jpg" if mode in ("CMYK", "YCbCr") else "png"
    read = read_image(save(tmp_path / f"a.{suffix}", flat, mode))
    assert read.shape == (16, 16, 3)
    assert read.dtype == np.uint8
    assert read.min() >= 254


@pytest.mark.parametrize(
    ("orientation", "upright"),
    [
        (1, lambda a: a),
        (2, lambda a: a[:, ::-1]),
        (3, lambda a: a[::-1, ::-1]),
        (4, lambda a: a[::-1]),
        (5, lambda a: a.transpose(1, 0, 2)),
        (6, lambda a: np.rot90(a, -1)),
        (7, lambda a: a[::-1, ::-1].transpose(1, 0, 2)),
        (8, lambda a: np.rot90(a)),
        (99, lambda a: a),
    ],
)
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_exif_orientation_is_applied_once(tmp_path, suffix, orientation, upright):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(tmp_path / f"a.{suffix}", picture(), exif=exif)
    np.testing.assert_array_equal(read_image(path), upright(picture()))


def test_damaged_exif_does_not_lose_the_picture(tmp_path, monkeypatch):
    def broken(image):  # as Pillow 10 and 11 do where the data are not TIFF
        raise SyntaxError("not a TIFF file")

    path = save(tmp_path / "a.png", picture())
    monkeypatch.setattr(Image.Image, "getexif", broken)
    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.getexif", broken)
    np.testing.assert_array_equal(read_image(path), picture())


def test_one_pixel(tmp_path):
    read = read_image(save(tmp_path / "a.png", np.array([[[1, 2, 3]]], np.uint8)))
    np.testing.assert_array_equal(read, [[[1, 2, 3]]])


def test_100_megapixels(tmp_path):
    path = tmp_path / "large.png"
    Image.new("L", (10_000, 10_000), 7).save(path, compress_level=1)
    read = read_image(path)
    assert read.shape == (10_000, 10_000, 3)
    assert read[-1, -1].tolist() == [7, 7, 7]


def test_decompression_bomb(tmp_path):
    path = tmp_path / "bomb.png"
    Image.new("1", (20_000, 20_000)).save(path)
    with pytest.raises(ImageError, match=r"bomb.png has more than 178 megapixels"):
        read_image(path)


def test_floating_point_pixels(tmp_path):
    path = save(tmp_path / "depth.tif", np.zeros((2, 2), np.float32))
    with pytest.raises(ImageError, match=r"depth.tif has floating-point pixels"):
        read_image(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "the file is empty"), (b"not an image", "not an image"), (b"\xff\xd8\xff\xe0garbage", "a.jpg")],
)
def test_files_that_are_no_images(tmp_path, content, message):
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    with pytest.raises(ImageError, match=message):
        read_image(path)


@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_truncated(tmp_path, suffix):
    path = save(tmp_path / f"cut.{suffix}", picture(64, 64))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ImageError, match=f"cut.{suffix}"):
        read_image(path)


def test_missing_and_folder(tmp_path):
    for path in (tmp_path / "absent.jpg", tmp_path):
        with pytest.raises(ImageError, match=path.name):
            read_image(path)


@pytest.mark.parametrize("suffix", ["jpeg", "png", "tiff", "webp", "bmp", "gif"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_damaged_files_raise_only_image_errors(tmp_path, suffix):
    buffer = io.BytesIO()
    Image.fromarray(picture(24, 24)).save(buffer, suffix)
    good, rng, path = buffer.getvalue(), random.Random(suffix), tmp_path / f"a.{suffix}"
    refused = 0
    for _ in range(150):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 8)):
            bad[rng.randrange(min(len(bad), 400))] = rng.randrange(256)
        path.write_bytes(bad)
        try:
            pixels = read_image(path)
        except ImageError:
            refused += 1
        else:
            assert pixels.ndim == 3
    assert refused


def test_content_hash(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"abc" * 100_000)
    assert content_hash(path) == hashlib.sha256(b"abc" * 100_000).hexdigest()
    with pytest.raises(ImageError, match="absent"):
        content_hash(tmp_path / "absent")


def test_real_photographs(shared):
    for path in find_images(shared / "data" / "sped400" / "query")[:3]:
        np.testing.assert_array_equal(read_image(path), np.asarray(Image.open(path).convert("RGB")))


def test_only_formats_of_pictures_are_opened_whatever_the_name(tmp_path, monkeypatch):
    """PostScript would be handed to another program."""
    from PIL import EpsImagePlugin

    def started(*_args, **_options):
        raise AssertionError("another program was started")

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", started)
    path = tmp_path / "a.jpg"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    for source in (path, path.read_bytes()):
        with pytest.raises(ImageError, match="not an image that Pillow knows"):
            read_image(source)


def test_a_small_file_that_would_be_decoded_for_minutes_is_refused(tmp_path, monkeypatch):
    path = save(tmp_path / "a.jpg", picture(64, 64), progressive=True)
    content = path.read_bytes()
    scans = content.count(b"\xff\xda")
    assert 2 < scans <= 12
    read_image(path)
    # The last scan, a hundred times over.
    last = content[content.rindex(b"\xff\xda") : -2]
    path.write_bytes(content[:-2] + 100 * last + content[-2:])
    read_image(path)  # small: no harm done
    monkeypatch.setattr("displace.images.MAX_SCANNED", 64 * 64 * 100)
    with pytest.raises(ImageError, match=r"a\.jpg has 1\d\d scans of 64 × 64 pixels"):
        read_image(path)


def test_scans_of_a_large_picture_are_limited(tmp_path):
    path = save(tmp_path / "a.jpg", np.zeros((3000, 3500, 3), np.uint8), progressive=True)
    content = path.read_bytes()
    last = content[content.rindex(b"\xff\xda") : -2]
    path.write_bytes(content[:-2] + 100 * last + content[-2:])
    with pytest.raises(ImageError, match="scans of 3500 × 3000 pixels, which takes minutes to decode"):
        read_image(path)


def test_scans_are_counted_across_the_parts_in_which_a_file_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("displace.images.MAX_SCANNED", 0)
    monkeypatch.setattr("displace.images.MAX_SCANS", 2)
    content = save(tmp_path / "a.jpg", picture(64, 64)).read_bytes()
    at = content.index(b"\xff\xda")
    comment = b"\xff\xfe" + struct.pack(">H", 60_002) + bytes(60_000)
    for shift in (0, 1):
        filler = comment * 17
        start = content[:2] + filler
        pad = (1 << 20) - len(start) - (at - 2) - 4 - shift
        grown = start + b"\xff\xfe" + struct.pack(">H", pad + 2) + bytes(pad) + content[2:]
        assert grown.index(b"\xff\xda") == (1 << 20) - shift
        read_image(grown)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
@pytest.mark.usefixtures("not_for_ever")
def test_pipes_and_devices_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.jpg")
    (tmp_path / "b.jpg").symlink_to("/dev/zero")
    for name in ("a.jpg", "b.jpg"):
        with pytest.raises(ImageError, match="it is a pipe or a device, not a file"):
            read_image(tmp_path / name)
        with pytest.raises(ImageError, match="it is a pipe or a device, not a file"):
            content_hash(tmp_path / name)


@pytest.mark.usefixtures("not_for_ever")
def test_links_between_folders_are_followed_once(tmp_path):
    for name in "abcdefgh":
        (tmp_path / "sun" / name).mkdir(parents=True)
        (tmp_path / "sun" / name / "1.jpg").write_bytes(b"")
        for other in "xyz":
            (tmp_path / "sun" / name / other).symlink_to(tmp_path / "sun")
    (tmp_path / "sun" / "self").symlink_to(tmp_path / "sun")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "9.jpg").write_bytes(b"")
    (tmp_path / "sun" / "linked").symlink_to(tmp_path / "elsewhere")
    found = find_images(tmp_path / "sun", recursive=True)
    assert [path.relative_to(tmp_path / "sun").as_posix() for path in found] == [
        *(f"{name}/1.jpg" for name in "abcdefgh"),
        "linked/9.jpg",
    ]


def test_numbers_of_thousands_of_digits_are_counted():
    assert sorted(["a" + "9" * 5000, "a1" + "0" * 5000], key=natural_key)[0].startswith("a9")


def test_a_folder_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    """As lost+found on a disk of its own: its images would be missing without a word."""
    for name in ("sun", "lost+found"):
        (tmp_path / name).mkdir()
        save(tmp_path / name / "1.jpg", picture())
    real = os.scandir

    def refused(path="."):
        if os.fspath(path).endswith("lost+found"):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refused)
    for recursive, folder in ((True, tmp_path), (False, tmp_path / "lost+found")):
        with pytest.raises(ImageError, match=r"cannot read folder .*lost\+found: Permission denied"):
            find_images(folder, recursive=recursive)
    with pytest.raises(ImageError, match=r"lost\+found"):
        has_images(tmp_path / "lost+found")
    assert find_images(tmp_path / "sun")
