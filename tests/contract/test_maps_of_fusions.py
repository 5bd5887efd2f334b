"""What a map asks of any fusion, of this package or of a package outside that only registers itself."""

from __future__ import annotations

import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from displace import PlaceMap, build, get_fusion
from displace.advise import advise
from displace.arrays import l2_normalize
from displace.errors import ConditioningWarning, InputError
from displace.fusion import FUSIONS
from displace.fusion.base import Rows, VectorFusion
from displace.fusion.solver.scatter import Scatter
from displace.geo import Positions
from displace.interop import export
from displace.synthetic import make_route

OUTSIDE = Path(__file__).resolve().parent.parent / "outside"
PLUGINS = ["first", "principal"]
NAMES = [*FUSIONS.names(), *PLUGINS]


@pytest.fixture(autouse=True)
def outside(monkeypatch):
    """The package outside is installed: its folder, with the metadata of an installation, is on the path."""
    monkeypatch.syspath_prepend(OUTSIDE)
    yield
    for name in [name for name in sys.modules if name.startswith("displace_outside")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def route():
    return make_route(n_places=60, n_traversals=4, dim=24, drop=0.15, seed=4)


def fitted(name, refs):
    return get_fusion(name)().fit(refs.vectors, refs.places, refs.traversals)


def storable(name, refs):
    """The fusion fitted, or a skip where no map can hold it."""
    fusion = fitted(name, refs)
    if fusion.rows() is None:
        pytest.skip(f"{name} fuses whole score matrices: no map can hold it")
    return fusion


def all_scores(matches):
    """Scores (q, N) in the order of the place ids."""
    return np.take_along_axis(matches.scores, np.argsort(matches.places, axis=1), axis=1)


def test_the_package_outside_is_found():
    assert set(PLUGINS) <= set(FUSIONS.names())
    assert FUSIONS.name_of(get_fusion("principal")) == "principal"
    assert FUSIONS.name_of(get_fusion("hops")) == "hops"


@pytest.mark.parametrize("name", PLUGINS)
def test_scikit_learn_accepts_it(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks feed degenerate data on purpose
        results = check_estimator(get_fusion(name)(), on_skip=None, on_fail=None)
    assert {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"} == {}


@pytest.mark.parametrize("name", NAMES)
def test_rows_score_as_the_fusion_does(name, route):
    fusion = storable(name, route.references)
    rows = fusion.rows()
    assert isinstance(rows, Rows)
    assert np.all(np.diff(rows.place_index) >= 0)
    assert set(rows.place_index.tolist()) == set(range(len(fusion.place_ids_)))
    scores = rows.project(route.queries) @ rows.vectors.T
    starts = np.searchsorted(rows.place_index, np.arange(len(fusion.place_ids_)))
    best = np.maximum.reduceat(scores, starts, axis=1)
    np.testing.assert_allclose(best, all_scores(fusion.rank(route.queries, k=60)), atol=2e-6)


@pytest.mark.parametrize("name", NAMES)
def test_built_saved_and_loaded_a_map_ranks_as_its_fusion(name, route, tmp_path):
    refs = route.references
    fusion = storable(name, refs)
    place_map = build(refs, name, dtype="float32")
    place_map.save(tmp_path / "town.displace")
    again = PlaceMap.load(tmp_path / "town.displace")
    assert (again.fusion, again.settings) == (name, fusion.settings())
    own = fusion.rank(route.queries, k=5)
    for found in (place_map.locate(route.queries, k=5), again.locate(route.queries, k=5)):
        np.testing.assert_array_equal(found.places, own.places)
        np.testing.assert_allclose(found.scores, own.scores, atol=2e-6)
    if len(fusion.used(refs).traversal_ids) >= 3:
        assert again.calibration is not None
        assert np.isfinite(again.locate(route.queries).confidence).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("saved", [True, False], ids=["from the file", "in memory"])
def test_an_update_is_a_rebuild(name, saved, route, tmp_path):
    refs = route.references
    storable(name, refs)
    place_map = build(refs.without("t3"), name, dtype="float32", calibration=False)
    if saved:
        place_map.save(tmp_path / "town.displace")
        place_map = PlaceMap.load(tmp_path / "town.displace")
    if get_fusion(name)().statistics(refs) is None:
        with pytest.raises(InputError, match="cannot be updated"):
            place_map.add(refs.only("t3"))
        return
    before = all_scores(place_map.locate(route.queries, k=60))
    place_map.add(refs.only("t3"))
    rebuilt = build(refs, get_fusion(name)(**place_map.settings), dtype="float32", calibration=False)
    a, b = (all_scores(m.locate(route.queries, k=60)) for m in (place_map, rebuilt))
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-4)
    place_map.remove(refs.only("t3"))
    np.testing.assert_allclose(all_scores(place_map.locate(route.queries, k=60)), before, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", PLUGINS)
def test_a_fusion_that_is_not_registered_makes_a_map_too(name, route, tmp_path, monkeypatch):
    kind = get_fusion(name)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(OUTSIDE)])
    assert name not in FUSIONS.names()
    refs = route.references
    place_map = build(refs.without("t3"), kind(), dtype="float32")
    assert place_map.calibration is not None
    place_map.save(tmp_path / "town.displace")
    again = PlaceMap.load(tmp_path / "town.displace")
    own = kind().fit(*(getattr(refs.without("t3"), part) for part in ("vectors", "places", "traversals")))
    np.testing.assert_array_equal(again.locate(route.queries).places, own.rank(route.queries).places)
    if name == "principal":
        place_map.add(refs.only("t3"))
        with pytest.raises(InputError, match=r"made by the fusion 'displace_outside.principal:Principal'"):
            again.add(refs.only("t3"))


@pytest.mark.filterwarnings("ignore::displace.errors.ConditioningWarning")
def test_advice_compares_fusions_from_outside(route):
    advice = advise(route.references, fusions=["displace", "hops", *PLUGINS], max_queries=40)
    scored = {score.choice.fusion: score for score in advice.scores}
    assert set(PLUGINS) <= set(scored)
    rows = fitted("principal", route.references).rows()
    assert scored["principal"].n_bytes == 4 * (rows.vectors.size + rows.projection.size + rows.mean.size)


@pytest.mark.parametrize("name", ["displace", "hops", "pooling", *PLUGINS])
def test_maps_of_any_fusion_are_exported(name, route, tmp_path):
    refs = route.references
    points = Positions(np.random.default_rng(0).uniform(0, 500, (len(refs.place_ids), 2)))
    place_map = build(refs, name, positions=points, calibration=False)
    (written,) = export("csv", place_map, tmp_path / "places.csv")
    assert written.read_text().count("\n") == 1 + len(refs.place_ids)
    faiss = pytest.importorskip("faiss", reason="needs the extra faiss")
    written = export("faiss", place_map, tmp_path / "town.faiss")
    index = faiss.read_index(str(written[0]))
    rows = index.search(place_map.project(route.queries).astype(np.float32), 1)[1][:, 0]
    best = place_map.place_ids[place_map.row_places[rows]]
    assert np.mean(best == place_map.locate(route.queries, k=1).places[:, 0]) > 0.97


class TurnedInSecret(VectorFusion):
    """Projects queries without saying so in what a map stores."""

    title = "Turned"

    def _fit(self, X, index, traversals):
        self.turn_ = np.linalg.qr(np.random.default_rng(0).standard_normal((X.shape[1],) * 2))[0]
        self.place_vectors_ = X[np.unique(index, return_index=True)[1]] @ self.turn_

    def _project(self, Q):
        return Q @ self.turn_


def test_a_projection_that_a_map_would_lose_is_refused(route):
    with pytest.raises(InputError, match=r"set projection_ \(D, n\) and mean_"):
        build(route.references, TurnedInSecret())


class OneTooMany(VectorFusion):
    """Has a vector that is of no place."""

    def _fit(self, X, index, traversals):
        self.place_vectors_ = X[: index.max() + 2]


def test_vectors_that_are_not_one_for_each_place_are_refused(route):
    n, dim = len(route.references.place_ids), route.references.vectors.shape[1]
    message = (
        rf"OneTooMany: place_vectors_ has shape \({n + 1}, {dim}\), and must be an array of shape \({n}, n\)"
    )
    with pytest.raises(InputError, match=message):
        build(route.references, OneTooMany())
    with pytest.raises(InputError, match=message):
        OneTooMany().fit_references(route.references)


class Given(VectorFusion):
    """Learns what it is told to."""

    def __init__(self, learned=None):
        self.learned = learned

    def _fit(self, X, index, traversals):
        first = l2_normalize(X[np.unique(index, return_index=True)[1]])
        for name, make in (self.learned or {}).items():
            setattr(self, name, make(first))


@pytest.mark.parametrize(
    ("learned", "message"),
    [
        ({}, r"Given: place_vectors_ is of type NoneType, and must be an array"),
        ({"place_vectors_": np.ndarray.tolist}, r"place_vectors_ is of type list"),
        ({"place_vectors_": lambda rows: 3 * rows}, r"row 0 of place_vectors_ has length 3.*l2_normalize"),
        (
            {"place_vectors_": lambda rows: rows[:, :4]},
            r"has 4 columns, and queries 24: set projection_ \(24, 4\)",
        ),
        (
            {"place_vectors_": lambda rows: rows[:, :4], "projection_": lambda rows: np.eye(24)[:4]},
            r"projection_ has shape \(4, 24\), and must have \(24, 4\)",
        ),
        (
            {"place_vectors_": lambda rows: rows, "mean_": lambda rows: rows[:, :1].mean(axis=0)},
            r"mean_ has shape \(1,\), and must have \(24,\)",
        ),
    ],
    ids=["missing", "list", "long rows", "fewer columns", "projection turned", "mean of one"],
)
def test_what_a_fusion_of_ones_own_learned_wrong_is_named(route, learned, message):
    with pytest.raises(InputError, match=message):
        Given(learned).fit_references(route.references)


def test_fusions_of_score_matrices_are_refused(route):
    with pytest.raises(InputError, match=r"needs whole score matrices.*a map can hold .*displace.*hops"):
        build(route.references, "dmat_min")


def test_the_scatter_of_a_build_is_computed_once(route, monkeypatch):
    counted = []
    update = Scatter._update
    monkeypatch.setattr(
        Scatter,
        "_update",
        lambda self, *args, **kw: (counted.append(self.within.shape), update(self, *args, **kw))[1],
    )
    settings = {"ridge": 1.0, "center": False}
    get_fusion("displace")(**settings).fit(*(getattr(route.references, p) for p in ("vectors", "places")))
    of_a_fit = len(counted)
    counted.clear()
    build(route.references, get_fusion("displace")(**settings), calibration=False)
    assert len(counted) == of_a_fit


def test_plain_retrieval_stores_no_projection(route):
    refs = route.references.only("t0")
    with pytest.warns(ConditioningWarning):
        place_map = build(refs, "displace", calibration=False)
    assert place_map.projection is None
    assert place_map.nbytes == build(refs, "hops", calibration=False).nbytes


def test_threads_see_the_old_map_or_the_new_one(route):
    """Eight threads locate while a ninth adds and removes a traversal: every answer is of one of the two maps."""
    refs = route.references
    old = build(refs.without("t3"), "displace", dtype="float32", calibration=False)
    new = build(refs.without("t3"), "displace", dtype="float32", calibration=False)
    new.add(refs.only("t3"))
    place_map = PlaceMap(old.state)
    known = {all_scores(m.locate(route.queries, k=5)).tobytes() for m in (old, new)}
    done, wrong, answers = threading.Event(), [], []

    def ask():
        while not done.is_set():
            answer = all_scores(place_map.locate(route.queries, k=5))
            answers.append(1)
            if answer.tobytes() not in known:
                wrong.append(answer)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        place_map.add(refs.only("t3"))
        place_map.state = old.state  # as before, to the last bit
    while len(answers) < 50:
        threading.Event().wait(0.001)
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
