"""Real descriptors of 400 places: what DisPlace must reach where HOPS and pooling are known."""

from __future__ import annotations

import numpy as np
import pytest

from displace import DisPlace, ReferenceSet, get_fusion, recall_at, verbs
from displace.evaluation.random_projection import random_projection
from displace.images import read_image
from displace.models import get_model


@pytest.fixture(scope="module")
def sped400(shared):
    path = shared / "data" / "sped400_efficientnet_lite0.npz"
    if not path.is_file():
        pytest.skip(f"no {path.name} in the shared data")
    with np.load(path) as arrays:
        return {name: arrays[name].astype(np.float32) for name in arrays}


def recall(fusion, arrays, query="query"):
    """R@1 of one folder's images against the other three."""
    refs = ReferenceSet.from_traversals({name: arrays[name] for name in sorted(arrays) if name != query})
    fusion.fit(refs.vectors, refs.places, refs.traversals)
    return recall_at(fusion.rank(arrays[query], k=1), np.arange(400))[1]


@pytest.mark.parametrize(
    ("fusion", "known"),
    [
        (get_fusion("hops")(), 77.5),
        (get_fusion("pooling")(), 75.0),
        (get_fusion("dmat_min")(), 75.0),
        (DisPlace(ridge=1e-6, center=False), 90.5),
        (DisPlace(ridge=1.0, center=False), 90.25),
        (DisPlace(ridge=1.0, center=True), 90.75),
        (DisPlace(), 91.0),
    ],
    ids=["hops", "pooling", "dmat_min", "displace 1e-6", "displace 1", "displace 1 centred", "displace"],
)
def test_known_recalls(sped400, fusion, known):
    assert recall(fusion, sped400) == pytest.approx(known, abs=0.25)  # one query


def test_the_default_survives_the_worst_sampling_ratio(sped400):
    """Projected to D=792, γ ≈ 1: there a vanishing ridge ruins the projection."""
    recalls: dict[str, list[float]] = {"default": [], "vanishing": [], "hops": []}
    for seed in range(5):
        R = random_projection(1792, 792, seed)
        projected = {name: array @ R for name, array in sped400.items()}
        default = DisPlace()
        recalls["default"].append(recall(default, projected))
        assert default.sampling_ratio_ == pytest.approx(0.99)
        recalls["vanishing"].append(recall(DisPlace(ridge=1e-6, center=False), projected))
        recalls["hops"].append(recall(get_fusion("hops")(), projected))
    means = {name: np.mean(values) for name, values in recalls.items()}
    assert means["default"] >= 86
    assert means["vanishing"] < 50
    assert 70 < means["hops"] < 80


@pytest.fixture(scope="module")
def sped400_hog(shared):
    """Another kind of descriptor of the same images: a large common mean, and 3168 dimensions."""
    folder = shared / "data" / "sped400"
    if not folder.is_dir():
        pytest.skip(f"no images in {folder.name} of the shared data")
    hog = get_model("hog")
    return {
        traversal.name: np.stack([hog.prepare(read_image(path)) for path in sorted(traversal.iterdir())])
        for traversal in sorted(folder.iterdir())
    }


@pytest.fixture(
    scope="module",
    params=[
        ("sped400", 64),
        ("sped400", 256),
        ("sped400", 792),
        ("sped400", 1792),
        ("sped400_hog", 256),
        ("sped400_hog", 3168),
    ],
    ids=lambda pair: "-".join(map(str, pair)),
)
def projected(request):
    """Descriptors of all four folders, at random projected to fewer dimensions."""
    descriptors, dim = request.param
    arrays = request.getfixturevalue(descriptors)
    own = arrays["query"].shape[1]
    R = random_projection(own, dim, 7) if dim < own else None
    return arrays if R is None else {name: array @ R for name, array in arrays.items()}


@pytest.mark.parametrize("query", ["query", "ref1", "ref2", "ref3"])
def test_cross_validated_default_is_never_a_point_below_hops_or_pooling(projected, query):
    baseline = max(recall(get_fusion(name)(), projected, query) for name in ("hops", "pooling"))
    fusion = DisPlace()
    assert recall(fusion, projected, query) >= baseline - 1
    assert "leave-one-traversal-out" in fusion.explain()


def test_images_become_these_descriptors_and_matches(shared, sped400, tmp_path):
    """From folders of images to places, as a user would: manifest, extract, fuse. 128 images; others repeat."""
    pytest.importorskip("efficientnet_lite_pytorch", reason="needs the extra 'lite'")
    rows = np.arange(400)[::12][:32]
    for name in sped400:
        (tmp_path / "images" / name).mkdir(parents=True)
        files = sorted((shared / "data" / "sped400" / name).iterdir())
        for row in rows:
            (tmp_path / "images" / name / files[row].name).symlink_to(files[row])
    verbs.manifest([tmp_path / "images"], tmp_path / "sped.csv")
    store = verbs.extract(tmp_path / "sped.csv", model="efficientnet_lite").store
    assert len(store) == 128
    for name, expected in sped400.items():
        queries = store.queries(name)
        assert queries.places.tolist() == sorted(queries.places.tolist())
        lengths = np.linalg.norm(expected[rows], axis=1)
        assert (np.einsum("nd,nd->n", queries.vectors, expected[rows]) / lengths).min() >= 0.999
    refs, queries = store.references(exclude=["query"]), store.queries("query")
    known = ReferenceSet.from_traversals({name: sped400[name][rows] for name in ("ref1", "ref2", "ref3")})
    for fusion in (get_fusion("hops")(), get_fusion("pooling")(), DisPlace()):
        found = fusion.fit(refs.vectors, refs.places, refs.traversals).predict(queries.vectors)
        stored = fusion.fit(known.vectors, known.places, known.traversals).predict(sped400["query"][rows])
        np.testing.assert_array_equal(found, queries.places[stored])
