"""Most images refused: when it is said that the map may be at fault, and what is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from displace import ReferenceSet, build
from displace.manifest.table import Manifest
from displace.maps.located import Located
from displace.maps.refusals import of_a_drive, of_refusals
from displace.matches import Matches
from displace.places import Places
from displace.sequence.stride import way_along
from displace.synthetic import make_route

N = 60


def map_of(n_traversals, ordered=True):
    """A map whose places' numbers along the route are the reverse of their ids."""
    refs = make_route(n_places=N, n_traversals=3, dim=24, seed=0).references
    refs = refs.select(np.isin(refs.traversals, refs.traversal_ids[:n_traversals]))
    places = Places(refs.place_ids, frames=N - np.arange(N) if ordered else None)
    refs = ReferenceSet(refs.vectors, refs.places, refs.traversals, info=places)
    return build(refs, "hops")


@pytest.fixture(scope="module")
def maps():
    return {n: map_of(n) for n in (1, 3)}


def located(place_map, places, confidence, readable=None, **given):
    n = len(places)
    scores = np.where(np.ones(n, bool) if readable is None else readable, 0.5, np.nan)
    manifest = Manifest([f"{at}.jpg" for at in range(n)], [""] * n, ["t"] * n, Path())
    matches = Matches(np.asarray(places)[:, None], scores[:, None], np.asarray(confidence, float))
    return Located(place_map, manifest, matches, **given)


def test_refused_images_whose_places_follow_each_other_are_of_the_route(maps):
    said = of_refusals(located(maps[3], np.arange(N), np.linspace(0.1, 0.3, N)))
    assert "although their places follow each other" in said
    assert "half of these images reach --min-confidence 0.20" in said
    assert "100 or more images" in said
    adapted = of_refusals(located(maps[3], np.arange(N), np.full(N, 0.05), adapted=True))
    assert "although their places follow each other" in adapted
    assert "--min-confidence" not in adapted  # with 0.05 hardly anything would be refused
    assert "100 or more" not in adapted
    followed = of_refusals(located(maps[3], np.arange(N)[::-1], np.full(N, 0.05), followed=True))
    assert "although their places follow each other" in followed
    assert "100 or more" not in followed
    assert of_refusals(located(maps[3], np.arange(N)[::-1], np.full(N, 0.2)))  # driven the other way


def test_images_that_seem_to_be_a_drive_may_be_followed(maps):
    places, rng = np.arange(N)[::-1], np.random.default_rng(0)
    webcams = rng.standard_normal((N, 24))
    frames = np.cumsum(webcams, axis=0)
    sure, drive = np.full(N, 0.9), {"vectors": frames}
    assert "--follow" in of_a_drive(located(maps[3], places, sure, **drive))
    assert of_a_drive(located(maps[3], places, sure, followed=True, **drive)) == ""
    assert of_a_drive(located(maps[3], rng.permutation(N), sure, **drive)) == ""
    assert of_a_drive(located(map_of(3, ordered=False), places, sure, **drive)) == ""
    assert of_a_drive(located(maps[3], places, sure, vectors=webcams)) == ""  # numbered alike, and no route
    readable = np.arange(N) % 2 == 0
    drive["vectors"] = np.where(readable[:, None], frames, np.nan)
    assert of_a_drive(located(maps[3], np.where(readable, places, -1), np.ones(N), readable, **drive))


def test_refused_photos_from_elsewhere_say_nothing_about_the_map(maps):
    """Nearly half of the images follow the route, and are accepted; the others are found anywhere."""
    own, foreign = N // 2 - 2, N // 2 + 2
    places = np.concatenate([np.arange(own), np.random.default_rng(0).permutation(N)[:foreign]])
    confidence = np.concatenate([np.full(own, 0.9), np.full(foreign, 0.2)])
    assert way_along(places, N)
    assert of_refusals(located(maps[3], places, confidence)) == ""


