"""Reading weights files without running code from them, and fitting them to a network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from displace.errors import WeightsError

State = Mapping[str, torch.Tensor]

SAFE_TORCH = 2, 6
"""The first release whose `weights_only` keeps code in a checkpoint from running (CVE-2025-32434)."""
LISTED = 3
"""Names shown of each kind of difference."""


def read_state(path: Path, expected: str) -> State:
    """Read a flat state dict from a safetensors file or a PyTorch checkpoint; messages say what was `expected`."""
    start = read_start(path, expected)
    try:
        if path.suffix == ".safetensors" or start[8:9] == b"{":
            from safetensors.torch import load_file

            loaded = load_file(path)
        else:
            check_torch(torch.__version__)
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except WeightsError:
        raise
    except Exception as error:  # readers raise a dozen types on damaged files, and the remedy is one
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise WeightsError(
            f"{path} cannot be read as a weights file ({reason[0]}); expected {expected}; "
            "it is cut short or of another kind: delete it and get it again"
        ) from error
    if isinstance(loaded, Mapping) and isinstance(loaded.get("state_dict"), Mapping):
        loaded = loaded["state_dict"]
    if not isinstance(loaded, Mapping) or not all(
        isinstance(value, torch.Tensor) for value in loaded.values()
    ):
        raise WeightsError(f"{path} holds no table of named tensors; expected {expected}")
    return loaded


def check_torch(version: str) -> None:
    """Refuse a torch that reads checkpoints unsafely, however it came to be installed.

    >>> check_torch("2.6.0+cpu")
    """
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < SAFE_TORCH:
        raise WeightsError(
            f"torch {version} may run code that is in a weights file; {'.'.join(map(str, SAFE_TORCH))} or later does "
            "not: pip install -U torch, or give the weights as .safetensors"
        )


def read_start(path: Path, expected: str) -> bytes:
    """First bytes of a file, which must be neither absent nor empty nor a web page."""
    try:
        with path.open("rb") as file:
            start = file.read(512)
    except OSError as error:
        raise WeightsError(
            f"cannot read the weights file {path}: {error.strerror or error}; expected {expected}"
        ) from error
    if not start:
        raise WeightsError(f"{path} is empty; expected {expected}")
    if start.lstrip()[:1] == b"<":
        raise WeightsError(f"{path} is a web page, not a weights file; expected {expected}")
    return start


def fit_state(network: nn.Module, state: State, path: Path, expected: str) -> None:
    """Give `network`, built without memory, the tensors of `state`; every name and shape must be equal."""
    wanted = network.state_dict()
    missing = [name for name in wanted if name not in state]
    surplus = [name for name in state if name not in wanted]
    other = [
        f"{name} is {list(state[name].shape)}, not {list(tensor.shape)}"
        for name, tensor in wanted.items()
        if name in state and state[name].shape != tensor.shape
    ]
    kinds = {"missing": missing, "unexpected": surplus, "of another shape": other}
    found = [f"{len(names)} {kind} ({_first(names)})" for kind, names in kinds.items() if names]
    if found:
        raise WeightsError(f"{path} is not {expected}: tensors {'; '.join(found)}")
    typed = {name: state[name].to(tensor.dtype) for name, tensor in wanted.items()}
    network.load_state_dict(typed, strict=True, assign=True)


def _first(names: list[str]) -> str:
    """Return the first few names."""
    return ", ".join(names[:LISTED]) + (", …" if len(names) > LISTED else "")
