"""Views in detail: merging against scipy, groups and shares by loops, and the references that an update keeps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage

from displace import DisPlace, ReferenceSet
from displace.arrays import l2_normalize
from displace.errors import InputError
from displace.fusion.solver import views
from displace.fusion.solver.kept_references import KeptViews
from displace.fusion.solver.views import frames_of_one_drive, group_views, merged


def units(n, dim=6, seed=0):
    return l2_normalize(np.random.default_rng(seed).standard_normal((n, dim)))


class TestMerging:
    @pytest.mark.parametrize("most", [1, 2, 3, 5, 8])
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_clusters_are_ward_s(self, most, seed):
        rows = units(9, seed=seed)
        label = views._ward(rows, most)
        expected = fcluster(linkage(rows, "ward"), most, "maxclust")
        np.testing.assert_array_equal(label[:, None] == label, expected[:, None] == expected)
        assert all(
            np.flatnonzero(label == at)[0] == at for at in label
        )  # the first row stands for its cluster

    def test_places_are_merged_by_themselves_and_small_ones_stay(self):
        rows, places = units(8, seed=3), np.array([0, 0, 0, 0, 1, 1, 2, 2])
        kept, of = merged(rows, places, 2)
        assert of.tolist() == [0, 0, 1, 1, 2, 2]
        np.testing.assert_array_equal(kept[2:], rows[4:])
        first = views._ward(rows[:4], 2)
        for row, cluster in zip(kept[:2], np.unique(first), strict=True):
            np.testing.assert_allclose(row, l2_normalize(rows[:4][first == cluster].sum(axis=0)[None])[0])
        np.testing.assert_allclose(np.linalg.norm(kept, axis=1), 1)


class TestOneDrive:
    def frames(self, n=12, k=3, dim=40, seed=0):
        """A drive whose neighbouring frames share half of what they show, cut into places of k frames each."""
        steps = np.random.default_rng(seed).standard_normal((n * k + 1, dim))
        return (
            (steps[:-1] + steps[1:]).astype(np.float32),
            np.repeat(np.arange(n), k),
            np.tile(np.arange(k), n),
        )

    def test_frames_are_seen_through_whatever_their_order(self):
        vectors, index, labels = self.frames()
        assert frames_of_one_drive(vectors, index, labels)
        mixed = np.random.default_rng(1).permutation(len(index))
        assert frames_of_one_drive(vectors[mixed], index[mixed], labels[mixed])
        assert frames_of_one_drive(vectors, index, labels[::-1])  # driven the other way

    def test_references_without_traversals_are_conditions_whatever_they_look_like(self):
        vectors, index, labels = self.frames()
        assert DisPlace().fit(vectors, index).views_.kind == "one"
        assert DisPlace().fit(vectors, index, labels).views_.kind == "apart"

    def test_three_neighbours_are_enough_the_first_included(self):
        assert frames_of_one_drive(*self.frames(n=4))
        assert not frames_of_one_drive(*self.frames(n=3))

    def test_two_traversals_or_few_places_say_nothing(self):
        vectors, index, labels = self.frames()
        assert not frames_of_one_drive(vectors[labels < 2], index[labels < 2], labels[labels < 2])
        for n, enough in ((3, False), (4, True)):
            some = index < n
            assert frames_of_one_drive(vectors[some], index[some], labels[some]) == enough

    def test_places_that_a_traversal_lacks_are_passed_over(self):
        vectors, index, labels = self.frames()
        keep = ~((index == 5) & (labels == 1))
        assert frames_of_one_drive(vectors[keep], index[keep], labels[keep])
        few = (index < 3) | (labels > 0)  # three places in a row that all traversals have are too few
        assert not frames_of_one_drive(vectors[few], index[few], labels[few])

    @pytest.mark.parametrize(
        ("n", "n_broken", "seen"), [(12, 2, True), (12, 3, False), (6, 1, True), (6, 2, False)]
    )
    def test_four_of_five_places_must_look_so(self, n, n_broken, seen):
        """Of eleven neighbours two are broken, and 0.82 look so; or three, and 0.73. Of five one: exactly 0.8."""
        vectors, index, labels = self.frames(n, seed=2)
        first = (labels == 0) & (index >= 1) & (index <= n_broken)
        vectors[first] = 3 * np.random.default_rng(9).standard_normal((n_broken, vectors.shape[1]))
        assert frames_of_one_drive(vectors, index, labels) == seen


class TestShare:
    def test_share_at_home_against_loops(self):
        rng = np.random.default_rng(0)
        index, labels = rng.integers(0, 6, 70), rng.integers(0, 3, 70)
        index[:6], vectors = np.arange(6), rng.standard_normal((70, 5)) + rng.standard_normal((6, 5))[index]
        means = [vectors[labels == label].mean(axis=0) for label in range(3)]
        unit = l2_normalize(vectors - np.array(means)[labels])
        wins = tries = 0
        for row in range(70):
            own = [r for r in range(70) if index[r] == index[row] and labels[r] != labels[row]]
            far = [r for r in range(70) if index[r] == (index[row] + 3) % 6 and labels[r] != labels[row]]
            n = min(len(own), len(far))
            if n:
                tries += 1
                wins += max(unit[row] @ unit[r] for r in own[:n]) > max(unit[row] @ unit[r] for r in far[:n])
        found = views._share_at_home(views._Centred(vectors, labels), index, labels)
        assert found == pytest.approx(wins / tries)
        assert 0.5 < found < 1

    def test_of_one_traversal_there_is_none(self):
        none = np.zeros(8, int)
        assert views._share_at_home(views._Centred(units(8), none), np.arange(8) // 2, none) == 0

    @pytest.mark.parametrize(("n", "own"), [(7, False), (8, True)])
    def test_few_references_are_centred_by_the_mean_of_all(self, n, own):
        vectors, labels = units(20), np.r_[np.zeros(20 - n, int), np.ones(n, int)]
        mean = vectors[labels == 1].mean(axis=0) if own else vectors.mean(axis=0)
        np.testing.assert_allclose(views._Centred(vectors, labels).means[1], mean)


class TestGroups:
    def test_given_views_are_numbered_place_by_place(self):
        index, given = np.array([1, 0, 0, 1, 0, 1]), np.array(["n", "n", "s", "n", "s", "s"])
        found = group_views(units(6), index, np.array([0, 0, 0, 1, 1, 1]), given)
        assert found.kind == "given"
        assert found.index.tolist() == [2, 0, 1, 2, 1, 3]
        assert found.places.tolist() == [0, 0, 1, 1]
        assert "4 views of 2 places" in found.reason

    def test_given_views_that_no_two_traversals_share_stay_apart(self):
        index = np.array([1, 0, 1, 0])
        found = group_views(units(4), index, np.array([0, 0, 1, 1]), np.array(list("abcd")))
        assert (found.kind, found.index.tolist(), found.places.tolist()) == (
            "apart",
            [2, 0, 3, 1],
            [0, 0, 1, 1],
        )

    def test_partners_are_each_other_s_nearest_and_of_another_traversal(self):
        """a and b are nearest to each other, and so are c and d; e is nearest to a, which has a better one."""
        angles = np.radians([0, 10, 90, 95, 25])
        unit = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        labels = np.array([0, 1, 0, 1, 1])
        assert views._paired(unit, labels).tolist() == [0, 0, 1, 1, 2]

    def test_whoever_is_nearest_to_one_that_has_a_nearer_one_stays_alone(self):
        """c and d have nobody nearer of the third traversal than e, whose own nearest are a and b; those have f."""
        angles = np.radians([0, 10, 90, 95, 25, 2])
        unit = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        labels = np.array([0, 1, 0, 1, 2, 2])
        assert views._paired(unit, labels).tolist() == [0, 0, 1, 1, 2, 0]

    def test_a_group_has_a_traversal_once(self):
        """0 and 2 of one traversal are both near 1: the nearer one takes it, and the other stays alone."""
        angles = np.radians([0, 4, 10, 6])
        unit = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        groups = views._paired(unit, np.array([0, 1, 0, 2]))
        assert groups[1] == groups[3]
        assert (groups[0] == groups[1]) != (groups[2] == groups[1])


class TestKept:
    def refs(self, groups=True):
        return ReferenceSet(
            units(6).astype(np.float32),
            ["b", "a", "b", "c", "a", "b"],
            ["t0", "t0", "t0", "t1", "t1", "t1"],
            groups=["n", "n", "s", "n", "s", "s"] if groups else None,
        )

    def same(self, one, other):
        for name in ("vectors", "places", "traversals", "groups"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))

    @pytest.mark.parametrize("groups", [True, False])
    def test_merging_and_subtracting_are_the_way_there_and_back(self, groups):
        refs = self.refs(groups)
        whole, first = KeptViews.of(refs), KeptViews.of(refs.only("t0"))
        assert whole.places.tolist() == ["a", "a", "b", "b", "b", "c"]
        assert (whole.n_references, whole.place_ids.tolist()) == (6, ["a", "b", "c"])
        joined = KeptViews.of(refs.only("t0")).merge(KeptViews.of(refs.only("t1")))
        self.same(joined, whole)
        self.same(joined.subtract(KeptViews.of(refs.only("t1"))), first)

    @pytest.mark.parametrize("groups", [True, False])
    def test_a_file_gives_back_what_was_kept(self, groups):
        kept = KeptViews.of(self.refs(groups))
        arrays = kept.to_arrays()
        assert KeptViews.are(arrays)
        assert not KeptViews.are({})
        self.same(KeptViews.from_arrays(arrays), kept)
        assert kept.astype(np.float64).vectors.dtype == np.float64

    def test_views_of_some_only_are_found_for_all(self):
        with_groups, without = KeptViews.of(self.refs().only("t0")), KeptViews.of(self.refs(False).only("t1"))
        assert with_groups.merge(without).groups is None

    def test_traversals_that_are_numbers_stay_numbers(self):
        numbered = [KeptViews.of(ReferenceSet(np.eye(2), [0, 1], [n, n])) for n in (1, 2)]
        assert numbered[0].merge(numbered[1]).traversals.tolist() == [1, 2, 1, 2]

    def test_traversals_that_are_numbers_join_those_that_are_text(self):
        numbers = ReferenceSet(units(2), ["a", "b"], [1, 2])
        assert KeptViews.of(numbers).merge(KeptViews.of(self.refs(False))).traversals.dtype.kind == "U"

    @pytest.mark.parametrize(("length", "away", "known"), [(1, 0.9, True), (1, 1.2, False), (50, 40, True)])
    def test_what_differs_by_more_than_rounding_is_another_reference(self, length, away, known):
        refs = ReferenceSet(np.eye(2) * length, ["a", "b"], ["t", "t"])
        kept, gone = KeptViews.of(refs), KeptViews.of(refs.select([0]))
        gone.vectors = gone.vectors + np.array([[0, away * KeptViews.rounding]])
        if known:
            assert kept.subtract(gone).places.tolist() == ["b"]
        else:
            with pytest.raises(InputError, match="that is not in the map"):
                kept.subtract(gone)

    def test_the_nearest_of_a_place_goes_and_each_once(self):
        refs = ReferenceSet([[1, 0], [1, 4e-6], [0, 1]], ["a", "a", "b"], ["t", "u", "t"])
        kept = KeptViews.of(refs)
        again = KeptViews.of(refs.select([1, 1, 1]))
        assert KeptViews.of(refs).subtract(KeptViews.of(refs.select([1]))).traversals.tolist() == ["t", "t"]
        with pytest.raises(InputError, match="cannot remove a reference of place 'a'"):
            kept.subtract(again)
