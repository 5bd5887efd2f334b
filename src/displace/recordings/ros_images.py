"""ROS image messages as image files: compressed ones as they are, raw ones as PNG."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from displace.errors import ImageError
from displace.images import eight_bits

Pixels = NDArray[Any]

_SIGNATURES = {b"\xff\xd8\xff": ".jpg", b"\x89PNG\r\n\x1a\n": ".png"}


def _code(conversion: int) -> Callable[[Pixels], Pixels]:
    return lambda pixels: cv2.cvtColor(pixels, conversion)


def _same(pixels: Pixels) -> Pixels:
    return pixels


# Encoding → type, channels, conversion to what OpenCV writes (grey or BGR).
_ENCODINGS: dict[str, tuple[str, int, Callable[[Pixels], Pixels]]] = {
    "mono8": ("u1", 1, _same),
    "8UC1": ("u1", 1, _same),
    "mono16": ("u2", 1, _same),
    "16UC1": ("u2", 1, _same),
    "bgr8": ("u1", 3, _same),
    "8UC3": ("u1", 3, _same),
    "bgr16": ("u2", 3, _same),
    "rgb8": ("u1", 3, _code(cv2.COLOR_RGB2BGR)),
    "rgb16": ("u2", 3, _code(cv2.COLOR_RGB2BGR)),
    "bgra8": ("u1", 4, _code(cv2.COLOR_BGRA2BGR)),
    "rgba8": ("u1", 4, _code(cv2.COLOR_RGBA2BGR)),
    "yuv422": ("u1", 2, _code(cv2.COLOR_YUV2BGR_UYVY)),
    "uyvy": ("u1", 2, _code(cv2.COLOR_YUV2BGR_UYVY)),
    "yuv422_yuy2": ("u1", 2, _code(cv2.COLOR_YUV2BGR_YUY2)),
    "yuyv": ("u1", 2, _code(cv2.COLOR_YUV2BGR_YUY2)),
    # OpenCV names a mosaic after the second row's second and third pixel, ROS after the first four.
    "bayer_rggb8": ("u1", 1, _code(cv2.COLOR_BayerBG2BGR)),
    "bayer_bggr8": ("u1", 1, _code(cv2.COLOR_BayerRG2BGR)),
    "bayer_gbrg8": ("u1", 1, _code(cv2.COLOR_BayerGR2BGR)),
    "bayer_grbg8": ("u1", 1, _code(cv2.COLOR_BayerGB2BGR)),
    "bayer_rggb16": ("u2", 1, _code(cv2.COLOR_BayerBG2BGR)),
    "bayer_bggr16": ("u2", 1, _code(cv2.COLOR_BayerRG2BGR)),
    "bayer_gbrg16": ("u2", 1, _code(cv2.COLOR_BayerGR2BGR)),
    "bayer_grbg16": ("u2", 1, _code(cv2.COLOR_BayerGB2BGR)),
}


def encode(message: Any, where: str) -> tuple[str, bytes]:
    """Turn a CompressedImage or Image message, as deserialised by rosbags, into a file's ending and bytes.

    Errors say `where` the message is.
    """
    if hasattr(message, "encoding"):
        # Little compression: frames are read once or twice, and writing them is the slow part.
        _, png = cv2.imencode(".png", decode_raw(message, where), [cv2.IMWRITE_PNG_COMPRESSION, 1])
        return ".png", png.tobytes()
    content = bytes(message.data)
    for signature, suffix in _SIGNATURES.items():
        if content.startswith(signature):
            return suffix, content
    raise ImageError(f"{where} is neither JPEG nor PNG (format {message.format!r})")


def decode_raw(message: Any, where: str) -> Pixels:
    """Pixels of a raw Image message, grey or BGR, as bytes."""
    if message.encoding not in _ENCODINGS:
        known = ", ".join(_ENCODINGS)
        raise ImageError(f"{where} has encoding {message.encoding!r}; known: {known}")
    kind, channels, convert = _ENCODINGS[message.encoding]
    dtype = np.dtype((">" if message.is_bigendian else "<") + kind)
    row_bytes = message.width * channels * dtype.itemsize
    data = np.frombuffer(bytes(message.data), np.uint8)
    if message.step < row_bytes or data.size < message.step * message.height or not row_bytes:
        raise ImageError(
            f"{where} has {data.size} bytes for {message.width}×{message.height} {message.encoding}"
        )
    rows = data[: message.step * message.height].reshape(message.height, message.step)[:, :row_bytes]
    pixels = np.ascontiguousarray(rows).view(dtype).astype(dtype.newbyteorder("="), copy=False)
    more = (channels,) if channels > 1 else ()
    shown = convert(pixels.reshape(message.height, message.width, *more))
    return shown if shown.dtype == np.uint8 else eight_bits(shown)
