"""The published models against outputs of the authors' own code, for weights made by a rule from their names.

`golden/models/README.md` states the rule and how the outputs were made.

Configurations with the same backbone, weights and input (EigenPlaces repeats CosPlace, MegaLoc's first release has the
backbone of SALAD) share one pass through it; everything before and after it runs for each of them.
"""

from __future__ import annotations

import json
import math
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch", reason="the published models need torch")

from displace.models import get_model  # noqa: E402

GEM = {"vme_native": None, "vme_size512": 512}
MIX = {"vme_320": None, "own_pil_bilinear320": "pil-bilinear", "own_demo_pil_bicubic320": "pil-bicubic"}
PATCHES = {"vme_size322": None, "vme_native14": "native"}

GOLDEN = Path(__file__).parent / "golden" / "models"

# Neighbours share tensors of equal name, which are then made once.
CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "cosplace_ResNet18_512": ("cosplace:resnet18-512", GEM),
    "eigenplaces_ResNet18_512": ("eigenplaces:resnet18-512", GEM),
    "cosplace_ResNet50_512": ("cosplace:resnet50-512", GEM),
    "eigenplaces_ResNet50_512": ("eigenplaces:resnet50-512", GEM),
    "eigenplaces_ResNet50_2048": ("eigenplaces:resnet50-2048", GEM),
    "mixvpr_resnet50_4096": ("mixvpr:4096", MIX),
    "mixvpr_resnet50_512": ("mixvpr:512", MIX),
    "cosplace_VGG16_512": ("cosplace:vgg16-512", GEM),
    "eigenplaces_VGG16_512": ("eigenplaces:vgg16-512", GEM),
    "netvlad_vgg16_4096": ("netvlad", {"vme_native": None, "hloc": "hloc"}),
    "salad_dinov2vitb14_8448": ("salad", {**PATCHES, "own_pil_bilinear322": "pil-bilinear"}),
    "megaloc_legacy_8448": ("megaloc", PATCHES),
    "megaloc_8448": ("megaloc", PATCHES),
}

PIECE = 1 << 16

_made: dict[str, np.ndarray] = {}
"""Tensors of the configuration before."""
_passed: dict[tuple[object, ...], Any] = {}
"""Outputs of backbones, by backbone, weights and input."""


