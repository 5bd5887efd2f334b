"""Descriptor models: one file each, found by name."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from displace.registry import Registry

if TYPE_CHECKING:
    from displace.models._frame import Crop
    from displace.models.base import DescriptorModel, Size, Variant

MODELS: Registry[DescriptorModel] = Registry("model", "displace.models", "DescriptorModel")


def get_model(
    name: str,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    image_size: Size | None = None,
    crop: Crop | None = None,
    mask: str | os.PathLike[str] | None = None,
) -> DescriptorModel:
    """Create the model called `name`, such as ``"hog"`` or ``"cosplace:resnet50-512"``.

    This is cheap: the weights are read, or downloaded, by `load` or at first use.

    Parameters
    ----------
    name : str
        Registry name, and after a colon the variant where a model has several.
    weights : path-like, optional
        Weights file to use instead of the published one.
    device : str
        "auto" (CUDA where present, else the processor), "cpu", "cuda", "cuda:1" …
    image_size : int, (height, width) or str, optional
        The model's own by default. "native" leaves images as they are, a number is the shorter side,
        ``"640x480"`` is width and height; some models know further names.
    crop : (top, right, bottom, left) or str, optional
        What to cut off, in pixels, or as a fraction of the side where below 1.
    mask : path-like, optional
        Image whose dark pixels are left out.

    Examples
    --------
    >>> import numpy as np
    >>> model = get_model("hog", crop=(0, 0, 0.1, 0))
    >>> image = np.random.default_rng(0).integers(0, 256, (240, 320, 3), np.uint8)
    >>> model.describe(model.prepare(image)[None]).shape
    (1, 3168)
    """
    family, _, variant = name.partition(":")
    return MODELS.get(family)(
        variant=variant or None, weights=weights, device=device, image_size=image_size, crop=crop, mask=mask
    )


@dataclass(frozen=True)
class ModelRow:
    """One model in one variant, as a list of models shows it."""

    name: str
    is_default: bool
    dim: int
    licence: str
    weights_licence: str
    paper: str
    extra: str | None
    installed: bool
    """Whether the packages it needs are installed."""
    weights_here: bool
    """Whether nothing is left to download: the weights are on this machine, or there are none."""
    weights_address: str | None
    weights_path: Path | None
    """Where the weights are, or would be kept."""


def list_models() -> list[ModelRow]:
    """List every model and variant, without importing torch and without reading weights."""
    rows = []
    for name in MODELS.names():
        model = MODELS.get(name)
        variants: Mapping[str, Variant | None] = model.variants or {"": None}
        rows += [_row(model, variant, spec) for variant, spec in variants.items()]
    return rows


def _row(model: type[DescriptorModel], variant: str, spec: Variant | None) -> ModelRow:
    """Describe one variant."""
    weights = spec.weights if spec else None
    path = model.weights_path(weights) if weights else None
    return ModelRow(
        name=f"{model.name}:{variant}" if variant else model.name,
        is_default=variant == model.default_variant,
        dim=spec.dim if spec else model.dim,
        licence=model.licence,
        weights_licence=model.weights_licence,
        paper=model.paper,
        extra=model.extra,
        installed=all(importlib.util.find_spec(module) for module in model.packages),
        weights_here=weights is None or (path is not None and path.is_file()),
        weights_address=weights.address if weights else None,
        weights_path=path,
    )
