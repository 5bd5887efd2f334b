"""The drawings of the page, as SVG: the route with what was located where, and the reliability of the confidence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from displace.geo import Numbers
from displace.report.demonstration import Demo, NightDrive

WIDTH = 1160.0
MARGIN = 28.0
ARC_HEIGHT = 0.22
"""Height of the arc of a wrong match, as a share of its length."""
MAX_ARC = 125.0
_LEAST_SHOWN = 0.03
"""Beliefs below are not drawn."""


def route_map(demo: Demo) -> str:
    """Draw the route with each query at its true position: a disc if it was located correctly, else a cross.

    An arc leads from a cross to where the query was placed: above the route when too far ahead, below when too far
    back. The opacity is the confidence.
    """
    truth, places, found, north = _on_paper(demo)
    order = np.argsort(demo.place_map.place_ids.astype(np.str_))
    confidence, right = confidences(demo), demo.right
    marks = [
        _mark(demo, row, truth[row], found[row], float(confidence[row]), bool(right[row]))
        for row in np.argsort(right, kind="stable")  # right ones on top
    ]
    peaks = [_peak(truth[row], found[row])[1] for row in np.flatnonzero(~right)]
    heights = np.array([*truth[:, 1], *peaks])
    low, high = heights.min() - MARGIN, heights.max() + MARGIN
    road = " ".join(f"{x:.1f},{y:.1f}" for x, y in places[order])
    return "\n".join(
        [
            f'<svg class="route" viewBox="0 {low:.0f} {WIDTH:.0f} {high - low:.0f}" role="img" '
            f'aria-label="Map of the route with {len(marks)} located pictures">',
            f'<polyline class="verge" points="{road}"/><polyline class="road" points="{road}"/>',
            *marks,
            *_legend(places[order], low, high, north, demo),
            "</svg>",
        ]
    )


def confidences(demo: Demo) -> Numbers:
    """Confidence of each query; 1 where the map has no calibration."""
    if demo.matches.confidence is None:
        return np.ones(len(demo.matches))
    return np.asarray(demo.matches.confidence, np.float64)


def _on_paper(demo: Demo) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Positions of queries, places and matches, and the direction of north.

    The route's long axis lies across the drawing, from its beginning on the left; y downwards.
    """
    truth, mapped, matched = demo.queries.positions(), demo.place_map.positions, demo.matches.positions
    assert truth is not None
    assert mapped is not None
    assert matched is not None
    places, found = mapped.metres(), matched.metres()
    middle = places.mean(axis=0)
    axis = np.linalg.svd(places - middle, full_matrices=False)[2][0]
    axis = axis * np.sign((places[-1] - places[0]) @ axis)
    turn = np.column_stack([axis, [axis[1], -axis[0]]])  # the second one is to the right: down on paper
    across = (places - middle) @ turn
    scale = (WIDTH - 2 * MARGIN) / np.ptp(across[:, 0])
    shift = np.array([MARGIN - scale * across[:, 0].min(), 0.0])
    on = [(points - middle) @ turn * scale + shift for points in (truth, places, found)]
    return on[0], on[1], on[2], np.array([[0.0, 1.0]]) @ turn * scale


def _mark(demo: Demo, row: int, at: Numbers, found: Numbers, confidence: float, right: bool) -> str:
    """One query: a disc, or a cross with the arc to where it was placed."""
    own, placed = demo.queries.places[row], demo.matches.places[row, 0]
    words = f"place {own} located at {placed}: {'right' if right else 'wrong'}, confidence {confidence:.2f}"
    x, y = at
    if right:
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
    else:
        # A quadratic curve passes half-way between its chord and its control point.
        bend = 2 * _peak(at, found) - (at + found) / 2
        shape = (
            f'<path class="arc" d="M{x:.1f} {y:.1f}Q{bend[0]:.1f} {bend[1]:.1f} '
            f'{found[0]:.1f} {found[1]:.1f}"/>'
            f'<path class="cross" d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"/>'
        )
    opacity = max(0.12, confidence)
    return (
        f'<g class="query {"right" if right else "wrong"}" data-confidence="{confidence:.3f}" '
        f'opacity="{opacity:.2f}"><title>{words}</title>{shape}</g>'
    )


def _peak(at: Numbers, found: Numbers) -> Numbers:
    """Highest point of the arc from a wrong match's true position to where it was placed."""
    height = min(ARC_HEIGHT * float(np.linalg.norm(found - at)), MAX_ARC)
    peak: Numbers = (at + found) / 2 + np.array([0.0, -height if found[0] > at[0] else height])
    return peak


