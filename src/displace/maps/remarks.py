"""Messages to the user about a map and its confidence: what it cannot do, and what would help."""

from __future__ import annotations

from collections.abc import Iterator

from displace.maps.calibration import BASES, Calibration
from displace.maps.place_map import PlaceMap
from displace.models import grid_of
from displace.sequence.viewpoint import in_words

STALE = (
    "the confidence was learned before an update, from other traversals; rebuild the map to learn it again"
)
UNCALIBRATED = "no confidence: the map was built without it (--no-calibration); rebuild it to get one"
UNLEARNED = (
    "no confidence: held-out matches were too few, or all right or all wrong, as in maps of a few places. Add places "
    "or another traversal; after an update, rebuild the map from all references"
)
WEAKER = {
    "two traversals": (
        "less reliable than with three traversals: parts of two were held out, neither as a whole; if the map has more "
        "by now, build it again from all references"
    ),
    "one traversal": (
        "by a fixed rule, and never above 0.75 by a photo's descriptor alone: one traversal does not show what right "
        "matches look like"
    ),
}
"""By the basis of a confidence."""

USELESS = 0.65
"""Cross-validated area under the ROC curve below which a confidence hardly separates right from wrong."""
UNTOLD = (
    "on held-out images it hardly tells right matches from wrong ones: do not rely on it. Another recording of the "
    "same places, or another --tolerance, may help"
)
UNJUDGED = (
    "how well it works is not known: too few held-out matches were right to judge it. Use recordings that share more "
    "places"
)
"""Of a confidence that could not be cross-validated."""

MANY = 0.25
"""Share from which on refused right matches (`REFUSED`), or accepted negatives (`LACKING`), are reported."""
REFUSED = (
    "it refused {share:.0%} of the right matches of held-out traversals: a season or light that no other traversal "
    "shows looks foreign, and low probabilities are then too low. Locate videos, or 100 or more photos together, which "
    "reveal their condition"
)

LACKING = (
    "it accepted {half:.0%} of the held-out images from missing stretches at 0.5, and {sure:.0%} at 0.8: the rest of "
    "the same route looks like the map. If a wrong place does harm, use --min-confidence 0.8"
)
"""Where the share accepted at 0.5 reaches `MANY`."""
FEWEST = 20
"""Fewest held-out images from missing stretches for that message."""

ADAPTED = (
    "the matching was adapted to the condition that these images share; --adapt none locates each by itself"
)
"""Where adaptation changed the matching."""


def moved(place_map: PlaceMap, view: tuple[int, int]) -> str:
    """Message where the pictures of many images are shifted against those of the map."""
    by = in_words(view, grid_of(place_map.model) or (1, 1, 1))
    return (
        f"the pictures are shifted by about {by} against the map's (another lane, or a camera mounted differently) and "
        "were shifted back; --adapt none leaves them as they are"
    )


def no_confidence(place_map: PlaceMap) -> str:
    """Why a map has no confidence, and what gives it one."""
    return UNCALIBRATED if place_map.state.calibrated_on is None else UNLEARNED


def of_confidence(calibration: Calibration) -> Iterator[str]:
    """Weaknesses of a confidence; none where it was learned from whole traversals and separates most matches."""
    if calibration.basis in WEAKER:
        yield WEAKER[calibration.basis]
    if calibration.curve and calibration.auc < USELESS:
        yield UNTOLD
    elif (share := _refused(calibration)) >= MANY:
        yield REFUSED.format(share=share)
    if not calibration.curve and calibration.basis != BASES[2]:
        yield UNJUDGED


def _refused(calibration: Calibration) -> float:
    """Share of the held-out right matches with a probability below one half, from the reliability curve."""
    right = [(probability < 0.5, share * count) for probability, share, count in calibration.curve]
    return sum(count for low, count in right if low) / max(sum(count for _, count in right), 1e-9)


def of_missing_stretches(place_map: PlaceMap) -> Iterator[str]:
    """How often images of the route's missing stretches are accepted, where often."""
    calibration, samples = place_map.calibration, place_map.state.samples
    if calibration is None or samples is None or samples.centred != calibration.centred:
        return
    without = samples.evidence[samples.labels < 0]
    if len(without) < FEWEST or calibration.reads_rankings:
        return
    accepted = calibration.probability(without)
    half, sure = (float((accepted >= limit).mean()) for limit in (0.5, 0.8))
    if half >= MANY:
        yield LACKING.format(half=half, sure=sure)


def remarks(place_map: PlaceMap) -> Iterator[str]:
    """Sentences for whoever runs the map; none where nothing is missing."""
    calibration = place_map.calibration
    if len(place_map.traversals) == 1:
        yield (
            "one traversal shows no change of condition: record the route at another time of day or year, and add the "
            "recording with displace update MAP --add STORE"
        )
    if calibration is None:
        yield no_confidence(place_map)
    elif place_map.calibration_is_stale:
        yield STALE
    else:
        of_both = (*of_confidence(calibration), *of_missing_stretches(place_map))
        yield from (f"the confidence: {remark}" for remark in of_both)
    if not place_map.has_order:
        yield (
            "the places have no order along a route, so drives cannot be followed: add frame numbers or positions to "
            "the manifest"
        )
    if place_map.model is None:
        yield "the map was built from bare vectors: it takes descriptors, not images"


def rounding_loss(place_map: PlaceMap) -> str:
    """What storing rows in fewer bits costs, where it was measured; else empty."""
    recalls = place_map.notes.get("recall_at_1")
    if recalls:
        listed = ", ".join(f"{recall:.2f} % as {dtype}" for dtype, recall in recalls.items())
        return f"R@1 of {place_map.notes['n_queries']:,} held-out queries ({place_map.tolerance}): {listed}"
    if "same_top_match" in place_map.notes:
        same = place_map.notes["same_top_match"]
        return f"same best place as with float32 for {same:g} % of the rows with added noise"
    return ""
