"""Light on the scene: sun and shadows, sky, street lamps and headlights, wet ground, haze."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from displace.datasets.town.ground import View, shadow_map
from displace.datasets.town.looks import Look
from displace.datasets.town.props import VEHICLES
from displace.datasets.town.raster import GROUND, LEAVES, ROOF, GBuffer
from displace.datasets.town.scene import Scene
from displace.datasets.town.sky import dot, planes, sky

Linear = NDArray[np.float32]

_LAMP = (1.0, 0.72, 0.38)
_HEADLIGHT = (1.0, 0.95, 0.85)


def illuminate(scene: Scene, buffer: GBuffer, rays: Linear, look: Look, seed: int, place: float) -> Linear:
    """Linear colours, (3, height, width), of the scene in the light of a traversal."""
    depth = np.minimum(buffer.depth, 200)
    eye = np.array([scene.pose.easting, scene.pose.northing, scene.pose.height])
    # Positions relative to the eye: a town's coordinates are too large for float32.
    position = rays * depth
    normals, kinds = buffer.normal, buffer.kind
    # Pictures are made with a gamma of 2.
    albedo = (buffer.colour * np.float32(1 / 255)) ** 2
    light = _skylight(normals, kinds, position[2] + np.float32(eye[2]), look)
    if max(look.sunlight) > 0.5:
        light += _sunlight(scene, position, normals, kinds, look)
    if look.lamplight > 0.6:
        # Smooth, so half the size will do.
        half = np.s_[..., ::2, ::2]
        lamps = _lamps(scene, position[half], normals[half], look), _headlights(rays[half], depth[half], look)
        for colour, small in zip((_LAMP, _HEADLIGHT), lamps, strict=True):
            light += planes(colour) * cv2.resize(small, depth.shape[::-1], interpolation=cv2.INTER_LINEAR)
    wet = np.where(kinds == GROUND, buffer.glow, 0)
    glow = np.where(kinds == GROUND, 0, buffer.glow)
    light *= np.where(wet > 0, np.float32(0.55), np.float32(1))
    light += glow * np.float32(1.4 * look.lamplight + 0.1)
    colours = albedo * light
    # Nothing of the sky is below its lowest pixel.
    rows = 1 + int(np.flatnonzero((kinds == 0).any(axis=1)).max(initial=0))
    background = sky(rays[:, :rows], look, seed, place)
    clear = np.exp(-np.float32(look.haze) * depth)
    colours = colours * clear + planes(look.horizon, 0.95) * (1 - clear)
    np.copyto(colours[:, :rows], background, where=kinds[:rows] == 0)
    if look.wet:
        colours = _reflect(colours, scene, wet, rays)
    return colours


def _skylight(normals: Linear, kinds: NDArray[np.int8], height: Linear, look: Look) -> Linear:
    """Light from above: less on walls, and less low down between houses."""
    open_sky = 0.66 + 0.34 * normals[2]
    canyon = 0.72 + 0.28 * np.clip(height / 9, 0, 1)
    amount = open_sky * np.where(kinds == GROUND, np.float32(0.9), canyon)
    # Walls turned towards the brighter half of the sky give an overcast day some relief.
    azimuth = math.radians(look.sun[0])
    amount *= 1 + 0.14 * (normals[0] * math.sin(azimuth) + normals[1] * math.cos(azimuth))
    result: NDArray[np.float32] = amount * planes(look.skylight)
    return result


def _sunlight(scene: Scene, position: Linear, normals: Linear, kinds: NDArray[np.int8], look: Look) -> Linear:
    """Direct light where nothing stands in its way."""
    facing = np.clip(dot(look.towards_sun, normals), 0, 1)
    facing[kinds == LEAVES] = 0.55
    view = View((0.0, 0.0), scene.pose.heading, -15.0, 85.0, 36.0, 3.0)
    shade = shadow_map(view, *_casters(scene), look.sun)
    # A little off the surface, or walls would stand in their own shade.
    x, y = position[:2] + np.float32(0.45) * normals[:2]
    matrix = view.matrix.astype(np.float32)
    column, row = (a * x + b * y + c for a, b, c in matrix)
    top = cv2.remap(shade, column, row, cv2.INTER_LINEAR)
    height = position[2] + np.float32(scene.pose.height)
    free = np.clip(1 - (top - height) / 0.35, 0, 1)
    free[(kinds == ROOF) | (kinds == LEAVES)] = 1
    result: NDArray[np.float32] = facing * free * planes(look.sunlight)
    return result


def _casters(
    scene: Scene,
) -> tuple[list[tuple[NDArray[np.float64], float]], list[tuple[tuple[float, float], float, float]]]:
    """What casts shadows, relative to the eye: outlines with heights, and trees."""
    eye = np.array([scene.pose.easting, scene.pose.northing])
    solid = [
        (b.footprint - eye, b.eaves + 0.5 * b.rise)
        for plan in scene.plans
        for b in plan.buildings
        if math.dist(b.corner, eye) < 110
    ]
    for kind, at, heading in scene.vehicles:
        shape = VEHICLES[kind]
        f = np.array([math.sin(heading), math.cos(heading)]) * shape.length / 2
        r = np.array([math.cos(heading), -math.sin(heading)]) * shape.width / 2
        middle = np.array(at) - eye
        solid.append(
            (np.array([middle + f + r, middle + f - r, middle - f - r, middle - f + r]), 0.8 * shape.height)
        )
    trees = [
        ((tree.at[0] - eye[0], tree.at[1] - eye[1]), tree.height, tree.crown)
        for plan in scene.plans
        for tree in plan.trees
    ]
    return solid, trees


def _lamps(scene: Scene, position: Linear, normals: Linear, look: Look) -> Linear:
    """Pools of light under the nearest street lamps."""
    eye = (scene.pose.easting, scene.pose.northing)
    near = sorted(
        (math.dist(at, eye), at, side, plan.street.right)
        for plan in scene.plans
        for at, side in plan.lamps
        if math.dist(at, eye) < 75
    )[:8]
    total = np.zeros(position.shape[1:], np.float32)
    for _, at, side, right in near:
        x, y = at[0] - 1.5 * side * right[0] - eye[0], at[1] - 1.5 * side * right[1] - eye[1]
        way = planes((x, y, 6.9 - scene.pose.height)) - position
        square = dot(way, way) + 1
        distance = np.sqrt(square)
        cosine = np.maximum(dot(way, normals), 0) / distance
        below = np.clip(way[2] / distance + 0.1, 0, 1)
        total += (0.25 + 0.75 * cosine) * below / square
    return total * np.float32(9 * look.lamplight)


def _headlights(rays: Linear, depth: Linear, look: Look) -> Linear:
    """Beam of the camera's own car: strongest straight ahead and a little down."""
    east, north = rays[:2, rays.shape[1] // 2, rays.shape[2] // 2]
    length = np.sqrt(dot(rays, rays))
    side = (north * rays[0] - east * rays[1]) / length
    drop = rays[2] / length + 0.09
    beam = np.exp(-((side / 0.33) ** 2) - (drop / 0.12) ** 2)
    result: NDArray[np.float32] = beam * np.float32(9 * look.lamplight) / (depth * np.sqrt(depth) + 12)
    return result


def _reflect(colours: Linear, scene: Scene, wet: Linear, rays: Linear) -> Linear:
    """Mirror what stands above the horizon in the wet ground, drawn out as by a rough surface."""
    height, width = wet.shape
    focal = width / float(np.linalg.norm(rays[:, 0, 0] - rays[:, 0, -1]))
    # The horizon is a line across the picture: where rays are level.
    level = height / 2 + focal * math.tan(scene.pose.pitch)
    tilt = math.tan(scene.pose.roll)
    x = np.arange(width, dtype=np.float32)[None] * np.ones((height, 1), np.float32)
    y = np.arange(height, dtype=np.float32)[:, None]
    horizon = level - (x - width / 2) * np.float32(tilt)
    source = (2 * horizon - y).astype(np.float32)
    mirrored = cv2.remap(
        cv2.merge(tuple(colours)), x, source, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    mirrored = np.array(cv2.split(cv2.blur(mirrored, (3, 11))))
    # Grazing light is reflected, steep light is not.
    grazing = np.clip(1 - (y - horizon) / (0.75 * height), 0.25, 1) ** 2
    result: NDArray[np.float32] = colours + mirrored * (wet * grazing * np.float32(0.75))
    return result
