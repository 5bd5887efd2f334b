"""Sketches of pictures: what changes them, what does not, and how two are compared."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from displace.sketches import COLUMNS, PACKED, ROWS, fit, packed, sketch_of, unpacked


def picture(seed, size=(320, 240)):
    """Blurred noise: edges in all directions."""
    coarse = np.random.default_rng(seed).integers(0, 256, (12, 16, 3), np.uint8)
    return np.asarray(Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC))


def sketches(*pictures):
    return np.stack([sketch_of(one) for one in pictures])


def fits(one, other):
    return float(fit(sketches(one), sketches(other))[0])


def test_a_sketch_has_unit_length_and_a_flat_picture_none():
    found = sketch_of(picture(0))
    assert found.shape == (ROWS, COLUMNS)
    assert np.linalg.norm(found) == pytest.approx(1, abs=1e-5)
    assert not sketch_of(np.full((240, 320, 3), 90, np.uint8)).any()
    assert np.isnan(fits(picture(0), np.zeros((240, 320, 3), np.uint8)))


def test_a_picture_that_is_mostly_flat_has_a_sketch():
    mostly_flat = np.zeros((240, 320, 3), np.uint8)
    mostly_flat[:80, :120] = picture(1)[:80, :120]
    assert np.linalg.norm(sketch_of(mostly_flat)) == pytest.approx(1, abs=1e-5)


def test_one_scene_fits_itself_in_another_light_and_no_other_scene():
    scene = picture(1).astype(float)
    others = [fits(picture(1), picture(seed)) for seed in range(2, 30)]
    noise = np.random.default_rng(0).normal(0, 4, scene.shape)
    for changed in (0.3 * scene, 255 - scene, 120 + 0.3 * scene, scene + noise):
        again = np.clip(changed, 0, 255).astype(np.uint8)
        assert fits(picture(1), again) > 2 * max(others)
    assert np.median(others) < 6


def test_it_fits_when_the_picture_is_shifted_a_little_and_not_when_it_is_shifted_far():
    wide = picture(3, (640, 240))
    here, others = wide[:, 100:420], [fits(picture(3), picture(seed)) for seed in range(4, 20)]
    assert fits(here, wide[:, 130:450]) > max(others) + 2  # a tenth of its width
    assert fits(here, wide[:, 300:620]) < max(others) + 1  # more than half


def test_the_size_of_a_picture_changes_little():
    assert fits(picture(5, (160, 120)), picture(5, (640, 480))) > 20


def test_it_is_as_an_independent_correlation_says():
    one, other = sketches(picture(6)), sketches(picture(7))
    by_hand = np.full((2 * ROWS, 2 * COLUMNS), 0.0)
    for down in range(-ROWS + 1, ROWS):
        for across in range(-COLUMNS + 1, COLUMNS):
            a = one[0, max(0, down) : ROWS + min(0, down), max(0, across) : COLUMNS + min(0, across)]
            b = other[0, max(0, -down) : ROWS + min(0, -down), max(0, -across) : COLUMNS + min(0, -across)]
            by_hand[down, across] = np.real(np.sum(a * np.conj(b)))
    near = [by_hand[down, across] for down in range(-4, 5) for across in range(-6, 7)]
    assert fit(one, other)[0] == pytest.approx(max(near) / by_hand.std(), rel=1e-3)


def test_packed_sketches_are_small_and_fit_nearly_as_well():
    some = sketches(*(picture(seed) for seed in range(8)))
    bits = packed(some)
    assert (bits.shape, bits.dtype) == ((8, PACKED), np.uint8)
    again = unpacked(bits)
    np.testing.assert_allclose(np.linalg.norm(again, axis=(1, 2)), 1, rtol=1e-5)
    own, others = fit(some, again), fit(some, np.roll(again, 1, axis=0))
    assert own.min() > 2 * others.max()
    np.testing.assert_array_equal(packed(again), bits)
    assert not unpacked(np.zeros((1, PACKED), np.uint8)).any()
    assert not packed(np.zeros((1, ROWS, COLUMNS), np.complex64)).any()
    np.testing.assert_array_equal(packed(8 * some), bits)
