"""What neighbours along a route tell about references."""

from __future__ import annotations

import numpy as np
import pytest

from displace import ReferenceSet
from displace.neighbours import featureless, is_sequence, misaligned
from displace.places import Places


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
    assert sentence.startswith("b lines up with a better when it is shifted")


def test_traversals_that_show_nothing_are_named():
    sun, black = drive(), np.zeros((12, 64))
    grey = np.full((12, 64), 0.3) + 1e-7 * np.random.default_rng(0).standard_normal((12, 64))
    few, noisy = np.zeros((9, 64)), seen_again(np.full((12, 64), 0.3), 0.01)
    seen = {"sun": sun, "black": black, "grey": grey, "few": few, "noisy": noisy}
    assert featureless(references(seen)) == ["black", "grey"]
