"""What neighbours along a route tell about references."""

from __future__ import annotations

import numpy as np
import pytest

from displace import ReferenceSet
from displace.neighbours import (
    LENGTH,
    STRETCHES,
    copies,
    featureless,
    is_sequence,
    misaligned,
    sample,
    unconfirmed,
)
from displace.places import Places
from displace.references import ReferenceStream


def drive(n=120, dim=64, seed=0):
    """Frames of a drive: what is seen changes a little from frame to frame."""
    steps = np.random.default_rng(seed).standard_normal((n, dim))
    kernel = np.ones(6) / 6
    return np.stack([np.convolve(column, kernel, mode="same") for column in steps.T], axis=1)


def references(traversals, ordered=True):
    n = max(map(len, traversals.values()))
    return ReferenceSet(
        np.concatenate(list(traversals.values())),
        np.concatenate([np.arange(len(vectors)) for vectors in traversals.values()]),
        np.repeat(list(traversals), [len(vectors) for vectors in traversals.values()]),
        info=Places(np.arange(n), frames=np.arange(n) if ordered else None),
    )


def seen_again(vectors, noise=0.2, seed=1):
    return vectors + noise * np.random.default_rng(seed).standard_normal(vectors.shape)


def test_frames_of_a_drive_are_a_sequence_and_webcams_are_not():
    webcams = np.random.default_rng(0).standard_normal((120, 64))
    assert is_sequence(references({"sun": drive()}))
    assert not is_sequence(references({"sun": webcams}))
    assert not is_sequence(references({"sun": drive()}, ordered=False))
    assert not is_sequence(references({"sun": drive(n=10)}))


def test_recordings_that_line_up_are_not_complained_of():
    sun = drive()
    assert misaligned(references({"sun": sun, "rain": seen_again(sun)})) == []
    webcams = np.random.default_rng(0).standard_normal((120, 64))
    assert misaligned(references({"a": webcams, "b": seen_again(webcams)[::-1]})) == []


@pytest.mark.parametrize("kept", [np.arange(8, 120), np.r_[0:20, 35:120], np.flatnonzero(np.arange(120) % 5)])
def test_recordings_that_lack_frames_are_named(kept):
    sun = drive()
    (sentence,) = misaligned(references({"a": sun, "b": seen_again(sun)[kept]}))
    assert sentence.startswith("b fits a better when shifted along the route, in the median by ")
    assert sentence.endswith("places: equal numbers may not be equal places")


def test_a_recording_that_is_there_twice_is_named():
    sun = drive()
    shown = {"a": sun, "b": seen_again(sun), "copy": sun, "part": sun[:12], "few": sun[:9]}
    assert copies(references(shown)) == {"copy": "a", "part": "a"}
    assert copies(references({"a": sun, "b": np.concatenate([sun[:50], seen_again(sun)[:60]])})) == {}


def test_traversals_that_show_nothing_are_named():
    sun, black = drive(), np.zeros((12, 64))
    grey = np.full((12, 64), 0.3) + 1e-7 * np.random.default_rng(0).standard_normal((12, 64))
    few, noisy = np.zeros((9, 64)), seen_again(np.full((12, 64), 0.3), 0.01)
    seen = {"sun": sun, "black": black, "grey": grey, "few": few, "noisy": noisy}
    assert featureless(references(seen)) == ["black", "grey"]


def stream_of(refs):
    return ReferenceStream(
        refs.places, refs.traversals, refs.info, refs.dim, lambda rows: refs.vectors[rows].astype(np.float32)
    )


@pytest.mark.parametrize("n", [12, 30, 120, 700])
def test_traversals_in_step_confirm_each_other(n):
    sun = drive(n)
    seen = {"sun": sun, "rain": seen_again(sun, 1.0), "snow": seen_again(sun, 1.0, 2)}
    assert unconfirmed(references(seen)) == {}


def test_a_traversal_that_another_confirms_need_not_look_like_the_first():
    a, b = drive(seed=0), drive(seed=1)
    assert unconfirmed(references({"a": a, "b": a + b, "c": b})) == {}
    assert list(unconfirmed(references({"a": a, "c": b}))) == ["c"]


@pytest.mark.parametrize("behind", [3, 40])
def test_a_traversal_that_is_behind_is_not_confirmed(behind):
    sun = drive(700)
    (share,) = unconfirmed(references({"a": sun[:-behind], "b": seen_again(sun)[behind:]})).values()
    assert share < 0.1


def test_what_shows_nothing_or_is_short_is_not_judged():
    sun = drive()
    assert (
        unconfirmed(references({"sun": sun, "black": np.zeros((120, 64)), "short": drive(9, seed=1)})) == {}
    )
    assert unconfirmed(references({"sun": sun, "other": drive(seed=1)}, ordered=False)) == {}


@pytest.mark.parametrize("n_most", [5000, 500])
def test_stretches_of_a_long_route_tell_what_all_of_it_does(n_most, monkeypatch):
    """Neighbours stay neighbours, however few references are read."""
    sun = drive(5000, dim=16)
    monkeypatch.setattr("displace.neighbours.NUMBERS", n_most * 2 * 16)
    in_step = references({"a": sun, "b": seen_again(sun)})
    behind = references({"a": sun[:-8], "b": seen_again(sun)[8:]})
    looked_at = [sample(stream_of(refs)) for refs in (in_step, behind)]
    assert all(len(refs) <= 2 * min(n_most, LENGTH * STRETCHES) for refs in looked_at)
    assert all(is_sequence(refs) for refs in (in_step, *looked_at))
    assert [misaligned(refs) for refs in (in_step, looked_at[0])] == [[], []]
    assert [len(misaligned(refs)) for refs in (behind, looked_at[1])] == [1, 1]


def test_without_an_order_some_of_each_traversal_are_read(monkeypatch):
    monkeypatch.setattr("displace.neighbours.NUMBERS", 2 * 64 * 30)
    refs = references({"sun": drive(), "black": np.zeros((120, 64))}, ordered=False)
    looked_at = sample(stream_of(refs))
    assert len(looked_at) == 60
    assert featureless(looked_at) == ["black"]
