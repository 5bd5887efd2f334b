"""Sketches of pictures: what changes them, what does not, and how two are compared."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from displace.sketches import COLUMNS, PACKED, ROWS, _agreement, fit, fused, packed, sketch_of, unpacked


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
        assert fits(picture(1), again) > 1.5 * max(others)
    assert np.median(others) < 2.4


def test_what_hides_a_third_of_the_picture_changes_little():
    """Traffic, or what is near when the camera stands in another lane."""
    scene, others = picture(1).copy(), [fits(picture(1), picture(seed)) for seed in range(2, 18)]
    scene[80:, :160] = picture(30)[80:, :160]
    assert fits(picture(1), scene) > 1.5 * max(others)


def test_an_uneven_light_changes_little():
    """As of a street lamp: edges count relative to those around them."""
    scene = picture(1).astype(float)
    lamp = np.linspace(0.1, 1, scene.shape[1])[None, :, None]
    lit = (lamp * scene).astype(np.uint8)
    assert fits(picture(1), lit) > 0.9 * fits(picture(1), picture(1))
    kept = unpacked(packed(sketches(lit)))[0] != 0
    assert kept[:, : COLUMNS // 4].mean() > 0.7 * kept.mean()  # what is in the dark is not packed as nothing


def test_it_fits_when_the_picture_is_shifted_a_little_and_not_when_it_is_shifted_far():
    wide = picture(3, (640, 240))
    here, others = wide[:, 100:420], [fits(picture(3), picture(seed)) for seed in range(4, 20)]
    assert fits(here, wide[:, 130:450]) > 1.5 * max(others)  # a tenth of its width
    assert fits(here, wide[:, 300:620]) < max(others) + 0.1  # more than half


def test_it_fits_when_the_camera_stands_nearer_or_farther():
    scene, others = Image.fromarray(picture(5)), [fits(picture(5), picture(seed)) for seed in range(6, 22)]
    for margin in (20, 24):  # of 320: 1.14 and 1.18 times as large
        nearer = scene.crop((margin, margin * 3 // 4, 320 - margin, 240 - margin * 3 // 4)).resize((320, 240))
        assert fits(np.asarray(nearer), picture(5)) > 1.7 * max(others)
        assert fits(picture(5), np.asarray(nearer)) > 1.7 * max(others)


def test_parts_of_a_picture_may_be_a_cell_off_and_not_more():
    """Near things shift further than far ones."""
    left, right = picture(8, (160, 240)), picture(9, (160, 240))
    whole = np.hstack([left, right])
    others = max(fits(whole, picture(seed)) for seed in range(10, 26))

    def torn(pixels):  # the halves apart, or into each other
        return np.hstack([np.roll(left, -pixels, axis=1), np.roll(right, pixels, axis=1)])

    same, near, far = (fits(whole, torn(pixels)) for pixels in (0, 4, 24))
    assert near > 0.7 * same > others
    assert far < near


def test_the_size_of_a_picture_changes_little():
    assert fits(picture(5, (160, 120)), picture(5, (640, 480))) > 0.95 * fits(picture(5), picture(5))


def test_it_is_as_an_independent_correlation_says():
    """Twenty parts, each correlated over all shifts by loops; one may be a cell off the shift of all; twelve count."""
    one, other = sketches(picture(6)), sketches(picture(7))
    padded = np.zeros((ROWS + 18, COLUMNS + 24), complex)
    padded[9:-9, 12:-12] = other[0]
    parts = []
    for top in range(0, ROWS, 15):
        for left in range(0, COLUMNS, 16):
            part, found = one[0, top : top + 15, left : left + 16], np.empty((19, 25))
            for down in range(19):
                for across in range(25):
                    there = padded[top + down : top + down + 15, left + across : left + across + 16]
                    found[down, across] = np.real(np.sum(part * np.conj(there)))
            z = np.pad((found - found.mean()) / found.std(), 1, constant_values=-np.inf)
            near = [z[i : i + 19, j : j + 25] for i in range(3) for j in range(3)]
            parts.append(np.max(near, axis=0))
    agreement = np.sort(parts, axis=0)[-12:].mean(axis=0)
    assert _fit_at(one, other) == pytest.approx(agreement.max(), rel=1e-4)
    assert fit(one, other)[0] >= agreement.max() - 1e-4  # at other sizes, too


def _fit_at(one, other):
    """The fit at the same size."""
    return _agreement(one[0], other[:1]).max()


def test_sketches_of_one_place_are_moved_onto_each_other_before_they_are_summed():
    wide = picture(3, (640, 240))
    shown = [wide[:, left : left + 320] for left in (100, 120, 84)]
    moved, apart = fused(sketches(*shown)), sketches(*shown).sum(axis=0)
    query = sketches(wide[:, 104:424])
    assert fit(query, moved[None])[0] > fit(query, apart[None])[0] + 0.2
    np.testing.assert_array_equal(fused(sketches(shown[0])), sketch_of(shown[0]))
    blank = np.zeros((1, ROWS, COLUMNS), np.complex64)
    np.testing.assert_array_equal(fused(np.concatenate([blank, sketches(shown[0])])), sketch_of(shown[0]))
    assert not fused(blank).any()
    known = sketch_of(shown[0])
    again = fused(sketches(shown[0]), known, 2)
    np.testing.assert_allclose(again, 3 * known, atol=1e-6)
    # A cell is 4 pixels: the second picture goes five cells to the right, and nothing comes in from outside.
    pair = fused(sketches(*shown[:2])) - sketch_of(shown[0])
    assert not pair[:, :5].any()
    np.testing.assert_allclose(pair[:, 5:], sketch_of(shown[1])[:, :-5], atol=1e-6)


def test_packed_sketches_are_small_and_fit_nearly_as_well():
    some = sketches(*(picture(seed) for seed in range(8)))
    bits = packed(some)
    assert (bits.shape, bits.dtype) == ((8, PACKED), np.uint8)
    again = unpacked(bits)
    np.testing.assert_allclose(np.linalg.norm(again, axis=(1, 2)), 1, rtol=1e-5)
    own, others = fit(some, again), fit(some, np.roll(again, 1, axis=0))
    assert own.min() > 1.5 * others.max()
    np.testing.assert_array_equal(packed(again), bits)
    assert not unpacked(np.zeros((1, PACKED), np.uint8)).any()
    assert not packed(np.zeros((1, ROWS, COLUMNS), np.complex64)).any()
    np.testing.assert_array_equal(packed(8 * some), bits)
