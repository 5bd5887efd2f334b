"""MixVPR (Ali-bey et al., WACV 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from displace.models._preprocessing import PillowResize, Preprocessing, TensorResize
from displace.models._torch_model import TorchModel
from displace.models._weights import Weights
from displace.models.base import Variant

if TYPE_CHECKING:
    from torch import nn

SIZE = (320, 320)


class MixVPR(TorchModel):
    """ResNet-50 up to its third stage, and perceptrons that mix positions; takes 320×320 only."""

    name = "mixvpr"
    licence = "not stated"
    weights_licence = "not stated"
    paper = "https://arxiv.org/abs/2303.02190"
    default_variant = "4096"
    variants: ClassVar[Mapping[str, Variant]] = {
        "4096": Variant(
            4096,
            Weights(
                "resnet50_MixVPR_4096_channels(1024)_rows(4).ckpt",
                "https://drive.google.com/file/d/1vuz3PvnR7vxnDDLQrdHJaOA04SQrtk5L/view",
                direct=False,
            ),
        ),
        "512": Variant(
            512,
            Weights(
                "resnet50_MixVPR_512_channels(256)_rows(2).ckpt",
                "https://drive.google.com/file/d/1khiTUNzZhfV2UUupZoIsPIbsMRBYVDqj/view",
                direct=False,
            ),
        ),
    }
    rows: ClassVar[Mapping[str, int]] = {"4096": 4, "512": 2}
    """Positions that are left after mixing; the channels are the rest of the dimension."""
    default: ClassVar[Preprocessing] = TensorResize(SIZE)
    published: ClassVar[Mapping[str, Preprocessing]] = {
        "pil-bilinear": PillowResize(SIZE, "BILINEAR"),
        "pil-bicubic": PillowResize(SIZE, "BICUBIC"),
    }
    only_size = SIZE

    def build(self) -> nn.Module:
        """Build the network."""
        from displace.models.heads.mixer import mixvpr_network

        rows = self.rows[self.variant]
        return mixvpr_network(self.dim // rows, rows)
