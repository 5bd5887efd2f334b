"""Images on disk: find them, read them as RGB, and name their content.

`read_image` is Pillow's decode, because the published models were trained and run on it. What the result is
for images that are not plain 8-bit RGB:

==================== =============================================================================
grey, palette, CMYK  converted to RGB by Pillow
alpha                composited on black: a transparent pixel is one from which no light arrived
16 bit grey          from its darkest to its brightest value: thermal cameras fill a few of the bits
16 bit colour        the high byte of each value, as Pillow does: the picture that an 8 bit file of it has
EXIF orientation     applied, so that the picture is upright
animation            its first frame
floating point       refused: the values have no agreed white
over 178 megapixels  refused (Pillow's limit against decompression bombs)
hundreds of scans    of a large progressive JPEG: refused, each costs as much as the picture
HEIC                 read by pillow-heif (extra ``heic``); without it refused, by that name
other formats        refused (PostScript, for one, would be handed to another program)
==================== =============================================================================
"""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, TiffImagePlugin, UnidentifiedImageError, WebPImagePlugin

from displace.errors import ImageError
from displace.files.reading import PathLike, file_sha256, open_regular
from displace.fork_lock import ForkLock

Pixels = NDArray[np.uint8]

EXTENSIONS = frozenset(
    {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".gif"}
) | {".heic", ".heif"}
"""File name endings that count as images, in lower case."""

_OF_SYSTEMS = frozenset(
    {
        *("@eadir", "#recycle", "#snapshot", "@recycle", "@recently-snapshot"),
        *("$recycle.bin", "system volume information", "__macosx"),
    }
)
"""Folders in which network disks, Windows and archives of macOS keep thumbnails and what was deleted, in lower case."""

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "PPM", "GIF", "HEIF")
"""Formats that are decoded, whatever the file's name. The last needs a plug-in of Pillow."""
MAX_SCANS = 24
"""Scans of a JPEG of any size; cameras and programs write up to ten."""
MAX_SCANNED = 10**9
"""Pixels that all scans of a JPEG with more than that may go over."""

_DIGITS = re.compile(r"(\d+)")
_SCAN = b"\xff\xda"
_PLUGINS = (TiffImagePlugin, WebPImagePlugin)  # importing them registers the formats with Pillow
# Changing the warning filters is not thread-safe before Python 3.14, and images are read in threads.
_FILTERS = ForkLock()


