"""Maps that mix seasons, lanes and light: one traversal held out may be harder than all that a map is asked for.

Traversals are made of nordland811's two seasons by moving, darkening and hazing the pictures. Maps of several are asked
for one that they have not seen; for the rest of the railway, as that traversal and as two of their own show it; and for
pictures of the other sets. Needs the shared data.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks import _other_light
from benchmarks._measure import header, row
from benchmarks._seen import seen
from benchmarks.confidence import (
    GAP,
    Case,
    Descriptors,
    answers,
    described,
    located,
    map_of,
    measured,
    parser_of,
    share,
    shared_data,
)
from displace.images import read_image

RAILWAY = "railway"
MADE = {
    "summer, right": ("summer", _other_light.from_the_right),
    "summer, dark": ("summer", _other_light.dark),
    "winter, left": ("winter", _other_light.from_the_left),
    "winter, fog": ("winter", _other_light.foggy),
}
ASKED = (
    (["summer", "winter", "summer, right"], "winter, left"),
    (["summer", "winter", "winter, fog"], "summer, right"),
    (["winter", "summer, dark", "winter, left"], "summer, right"),
    (["summer", "summer, right", "winter, left", "winter, fog"], "summer, dark"),
    (["summer", "summer, right", "summer, dark"], "winter"),
)
PLACES = {80: (250, 600), 200: (50,), 400: (150,)}
"""First place of the maps of each size."""


def main(argv: list[str]) -> None:
    options = parser_of("seasons", __doc__).parse_args(argv)
    shared = shared_data(options.cache)
    if shared is None:
        return
    header(
        *("map of", "asked for", "places", "model", "right ≥ 0.5", "rest of the railway ≥ 0.5", "≥ 0.8"),
        *("as two of its own ≥ 0.5", "≥ 0.8", "foreign ≥ 0.5", "≥ 0.8", "calibration error", "of all"),
    )
    for model in options.models.split(","):
        sets = {name: described(shared, name, model, options.cache) for name in ("sped400", "town")}
        sets[RAILWAY] = railway(shared, model, options.cache)
        for references, query in ASKED:
            for n_places, firsts in PLACES.items():
                cases = [Case(RAILWAY, references, query, "2 frames", first, n_places) for first in firsts]
                found = measured([answers(case, sets, {}, model, together=False) for case in cases])
                own = [rest_of_its_own(case, sets[RAILWAY], model) for case in cases]
                row(
                    *(" + ".join(references), query, n_places, model, *found[:3]),
                    *(share(own, 0.5), share(own, 0.8), *found[4:]),
                )


def railway(shared: Path, model: str, cache: Path) -> Descriptors:
    """Pictures (`seen`) of the two seasons and of what is made of them."""
    path = cache / f"{RAILWAY}_{model}_seen.npz"
    if not path.is_file():
        found = dict(described(shared, "nordland811", model, cache))
        rng = np.random.default_rng(0)
        for name, (season, made) in MADE.items():
            files = sorted((shared / "nordland811" / season).glob("*.jpg"))
            found[name] = seen(model, [made(read_image(file), rng) for file in files])
        np.savez(path, **found)
    with np.load(path) as arrays:
        return {key: arrays[key].astype(np.float32) for key in arrays}


def rest_of_its_own(case: Case, vectors: Descriptors, model: str) -> np.ndarray:
    """Confidences of the rest of the railway as two of the map's own traversals show it."""
    place_map = map_of(case, vectors, model)
    every = np.arange(len(vectors[case.references[0]]))
    away = every[(every < case.first - GAP) | (every >= case.first + case.n_places + GAP)]
    return located(place_map, np.concatenate([vectors[name][away] for name in case.references[:2]]), "none")[
        1
    ]
