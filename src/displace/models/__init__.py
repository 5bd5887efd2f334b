"""Descriptor models: one file each, found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from displace.registry import Registry

if TYPE_CHECKING:
    from displace.models.base import DescriptorModel

MODELS: Registry[DescriptorModel] = Registry("model", "displace.models", "DescriptorModel")


def get_model(name: str, **options: Any) -> DescriptorModel:
    """Create the model called `name`, such as ``"hog"`` or ``"cosplace:resnet50-512"``.

    Parameters
    ----------
    name : str
        Registry name, and after a colon the variant where a model has several.
    **options
        Passed to the model: `weights`, `device`, `image_size`, `crop`, `mask`.
    """
    family, _, variant = name.partition(":")
    return MODELS.get(family)(variant=variant or None, **options)
