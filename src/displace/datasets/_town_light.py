"""Light on the scene: sun and shadows, sky, street lamps and headlights, wet ground, haze."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from displace.datasets._town_ground import View, shadow_map
from displace.datasets._town_looks import Look
from displace.datasets._town_props import VEHICLES
from displace.datasets._town_raster import GROUND, LEAVES, ROOF, GBuffer
from displace.datasets._town_scene import Scene
from displace.datasets._town_sky import sky

Linear = NDArray[np.float32]

_LINEAR = ((np.arange(256) / 255) ** 2).astype(np.float32)
_LAMP = np.array([1.0, 0.72, 0.38], np.float32)
_HEADLIGHT = np.array([1.0, 0.95, 0.85], np.float32)


def illuminate(scene: Scene, buffer: GBuffer, rays: Linear, look: Look, seed: int, place: int) -> Linear:
    """Linear colours, (height, width, 3), of the scene in the light of a traversal."""
    depth = np.minimum(buffer.depth, 200)
    eye = np.array([scene.pose.easting, scene.pose.northing, scene.pose.height])
    # Positions relative to the eye: a town's coordinates are too large for float32.
    position = rays * depth[..., None]
    normals, kinds = buffer.normal, buffer.kind
    albedo = _LINEAR[buffer.colour]
    light = _skylight(normals, kinds, position[..., 2] + np.float32(eye[2]), look)
    if max(look.sunlight) > 0.5:
        light += _sunlight(scene, position, normals, kinds, look)
    if look.lamplight > 0.6:
        light += _lamps(scene, position, normals, look) + _headlights(rays, depth, look)
    wet = np.where(kinds == GROUND, buffer.glow, 0)
    glow = np.where(kinds == GROUND, 0, buffer.glow)
    colours = albedo * light * (1 - 0.45 * (wet > 0)[..., None])
    colours += albedo * (glow * (1.4 * look.lamplight + 0.1))[..., None]
    # Nothing of the sky is below its lowest pixel.
    rows = 1 + int(np.flatnonzero((kinds == 0).any(axis=1)).max(initial=0))
    background = sky(rays[:rows], look, seed, place)
    haze = (1 - np.exp(-look.haze * depth))[..., None]
    colours += (np.array(look.horizon, np.float32) * 0.95 - colours) * haze
    np.copyto(colours[:rows], background, where=(kinds[:rows] == 0)[..., None])
    if look.wet:
        colours = _reflect(colours, scene, wet, rays)
    return colours


def _skylight(normals: Linear, kinds: NDArray[np.int8], height: Linear, look: Look) -> Linear:
    """Light from above: less on walls, and less low down between houses."""
    open_sky = 0.66 + 0.34 * normals[..., 2]
    canyon = 0.72 + 0.28 * np.clip(height / 9, 0, 1)
    amount = open_sky * np.where(kinds == GROUND, 0.9, canyon)
    # Walls turned towards the brighter half of the sky give an overcast day some relief.
    azimuth = math.radians(look.sun[0])
    amount *= 1 + 0.14 * (normals[..., 0] * math.sin(azimuth) + normals[..., 1] * math.cos(azimuth))
    return amount[..., None] * np.array(look.skylight, np.float32)


def _sunlight(scene: Scene, position: Linear, normals: Linear, kinds: NDArray[np.int8], look: Look) -> Linear:
    """Direct light where nothing stands in its way."""
    azimuth, elevation = (math.radians(v) for v in look.sun)
    flat = math.cos(elevation)
    sun = np.array([math.sin(azimuth) * flat, math.cos(azimuth) * flat, math.sin(elevation)], np.float32)
    facing = np.clip(normals @ sun, 0, 1)
    facing[kinds == LEAVES] = 0.55
    view = View((0.0, 0.0), scene.pose.heading, -25.0, 110.0, 50.0, 3.0)
    shade = shadow_map(view, *_casters(scene), look.sun)
    # A little off the surface, or walls would stand in their own shade.
    outside = position + 0.45 * normals
    matrix = view.matrix.astype(np.float32)
    column = matrix[0, 0] * outside[..., 0] + matrix[0, 1] * outside[..., 1] + matrix[0, 2]
    row = matrix[1, 0] * outside[..., 0] + matrix[1, 1] * outside[..., 1] + matrix[1, 2]
    top = cv2.remap(shade, column, row, cv2.INTER_LINEAR)
    height = position[..., 2] + np.float32(scene.pose.height)
    free = np.clip(1 - (top - height) / 0.35, 0, 1)
    free[(kinds == ROOF) | (kinds == LEAVES)] = 1
    return (facing * free)[..., None] * np.array(look.sunlight, np.float32)


def _casters(
    scene: Scene,
) -> tuple[list[tuple[NDArray[np.float64], float]], list[tuple[tuple[float, float], float, float]]]:
    """What casts shadows, relative to the eye: outlines with heights, and trees."""
    eye = np.array([scene.pose.easting, scene.pose.northing])
    solid = [
        (b.footprint() - eye, b.eaves + 0.5 * b.rise)
        for plan in scene.plans
        for b in plan.buildings
        if math.dist(b.corner, eye) < 140
    ]
    for kind, at, heading in scene.vehicles:
        shape = VEHICLES[kind]
        f = np.array([math.sin(heading), math.cos(heading)]) * shape.length / 2
        r = np.array([math.cos(heading), -math.sin(heading)]) * shape.width / 2
        middle = np.array(at) - eye
        solid.append((np.array([middle + f + r, middle + f - r, middle - f - r, middle - f + r]), 0.8 * shape.height))
    trees = [
        ((tree.at[0] - eye[0], tree.at[1] - eye[1]), tree.height, tree.crown)
        for plan in scene.plans
        for tree in plan.trees
    ]
    return solid, trees


def _lamps(scene: Scene, position: Linear, normals: Linear, look: Look) -> Linear:
    """Pools of light under the nearest street lamps, computed at half size: they are smooth."""
    eye = (scene.pose.easting, scene.pose.northing)
    near = sorted(
        (math.dist(at, eye), at, side, plan.street.right)
        for plan in scene.plans
        for at, side in plan.lamps
        if math.dist(at, eye) < 75
    )[:8]
    small, facing = position[::2, ::2], normals[::2, ::2]
    total = np.zeros(small.shape[:2], np.float32)
    for _, at, side, right in near:
        x, y = at[0] - 1.5 * side * right[0] - eye[0], at[1] - 1.5 * side * right[1] - eye[1]
        way = np.array([x, y, 6.9 - scene.pose.height], np.float32) - small
        square = np.einsum("ijk,ijk->ij", way, way) + 1
        cosine = np.clip(np.einsum("ijk,ijk->ij", way, facing), 0, None) / np.sqrt(square)
        below = np.clip(way[..., 2] / np.sqrt(square) + 0.1, 0, 1)
        total += (0.25 + 0.75 * cosine) * below / square
    height, width = position.shape[:2]
    full = cv2.resize(total, (width, height), interpolation=cv2.INTER_LINEAR)
    return full[..., None] * (_LAMP * (9.0 * look.lamplight))


def _headlights(rays: Linear, depth: Linear, look: Look) -> Linear:
    """Beam of the camera's own car: strongest straight ahead and a little down."""
    middle = rays[len(rays) // 2, rays.shape[1] // 2]
    unit = rays / np.linalg.norm(rays, axis=-1, keepdims=True)
    side = unit @ np.array([middle[1], -middle[0], 0.0], np.float32)
    drop = unit[..., 2] + 0.09
    beam = np.exp(-((side / 0.33) ** 2) - (drop / 0.12) ** 2)
    strength = 9.0 * look.lamplight / (depth**1.5 + 12)
    return (beam * strength)[..., None] * _HEADLIGHT


def _reflect(colours: Linear, scene: Scene, wet: Linear, rays: Linear) -> Linear:
    """Mirror what stands above the horizon in the wet ground, drawn out as by a rough surface."""
    height, width = wet.shape
    focal = width / 2 / max(1e-6, float(np.linalg.norm(rays[0, 0] - rays[0, -1])) / 2)
    # The horizon is a line across the picture: where rays are level.
    level = height / 2 + focal * math.tan(scene.pose.pitch)
    tilt = math.tan(scene.pose.roll)
    x = np.arange(width, dtype=np.float32)[None] * np.ones((height, 1), np.float32)
    y = np.arange(height, dtype=np.float32)[:, None]
    horizon = level - (x - width / 2) * np.float32(tilt)
    source = (2 * horizon - y).astype(np.float32)
    mirrored = cv2.remap(colours, x, source, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    mirrored = cv2.blur(mirrored, (3, 11))
    # Grazing light is reflected, steep light is not.
    grazing = np.clip(1 - (y - horizon) / (0.75 * height), 0.25, 1) ** 2
    return colours + mirrored * (wet * grazing)[..., None] * 0.75
