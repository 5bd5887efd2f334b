"""Many queries located together: foreign ones are told by their number, and maps of few traversals adapt, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from drives import make_route

import displace
from displace.matches import joined
from displace.places import Places
from displace.search import exact
from displace.sequence.chance import apart
from displace.sequence.together import (
    HARDLY,
    agreed,
    judged_in_order,
    judged_together,
    judged_under_way,
    own_share,
)

SHARED = Path(__file__).parents[2] / "shared" / "data"
N = 240


def ratios(n_right: int, n_wrong: int, seed: int = 0) -> np.ndarray:
    """How much likelier features of right matches, around 2, look if right than if wrong, around 0."""
    rng = np.random.default_rng(seed)
    x = np.r_[rng.normal(2, 1, n_right), rng.normal(0, 1, n_wrong)]
    return np.exp(2 * x - 2)


@pytest.mark.parametrize("usual", [0.3, 0.6, 0.9])
@pytest.mark.parametrize(("n_right", "n_wrong"), [(600, 0), (450, 150), (60, 540)])
def test_the_share_of_right_matches_is_found(n_right: int, n_wrong: int, usual: float) -> None:
    """It is the share under which what is seen is likeliest, by trying all of them."""
    seen = ratios(n_right, n_wrong)
    tried = np.linspace(0.0005, 0.9995, 2000)
    likelihood = np.log(tried[:, None] * seen + 1 - tried[:, None]).sum(axis=1)
    assert own_share(seen, usual) == pytest.approx(tried[likelihood.argmax()], abs=2e-3)
    assert own_share(seen, usual) == pytest.approx(n_right / (n_right + n_wrong), abs=0.06)


def test_probabilities_are_as_they_were_where_some_are_right() -> None:
    seen, usual = ratios(60, 140), 0.6
    probability = seen * usual / (1 - usual) / (1 + seen * usual / (1 - usual))
    np.testing.assert_array_equal(judged_together(probability, usual), probability)


def test_probabilities_grow_where_more_are_right_than_usual() -> None:
    seen, usual = ratios(240, 60), 0.4
    probability = seen * usual / (1 - usual) / (1 + seen * usual / (1 - usual))
    share = own_share(seen, usual)
    together = judged_together(probability, usual)
    np.testing.assert_allclose(
        together, seen * share / (1 - share) / (1 + seen * share / (1 - share)), rtol=1e-6
    )
    assert together.mean() == pytest.approx(0.8, abs=0.06)
    all_right = judged_together(np.full(200, 0.99), 0.5)
    assert all_right == pytest.approx(99 * 19 / (1 + 99 * 19))


@pytest.mark.parametrize("seed", range(5))
def test_probabilities_of_foreign_queries_vanish(seed: int) -> None:
    seen, usual = 0.8 * ratios(0, 300, seed), 0.6
    probability = seen * usual / (1 - usual) / (1 + seen * usual / (1 - usual))
    assert (probability >= 0.5).mean() > 0.05
    assert own_share(seen, usual) < HARDLY
    together = judged_together(probability, usual)
    assert (together <= probability).all()
    assert (together >= 0.5).mean() <= 0.01
    np.testing.assert_array_equal(np.argsort(together, kind="stable"), np.argsort(probability, kind="stable"))


def test_under_way_each_is_judged_by_those_before_it() -> None:
    seen, usual = np.r_[0.8 * ratios(0, 200, 1), ratios(300, 0)], 0.6
    probability = seen * usual / (1 - usual) / (1 + seen * usual / (1 - usual))
    under_way = judged_under_way(probability, usual)
    np.testing.assert_array_equal(under_way[:300], judged_under_way(probability[:300], usual))
    np.testing.assert_array_equal(under_way[:30], probability[:30])
    assert (under_way[100:200] >= 0.5).mean() <= 0.01 < 0.05 < (probability[100:200] >= 0.5).mean()
    np.testing.assert_array_equal(under_way[-200:], probability[-200:])


@pytest.mark.parametrize("under_way", [False, True])
def test_the_odds_without_adaptation_count_twice(under_way: bool) -> None:
    """Naively, of four matches: their condition cannot be told."""
    adapted, plain = np.array([0.9, 0.6, 0.4, 0.99]), np.array([0.5, 0.9, 0.9, 0.01])
    expected = [
        1 / (1 + ((1 - a) / a * ((1 - p) / p) ** 2) ** (1 / 3)) for a, p in zip(adapted, plain, strict=True)
    ]
    np.testing.assert_allclose(agreed(adapted, plain, under_way), expected, rtol=1e-6)


def test_what_a_condition_does_to_all_is_no_sign() -> None:
    adapted, plain = np.full(40, 0.9), np.full(40, 0.02)
    np.testing.assert_allclose(agreed(adapted, plain), 1 / (1 + (1 / 9) ** (1 / 3)), rtol=1e-6)
    # Where most sure matches look likely by themselves, the others are from elsewhere.
    plain[:35] = 0.9
    assert (agreed(adapted, plain)[35:] < 0.35).all()
    under_way = agreed(adapted, plain, under_way=True)
    np.testing.assert_allclose(under_way[:20], agreed(adapted[:20], plain[:20], under_way=True))


def test_what_is_refused_beyond_doubt_stays_refused() -> None:
    sure = np.r_[np.full(10, 0.9), 0.001]
    assert agreed(sure, np.full(11, 0.9999))[-1] == pytest.approx(0.001 * np.exp(2), rel=0.01)
    # Hardly any of these is right: nothing is gained.
    assert agreed(np.full(3, 0.01), np.full(3, 0.9999)) == pytest.approx(0.01, rel=1e-6)
    under_way = agreed(np.r_[np.full(3, 0.01), 0.9], np.full(4, 0.9999), under_way=True)
    assert under_way[:3] == pytest.approx(0.01, rel=1e-6)


def test_one_sure_match_among_many_foreign_ones_is_kept() -> None:
    together = judged_together(np.r_[np.full(199, 0.1), 0.9999], 0.6)
    assert together[-1] > 0.9
    assert together[0] < 0.01


def route_map(n_traversals: int, likeness: float = 0.5) -> displace.PlaceMap:
    vectors = [make_route(N, likeness, seed=4, condition=c, shift=0.4)[1] for c in range(n_traversals)]
    places = np.tile(np.arange(N), n_traversals)
    traversals = np.repeat([f"t{c}" for c in range(n_traversals)], N)
    info = Places(np.arange(N), frames=np.arange(N, dtype=float))
    refs = displace.ReferenceSet(np.concatenate(vectors), places, traversals, info=info)
    return displace.build(refs, fusion="hops", tolerance="1 frames")


@pytest.mark.parametrize("n_traversals", [1, 2, 4])
def test_photos_of_another_route_are_refused(n_traversals: int) -> None:
    place_map = route_map(n_traversals)
    own = make_route(N, 0.5, seed=4, condition=9, shift=0.4)[1]
    other = make_route(N, 0.5, seed=5, condition=9, shift=0.4)[1]
    learned = place_map.state.driving
    assert learned is not None
    foreign, right = (place_map.locate(queries, adapt="auto").confidence for queries in (other, own))
    assert place_map.adapts("auto", N) == "batch"
    assert (foreign >= 0.5).mean() <= 0.01
    if n_traversals > 1:  # by rule, they are never judged alone
        alone = place_map.changed(driving=replace(learned, share=0.0)).locate(other, adapt="auto").confidence
        assert foreign.mean() < alone.mean() / 2
    assert (right >= 0.5).mean() > (0.5 if n_traversals > 1 else 0.3)


@pytest.mark.parametrize(("adapt", "n_traversals"), [("auto", 2), ("auto", 4), ("online", 4)])
def test_photos_from_elsewhere_among_those_of_the_route_are_refused(adapt: str, n_traversals: int) -> None:
    """As many of them pass as one by one, and no fewer photos of the route."""
    rng = np.random.default_rng(0)
    place_map = route_map(n_traversals)
    own = make_route(N, 0.5, seed=4, condition=9, shift=0.4)[1]
    # They have something in common with each other, and little with the route.
    elsewhere = make_route(N, 0.5, seed=5, condition=9, shift=0.4)[1][: N // 2] + 0.3 * rng.normal(
        size=own.shape[1]
    )
    mixed, foreign = np.concatenate([own, elsewhere]), np.arange(len(own) + len(elsewhere)) >= N
    order = rng.permutation(len(mixed))
    sure = place_map.locate(mixed[order], adapt=adapt).confidence >= 0.5
    alone = place_map.locate(mixed[order]).confidence >= 0.5
    assert sure[foreign[order]].mean() <= alone[foreign[order]].mean() + 0.02
    assert sure[~foreign[order]].mean() >= alone[~foreign[order]].mean() - 0.05


def test_a_drive_in_a_new_condition_is_accepted_by_a_map_of_one_traversal() -> None:
    place_map = route_map(1)
    at = np.random.default_rng(0).permutation(N)  # so that their order does not tell
    queries = make_route(N, 0.5, seed=4, condition=9, shift=1.0)[1][at]
    found = place_map.locate(queries, adapt="auto")
    right = np.abs(found.places[:, 0] - at) <= 1
    assert right.mean() > 0.9
    assert (found.confidence[right] >= 0.5).mean() > 0.8
    assert (place_map.locate(queries).confidence[right] >= 0.5).mean() < 0.3


def test_a_light_that_the_map_has_not_seen_is_told_from_elsewhere_by_its_order() -> None:
    """Half of the right places were refused: they look like those of photos from elsewhere."""
    place_map = route_map(2)
    queries = make_route(N, 0.42, seed=4, condition=9, shift=3.0)[1]
    found = place_map.locate(queries, adapt="auto")
    right = np.abs(found.places[:, 0] - np.arange(N)) <= 1
    accepted = found.confidence >= 0.5
    shuffled = np.random.default_rng(0).permutation(N)
    in_no_order = place_map.locate(queries[shuffled], adapt="auto").confidence >= 0.5
    assert right.mean() > 0.7
    assert accepted[right].mean() > 0.9 > 0.6 > in_no_order[right[shuffled]].mean()
    assert (accepted & ~right).mean() < 0.1
    elsewhere = make_route(N, 0.42, seed=5, condition=9, shift=3.0)[1][:100]
    after = place_map.locate(np.concatenate([queries, elsewhere]), adapt="auto").confidence
    assert (after[N:] >= 0.5).mean() <= 0.01 < accepted.mean()


def test_matches_in_order_are_raised_to_what_the_order_proves() -> None:
    seen = np.random.default_rng(0).uniform(0, 0.4, 200)
    raised = judged_in_order(seen, 120.0)
    assert raised.sum() == pytest.approx(120, abs=1e-3)
    assert (np.diff(raised[np.argsort(seen)]) >= 0).all()
    shift = np.log(raised / (1 - raised)) - np.log(seen / (1 - seen))
    assert np.ptp(shift) < 1e-3
    np.testing.assert_allclose(judged_in_order(seen, 1.0), seen, atol=1e-6)  # none is lowered
    assert judged_in_order(seen, 1e9).sum() <= 0.95 * 200 + 1e-3


def test_under_way_a_query_knows_nothing_of_those_after_it() -> None:
    place_map = route_map(3)
    learned = place_map.state.driving
    assert learned is not None
    place_map = place_map.changed(driving=replace(learned, batch=learned.online))
    own, other = (make_route(N, 0.5, seed=seed, condition=9, shift=0.4)[1] for seed in (4, 5))
    first = place_map.locate(other, adapt="online").confidence
    of_all = place_map.locate(np.concatenate([other, own]), adapt="online").confidence
    np.testing.assert_allclose(of_all[:N], first, atol=1e-6)


@pytest.mark.parametrize("n_traversals", [1, 2])
def test_maps_of_few_traversals_adapt_too(n_traversals: int, tmp_path: Path) -> None:
    """The fewer conditions a map has, the more adapting gives."""
    place_map = route_map(n_traversals)
    queries = make_route(N, 0.5, seed=4, condition=9, shift=1.0)[1]
    right = {
        mode: np.abs(place_map.locate(queries, adapt=mode).places[:, 0] - np.arange(N)) <= 1
        for mode in ("none", "auto")
    }
    assert right["auto"].mean() > right["none"].mean() + 0.05
    assert place_map.calibration is not None
    confidence = place_map.locate(queries, adapt="auto").confidence
    assert confidence.max() <= place_map.calibration.ceiling
    assert confidence[right["auto"]].mean() > confidence[~right["auto"]].mean()
    place_map.save(tmp_path / "m.displace")
    again = displace.PlaceMap.load(tmp_path / "m.displace").locate(queries, adapt="auto").confidence
    np.testing.assert_allclose(again, confidence, atol=1e-5)


def test_a_drive_is_smoothed_with_adaptation_whatever_the_map_knows() -> None:
    place_map = route_map(2, likeness=0.25).changed(driving=None)
    queries = make_route(N, 0.25, seed=4, condition=9, shift=2.0)[1]
    by_itself = [fix.place for fix in place_map.smooth(queries)]
    assert by_itself == [fix.place for fix in place_map.smooth(queries, adapt="batch")]
    plain = [fix.place for fix in place_map.smooth(queries, adapt="none")]
    right = {
        name: np.mean(np.abs(np.array(p) - np.arange(N)) <= 1)
        for name, p in (("own", by_itself), ("plain", plain))
    }
    assert right["own"] > right["plain"] + 0.1


def test_many_photos_without_adaptation_are_judged_together_too() -> None:
    """On a map that cannot say how sure adapted matches are, as one without an order."""
    place_map = route_map(3).changed(driving=None)
    own, other = (make_route(N, 0.5, seed=seed, condition=9, shift=0.4)[1] for seed in (4, 5))
    assert place_map.adapts("auto", N) == "none"
    each, together = (place_map.locate(other, adapt=adapt).confidence for adapt in ("none", "auto"))
    assert together.mean() < each.mean() / 2
    assert (together >= 0.5).mean() <= 0.01
    right = [(place_map.locate(own, adapt=adapt).confidence >= 0.5).mean() for adapt in ("none", "auto")]
    assert right[1] >= right[0]
    few = place_map.locate(other[:99], adapt="auto").confidence
    np.testing.assert_allclose(few, each[:99], atol=1e-6)


def test_maps_that_are_not_in_memory_adapt_only_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    place_map = route_map(3)
    assert place_map.adapts("auto", N) == "batch"
    monkeypatch.setattr(exact, "MAPPED_ABOVE", 4 * place_map.state.vectors.size - 1)
    assert place_map.adapts("auto", N) == "none"
    assert place_map.adapts("batch", N) == "batch"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not there")
@pytest.mark.parametrize("n_traversals", [1, 2])
def test_webcams_are_not_on_a_railway(n_traversals: int) -> None:
    from displace.images import read_image
    from displace.models import get_model

    model = get_model("hog")

    def described(folder: str, part: slice) -> np.ndarray:
        files = sorted((SHARED / folder).glob("*.jpg"))[part]
        return np.stack([model.prepare(read_image(file)) for file in files])

    railway = np.concatenate([described(f"nordland811/{s}", slice(200)) for s in ("summer", "winter")])[
        : 200 * n_traversals
    ]
    refs = displace.ReferenceSet(
        railway,
        np.tile(np.arange(200), n_traversals),
        np.repeat(["summer", "winter"], 200)[: 200 * n_traversals],
        info=Places(np.arange(200), frames=np.arange(200.0)),
    )
    fusion = "displace" if n_traversals > 1 else "hops"
    place_map = displace.build(refs, fusion, model=model.fingerprint(), tolerance="2 frames")
    webcams = described("sped400/query", slice(120))
    assert place_map.adapts("auto", len(webcams)) == "batch"
    assert (place_map.locate(webcams, adapt="auto").confidence >= 0.5).sum() == 0


@pytest.mark.parametrize("n_traversals", [1, 2, 3])
def test_pictures_of_one_spot_are_found_there_as_they_are_one_by_one(n_traversals: int) -> None:
    """What 150 pictures of a robot that stands have in common is the place: taken away, they would be noise."""
    place_map = route_map(n_traversals, likeness=0.9)
    shown = make_route(N, 0.9, seed=4, condition=9)[1][100]
    noise = 0.02 * np.random.default_rng(0).standard_normal((150, len(shown)))
    standing = (shown + noise).astype(np.float32)
    together = place_map.locate(standing, adapt="auto")
    assert (together.places[:, 0] == 100).all()
    np.testing.assert_array_equal(together.places, place_map.locate(standing).places)
    assert not together.adapted
    assert not together.take(np.array([3])).adapted
    moving = place_map.locate(make_route(N, 0.9, seed=4, condition=9, shift=0.4)[1], adapt="auto")
    assert moving.adapted
    assert joined([together, moving]).adapted
    assert moving.take(np.array([3])).adapted
    assert [fix.place for fix in place_map.smooth(standing)] == [100] * 150


@pytest.mark.parametrize("adapt", ["none", "batch", "online"])
@pytest.mark.parametrize("fusion", ["displace", "pooling"])
def test_a_black_picture_is_refused_where_the_map_has_a_black_place(adapt: str, fusion: str) -> None:
    routes = [make_route(N, 0.5, seed=4, condition=c, shift=0.4)[1] for c in range(4)]
    for vectors in routes:
        vectors[40] = 0
    *known, queries = routes
    traversals = np.repeat(["t0", "t1", "t2"], N)
    info = Places(np.arange(N), frames=np.arange(N, dtype=float))
    refs = displace.ReferenceSet(np.concatenate(known), np.tile(np.arange(N), 3), traversals, info=info)
    found = displace.build(refs, fusion, tolerance="1 frames").locate(queries, adapt=adapt)
    assert found.confidence is not None
    assert found.confidence[40] == 0
    assert (np.delete(found.confidence, 40) >= 0.5).mean() > 0.5


@pytest.mark.parametrize("n_traversals", [1, 2, 3])
@pytest.mark.parametrize("adapt", ["batch", "online", "auto"])
def test_pictures_that_are_all_black_are_refused(n_traversals: int, adapt: str) -> None:
    place_map = route_map(n_traversals)
    black = place_map.locate(np.zeros((150, place_map.dim), np.float32), adapt=adapt)
    assert (black.confidence < 0.5).all()


@pytest.mark.parametrize("n_traversals", [1, 2, 3])
@pytest.mark.parametrize("n_queries", [1, 2, 9])
def test_few_queries_adapt_nothing_as_a_batch(n_traversals: int, n_queries: int) -> None:
    place_map = route_map(n_traversals)
    few = make_route(N, 0.5, seed=4, condition=9, shift=0.4)[1][100 : 100 + n_queries]
    adapted, plain = place_map.locate(few, adapt="batch"), place_map.locate(few)
    np.testing.assert_array_equal(adapted.places, plain.places)
    np.testing.assert_array_equal(adapted.confidence, plain.confidence)


def test_where_all_places_score_the_same_nothing_stands_out() -> None:
    np.testing.assert_array_equal(
        apart(np.zeros((1, 5)), lambda place: slice(place, place + 1)), [[0.0, 0.0]]
    )


def test_a_drive_that_stands_most_of_the_time_is_smoothed() -> None:
    place_map = route_map(3, likeness=0.9)
    at = np.r_[80:110, np.full(500, 110), 110:140]
    noise = 0.03 * np.random.default_rng(0).standard_normal((len(at), place_map.dim))
    drive = make_route(N, 0.9, seed=4, condition=9, shift=0.4)[1][at] + noise.astype(np.float32)
    places = np.array([fix.place for fix in place_map.smooth(drive)])
    assert (np.abs(places - at) <= 1).mean() > 0.97