def natural_key(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """Sort key for natural order: ``frame9`` before ``frame10``, ignoring case.

    >>> sorted(["b10", "b9", "A1"], key=natural_key)
    ['A1', 'b9', 'b10']
    """
    parts = _DIGITS.split(name.casefold())
    # `split` alternates text and digits; `isdecimal` keeps out digits such as ² that int() refuses.
    key = [(0, _counted(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]
    return key, name


def _counted(digits: str) -> int:
    """Number of any length; Python turns no more than 4,300 digits into one at a time."""
    number = 0
    for start in range(0, len(digits), 4000):
        part = digits[start : start + 4000]
        number = number * 10 ** len(part) + int(part)
    return number


def is_hidden(folder: str) -> bool:
    """Whether a folder is, by its name, none that people keep images in.

    >>> is_hidden(".cache"), is_hidden("@eaDir"), is_hidden("monday")
    (True, True, False)
    """
    return folder.startswith(".") or folder.lower() in _OF_SYSTEMS


def is_image(path: PathLike) -> bool:
    """Whether a file is an image by its name; hidden files are not."""
    # Plain strings: data sets have a million files, and making a Path of each takes longer than listing them.
    name = os.fspath(path).rpartition(os.sep)[2]
    stem, dot, suffix = name.rpartition(".")
    return stem != "" and dot + suffix.lower() in EXTENSIONS and not name.startswith(".")


def find_images(folder: PathLike, recursive: bool = False) -> list[Path]:
    """Images in `folder`, with `recursive` also below it, in natural order; hidden files and folders are left out."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ImageError(f"no folder of images at {folder}" + (" (it is a file)" if folder.exists() else ""))
    start = len(str(folder)) + 1
    found = filter(is_image, _walk(folder, recursive))
    return [Path(path) for path in sorted(found, key=lambda path: natural_key(path[start:]))]


def has_images(folder: PathLike) -> bool:
    """Whether there is an image in `folder` or below; stops at the first."""
    return any(map(is_image, _walk(Path(folder))))


def read_image(source: PathLike | bytes | Pixels) -> Pixels:
    """Decode an image file, or the bytes of one, to RGB, shape (height, width, 3), upright; pixels stay as they are.

    ImageError names a file that is missing, empty, truncated, not an image or too large.
    """
    if isinstance(source, np.ndarray):
        return source
    path: PathLike = "the image given as bytes" if isinstance(source, bytes) else source
    named = path if isinstance(source, bytes) else f"image {path}"
    try:
        with open_image(source) as image:
            return np.array(_rgb(_upright(image)))
    except ImageError as error:
        raise ImageError(f"{path} {error}") from None
    except UnidentifiedImageError:
        raise ImageError(f"{path} is not an image that Pillow knows{_if_empty(path)}") from None
    except Image.DecompressionBombError:
        limit = (Image.MAX_IMAGE_PIXELS or 0) * 2 // 10**6
        raise ImageError(f"{path} has more than {limit} megapixels; scale it down first") from None
    except OSError as error:
        why = error.strerror or f"{error}{_if_empty(path)}"
        raise ImageError(f"cannot read {named}: {why}") from None
    except Exception as error:  # Pillow's decoders raise nearly every type on damaged files
        raise ImageError(f"cannot read {named}: {error}{_if_empty(path)}") from error


def pixels_of(image: Image.Image) -> Pixels:
    """Pixels of an image that Pillow opened or made, as `read_image` gives those of its file: RGB and upright."""
    try:
        return np.array(_rgb(_upright(image)))
    except ImageError as error:
        raise ImageError(f"the image given {error}") from None
    except Exception as error:  # a file that is damaged is noticed while decoding
        raise ImageError(f"cannot read the image given: {error}") from error


def eight_bits(pixels: NDArray[Any]) -> Pixels:
    """Turn deep pixels into bytes, from the darkest value to the brightest; 255 steps of a sensor at least.

    Cameras put 10, 12 or 14 bits into 16, and a scene in front of a thermal one fills a small part of them. The
    outermost thousandth at each end is left out: sensors have dead pixels.

    >>> eight_bits(np.array([[8000, 8200, 9000]], np.uint16))
    array([[  0,  51, 255]], dtype=uint8)
    """
    darkest, brightest = np.percentile(pixels, (0.1, 99.9), method="nearest")
    shares = (pixels.astype(np.float32) - darkest) / max(brightest - darkest, 255.0)
    scaled: Pixels = (255 * shares.clip(0, 1)).round().astype(np.uint8)
    return scaled


def content_hash(path: PathLike) -> str:
    """SHA-256 of the file's bytes, in hexadecimal."""
    try:
        return file_sha256(path)
    except OSError as error:
        raise ImageError(f"cannot read {path}: {error.strerror}") from None


def _walk(folder: Path, recursive: bool = True) -> Iterator[str]:
    """Every file below `folder` except in hidden folders; links are followed, and each folder is visited once."""
    seen = {_identity(folder)}
    for parent, folders, names in os.walk(folder, onerror=_refuse_unreadable, followlinks=True):
        kept = []
        for name in sorted(folders):
            if not is_hidden(name) and (key := _identity(f"{parent}{os.sep}{name}")) not in seen:
                seen.add(key)
                kept.append(name)
        folders[:] = kept if recursive else ()
        yield from (f"{parent}{os.sep}{name}" for name in names)


def _refuse_unreadable(error: OSError) -> None:
    """Raise an error: images that are skipped silently would be missing from a map."""
    raise ImageError(
        f"cannot read folder {error.filename}: {error.strerror}; change its permissions, or give the folders beside it "
        "one by one"
    ) from None


def _identity(folder: PathLike) -> tuple[int, int] | str:
    """Key that is equal for all names of a folder."""
    try:
        status = os.stat(folder)  # noqa: PTH116
    except OSError:
        return os.fspath(folder)
    return status.st_dev, status.st_ino


@contextmanager
def open_image(source: PathLike | bytes) -> Iterator[Image.Image]:
    """Open an image file, or the bytes of one, of a known format, without decoding it.

    ImageError where decoding it would take minutes; OSError where it is not a regular file, or of another format
    (`UnidentifiedImageError`).
    """
    with open_header(source) as (image, file):
        if image.format in ("JPEG", "MPO"):
            _check_scans(image, file)
        yield image


@contextmanager
def open_header(source: PathLike | bytes) -> Iterator[tuple[Image.Image, IO[bytes]]]:
    """Open an image as `open_image` does, and its file, reading only the header."""
    with io.BytesIO(source) if isinstance(source, bytes) else open_regular(source) as file:
        if heif := _is_heif(file):
            _know_heif()
        # Without the warning that Pillow gives above 89 megapixels: cameras are there now.
        with _FILTERS, warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(file, formats=FORMATS if heif else FORMATS[:-1])
        with image:
            yield image, file


def exif_of(image: PathLike, directory: int) -> dict[int, Any]:
    """Tags of one EXIF directory of an image, read without decoding the picture; empty without EXIF."""
    try:
        with open_header(image) as (opened, _), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's, of damaged EXIF
            # If the EXIF data follow the picture, Pillow would decode all of a PNG.
            if "exif" not in opened.info and opened.format != "TIFF":
                return {}
            return dict(opened.getexif().get_ifd(directory))
    except Exception:  # damaged images raise nearly every type; extraction says what is wrong with them
        return {}


def _is_heif(file: IO[bytes]) -> bool:
    """Whether a file begins as phones write HEIC; its position stays."""
    head = file.read(12)
    file.seek(0)
    return head[4:8] == b"ftyp" and head[8:12] in (b"heic", b"heix", b"hevc", b"heim", b"mif1", b"msf1")


def _know_heif() -> None:
    """Register HEIC with Pillow."""
    try:
        import pillow_heif
    except ImportError:
        raise ImageError("is HEIC, which needs 'pillow-heif': pip install 'displace[heic]'") from None
    pillow_heif.register_heif_opener()


def _check_scans(image: Image.Image, file: IO[bytes]) -> None:
    """Refuse a JPEG that goes over its pixels too often: a small file can keep a decoder busy for minutes."""
    position, scans, last = file.tell(), 0, b""
    file.seek(0)
    while chunk := file.read(1 << 20):
        scans += (last + chunk).count(_SCAN)
        last = chunk[-1:]
    file.seek(position)
    if scans > MAX_SCANS and scans * image.width * image.height > MAX_SCANNED:
        raise ImageError(
            f"has {scans} scans of {image.width} × {image.height} pixels, which takes minutes to decode; "
            "save it anew"
        )


def _upright(image: Image.Image) -> Image.Image:
    """Decode, then apply the EXIF orientation (Pillow has done so already while decoding TIFF)."""
    image.load()
    # Damaged EXIF data raise nearly every type, and are no reason to lose the picture.
    with suppress(Exception):
        ImageOps.exif_transpose(image, in_place=True)
    return image


def _rgb(image: Image.Image) -> Image.Image:
    """Convert any mode to 8-bit RGB as in the module's table."""
    if image.mode == "RGB" and not image.has_transparency_data:
        return image
    if image.mode == "F":
        raise ImageError("has floating-point pixels; save it with 8 or 16 bits per channel")
    if image.mode.startswith("I"):
        image = Image.fromarray(eight_bits(np.asarray(image)))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image).convert("RGB")
    return image.convert("RGB")


def _if_empty(path: PathLike) -> str:
    empty = Path(path).exists() and Path(path).stat().st_size == 0
    return " (the file is empty)" if empty else ""
