"""Base of SALAD and MegaLoc, which cut images into patches of 14×14 pixels and need a least number of them."""

from __future__ import annotations

from typing import ClassVar

from displace.errors import ImageError
from displace.models._preprocessing import Preprocessing, TensorResize
from displace.models._torch_model import TorchModel

PATCH = 14
CLUSTERS = 64
SIZE = (322, 322)


class PatchModel(TorchModel):
    """Images become 322×322, or, with an image size, multiples of 14 on both sides."""

    default: ClassVar[Preprocessing] = TensorResize(SIZE, multiple=PATCH)

    def check_input(self, height: int, width: int) -> None:
        """Refuse an image with too few patches: optimal transport needs more patches than clusters."""
        patches = (height // PATCH) * (width // PATCH)
        if patches <= CLUSTERS:
            raise ImageError(
                f"an image of {width}×{height} has {patches} patches of {PATCH}×{PATCH} pixels; {self.full_name} needs "
                f"more than {CLUSTERS}: pass a larger image_size (--image-size), such as 322x322"
            )
