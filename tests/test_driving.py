"""Maps and drives: following, smoothing, adapting, and what a map learns about them when it is built."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest
from drives import drive_along, make_route

import displace
from displace.errors import InputError
from displace.geo import Positions
from displace.places import Places
from displace.sequence.adaptation import MapRows, OnlineAdaptation
from displace.sequence.following import DriveCalibration, Fix, Follower, Logistic, Sparse
from displace.sequence.together import agreed

N = 140
IDS = np.array([f"p{i:03d}" for i in range(N)])


def references(frames: bool = True, keep: np.ndarray | None = None) -> displace.ReferenceSet:
    """Four conditions of a route whose ids are not in route order."""
    keep = np.arange(N) if keep is None else keep
    conditions = [make_route(N, 0.42, seed=6, condition=c)[1][keep] for c in range(4)]
    order = np.argsort(IDS[::-1][keep])
    info = Places(IDS[::-1][keep][order], frames=keep[order].astype(float) if frames else None)
    return displace.ReferenceSet(
        np.concatenate(conditions),
        np.tile(IDS[::-1][keep], 4),
        np.repeat(list("abcd"), len(keep)),
        info=info,
    )


@pytest.fixture(scope="module")
def place_map() -> displace.PlaceMap:
    return displace.build(references(), fusion="hops", tolerance="1 frames")


@pytest.fixture(scope="module")
def driven() -> tuple[np.ndarray, np.ndarray]:
    """Frames of a drive in another condition, and their places along the route."""
    at = drive_along(N, np.random.default_rng(2))
    return make_route(N, 0.3, seed=6, condition=9, shift=0.4)[1][at], at


def share(places: np.ndarray, at: np.ndarray, around: int = 1) -> float:
    found = N - 1 - np.searchsorted(IDS, places)
    return float((np.abs(found - at) <= around).mean())


@pytest.mark.parametrize("n_black", [5, 30])
def test_a_drive_that_begins_in_the_dark_is_followed_all_the_same(
    place_map: displace.PlaceMap, driven: tuple[np.ndarray, np.ndarray], n_black: int
) -> None:
    """Black pictures are all alike, and are no stop; nor are the pictures that follow them."""
    frames, at = driven
    follower, plain = place_map.follow(), place_map.follow()
    for black in np.zeros((n_black, frames.shape[1]), np.float32):
        assert follower.step(black).probability < 0.1
    followed = share(np.array([follower.step(frame).place for frame in frames]), at)
    assert followed > share(np.array([plain.step(frame).place for frame in frames]), at) - 0.1


@pytest.mark.parametrize("first", [0, 60, None])
def test_black_pictures_of_a_smoothed_drive_are_at_no_place(
    place_map: displace.PlaceMap, driven: tuple[np.ndarray, np.ndarray], first: int | None
) -> None:
    """A tunnel, or a covered lens: the drive went on, and was told to stand where it was last seen, surely."""
    frames, at = driven
    first = len(frames) - 20 if first is None else first
    dark = slice(first, first + 20)
    seen = frames.copy()
    seen[dark] = 0
    fixes = place_map.smooth(seen)
    assert max(fix.probability for fix in fixes[dark]) == 0
    assert place_map.smoothed(seen).confidence[dark].max() == 0
    others = np.delete(np.arange(len(frames)), dark)
    assert share(np.array([fixes[frame].place for frame in others]), at[others]) > 0.85
    one = frames.copy()
    one[70] = 0
    assert place_map.smooth(one)[70].probability > 0.5, "a single one is a step of the drive"


def test_following_and_smoothing_beat_single_frames(
    place_map: displace.PlaceMap, driven: tuple[np.ndarray, np.ndarray]
) -> None:
    frames, at = driven
    single = share(place_map.locate(frames, k=1).places[:, 0], at)
    follower = place_map.follow()
    fixes = [follower.step(frame) for frame in frames]
    smoothed = place_map.smooth(frames)
    followed = share(np.array([fix.place for fix in fixes]), at)
    assert single < 0.8
    assert followed > single + 0.05
    assert share(np.array([fix.place for fix in smoothed]), at) > max(0.8, followed)
    for fix in (*fixes, *smoothed):
        assert 0 <= fix.probability <= 1
        assert fix.belief.shape == (N,)
        assert float(fix.belief.sum()) + fix.off_map == pytest.approx(1, abs=1e-3)


def test_the_beliefs_of_a_drive_are_not_held_at_once(
    place_map: displace.PlaceMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix = Fix(IDS[0], 0.5, 0.1, Sparse(2000, np.arange(10, dtype=np.int32), np.full(10, 0.09, np.float32)))
    monkeypatch.setattr(place_map, "_smooth", lambda *_: ([fix] * 2000, (0, 0)))
    tracemalloc.start()
    found = place_map.smoothed(np.zeros((2000, 32)), k=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == 2000
    assert peak < 8e6  # all at once are 32 MB


def test_a_map_learns_to_follow_and_keeps_it(place_map: displace.PlaceMap, tmp_path: Path) -> None:
    learned = place_map.state.driving
    assert learned is not None
    assert learned.recall["smoothed"] >= learned.recall["single"]
    assert None not in (learned.followed, learned.smoothed, learned.batch)
    assert learned.n_frames >= N
    place_map.save(tmp_path / "m.displace")
    assert displace.PlaceMap.load(tmp_path / "m.displace").state.driving == learned


class Meanwhile(displace.PlaceMap):
    """A map that gets a traversal with new places while images are described."""

    def describe(self, queries: np.ndarray, *, model: object = None) -> np.ndarray:
        vectors = super().describe(queries, model=model)
        rng = np.random.default_rng(0)
        new = displace.ReferenceSet(rng.normal(size=(60, 32)), [f"q{i}" for i in range(60)], ["e"] * 60)
        self.add(new)
        return vectors


@pytest.mark.parametrize("adapt", ["auto", "batch", "online", "none"])
def test_an_update_meanwhile_does_not_mix_two_maps(driven: tuple[np.ndarray, np.ndarray], adapt: str) -> None:
    frames, _ = driven
    before = displace.build(references(), tolerance="1 frames")
    expected = before.locate(frames, adapt=adapt)
    found = Meanwhile(before.state).locate(frames, adapt=adapt)
    np.testing.assert_array_equal(found.places, expected.places)
    np.testing.assert_array_equal(found.confidence, expected.confidence)
    if adapt != "online":
        smoothed = Meanwhile(before.state).smoothed(frames, adapt=adapt)
        np.testing.assert_array_equal(smoothed.places, before.smoothed(frames, adapt=adapt).places)
        assert len(Meanwhile(before.state).smooth(frames, adapt=adapt)[0].belief) == N


def test_no_queries_have_no_answers(place_map: displace.PlaceMap) -> None:
    none = np.empty((0, 32), np.float32)
    for adapt in ("none", "batch", "online", "auto"):
        found = place_map.locate(none, k=3, adapt=adapt)
        assert found.places.shape == found.scores.shape == (0, 3)
        assert found.confidence.shape == (0,)
    for adapt in ("none", "batch", "auto"):
        assert place_map.smooth(none, adapt=adapt) == []
        found = place_map.smoothed(none, k=3, adapt=adapt)
        assert found.places.shape == found.scores.shape == (0, 3)
        assert found.places.dtype == place_map.place_ids.dtype
    assert place_map.view_of(none) == (0, 0)


class TestUpdates:
    """What is known about drives keeps up with the map."""

    def test_with_the_references_kept_it_is_that_of_a_rebuild(self) -> None:
        refs = references()
        town = displace.build(refs.only("a"), "hops", tolerance="1 frames", keep_references=True)
        assert town.add(refs.only("b", "c")).advice == []
        whole = displace.build(refs.without("d"), "hops", tolerance="1 frames")
        assert town.state.driving == whole.state.driving
        wider = displace.build(refs.without("d"), "hops", tolerance="4 frames")
        assert town.with_tolerance("4 frames").state.driving == wider.state.driving

    def test_without_them_a_new_drive_is_a_held_out_one(self, place_map: displace.PlaceMap) -> None:
        refs = references()
        town = displace.build(refs.only("a", "b"), "hops", tolerance="1 frames")
        before = town.state.driving
        assert before is not None
        assert before.followed is None
        assert town.add(refs.only("c")).advice == []
        after = town.state.driving
        assert after is not None
        assert None not in (after.followed, after.smoothed, after.batch, after.online)
        assert town.adapts("auto", 150) == "batch"
        town.add(refs.only("d"))
        assert town.state.driving is after
        town.remove(refs.only("c", "d"))
        assert town.state.driving is after

    def test_a_new_drive_that_is_too_short_tells_nothing(self) -> None:
        refs = references()
        town = displace.build(refs.only("a", "b"), "hops", tolerance="1 frames")
        before = town.state.driving
        town.add(refs.only("c").select(np.arange(40)))
        assert town.state.driving is before

    @pytest.mark.filterwarnings("ignore:DisPlace falls back")
    def test_what_one_traversal_has_is_a_rule_and_nothing_else_has_it_unsaid(self) -> None:
        refs = references()
        rule = displace.build(refs.only("a")).state.driving
        town = displace.build(refs.only("a", "b"))
        town.remove(refs.only("b"))
        assert town.state.driving == rule
        assert any("fixed rule" in advice for advice in town.add(refs.only("b")).advice)
        assert town.state.driving == rule
        assert town.adapts("auto", 150) == "batch"
        assert not any("drives" in advice for advice in town.add(refs.only("c")).advice)
        assert town.state.driving.n_frames > 0

    @pytest.mark.parametrize(("n_places", "known"), [(49, False), (50, True)])
    def test_a_few_places_have_no_rule(self, n_places: int, known: bool) -> None:
        """What chance reaches cannot be told from a few rows: their photos are judged one by one."""
        refs = references().only("a")
        refs = refs.select(np.isin(refs.places, refs.place_ids[:n_places]))
        assert (displace.build(refs, "hops").state.driving is not None) == known

    def test_places_without_an_order_have_no_rule(self) -> None:
        refs = references(frames=False)
        town = displace.build(refs.only("a", "b"), "hops")
        town.remove(refs.only("b"))
        assert town.state.driving is None


def always(probability: float, n_features: int = 1) -> Logistic:
    """Say the same of every answer."""
    zeros, ones = [0.0] * n_features, [1.0] * n_features
    return Logistic(zeros, zeros, ones, log(probability / (1 - probability)))


def test_each_way_to_locate_has_its_own_confidence(
    place_map: displace.PlaceMap, driven: tuple[np.ndarray, np.ndarray]
) -> None:
    frames, _ = driven
    learned = place_map.state.driving
    assert learned is not None
    batch = {"batch": always(0.4, 3), "online": always(0.45, 3), "share": 0.0}
    judged = place_map.changed(driving=replace(learned, followed=always(0.2), smoothed=always(0.3), **batch))
    assert judged.follow().step(frames[0]).probability == pytest.approx(0.2)
    np.testing.assert_allclose([fix.probability for fix in judged.smooth(frames)], 0.3)
    plain = place_map.locate(frames).confidence
    for mode, sure in (("batch", 0.4), ("online", 0.45)):
        expected = agreed(np.full(len(frames), sure), plain, under_way=mode == "online")
        np.testing.assert_allclose(judged.locate(frames, adapt=mode).confidence, expected)
        unsure = judged.changed(calibration=None).locate(frames, adapt=mode)
        np.testing.assert_allclose(unsure.confidence, sure)
    earlier = place_map.changed(driving=replace(learned, **batch | {"online": None}), calibration=None)
    np.testing.assert_allclose(earlier.locate(frames, adapt="online").confidence, 0.4)
    np.testing.assert_array_equal(judged.locate(frames).confidence, place_map.locate(frames).confidence)


def test_what_a_frame_must_earn_is_what_the_map_learned(
    place_map: displace.PlaceMap, driven: tuple[np.ndarray, np.ndarray]
) -> None:
    learned = place_map.state.driving
    assert learned is not None
    for level, off in ((-50.0, 0.0), (50.0, 1.0)):
        told = place_map.changed(driving=replace(learned, level=level))
        assert told.follow().step(driven[0][0]).off_map == pytest.approx(off, abs=1e-3)
    alike = [make_route(N, 0.8, seed=6, condition=c)[1] for c in range(4)]
    plain = references()
    easy = displace.build(replace(plain, vectors=np.concatenate(alike)), fusion="hops", tolerance="1 frames")
    assert easy.state.driving is not None
    assert easy.state.driving.level > learned.level + 0.2


@pytest.mark.parametrize(
    ("mode", "change"),
    [
        ("followed", {"weights": [None]}),
        ("followed", {"weights": []}),
        ("smoothed", {"offsets": ["0"]}),
        ("smoothed", {"scales": [0]}),
        ("smoothed", {"weights": [1e300]}),
        ("batch", {"scales": [1.0]}),
        ("batch", {"bias": float("nan")}),
        ("batch", {"colour": 1}),
        ("", {"level": "high"}),
        ("", {"level": float("inf")}),
        ("", {"n_frames": 1.5}),
        ("", {"recall": {"single": None}}),
        ("", {"followed": [1.0]}),
        ("", {"share": 1.5}),
    ],
)
def test_a_record_of_another_kind_is_refused(mode: str, change: dict) -> None:
    one, three = (
        {"weights": [1.0] * n, "offsets": [0.0] * n, "scales": [1.0] * n, "bias": 0.0} for n in (1, 3)
    )
    record = {
        "level": 1.0,
        "followed": one,
        "smoothed": dict(one),
        "batch": three,
        "n_frames": 7,
        "recall": {},
        "share": 0.5,
        "online": dict(three),
    }
    assert DriveCalibration.from_json(copy.deepcopy(record)).to_json() == record
    earlier = {name: value for name, value in record.items() if name not in ("share", "online")}
    assert DriveCalibration.from_json(earlier).share == 0
    (record[mode] if mode else record).update(change)
    with pytest.raises((ValueError, TypeError)):
        DriveCalibration.from_json(record)


def test_frames_off_the_map_are_off_it(driven: tuple[np.ndarray, np.ndarray]) -> None:
    keep = np.r_[np.arange(0, 60), np.arange(95, N)]
    place_map = displace.build(references(keep=keep), fusion="hops", tolerance="1 frames")
    frames, at = driven
    gone = (at >= 60) & (at < 95)
    off = np.array([fix.off_map > 0.5 for fix in place_map.smooth(frames)])
    assert (off & gone).sum() / off.sum() >= 0.8
    assert (off & gone).sum() / gone.sum() >= 0.7


def test_without_an_order_a_frame_is_located_for_itself(driven: tuple[np.ndarray, np.ndarray]) -> None:
    place_map = displace.build(references(frames=False), fusion="hops")
    frames, _ = driven
    single = place_map.locate(frames, k=1).places[:, 0]
    follower = place_map.follow(adapt="none")
    assert [follower.step(frame).place for frame in frames] == single.tolist()
    assert [fix.place for fix in place_map.smooth(frames, adapt="none")] == single.tolist()
    assert place_map.state.driving is None


def test_locating_a_batch_adapts_to_its_condition(
    place_map: displace.PlaceMap, driven: tuple[np.ndarray, np.ndarray]
) -> None:
    frames, at = driven
    plain, batch = place_map.locate(frames, k=3), place_map.locate(frames, k=3, adapt="batch")
    assert share(batch.places[:, 0], at) >= share(plain.places[:, 0], at)
    assert batch.places.shape == batch.scores.shape == (len(at), 3)
    assert batch.confidence is not None
    assert ((batch.confidence >= 0) & (batch.confidence <= 1)).all()
    assert (batch.scores != plain.scores).mean() > 0.9
    for n, mode in ((99, "none"), (100, "batch")):
        auto, meant = (place_map.locate(frames[:n], adapt=name).scores for name in ("auto", mode))
        np.testing.assert_array_equal(auto, meant)


def test_locating_online_adapts_by_the_queries_before(
    place_map: displace.PlaceMap, driven: tuple[np.ndarray, np.ndarray]
) -> None:
    frames, at = driven
    found, part = (place_map.locate(queries, k=3, adapt="online") for queries in (frames, frames[:60]))
    np.testing.assert_array_equal(found.scores[:60], part.scores)
    online = OnlineAdaptation(place_map._course(place_map.state).rows)
    expected = [online.scores(query).max() for query in place_map.project(frames)]
    np.testing.assert_allclose(found.scores[:, 0], expected, atol=1e-6)
    assert (found.scores != place_map.locate(frames, k=3).scores).mean() > 0.9
    assert share(found.places[:, 0], at) >= share(place_map.locate(frames, k=1).places[:, 0], at)
    somewhere = Positions.of({"easting": np.arange(N), "northing": np.zeros(N)})
    located = place_map.changed(places=replace(place_map.places, positions=somewhere))
    for mode in ("batch", "online"):
        with pytest.raises(InputError, match=f"adapt='{mode}' compares the queries with the whole map"):
            located.locate(frames, near=(0.0, 0.0), radius=5.0, adapt=mode)


def test_a_drive_is_followed_with_what_it_told_so_far(
    place_map: displace.PlaceMap, driven: tuple[np.ndarray, np.ndarray]
) -> None:
    frames, at = driven
    ways = {}
    for mode in ("none", "online"):
        follower = place_map.follow(adapt=mode)
        ways[mode] = np.array([follower.step(frame).place for frame in frames])
    assert share(ways["online"], at) > share(ways["none"], at)


def test_what_a_drive_tells_does_not_grow_with_it() -> None:
    rng = np.random.default_rng(0)
    online = OnlineAdaptation(MapRows(np.eye(30, dtype=np.float32), np.arange(30)))

    def size() -> int:
        return sum(
            getattr(v, "nbytes", 8 * len(v) if isinstance(v, list) else 0) for v in vars(online).values()
        )

    sizes = []
    for _ in range(3):
        for _ in range(60):
            online.scores(rng.standard_normal(30).astype(np.float32))
        sizes.append(size())
    assert sizes[1] == sizes[2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fusion", ["hops", "displace"])
def test_one_descriptor_is_projected_as_many_are(
    fusion: str, dtype: type, driven: tuple[np.ndarray, np.ndarray]
) -> None:
    state = displace.build(references(), fusion=fusion, calibration=False).state
    for frame in driven[0][:5].astype(dtype):
        one = state.project_one(frame)
        assert state.takes(frame)
        assert one is not None
        np.testing.assert_allclose(one, state.project(frame[None])[0], atol=1e-6)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e20, 0.0])
def test_a_descriptor_that_needs_care_is_looked_at_again(wrong: float, place_map: displace.PlaceMap) -> None:
    frame = np.full(32, wrong, np.float32)
    assert not place_map.state.takes(frame)
    assert not place_map.state.takes(np.ones(31, np.float32))
    assert not place_map.state.takes([1.0] * 32)
    if not np.isfinite(wrong):
        with pytest.raises(InputError, match="NaN or infinity"):
            place_map.follow().step(frame)
    else:
        assert np.isfinite(place_map.follow().step(frame).belief).all()


def test_a_drive_may_begin_off_the_map(
    place_map: displace.PlaceMap, driven: tuple[np.ndarray, np.ndarray]
) -> None:
    odds = []
    for begins_off in (0.1, 0.5):
        off = place_map.follow(begins_off=begins_off).step(driven[0][0]).off_map
        odds.append(off / (1 - off))
    assert odds[1] / odds[0] == pytest.approx(9, rel=1e-3)
    assert place_map.follow().step(driven[0][0]).off_map == pytest.approx(odds[0] / (1 + odds[0]))
    for wrong in (0.0, 1.0, -0.5, float("nan")):
        with pytest.raises(InputError, match=r"begins_off=.* must be between 0 and 1"):
            place_map.follow(begins_off=wrong)


def test_a_drive_tells_where_it_was(
    place_map: displace.PlaceMap, driven: tuple[np.ndarray, np.ndarray]
) -> None:
    frames, at = driven
    follower, plain = place_map.follow(lag=np.int64(10)), place_map.follow()
    with pytest.raises(InputError, match="no frame before the last one is remembered"):
        follower.ago(1)
    now, then = [], []
    for frame in frames:
        now.append(follower.step(frame))
        assert now[-1].off_map == plain.step(frame).off_map
        if len(now) > 10:
            then.append(follower.ago(10))
    then += [follower.ago(n) for n in range(9, 0, -1)] + now[-1:]
    right = [share(np.array([fix.place for fix in fixes]), at) for fixes in (now, then)]
    assert right[1] > right[0]
    for frames_ago in (0, 11, -1, 1.5, "2"):
        with pytest.raises(InputError, match="must be from 1 to 10"):
            follower.ago(frames_ago)
    with pytest.raises(InputError, match=r"follow\(lag=10\) remembers ten"):
        plain.ago(1)
    for lag in (-1, 1.5, "a"):
        with pytest.raises(InputError, match=f"lag={lag!r} must be 0 or more"):
            place_map.follow(lag=lag)  # type: ignore[arg-type]
    for begins_off in (1, "x"):
        with pytest.raises(InputError, match=f"begins_off={begins_off!r} must be between 0 and 1"):
            place_map.follow(begins_off=begins_off)  # type: ignore[arg-type]


def test_a_step_takes_one_frame(place_map: displace.PlaceMap, driven: tuple[np.ndarray, np.ndarray]) -> None:
    frames = driven[0]
    assert place_map.follow().step(frames[:1]).place == place_map.follow().step(frames[0]).place
    for n in (0, 2):
        with pytest.raises(InputError, match=f"a step takes one frame; got {n}"):
            place_map.follow().step(frames[:n])
    with pytest.raises(InputError, match=r"shape \(4, 5, 3\), are neither descriptors .* nor a picture"):
        place_map.follow().step(np.zeros((4, 5, 3)))
    with pytest.raises(InputError, match="queries must be an array or a list; got a generator"):
        place_map.follow().step(number for number in frames[0])


def test_a_step_takes_a_list_of_one_image(
    place_map: displace.PlaceMap, driven: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    described: list[list[Path]] = []

    def describe(_: displace.PlaceMap, images: list[Path], model: None) -> np.ndarray:
        described.append(images)
        return driven[0][:1]

    monkeypatch.setattr(displace.PlaceMap, "_described", describe)
    assert place_map.follow().step(["0.jpg"]).place == place_map.follow().step(driven[0][0]).place
    assert described == [[Path("0.jpg")]]
    with pytest.raises(InputError, match="a step takes one frame; got 2"):
        place_map.follow().step(["0.jpg", "1.jpg"])
    assert len(described) == 1  # neither of them is described first


def same_fixes(one: Follower, other: Follower, frames: np.ndarray) -> bool:
    """Whether two drives go on alike."""
    fixes = [(one.step(frame), other.step(frame)) for frame in frames]
    fixes.append((one.ago(5), other.ago(5)))
    return all(
        (a.place, a.probability, a.off_map) == (b.place, b.probability, b.off_map)
        and np.array_equal(a.belief, b.belief)
        for a, b in fixes
    )


@pytest.mark.parametrize("tolerance", ["1 frames", "exact", "25m"])
@pytest.mark.parametrize("adapt", ["online", "none"])
def test_a_drive_that_was_copied_or_kept_goes_on_alike(
    driven: tuple[np.ndarray, np.ndarray], tolerance: str, adapt: str
) -> None:
    refs, frames = references(), driven[0]
    at = Positions(np.column_stack([10.0 * refs.info.frames, np.zeros(N)]), False)
    refs = displace.ReferenceSet(
        refs.vectors, refs.places, refs.traversals, info=Places(refs.info.ids, at, frames=refs.info.frames)
    )
    place_map = displace.build(refs, fusion="hops", tolerance=tolerance, calibration=False)
    follower = under_way(place_map, adapt, frames[:30])
    copied, kept = copy.deepcopy(follower), pickle.loads(pickle.dumps(follower))
    assert copied.course.rows is follower.course.rows
    unmoved = copy.deepcopy(copied)
    assert same_fixes(follower, kept, frames[30:60])
    assert same_fixes(copied, under_way(place_map, adapt, frames[:30]), frames[30:60])
    assert same_fixes(unmoved, under_way(place_map, adapt, frames[:30]), frames[30:40])


def under_way(place_map: displace.PlaceMap, adapt: str, frames: np.ndarray) -> Follower:
    """A drive that has taken some frames."""
    follower = place_map.follow(lag=10, adapt=adapt)
    for frame in frames:
        follower.step(frame)
    return follower


def test_what_a_mask_hides_is_not_looked_for(
    place_map: displace.PlaceMap, driven: tuple[np.ndarray, np.ndarray]
) -> None:
    frame = np.ma.masked_array(driven[0][0])
    assert place_map.follow().step(frame).place == place_map.follow().step(driven[0][0]).place
    frame[3] = np.ma.masked
    for ask in (place_map.follow().step, lambda query: place_map.locate(query[None])):
        with pytest.raises(InputError, match="queries has masked entries"):
            ask(frame)


def test_unknown_ways_to_adapt_are_refused(place_map: displace.PlaceMap) -> None:
    with pytest.raises(InputError, match="adapt='day' must be one of none, batch, online, auto"):
        place_map.locate(np.ones((1, 32)), adapt="day")
    with pytest.raises(InputError, match="adapt='batch' must be one of online, none"):
        place_map.follow(adapt="batch")


def test_frames_that_follow_no_order_are_no_surer_than_photos_are() -> None:
    """Pictures from elsewhere may all resemble one place of the map: their number does not make them surer."""
    seen = [make_route(120, 0.45, seed=2, condition=condition)[1] for condition in range(4)]
    ids = np.arange(120)
    refs = displace.ReferenceSet(
        np.concatenate(seen[:3]),
        np.tile(ids, 3),
        np.repeat(["a", "b", "c"], 120),
        info=Places(ids, frames=ids),
    )
    place_map = displace.build(refs, "hops")
    assert place_map.calibration is not None
    wary = place_map.changed(calibration=replace(place_map.calibration, bias=-20.0))
    asked = seen[3][np.random.default_rng(0).permutation(120)]
    photos = wary.locate(asked, 1, adapt="none")
    assert photos.confidence is not None
    fixes = wary.smooth(asked, adapt="none")
    assert all(fix.probability <= sure for fix, sure in zip(fixes, photos.confidence, strict=True))
    drive = wary.smooth(seen[3], adapt="none")  # frames in order are sure by themselves
    assert np.median([fix.probability for fix in drive]) > 0.9
    follower, most = wary.follow(adapt="none", lag=2), photos.confidence.max() + 1e-6
    for number, frame in enumerate(asked):
        assert follower.step(frame).probability <= most
        assert number < 2 or follower.ago(2).probability <= most
    follower = wary.follow(adapt="none")
    assert np.median([follower.step(frame).probability for frame in seen[3]]) > 0.5


def test_a_robot_that_stands_from_the_start_stays_sure_of_its_place(
    place_map: displace.PlaceMap,
) -> None:
    """It can have no path, and the null chain stands with it."""
    seen = make_route(N, 0.3, seed=6, condition=9, shift=0.4)[1]
    for spot in (17, 61, 107):
        noise = 0.01 * np.random.default_rng(spot).standard_normal((120, seen.shape[1]))
        frames = (seen[spot] + noise).astype(np.float32)
        follower = place_map.follow()
        fixes = [follower.step(frame / np.linalg.norm(frame)) for frame in frames]
        assert share(np.array([fix.place for fix in fixes]), np.full(120, spot)) == 1
        assert max(fix.off_map for fix in fixes) < 0.35
        assert fixes[-1].probability > 0.8 * fixes[0].probability