def _legend(road: Numbers, low: float, high: float, north: Numbers, demo: Demo) -> list[str]:
    """Beginning and end of the route, a scale and north."""
    hundred = 100 * float(np.linalg.norm(north))
    nx, ny = (north[0] / np.linalg.norm(north)).tolist()
    y, x = high - 22, WIDTH - MARGIN - hundred
    ax, ay = WIDTH - MARGIN - 14, low + 30
    (sx, sy), (ex, ey) = road[0], road[-1]
    return [
        f'<text x="{sx:.0f}" y="{sy + 30:.0f}">place {demo.place_map.place_ids[0]}</text>',
        f'<text x="{ex:.0f}" y="{ey + 30:.0f}" text-anchor="end">{demo.place_map.place_ids[-1]}</text>',
        f'<path class="scale" d="M{x:.1f} {y - 4:.1f}v4h{hundred:.1f}v-4"/>',
        f'<text x="{x + hundred / 2:.1f}" y="{y + 16:.1f}" text-anchor="middle">100 m</text>',
        f'<path class="scale" d="M{ax - 16 * nx:.1f} {ay - 16 * ny:.1f}L{ax + 16 * nx:.1f} {ay + 16 * ny:.1f}"/>',
        f'<circle class="tip" cx="{ax + 16 * nx:.1f}" cy="{ay + 16 * ny:.1f}" r="3"/>',
        f'<text x="{ax + 27 * nx:.1f}" y="{ay + 27 * ny + 4:.1f}" text-anchor="middle">N</text>',
    ]


def belief_chart(drive: NightDrive) -> str:
    """Draw the belief of each frame over the places, and the probability of being off the map."""
    n, tall, strip, left = len(drive.missing), 300.0, 56.0, 60.0
    wide, high = (WIDTH - left) / n, tall / n
    gone = np.flatnonzero(drive.missing)
    first, last = (gone[0], gone[-1] + 1) if len(gone) else (0, 0)
    parts = [
        f'<svg class="belief" viewBox="0 0 {WIDTH:.0f} {tall + strip + 24:.0f}" role="img" '
        'aria-label="Belief over time along the route">',
        f'<rect class="missing" x="{left:.1f}" y="{tall - high * last:.1f}" width="{WIDTH - left:.1f}" '
        f'height="{high * (last - first):.1f}"/>',
    ]
    for frame, fix in enumerate(drive.fixes):
        belief = fix.belief
        for at in np.flatnonzero(belief >= _LEAST_SHOWN).tolist():
            x, y = left + wide * frame, tall - high * (int(drive.places[at]) + 1)
            parts.append(
                f'<rect x="{x:.1f}" y="{y - 1:.1f}" width="{wide:.1f}" height="{high + 2:.1f}" '
                f'opacity="{min(1.0, 0.1 + float(belief[at])):.2f}"/>'
            )
    parts.append(f'<path class="ideal" d="M{left} {tall}L{WIDTH} 0"/>')
    base = tall + strip
    line = " ".join(
        f"{left + wide * (frame + 0.5):.1f},{base - strip * 0.85 * fix.off_map:.1f}"
        for frame, fix in enumerate(drive.fixes)
    )
    parts.append(f'<polyline class="off" points="{left},{base} {line} {WIDTH},{base}"/>')
    for words, y in (("route", 16), ("off map", tall + 24)):
        parts.append(f'<text x="0" y="{y:.0f}">{words}</text>')
    parts.append(f'<text x="{WIDTH}" y="{base + 18:.0f}" text-anchor="end">{n} frames →</text></svg>')
    return "\n".join(parts)


def reliability_plot(curves: Sequence[tuple[str, str, Sequence[Sequence[float]]]]) -> str:
    """Draw how often matches of each confidence were right: of each curve its label, its class and its rows.

    A row is the mean confidence, the share of right matches and the number of queries.
    """
    size, left, top = 300.0, 66.0, 12.0
    parts = [
        '<svg class="reliability" viewBox="0 0 396 364" role="img" aria-label="Reliability of the confidence">'
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = left + size * tick, top + size * (1 - tick)
        parts.append(f'<path class="grid" d="M{left} {y}h{size}M{x} {top}v{size}"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{100 * tick:.0f} %</text>')
        parts.append(f'<text x="{x}" y="{top + size + 18}" text-anchor="middle">{100 * tick:.0f} %</text>')
    parts.append(f'<path class="ideal" d="M{left} {top + size}L{left + size} {top}"/>')
    for _, kind, curve in curves:
        points = [(left + size * p, top + size * (1 - share), n) for p, share, n in curve]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
        parts.append(f'<g class="{kind}"><polyline points="{line}"/>')
        parts += [_point(kind, x, y, 2.5 + 0.28 * float(np.sqrt(n)), n) for x, y, n in points]
        parts.append("</g>")
    parts.append(
        f'<text x="{left + size / 2}" y="{top + size + 42}" text-anchor="middle">confidence</text>'
        f'<text transform="translate(16 {top + size / 2}) rotate(-90)" text-anchor="middle">'
        "matches that were right</text>"
        "</svg>"
    )
    return "\n".join(parts)


def _point(kind: str, x: float, y: float, r: float, n: float) -> str:
    """A disc, or a square for the query's own curve, so that they differ without colour."""
    words = f"<title>{n:.0f} pictures</title>"
    if kind == "own":
        return (
            f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r:.1f}" height="{2 * r:.1f}">{words}</rect>'
        )
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}">{words}</circle>'
