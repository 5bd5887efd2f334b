"""What a request is refused for, and the images for which it is.

Apart from the web framework, which the processes that read images do not load.
"""

from __future__ import annotations

from PIL import Image

from displace.errors import ImageError
from displace.images import FORMATS, open_image
from displace.web.limits import Limits


class RefusedError(Exception):
    """A request that is answered with an error: its HTTP status, what is wrong, and the way out."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message

    def of(self, number: int, count: int) -> RefusedError:
        """The same of one image among several."""
        return RefusedError(self.status, f"image {number} of {count}: {self.message}") if count > 1 else self


def checked_image(content: bytes, limits: Limits) -> bytes:
    """Refuse what is no image, or too large a one, from its head alone."""
    if not content:
        raise RefusedError(415, "the image is empty: nothing was sent")
    try:
        with open_image(content) as image:
            width, height = image.size
    except Image.DecompressionBombError:
        raise RefusedError(413, f"the image has more than {limits.pixels:,} pixels: scale it down") from None
    except ImageError as error:
        raise RefusedError(415, f"the image {error}") from None
    except Exception:  # Pillow's readers raise nearly every type on damaged files
        raise RefusedError(415, f"this is no image that is read here ({', '.join(FORMATS)})") from None
    if width * height > limits.pixels:
        raise RefusedError(
            413, f"the image has {width * height:,} pixels, the limit is {limits.pixels:,}: scale it down"
        )
    return content
