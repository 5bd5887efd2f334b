"""What stands along a street: lot after lot of houses, side roads and parks, and the trees, lamps and signs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from displace.datasets.town.plan import Building, Point, Street, StreetPlan, Tree, streets
from displace.datasets.town.randomness import stream
from displace.datasets.town.styles import ACCENTS, ROOFS, STYLES, HouseStyle

N_TREES = 6
"""Drawings of trees that exist for each state of the leaves."""

_SIDE_WIDTH = 7.0
_SIDE_LENGTH = 70.0


@lru_cache(maxsize=64)
def plan(seed: int, index: int) -> StreetPlan:
    """Plan of one street; the same objects for the same arguments while they are in the cache."""
    made = StreetPlan(streets(seed)[index])
    for side in (-1, 1):
        _fill_side(seed, made, side)
        _furnish(seed, made, side)
    return made


def _fill_side(seed: int, made: StreetPlan, side: int) -> None:
    """Divide one side of the street into lots and build on them."""
    street, district = made.street, made.street.district
    rng = stream(seed, "lots", street.index, side)
    position, end = street.frontage(side, district.edge)
    number, last_opening = 0, 0.0
    # One street keeps to one or two house types, as if built at one time.
    usual = [str(rng.choice(district.styles)) for _ in range(2)]
    while position < end - 4:
        chance = rng.random()
        room = end - position if position - last_opening > 22 else 0.0
        if room > 30 and chance < district.side_road:
            _side_road(seed, made, side, position, number)
            position = last_opening = position + _SIDE_WIDTH + 4
        elif room > 40 and chance < district.side_road + district.park:
            width = float(rng.uniform(16, 26))
            _park(made, side, position, width, rng)
            position = last_opening = position + width
        else:
            name = usual[int(rng.random() < 0.3)] if rng.random() < 0.8 else str(rng.choice(district.styles))
            width = min(float(rng.choice(STYLES[name].widths)), end - position)
            corner = street.point(
                position + (width if side > 0 else 0), side * (district.edge + district.setback)
            )
            key = (seed, "house", street.index, side, number)
            made.buildings.append(_house(key, STYLES[name], corner, *_facing(street, side), width))
            if district.border:
                first, last = (
                    street.point(position + at, side * (district.edge + 0.2)) for at in (0.6, width)
                )
                made.hedges.append((first, last, float(rng.uniform(0.7, 1.3)), district.border))
            position += width + district.gap * float(rng.uniform(0.7, 1.3))
        number += 1


def _facing(street: Street, side: int) -> tuple[Point, Point]:
    """Vectors to the right along a front, and into the house, for somebody who faces that side of the street."""
    (fx, fy), (rx, ry) = street.forward, street.right
    return (-side * fx, -side * fy), (side * rx, side * ry)


def _house(
    key: tuple[int | str, ...], style: HouseStyle, corner: Point, along: Point, inward: Point, width: float
) -> Building:
    """Put one house of a style on its lot."""
    rng = stream(*key)
    low, high = style.storeys
    tone = rng.uniform(0.88, 1.08) + rng.uniform(-0.03, 0.03, 3)
    wall = np.clip(np.array(style.walls[int(rng.integers(len(style.walls)))]) * tone, 0, 250)
    return Building(
        key=key,
        style=style,
        corner=corner,
        along=along,
        inward=inward,
        width=width,
        depth=float(rng.uniform(9, 12)),
        storeys=int(rng.integers(low, high + 1)),
        wall=(int(wall[0]), int(wall[1]), int(wall[2])),
        roof=ROOFS[int(rng.integers(len(ROOFS)))],
        accent=ACCENTS[int(rng.integers(len(ACCENTS)))],
    )


def _side_road(seed: int, made: StreetPlan, side: int, position: float, number: int) -> None:
    """Open a side road, with houses along it behind the corner houses, and one across its far end."""
    street, edge = made.street, made.street.district.edge
    middle = position + _SIDE_WIDTH / 2 + 2
    start, end = street.point(middle, 0), street.point(middle, side * _SIDE_LENGTH)
    made.side_roads.append((start, end, _SIDE_WIDTH))
    (fx, fy), (rx, ry) = street.forward, street.right
    styles = street.district.styles
    rng = stream(seed, "side", street.index, side, number)
    for bank in (-1, 1):
        reach, count = edge + street.district.setback + 12.5, 0
        while reach < _SIDE_LENGTH - 4:
            style = STYLES[str(rng.choice(styles))]
            width = float(rng.choice(style.widths))
            along, inward = (bank * rx, bank * ry), (bank * fx, bank * fy)
            left = reach if bank == side else reach + width
            corner = street.point(middle + bank * (_SIDE_WIDTH / 2 + 2), side * left)
            key = (seed, "side house", street.index, side, number, bank, count)
            made.buildings.append(_house(key, style, corner, along, inward, width))
            reach += width + street.district.gap
            count += 1
    along, inward = _facing(street, side)
    corner = street.point(middle + 9 * side, side * (_SIDE_LENGTH + 3))
    end_key = (seed, "end house", street.index, side, number)
    made.buildings.append(_house(end_key, STYLES[str(rng.choice(styles))], corner, along, inward, 18.0))


def _park(made: StreetPlan, side: int, position: float, width: float, rng: np.random.Generator) -> None:
    """Lay out a lawn with trees behind a hedge, and close it at the back."""
    street, edge = made.street, made.street.district.edge
    near, far = side * (edge + 0.3), side * (edge + 34)
    outline = [(position, near), (position + width, near), (position + width, far), (position, far)]
    made.lawns.append(np.array([street.point(along, lateral) for along, lateral in outline]))
    low, high = street.point(position, near), street.point(position + width, near)
    made.hedges.append((low, high, float(rng.uniform(0.6, 1.1)), str(rng.choice(["hedge", "fence", "wall"]))))
    low, high = street.point(position, far), street.point(position + width, far)
    made.hedges.append((low, high, 3.5, "hedge"))
    for _ in range(int(rng.integers(4, 9))):
        at = street.point(position + rng.uniform(1.5, width - 1.5), side * (edge + rng.uniform(3, 30)))
        made.trees.append(_tree(at, rng, 1.15))


def _tree(at: Point, rng: np.random.Generator, scale: float = 1.0) -> Tree:
    height = scale * float(rng.uniform(5.5, 9.5))
    return Tree(at, height, height * float(rng.uniform(0.26, 0.36)), int(rng.integers(N_TREES)))


def _furnish(seed: int, made: StreetPlan, side: int) -> None:
    """Plant trees and put lamps and signs along one kerb."""
    street, district = made.street, made.street.district
    rng = stream(seed, "kerb", street.index, side)
    lateral = side * (district.road / 2 + 0.7)
    begin, end = street.frontage(side, abs(lateral))
    along = begin + float(rng.uniform(2, 9))
    while district.tree_every and along < end - 2:
        if rng.random() < 0.85:
            made.trees.append(_tree(street.point(along, lateral), rng, 0.85))
        along += district.tree_every * float(rng.uniform(0.75, 1.25))
    # Lamps alternate: half a step between the two sides.
    for along in np.arange(begin + (6.0 if side > 0 else 21.0), end, 30.0):
        made.lamps.append((street.point(float(along), side * (district.road / 2 + 0.45)), side))
    for _ in range(int(rng.integers(1, 4))):
        along = float(rng.uniform(begin, max(begin + 1, end)))
        made.signs.append((street.point(along, side * (district.road / 2 + 0.5)), int(rng.integers(8))))


def near(seed: int, street: Street) -> list[StreetPlan]:
    """Plans of a street, the one before and three after it: all that can be seen from it."""
    first, end = max(0, street.index - 1), min(len(streets(seed)), street.index + 4)
    return [plan(seed, i) for i in range(first, end)]
