"""Maps on disk: killed and failed saves, statistics that go with another map, and one writer at a time."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from killing import die_at, in_child
from PIL import Image

from displace import DisPlace, PlaceMap, ReferenceSet, build, images, threads
from displace.errors import DisplaceError, FormatError, InputError
from displace.files.lock import exclusive
from displace.fork_lock import ForkLock
from displace.geo import Positions
from displace.maps.statistics import MapStatistics
from displace.synthetic import make_route

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
STATS = "town.displace-stats"


@pytest.fixture(scope="module")
def refs():
    return make_route(n_places=40, n_traversals=3, dim=16).references


@pytest.fixture
def path(tmp_path, refs):
    build(refs.without("t2"), calibration=False).save(tmp_path / "town.displace")
    return tmp_path / "town.displace"


def check_whole(path, refs):
    """Open what a killed process left; return the traversals of the map, whose statistics are there and its own."""
    town = PlaceMap.load(path)
    if town.fusion == "single":
        assert town.statistics is None
        return town.fusion
    statistics = town.statistics.loaded()
    assert int(statistics.arrays["counts"].sum()) == sum(town.traversals.values())
    assert statistics.digests.keys() == town.traversals.keys()
    assert len(refs.only(*town.traversals)) == sum(town.traversals.values())
    return sorted(town.traversals)


@needs_fork
class TestKilled:
    """Killed before and after each fsync and each rename, the map is the old or the new one, with its statistics."""

    def kill_at_every_step(self, path, refs, start, work):
        """What is there after each kill, the last being the run that was not killed."""
        seen, status, step = [], -signal.SIGKILL, 0
        while status == -signal.SIGKILL:
            for old in path.parent.iterdir():
                old.unlink()
            start()
            status = in_child(partial(kill_at, step, work))
            seen.append(check_whole(path, refs) if path.exists() else None)
            step += 1
        assert status == 0
        assert sorted(p.name for p in path.parent.iterdir() if p.name.endswith((".next", ".tmp"))) == []
        return seen

    @pytest.fixture
    def towns(self, refs):
        return {
            "two": build(refs.without("t2"), calibration=False),
            "three": build(refs, calibration=False),
            "single": build(refs, "single", calibration=False),
        }

    @pytest.mark.parametrize("new", ["three", "single"])
    @pytest.mark.parametrize("old", [None, "two"])
    def test_saving(self, tmp_path, refs, towns, old, new):
        path = tmp_path / "town.displace"
        seen = self.kill_at_every_step(
            path,
            refs,
            start=lambda: towns[old].save(path) if old else None,
            work=lambda: towns[new].save(path),
        )
        before = ["t0", "t1"] if old else None
        after = "single" if new == "single" else ["t0", "t1", "t2"]
        turn = seen.index(after)
        assert 0 < turn < len(seen) - 1
        assert seen == [before] * turn + [after] * (len(seen) - turn)

    def test_updating_and_again_while_it_goes_on(self, tmp_path, refs, towns):
        path, seen, step, finished = tmp_path / "town.displace", set(), 0, False

        def update():
            town = PlaceMap.load(path)
            town.remove(refs.only("t2")) if "t2" in town.traversals else town.add(refs.only("t2"))
            town.save(path)

        while not finished:
            towns["two"].save(path)
            for moment in (step, 4, 7, step):
                finished = in_child(partial(kill_at, moment, update)) == 0
                seen.add(tuple(check_whole(path, refs)))
                if finished:
                    break
            finished = finished and moment == step
            step += 1
        assert step > 15
        assert seen == {("t0", "t1"), ("t0", "t1", "t2")}


def kill_at(step, work):
    die_at(step)
    work()


class TestUnwritable:
    @pytest.mark.parametrize("after", [0, 1])
    def test_a_disk_that_is_full_leaves_the_old_map_and_nothing_else(self, path, refs, monkeypatch, after):
        """Every file is written through `os.replace`: let the disk be full after so many of them."""
        before, real, count = path.read_bytes(), os.replace, 0

        def replace(*args):
            nonlocal count
            count += 1
            if count > after:
                raise OSError(28, "No space left on device")
            return real(*args)

        town = build(refs, calibration=False)
        monkeypatch.setattr("displace.files.atomic.os.replace", replace)
        with pytest.raises(
            DisplaceError, match=r"cannot write .*town.displace: No space left.*Make room or choose"
        ):
            town.save(path)
        monkeypatch.undo()
        assert path.read_bytes() == before
        assert sorted(p.name for p in path.parent.iterdir()) == ["town.displace", STATS]
        assert check_whole(path, refs) == ["t0", "t1"]

    @needs_fork
    @pytest.mark.parametrize("limit", [100, 2000], ids=["statistics", "map"])
    def test_a_file_that_cannot_grow(self, path, refs, limit):
        """The library that writes arrays has an error of its own for this."""
        import resource

        town = build(refs, "pooling", calibration=False)  # small statistics, large map
        before = path.read_bytes()

        def save_in_too_little_room():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            with pytest.raises(DisplaceError, match=r"cannot write .*File too large"):
                town.save(path)

        assert in_child(save_in_too_little_room) == 0
        assert path.read_bytes() == before
        assert sorted(p.name for p in path.parent.iterdir()) == ["town.displace", STATS]

    def test_no_folder_and_a_folder(self, tmp_path, refs):
        town = build(refs, calibration=False)
        with pytest.raises(DisplaceError, match=r"cannot write .*: there is no folder"):
            town.save(tmp_path / "nowhere" / "town.displace")
        with pytest.raises(DisplaceError, match=r"cannot write .*: it is a folder"):
            town.save(tmp_path)
        assert [p.name for p in tmp_path.parent.iterdir() if "-stats" in p.name] == []


class TestStatisticsBeside:
    def test_of_a_fusion_that_keeps_none_no_file_is_missed(self, path, refs):
        build(refs, "single", calibration=False).save(path)
        assert not path.with_name(STATS).exists()
        for _ in range(2):
            again = PlaceMap.load(path)
            with pytest.raises(InputError, match="the fusion 'single' keeps no statistics"):
                again.add(refs)
            again.save(path)

    def test_of_a_map_saved_without_its_own_the_file_is_missed(self, path, refs):
        path.with_name(STATS).unlink()
        PlaceMap.load(path).save(path)
        with pytest.raises(InputError, match="put the file back"):
            PlaceMap.load(path).add(refs)

    def test_absent_damaged_later_and_of_another_map_are_told_apart(self, path, refs, monkeypatch):
        stats, new = path.with_name(STATS), refs.only("t2")
        good = stats.read_bytes()

        def why():
            with pytest.raises(InputError) as caught:
                PlaceMap.load(path).add(new)
            return str(caught.value)

        stats.unlink()
        assert "there are no statistics beside it (town.displace-stats); put the file back" in why()
        stats.write_bytes(good[:100])
        assert "town.displace-stats is not a displace statistics file, or its header is damaged" in why()
        with monkeypatch.context() as patch:
            patch.setattr("displace.maps.statistics.VERSION", 3)
            patch.setattr("displace.maps.statistics.RELEASES", {3: "0.4"})
            build(refs.without("t2"), calibration=False).save(path)
        assert "has format version 3" in why()
        assert "it needs displace 0.4 or later" in why()
        build(refs, calibration=False).save(path.with_name("other"))
        path.with_name("other-stats").replace(stats)
        assert "(town.displace-stats) belong to another map" in why()
        stats.write_bytes(good)
        assert PlaceMap.load(path).statistics is not None

    @pytest.mark.parametrize("content", ["damaged", "of another map"])
    def test_a_save_without_statistics_leaves_what_is_not_its_own(self, path, refs, content):
        stats = path.with_name(STATS)
        if content == "damaged":
            stats.write_bytes(stats.read_bytes()[:-1])
            stats.write_bytes(b"x" + stats.read_bytes())
        else:
            build(refs, calibration=False).save(path.with_name("other"))
            path.with_name("other-stats").replace(stats)
        before = stats.read_bytes()
        town = PlaceMap.load(path)
        assert town.statistics is None
        town.save(path)
        assert stats.read_bytes() == before

    def test_a_save_without_statistics_removes_those_of_the_map_it_replaces(self, path, refs):
        build(refs, "single", calibration=False).save(path)
        assert not path.with_name(STATS).exists()

    def test_statistics_from_before_digests_are_used(self, path, refs):
        town = PlaceMap.load(path)
        town.changed(statistics=MapStatistics(town.statistics.loaded().arrays)).save(path)
        again = PlaceMap.load(path)
        again.add(refs.only("t2"))
        again.remove(refs.only("t1"))
        assert again.traversals.keys() == {"t0", "t2"}
        assert again.statistics.digests.keys() == {"t2"}


@needs_fork
class TestOneWriter:
    def test_a_second_writer_is_refused_and_a_killed_one_is_not_in_the_way(self, path):
        def refused():
            with (
                pytest.raises(DisplaceError, match="is being written by another process"),
                exclusive(path),
            ):
                pass

        with exclusive(path):
            assert in_child(refused) == 0
        assert not path.with_name("town.displace-lock").exists()

        def killed():
            with exclusive(path):
                os.kill(os.getpid(), signal.SIGKILL)

        assert in_child(killed) == -signal.SIGKILL
        assert path.with_name("town.displace-lock").exists()
        with exclusive(path):
            pass
        assert not path.with_name("town.displace-lock").exists()

    def test_a_lock_whose_file_was_removed_meanwhile_is_taken_anew(self, path, monkeypatch):
        """The holder before removes the file between our opening and our locking it."""
        from displace.files import lock

        real, n = lock.locked, []

        def late(file):
            if not n:
                path.with_name("town.displace-lock").unlink()
            n.append(1)
            return real(file)

        monkeypatch.setattr(lock, "locked", late)
        with exclusive(path):
            assert path.with_name("town.displace-lock").exists()
        assert len(n) == 2

    def test_no_folder(self, tmp_path):
        with (
            pytest.raises(DisplaceError, match=r"cannot write .*: No such file"),
            exclusive(tmp_path / "no" / "town"),
        ):
            pass


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -np.inf, 1.5, -1.5])
def test_rows_that_are_not_those_of_unit_vectors_are_refused_when_used(path, refs, dtype, value):
    """As after damage that was not looked for."""
    town = build(refs, "hops", dtype=dtype, calibration=False)
    town.locate(refs.vectors[:1])
    town = build(refs, "hops", dtype=dtype, calibration=False)
    town.vectors[3, 2] = value
    town.save(path)
    with pytest.raises(FormatError, match="rows of the map are damaged"):
        PlaceMap.load(path, verify=False).locate(refs.vectors[:1])


class TestContents:
    """A file whose checksums are right and whose content is not, as another program might write it."""

    def rewrite(self, path, change):
        from displace.files import tensors

        header, arrays = tensors.read(path, "displace map", 1)
        arrays = {name: np.array(array) for name, array in arrays.items()}
        change(header, arrays)
        tensors.write(path, header, arrays)

    @pytest.fixture
    def path(self, tmp_path, refs):
        names = np.array([f"p{p:02d}" for p in range(40)])
        town = build(
            ReferenceSet(refs.vectors, names[refs.places], refs.traversals),
            "displace",
            dtype="int8",
            positions=Positions(np.arange(80.0).reshape(40, 2), heading=np.arange(40.0)),
            images=["a.jpg"] * 40,
        )
        town.save(tmp_path / "town.displace")
        return tmp_path / "town.displace"

    @pytest.mark.parametrize("verify", [True, False])
    @pytest.mark.parametrize(
        "change",
        [
            lambda h, a: a["row_places"].__setitem__(3, 40),
            lambda h, a: a["row_places"].__setitem__(3, -1),
            lambda h, a: a["row_places"].__setitem__(3, 2),
            lambda h, a: a["row_places"].__setitem__(slice(3, 5), [4, 3]),
            lambda h, a: a.__setitem__("row_places", a["row_places"][:-1]),
            lambda h, a: a.__setitem__("scales", a["scales"][:-1]),
            lambda h, a: a["scales"].__setitem__(0, np.nan),
            lambda h, a: a["scales"].__setitem__(0, 0),
            lambda h, a: a.pop("scales"),
            lambda h, a: a.pop("projection"),
            lambda h, a: a.__setitem__("projection", a["projection"][:-1]),
            lambda h, a: a["projection"].__setitem__((0, 0), np.inf),
            lambda h, a: a.__setitem__("mean", np.zeros(3, np.float32)),
            lambda h, a: a.__setitem__("points", a["points"][:-1]),
            lambda h, a: a.__setitem__("heading", a["heading"][:-1]),
            lambda h, a: a["images_ends"].__setitem__(0, 10**6),
            lambda h, a: a["images_ends"].__setitem__(0, -1),
            lambda h, a: a["place_ids_ends"].__setitem__(1, 0),
            lambda h, a: a.pop("vectors"),
            lambda h, a: a.__setitem__("vectors", a["vectors"].astype(np.float64)),
            lambda h, a: h.pop("fusion"),
            lambda h, a: h.pop("degrees"),
            lambda h, a: h.__setitem__("dim", "16"),
            lambda h, a: h.__setitem__("traversals", ["t0"]),
            lambda h, a: h["calibration"].pop("bias"),
            lambda h, a: h["calibration"].__setitem__("colour", 1),
            lambda h, a: h["calibration"].__setitem__("weights", [1.0]),
            lambda h, a: h["calibration"].__setitem__("scales", [0.0, 0.0, "x"]),
            lambda h, a: h["calibration"].__setitem__("curve", [[1.0]]),
            lambda h, a: h.__setitem__("calibration", [1]),
            lambda h, a: h["calibration"].__setitem__("auc", np.inf),
            lambda h, a: h["calibration"].__setitem__("error", np.nan),
            lambda h, a: h["calibration"].__setitem__("bias", np.nan),
            lambda h, a: h["calibration"].__setitem__("centred", 1),
            lambda h, a: h["calibration"].__setitem__("doubt", -1e300),
            lambda h, a: h["calibration"].__setitem__("ceiling", 1.5),
            lambda h, a: h["calibration"].__setitem__("steepness", 1e300),
            lambda h, a: h["calibration"]["weights"].__setitem__(0, -1e300),
            lambda h, a: h["calibration"].__setitem__("lowest", [*h["calibration"]["lowest"][:-1], [0.0]]),
            lambda h, a: h["calibration"].__setitem__("highest", [1.0] * 5),
            lambda h, a: h["calibration"]["scales"].__setitem__(0, 0),
            lambda h, a: h["calibration"].__setitem__("spread", 0),
            lambda h, a: h["calibration"].__setitem__("auc", "0.9"),
            lambda h, a: h["calibration"].__setitem__("n_queries", 1.5),
            lambda h, a: h["calibration"].__setitem__("n_correct", "7"),
            lambda h, a: h["calibration"].__setitem__("traversals", "t0"),
            lambda h, a: h["calibration"].__setitem__("basis", ["two"]),
            lambda h, a: h["calibration"].__setitem__("farthest", "far"),
            lambda h, a: h["calibration"]["curve"].__setitem__(0, [0.5, np.inf, 3]),
            lambda h, a: h["calibration"]["curve"].__setitem__(0, [0.5, None, 3]),
            lambda h, a: h["calibration"]["curve"].__setitem__(0, ["0.5", "0.5", "3"]),
            lambda h, a: h["calibration"]["curve"].__setitem__(0, [0.5, 1e12, 3]),
            lambda h, a: h["calibration"]["curve"].__setitem__(0, [0.5, -0.5, 3]),
            lambda h, a: h.__setitem__("sampled_centred", "no"),
            lambda h, a: (a.pop("anchors"), a.pop("anchor_mean")),
            lambda h, a: a.__setitem__("anchors", a["anchors"][:-1]),
            lambda h, a: a["anchors"].__setitem__((3, 0), np.nan),
            lambda h, a: a["anchors"].__setitem__((3, 1), np.inf),
            lambda h, a: a["anchors"].__setitem__((3, 2), 0),
            lambda h, a: a.__setitem__("anchor_mean", a["anchor_mean"][:-1]),
            lambda h, a: a.__setitem__("samples", a["samples"][:, :3]),
            lambda h, a: a.__setitem__("samples", a["samples"][:-1]),
            lambda h, a: a["samples"].__setitem__((0, 0), np.nan),
            lambda h, a: a.__setitem__("sample_registration", a["samples"][:-1, 0].copy()),
            lambda h, a: a.__setitem__("sample_registration", np.full(len(a["samples"]), np.nan, np.float32)),
            lambda h, a: a.__setitem__("sample_registration", a["samples"][:, :2].copy()),
            lambda h, a: a["sample_labels"].__setitem__((0, 1), len(h["sampled"])),
            lambda h, a: a["sample_labels"].__setitem__((0, 1), -1),
            lambda h, a: a["scales"].__setitem__(0, 1),
            lambda h, a: a["scales"].__setitem__(0, -0.01),
            lambda h, a: a.__setitem__("scales", a["scales"].astype(int)),
            lambda h, a: a.__setitem__("vectors", a["vectors"].ravel()),
            lambda h, a: a.__setitem__("vectors", a["vectors"].astype(np.float32)),
            lambda h, a: a.__setitem__("row_places", a["row_places"].astype(np.float32)),
            lambda h, a: a["row_places"].__setitem__(0, 1),
            lambda h, a: a["row_places"].__setitem__(-1, 38),
            lambda h, a: [a.__setitem__(name, a[name][:0]) for name in ("row_places", "vectors", "scales")],
            lambda h, a: a["mean"].__setitem__(0, np.nan),
            lambda h, a: a["points"].__setitem__((0, 0), np.inf),
            lambda h, a: (h.__setitem__("degrees", True), a["points"].__setitem__((0, 0), 90.5)),
            lambda h, a: (h.__setitem__("degrees", True), a["points"].__setitem__((0, 1), -360.5)),
            lambda h, a: a["heading"].__setitem__(0, -np.inf),
            lambda h, a: h.__setitem__("dim", 0),
            lambda h, a: h["traversals"].__setitem__("t0", -1),
            lambda h, a: h["traversals"].__setitem__("t0", 1.5),
            lambda h, a: h.__setitem__("calibrated_on", {"t0": "x"}),
            lambda h, a: h.__setitem__("driving", ""),
            lambda h, a: h.__setitem__("driving", []),
            lambda h, a: h["notes"].__setitem__("n_queries", -1),
            lambda h, a: h.__setitem__("notes", {"recall_at_1": {"int8": 90.0}}),
            lambda h, a: h["notes"].__setitem__("same_top_match", 100.5),
            lambda h, a: h["notes"].__setitem__("same_top_match", -0.5),
            lambda h, a: h["notes"].__setitem__("recall_at_1", {"int8": 100.5}),
            lambda h, a: h["notes"].__setitem__("recall_at_1", {"int8": -0.5}),
        ],
    )
    def test_it_is_refused(self, path, change, verify):
        self.rewrite(path, change)
        with pytest.raises(FormatError, match="is damaged"):
            PlaceMap.load(path, verify)

    @pytest.mark.parametrize(
        "change",
        [
            lambda h, a: a["points"].__setitem__(0, np.nan),
            lambda h, a: a["heading"].__setitem__(0, np.nan),
            lambda h, a: (
                h.__setitem__("degrees", True),
                a["points"].__setitem__(slice(None), 45),
                a["points"].__setitem__(0, [-90, 360]),
            ),
            lambda h, a: a["sample_labels"].__setitem__((0, 1), len(h["sampled"]) - 1),
            lambda h, a: a["anchors"].__setitem__((3, 2), 1),
            lambda h, a: h["notes"].update(recall_at_1={"int8": 0, "float32": 100}, n_queries=0),
            lambda h, a: h["notes"].__setitem__("same_top_match", 100),
            lambda h, a: h.__setitem__("notes", {}),
            lambda h, a: (h.pop("sampled_centred"), h["calibration"].pop("centred")),
            lambda h, a: h["traversals"].__setitem__("t0", 0),
            lambda h, a: h.__setitem__("model", {"name": "hog"}),
        ],
    )
    def test_what_is_just_possible_is_loaded(self, path, change):
        self.rewrite(path, change)
        PlaceMap.load(path).locate(np.eye(16)[:2])

    @pytest.mark.parametrize(("length", "damaged"), [(1.04, False), (1.06, True)])
    @pytest.mark.parametrize("dtype", ["int8", "float32"])
    def test_rows_may_be_a_twentieth_longer_than_unit_vectors(self, path, refs, dtype, length, damaged):
        build(refs, "hops", dtype=dtype, calibration=False).save(path)
        longer = "scales" if dtype == "int8" else "vectors"
        self.rewrite(path, lambda h, a: a[longer].__setitem__(3, a[longer][3] * length))
        if damaged:
            with pytest.raises(FormatError, match="they are not unit vectors"):
                PlaceMap.load(path)
        else:
            PlaceMap.load(path)

    def test_a_map_before_the_traversals_of_the_calibration_were_noted(self, path):
        self.rewrite(path, lambda h, a: h.pop("calibrated_on"))
        town = PlaceMap.load(path)
        assert not town.calibration_is_stale
        town.add(ReferenceSet(np.ones((1, 16)), ["p00"], ["new"]))
        assert not town.calibration_is_stale


def test_a_map_that_could_not_be_loaded_again_does_not_replace_the_one_that_can(path, refs):
    before = path.read_bytes()
    town = PlaceMap.load(path)
    with pytest.raises(InputError, match="could not be loaded again"):
        town.changed(row_places=town.row_places + 1).save(path)
    assert path.read_bytes() == before
    assert check_whole(path, refs) == ["t0", "t1"]


class TestSealedStatistics:
    """Statistics whose checksums are right and whose content is not."""

    @pytest.mark.parametrize(
        "change",
        [
            lambda a: a["counts"].__setitem__(0, 0),
            lambda a: a["counts"].__setitem__(0, -2),
            lambda a: a["counts"].__setitem__(0, 2**62),
            lambda a: a["counts"].__setitem__(0, 3),
            lambda a: a["counts"].__setitem__(slice(2), [0, 4]),
            lambda a: a["counts"].__setitem__(slice(2), [-2, 6]),
            lambda a: a.__setitem__("counts", a["counts"].astype(np.float64)),
            lambda a: a.__setitem__("counts", a["counts"][:, None]),
            lambda a: a["means"].__setitem__((0, 0), np.nan),
            lambda a: a["means"].__setitem__((0, 0), 1e30),
            lambda a: a.__setitem__("means", a["means"].astype(np.float64)),
            lambda a: a.__setitem__("means", a["means"][:, :-1]),
            lambda a: a["within"].__setitem__(0, np.inf),
            lambda a: a.__setitem__("within", a["within"].astype(np.float64)),
            lambda a: a["place_ids"].__setitem__(0, 1),
            lambda a: a["place_ids"].__setitem__(0, -1),
            lambda a: [a.__setitem__(n, a[n][1:]) for n in ("place_ids", "counts", "means")],
            lambda a: [a.__setitem__(n, a[n][:0]) for n in ("place_ids", "counts", "means")],
        ],
    )
    def test_they_wreck_no_map(self, path, refs, change):
        town = PlaceMap.load(path)
        arrays = {name: np.array(array) for name, array in town.statistics.loaded().arrays.items()}
        change(arrays)
        damaged = PlaceMap(replace(town.state, statistics=MapStatistics(arrays)))
        for work in (lambda: damaged.add(refs.only("t2")), lambda: damaged.remove(refs.only("t1"))):
            with pytest.raises(DisplaceError, match="statistics of the map are damaged"):
                work()
        np.testing.assert_array_equal(damaged.vectors, town.vectors)

    @pytest.mark.parametrize("part", ["vectors", "projection", "dim"])
    def test_what_an_update_makes_is_looked_at_before_it_replaces_the_map(
        self, path, refs, monkeypatch, part
    ):
        def wrecked(rows):
            if part == "dim":
                return replace(rows, projection=rows.projection[1:])
            return replace(rows, **{part: np.full_like(getattr(rows, part), np.nan)})

        town = PlaceMap.load(path)
        before = np.array(town.vectors)
        monkeypatch.setattr("displace.maps.updating.in_stable_basis", wrecked)
        with pytest.raises(FormatError, match="the map is left as it was"):
            town.add(refs.only("t2"))
        np.testing.assert_array_equal(town.vectors, before)

    def test_those_of_a_map_that_was_replaced_meanwhile_are_not_used(self, path, refs):
        town = PlaceMap.load(path)
        build(refs, calibration=False).save(path)
        with pytest.raises(FormatError, match="belongs to another map by now"):
            town.remove(refs.only("t1"))


def test_what_a_killed_save_left_behind_is_removed_by_the_next(path, refs):
    town = build(refs, calibration=False)
    left = [".town.displace.abcd1234.tmp", ".town.displace-stats.next.abcd1234.tmp"]
    others = [".town.displace-2.abcd1234.tmp", ".town.displace.mine.tmp", ".other.abcd1234.tmp"]
    for name in (*left, *others):
        path.with_name(name).write_bytes(b"half")
    others.append(".town.displace.folder12.tmp")
    path.with_name(others[-1]).mkdir()
    town.save(path)
    assert sorted(p.name for p in path.parent.iterdir()) == sorted([*others, "town.displace", STATS])


@needs_fork
def test_a_save_waits_for_no_other_process_and_says_so(path, refs):
    town = build(refs, calibration=False)

    def refused():
        with pytest.raises(DisplaceError, match="is being written by another process"):
            town.save(path)

    with exclusive(path):
        assert in_child(lambda: (lock_forgotten(), refused())) == 0
        town.save(path)  # of the same writer
    assert check_whole(path, refs) == ["t0", "t1", "t2"]


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork")
def test_a_forked_process_does_not_wait_for_threads_of_its_parent(path, refs, tmp_path):
    """They hold their locks at the moment of the fork, and are not there to let go of them."""
    town = build(refs, calibration=False)
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    held = threading.Barrier(2)

    def hold():
        with exclusive(path), threads._lock, images._FILTERS, town._changing, town.state._making:
            held.wait()
            held.wait()

    def child():
        signal.alarm(600)  # instead of waiting for ever
        with pytest.raises(DisplaceError, match="is being written by another process"):
            town.save(path)
        threads.controller()
        images.read_image(tmp_path / "a.png")
        town.locate(refs.vectors[:1])
        town.remove(refs.only("t2"))

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert in_child(child) == 0
    finally:
        held.wait()
        thread.join()


@needs_fork
def test_a_process_that_is_forked_inside_of_a_lock_leaves_it(path):
    def child():
        with guard:
            pass

    guard = ForkLock()
    with guard:
        assert in_child(lambda: guard.__exit__()) == 0
        assert in_child(child) == 0


def lock_forgotten():
    """A forked child believes that it holds what its parent holds."""
    from displace.files import lock

    lock._HELD.clear()


def test_threads_that_save_to_one_file_take_turns(path, refs):
    town = build(refs, calibration=False)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: town.save(path), range(8)))
    assert check_whole(path, refs) == ["t0", "t1", "t2"]


@pytest.mark.parametrize("fusion", ["displace", "hops", "pooling"])
@pytest.mark.parametrize("search", ["exact", "faiss"])
def test_queries_of_any_size_are_located(refs, fusion, search):
    if search == "faiss":
        pytest.importorskip("faiss")
    town = build(refs, fusion, calibration=False)
    queries = refs.vectors[:3].astype(np.float32)
    expected = town.locate(queries, k=5, search=search)
    largest = queries / np.abs(queries).max(axis=1, keepdims=True)
    for scale in (3e38, 1e30, 1e-36):
        found = town.locate(largest * np.float32(scale), k=5, search=search)
        assert np.isfinite(found.scores).all()
        assert (np.abs(found.scores) <= 1.01).all()
        assert all(len(set(row)) == 5 for row in found.places.tolist())
        if town.mean is None:
            np.testing.assert_array_equal(found.places[:, 0], expected.places[:, 0])


@pytest.mark.parametrize("fusion", ["displace", "hops", "pooling"])
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_references_of_other_sizes_make_the_same_map(refs, fusion, scale):
    vectors = (refs.vectors * scale).astype(np.float32)
    town = build(ReferenceSet(vectors, refs.places, refs.traversals), fusion, calibration=False)
    plain = build(refs, fusion, calibration=False)
    np.testing.assert_array_equal(
        town.locate(vectors[:9], k=1).places, plain.locate(refs.vectors[:9], k=1).places
    )


def test_equal_input_gives_equal_files(tmp_path, refs):
    for name in ("a", "b"):
        build(refs, calibration=False).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a-stats").read_bytes() == (tmp_path / "b-stats").read_bytes()


@pytest.mark.parametrize("project", ["auto", np.False_])
def test_settings_that_are_numbers_of_numpy_are_saved(path, refs, project):
    """As from np.linspace or np.arange: JSON knows no float32, and the map could not be saved."""
    given = {
        "tau": np.float32(0.5),
        "ridge": np.float32(0.25),
        "center": np.True_,
        "n_components": np.int64(9),
    }
    build(refs, DisPlace(**given, project=project), calibration=False).save(path)
    settings = PlaceMap.load(path).settings
    assert {name: settings[name] for name in given} == given
    assert settings["project"] == (project == "auto")