@pytest.mark.parametrize("n_traversals", [1, 3])
def test_many_images_that_look_foreign_are_called_so(maps, n_traversals):
    places = np.random.default_rng(0).integers(0, N, 120)
    assert "together these images look foreign" in of_refusals(
        located(maps[n_traversals], places, np.full(120, 0.01))
    )
    for n, confidence in ((99, 0.01), (120, 0.03)):
        assert "foreign:" not in of_refusals(located(maps[n_traversals], places[:n], np.full(n, confidence)))


@pytest.mark.parametrize("n_traversals", [1, 3])
def test_many_photos_that_were_compared_and_look_foreign_are_called_so(maps, n_traversals):
    """What descriptors hold against them counts in part then, so that they are refused less surely."""
    places, said = np.random.default_rng(0).integers(0, N, 120), "together these images look foreign"
    for confidence, foreign in ((0.04, True), (0.15, False)):
        found = located(maps[n_traversals], places, np.full(120, confidence))
        compared = replace(found, matches=replace(found.matches, compared=True))
        assert (said in of_refusals(compared)) == foreign
        assert said not in of_refusals(found)


def test_the_limit_that_is_named_is_one_of_refused_images(maps):
    confidence = np.where(np.arange(N) < 0.4 * N, 0.9, 0.2)
    assert "reach --min-confidence 0.20" in of_refusals(located(maps[3], np.arange(N), confidence))


@pytest.mark.parametrize(
    ("places", "confidence", "given"),
    [
        (np.random.default_rng(0).permutation(N), 0.2, {}),  # images of anywhere
        (np.repeat([3, 40, 10], 20), 0.2, {}),  # a foreign drive: each picture is like the one before
        (np.arange(N), 0.6, {}),  # accepted
        (np.arange(N), 0.2, {"min_confidence": 0.5}),  # the limit was chosen
        (np.arange(10), 0.2, {}),  # too few to tell
    ],
)
def test_nothing_is_said_otherwise(maps, places, confidence, given):
    assert of_refusals(located(maps[3], places, np.full(len(places), confidence), **given)) == ""


def test_a_map_of_one_traversal_needs_no_order(maps):
    said = of_refusals(located(maps[1], np.random.default_rng(0).permutation(N), np.full(N, 0.2)))
    assert "the map has seen the route only once" in said


def test_places_without_an_order_cannot_follow_each_other():
    assert of_refusals(located(map_of(3, ordered=False), np.arange(N), np.full(N, 0.2))) == ""


def test_images_that_cannot_be_read_do_not_count(maps):
    """Half of the images are unreadable; of the others most are accepted."""
    readable = np.arange(N) % 2 == 0
    confidence = np.where(readable, 0.7, np.nan)
    assert of_refusals(located(maps[3], np.arange(N), confidence, readable)) == ""
    confidence = np.where(readable, 0.2, np.nan)
    assert "reach --min-confidence 0.20" in of_refusals(located(maps[3], np.arange(N), confidence, readable))


def test_steps_both_ways_are_chance():
    """Of another stretch of the same route, images find places nearby, ahead as often as behind."""
    back_and_forth = np.cumsum(np.random.default_rng(1).choice([-2, -1, 1, 2], 200)) + 500
    assert not way_along(back_and_forth, 1000)
    slow = np.repeat(np.arange(30), 5)
    assert way_along(slow, 1000)
    assert not way_along(slow[: 5 * 20], 1000)  # 19 changes
    assert way_along(slow[: 5 * 21], 1000)


@pytest.mark.parametrize("n_traversals", [1, 3])
def test_a_drive_against_the_route_is_not_taken_for_an_unknown_season(maps, n_traversals):
    back, ahead, low = np.arange(N), np.arange(N)[::-1], np.full(N, 0.2)
    said = of_refusals(located(maps[n_traversals], back, low, followed=True))
    assert "against the route" in said
    assert "--no-follow" in said
    assert "against" not in of_refusals(located(maps[n_traversals], ahead, low, followed=True))
    assert "against" not in of_refusals(located(maps[n_traversals], back, low))  # photos go anywhere
    frames = np.cumsum(np.random.default_rng(0).standard_normal((N, 24)), axis=0)
    assert (
        of_a_drive(located(maps[3], back, np.full(N, 0.9), vectors=frames)) == ""
    )  # --follow would refuse them