def made_tensor(name: str, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """The rule of golden/models/README.md: a tensor from its name."""
    if not dtype.startswith("float"):
        return np.zeros(shape, np.int64)
    leaf = name.rsplit(".", 1)[-1]
    if leaf == "p":
        return np.full(shape, 3.0, np.float32)
    random = np.random.default_rng(zlib.crc32(name.encode()))
    if leaf == "running_var":
        return (1 + 0.1 * np.abs(random.standard_normal(shape))).astype(np.float32)
    if leaf in ("cls_token", "pos_embed", "mask_token"):
        scale, offset = 0.5, 0.0
    elif leaf in ("running_mean", "centers"):
        scale, offset = {"running_mean": 0.1, "centers": 0.02}[leaf], 0.0
    elif name.endswith("score_proj.weight"):
        scale, offset = 4.0, 0.0
    elif len(shape) >= 2:
        scale, offset = math.sqrt(2.0 / math.prod(shape[1:])), 0.0
        if name.endswith("score.3.weight"):
            scale *= 8.0
    else:
        scale, offset = 0.02, 1.0 if leaf in ("gamma", "weight", "dust_bin") else 0.0
    made = np.empty(shape, np.float32)
    flat = made.reshape(-1)
    for start in range(0, flat.size, PIECE):  # the same numbers as all at once
        piece = flat[start : start + PIECE]
        piece[:] = scale * random.standard_normal(piece.size) + offset
    return made


def made_state(rows: list[list[Any]]) -> dict[str, np.ndarray]:
    """All tensors of a configuration; those it has in common with the one before are not made again."""

    def make(row: list[Any]) -> np.ndarray:
        name, shape, dtype = row
        known = _made.get(name)
        return (
            known
            if known is not None and list(known.shape) == shape
            else made_tensor(name, tuple(shape), dtype)
        )

    with ThreadPoolExecutor(2) as pool:
        state = dict(zip([name for name, _, _ in rows], pool.map(make, rows), strict=True))
    _made.clear()
    _made.update(state)
    return state


def write_mat(path: Path, state: dict[str, np.ndarray], mean: list[float]) -> None:
    """Lay NetVLAD's tensors out as in the authors' MATLAB file."""
    from scipy.io import savemat

    layers = np.empty(35, object)
    for i in range(35):
        weights = np.empty(0, object)
        if f"backbone.{i}.weight" in state:
            pair = state[f"backbone.{i}.weight"].transpose(2, 3, 1, 0), state[f"backbone.{i}.bias"][None]
        elif i == 30:
            pair = state["netvlad.score_proj.weight"][:, :, 0].T, -state["netvlad.centers"]
        elif i == 33:
            pair = state["whiten.weight"].T[None, None], state["whiten.bias"][None]
        else:
            pair = None
        if pair is not None:
            weights = np.empty(2, object)
            weights[0], weights[1] = pair
        layers[i] = {"name": f"layer{i}", "weights": weights}
    average = np.broadcast_to(np.array(mean, np.float32), (224, 224, 3))
    savemat(path, {"net": {"layers": layers, "meta": {"normalization": {"averageImage": average}}}})


def write_weights(folder: Path, facts: dict[str, Any], state: dict[str, np.ndarray]) -> Path:
    """Write the tensors as the authors' file would hold them."""
    path = folder / facts["weights_file"].split(" ")[0]
    if path.suffix == ".mat":
        write_mat(path, state, facts["synthetic_mean"])
        return path
    tensors = {name: torch.from_numpy(array) for name, array in state.items()}
    if path.suffix == ".safetensors":
        from safetensors.torch import save_file

        save_file(tensors, path)
    else:
        torch.save(tensors, path)
    return path


@dataclass
class Run:
    """What one configuration gave, and what it should give."""

    facts: dict[str, Any]
    golden: dict[str, np.ndarray]
    made: dict[str, int]
    names: list[list[Any]]
    found: dict[str, np.ndarray]
    float64: dict[str, np.ndarray]


def described(model: Any, batch: np.ndarray) -> dict[str, np.ndarray]:
    """Descriptor, and summaries of network input and backbone output, of one image."""
    seen: dict[str, np.ndarray] = {}

    def watch(_: Any, inputs: tuple[Any, ...], outputs: Any) -> None:
        arrays = [("pre", inputs[0])]
        arrays += [
            (f"backbone_out{i}", o)
            for i, o in enumerate(outputs if isinstance(outputs, tuple) else (outputs,))
        ]
        for part, tensor in arrays:
            seen[f"{part}/shape"] = np.array(tensor.shape)
            seen.update({f"{part}/{kind}": value for kind, value in summaries(tensor.numpy()).items()})

    handle = model.network.backbone.register_forward_hook(watch)
    seen["desc"] = model.describe(batch)[0]
    handle.remove()
    return seen


def share_passes(backbone: Any) -> None:
    """Let a backbone answer an input that an equal one has had with what that one gave."""
    backbone = getattr(backbone, "model", backbone)  # some authors have one more level of names
    state = backbone.state_dict().items()
    of = repr(backbone), tuple((name, checksum(tensor)) for name, tensor in state if name != "mask_token")
    forward = backbone.forward

    def once(planes: Any) -> Any:
        key = (*of, planes.dtype, planes.shape, checksum(planes))
        if key not in _passed:
            _passed[key] = forward(planes)
        given = _passed[key]  # copied, as the parts that follow may compute in place
        return tuple(part.clone() for part in given) if isinstance(given, tuple) else given.clone()

    backbone.forward = once


def checksum(tensor: Any) -> int:
    return zlib.crc32(np.ascontiguousarray(tensor.numpy()))


def described_all(
    model: Any, variants: dict[str, Any], images: dict[tuple[str, str], np.ndarray]
) -> dict[str, np.ndarray]:
    """Describe every image in every variant, as golden names them."""
    found = {}
    for (variant, name), image in images.items():
        batch = get_model(model.full_name, image_size=variants[variant]).prepare(image)[None]
        found |= {f"{variant}/{name}/{part}": value for part, value in described(model, batch).items()}
    return found


def in_float64(model: Any, variant: str, image: np.ndarray) -> np.ndarray:
    """The descriptor in float64; the originals also resize in float64 then, so this does not use `prepare`."""
    planes = torch.from_numpy(image.transpose(2, 0, 1).astype(np.float32) / np.float32(255))[None]
    if variant != "hloc":
        mean = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
        std = torch.tensor([0.229, 0.224, 0.225])[:, None, None]
        planes = (planes - mean) / std
    planes = planes.double()
    sizes = {"vme_320": (320, 320), "vme_native14": (336, 504)}
    if variant in sizes:
        planes = torch.nn.functional.interpolate(planes, size=sizes[variant], mode="bilinear", antialias=True)
    with torch.inference_mode():
        return model.network.double()(planes)[0].numpy()


def summaries(array: np.ndarray) -> dict[str, np.ndarray]:
    """The summaries of golden/models/README.md, by their names."""
    flat = array.ravel()
    sample = np.linspace(0, flat.size - 1, 64).astype(np.int64)
    exact = flat.astype(np.float64)
    return {"mean": exact.mean(), "std": exact.std(), "first8": flat[:8], "sample64": flat[sample]}


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Load the made weights through the public interface and describe every image in every variant."""
    name, variants = CONFIGURATIONS[request.param]
    facts = json.loads((GOLDEN / f"{request.param}.json").read_text())
    with np.load(GOLDEN / f"{request.param}.npz") as stored:
        golden = dict(stored)
    state = made_state(facts["state_dict"])
    made = {key: zlib.crc32(np.ascontiguousarray(value)) for key, value in state.items()}
    weights = write_weights(tmp_path_factory.mktemp("weights"), facts, state)
    del state
    model: Any = get_model(name, weights=weights, device="cpu")
    model.load()
    weights.unlink()
    names = [
        [k, list(v.shape), str(v.dtype).removeprefix("torch.")] for k, v in model.network.state_dict().items()
    ]
    keys = sorted({(variant, image) for variant, image, *_ in (key.split("/") for key in golden)})
    images = {key: np.asarray(Image.open(GOLDEN / "inputs" / key[1]).convert("RGB")) for key in keys}
    share_passes(model.network.backbone)
    found = described_all(model, variants, images)
    float64 = {
        f"{variant}/{name}/desc_float64": in_float64(model, variant, image)
        for (variant, name), image in images.items()
        if f"{variant}/{name}/desc_float64" in golden
    }
    return Run(facts, golden, made, names, found, float64)


def assert_close(run: Run, part: str, tolerance: float, found: dict[str, np.ndarray] | None = None) -> None:
    """Compare every golden value whose name contains `part`."""
    wanted = [key for key in run.golden if part in key and not key.endswith("crc32")]
    assert wanted
    for key in wanted:
        value, target = (found or run.found)[key], run.golden[key]
        assert np.shape(value) == np.shape(target), key
        assert np.abs(value - target).max() <= tolerance, key


def test_weights_follow_the_rule(run: Run) -> None:
    assert list(run.made.values()) == run.facts["det_weights_crc32"]


def test_names_and_shapes_are_the_official_ones(run: Run) -> None:
    official = run.facts["state_dict"]
    if run.facts["model"].startswith("megaloc_legacy"):
        # The first release had one more level of names, and a token that inference does not use.
        official = [
            [name.replace("backbone.model.", "backbone."), shape, dtype]
            for name, shape, dtype in official
            if not name.endswith("mask_token")
        ]
    assert run.names == official


def test_every_variant_and_image_is_covered(run: Run) -> None:
    _, variants = CONFIGURATIONS[run.facts["model"]]
    assert {key.split("/")[0] for key in run.golden} == set(variants)
    assert {key for key in run.golden if not key.endswith(("crc32", "float64"))} == set(run.found)


def test_network_input(run: Run) -> None:
    assert_close(run, "/pre/", 1e-6)


def test_backbone_output(run: Run) -> None:
    # Rounding grows with the size of the numbers, which no norm bounds here.
    largest = max(np.abs(v).max() for k, v in run.golden.items() if "/backbone_out" in k and "sample64" in k)
    assert_close(run, "/backbone_out", 1e-5 * max(1.0, largest))


def test_descriptors(run: Run) -> None:
    wanted = [key for key in run.golden if key.endswith("/desc")]
    assert wanted
    for key in wanted:
        assert run.found[key].dtype == np.float32
        assert np.abs(run.found[key] - run.golden[key]).max() <= 1e-6, key


def test_descriptors_in_float64(run: Run) -> None:
    """Position embeddings are interpolated in float32, so processors differ by up to 1e-8; the smallest known mistake,
    another epsilon in a layer norm, is 6e-7."""
    assert run.float64
    interpolated = any("pos_embed" in name for name, *_ in run.names)
    assert_close(run, "/desc_float64", 5e-8 if interpolated else 1e-9, run.float64)
