"""The page of the demonstration: one HTML file that needs nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from shlex import quote
from string import Template

import numpy as np
from numpy.typing import NDArray

from displace.files.atomic import write_whole
from displace.maps.calibration import area_under_curve, reliability
from displace.recall import percent
from displace.report.demonstration import Demo
from displace.report.html.markup import method_row, own_file, thumbnail
from displace.report.html.route_drawing import belief_chart, confidences, reliability_plot, route_map
from displace.report.html.sections import duels_html
from displace.truth import Flags

SURE = 0.8
"""Confidence above which the page counts matches as sure."""
SHOWN_IN = "sun"
"""Traversal whose pictures represent the places."""
OWN_TITLE, RIVAL = "the map", "hops"
APART = 6
"""Examples of one kind are at least this many places apart."""
WIDTH, QUALITY = 320, 80
"""Of the pictures."""


def write_demo_page(demo: Demo) -> None:
    """Write the page to ``demo.html`` in the demonstration's folder."""
    page = Template(own_file("demo.html"))
    write_whole(demo.page, page.substitute(_parts(demo), css=own_file("report.css")))


def _parts(demo: Demo) -> dict[str, str]:
    """Values of the template's names."""
    singles = [value for found in demo.singles.values() for value in found.values()]
    return {
        "summary": summary(demo),
        "query": escape(demo.query),
        "n_queries": str(len(demo.queries)),
        "n_traversals": str(len(demo.place_map.traversals)),
        "right_is": demo.meaning,
        "protocol": demo.protocol.name,
        "conditions": _conditions_strip(demo),
        "map": route_map(demo),
        "drive": _drive(demo),
        "examples": _examples(demo),
        "fusions": _fusions(demo),
        "worst": escape(demo.worst_sentence),
        "leads": duels_html([demo.finding]),
        "singles": _singles(demo),
        "singles_range": f"{min(singles):.1f} to {max(singles):.1f} %",
        "confidence": _confidence(demo),
        "folder": escape(quote(demo.folder.as_posix())),
        "first": escape(demo.queries.images[len(demo.queries) // 2]),
    }


def summary(demo: Demo) -> str:
    """Describe in one sentence how the map did on the query."""
    rival = demo.score(RIVAL)
    best, found = max(demo.singles[demo.query].items(), key=lambda item: item[1])
    return (
        f"Built from {len(demo.place_map.traversals)} drives, none of them at {demo.query}, a map of "
        f"{demo.map_file.stat().st_size / 1e6:.1f}&nbsp;MB locates "
        f"<b>{percent(demo.right):.1f}&nbsp;%</b> of {len(demo.queries)} pictures taken at {demo.query}, "
        f"{demo.by_descriptors:.1f}&nbsp;% by their descriptors alone. {rival.row.label} locates "
        f"{rival.recall_1:.1f}&nbsp;% by descriptors, plain matching in the best single drive ({best}) "
        f"{found:.1f}&nbsp;%."
    )


@dataclass(frozen=True)
class Kind:
    """Queries with the same outcome for the map and the rival."""

    title: str
    rows: NDArray[np.intp]
    """All queries of the kind."""
    shown: list[int]
    """Those that are shown: the most confident ones, not too close together."""


def kinds(demo: Demo) -> list[Kind]:
    """Sort the queries by who located them correctly, and choose examples by a fixed rule."""
    block, title = demo.blocks[demo.query], demo.score(RIVAL).row.label
    own, rival = demo.right, block.ranking(title).hits()
    wanted: list[tuple[str, Flags, int]] = [
        (f"The map is right, {title} is wrong", own & ~rival, 4),
        ("Both are right", own & rival, 2),
        (f"{title} is right, the map is wrong", ~own & rival, 1),
        ("Both are wrong", ~own & ~rival, 1),
    ]
    surest = np.argsort(-confidences(demo), kind="stable")
    return [_kind(label, flags, surest, count) for label, flags, count in wanted]


def _kind(title: str, flags: Flags, surest: NDArray[np.intp], count: int) -> Kind:
    """Take the most confident queries of a kind that are not neighbours."""
    shown: list[int] = []
    for row in surest[flags[surest]].tolist():
        if len(shown) < count and all(abs(row - other) >= APART for other in shown):
            shown.append(row)
    return Kind(title, np.flatnonzero(flags), shown)


def _drive(demo: Demo) -> str:
    """Describe the result of following, and show the belief over time."""
    drive, alone = demo.drive, percent(demo.right)
    precision, found = drive.off_map["followed"]
    return (
        f"<p>Each picture by itself is located correctly in {alone:.1f} % of cases. Followed as frames of a drive, "
        f"<b>{drive.recalls['followed']:.1f} %</b> are, and smoothed afterwards, with all frames known, "
        f"<b>{drive.recalls['smoothed']:.1f} %</b>. If the map lacks a fifth of the places, {100 * found:.0f} % "
        f"of the frames there are reported as off the map, and {100 * precision:.0f} % of these reports are right.</p>"
        f'<div class="card">{belief_chart(drive)}</div>'
        "<p>The belief while following: frames from left to right, the route from bottom to top. The dotted line is "
        "the truth, the band is the stretch that the map lacks, and the curve below is the probability of being off "
        "the map.</p>"
    )


def _examples(demo: Demo) -> str:
    parts = []
    for kind in kinds(demo):
        share = f"{len(kind.rows)} of {len(demo.queries)}"
        parts.append(f"<h3>{escape(kind.title)} <small>{share} pictures</small></h3>")
        parts += [_example(demo, row) for row in kind.shown]
    return "\n".join(parts)


def _example(demo: Demo, row: int) -> str:
    """Show one query, its true place, and what the map and the rival found, framed by who is right."""
    block, rival = demo.blocks[demo.query], demo.score(RIVAL).row.label
    ranking = block.ranking(rival)
    own = str(demo.queries.places[row])
    found = [
        (OWN_TITLE, str(demo.matches.places[row, 0]), bool(demo.right[row])),
        (rival, str(block.questions.place_ids[ranking.places[row, 0]]), bool(ranking.correct[row, 0])),
    ]
    cells = [
        _picture(demo, demo.query, own, f"query, {demo.query}", f"place {own}"),
        _picture(demo, SHOWN_IN, own, f"where it was, in {SHOWN_IN}", f"place {own}"),
    ]
    for title, placed, right in found:
        sure = f", confidence {confidences(demo)[row]:.2f}" if title == OWN_TITLE else ""
        caption = f"{'✓' if right else '✗'} {title}: {'right' if right else 'wrong'}"
        kind = "right" if right else "wrong"
        cells.append(_picture(demo, SHOWN_IN, placed, caption, f"place {placed}{sure}", kind))
    return f'<div class="example">{"".join(cells)}</div>'


def _conditions_strip(demo: Demo) -> str:
    place = str(demo.queries.places[len(demo.queries) // 2])
    return "".join(
        _picture(demo, name, place, name, "the query" if name == demo.query else "in the map")
        for name in demo.table.queries
    )


def _picture(demo: Demo, traversal: str, place: str, caption: str, detail: str, kind: str = "") -> str:
    """One picture of the town with its caption."""
    picture = thumbnail(demo.folder / "town" / traversal / f"{place}.jpg", WIDTH, QUALITY)
    return (
        f'<figure class="{kind}"><img width="{WIDTH}" height="{WIDTH * 3 // 4}" alt="{escape(caption)}" '
        f'src="data:image/jpeg;base64,{picture}"><figcaption>{escape(caption)}<small>{escape(detail)}</small>'
        "</figcaption></figure>"
    )


def _fusions(demo: Demo) -> str:
    rows = []
    for score in demo.scores:
        effort, star = score.effort, "" if score.storable else " *"
        rest = (
            f"{_bar(score.recall_1)}{_bar(score.recall_5)}{_bar(score.mean)}<td>{effort.seconds:.2f}</td>"
            f"<td>{effort.milliseconds:.3f}</td><td>{effort.n_bytes / 1e6:.1f}</td>"
        )
        rows.append(method_row(score.row.label + star, score.row.fusion, True, rest))
    return "\n".join(rows)


def _bar(value: float) -> str:
    return f'<td class="bar" style="--value:{value:.1f}"><span>{value:.1f}</span></td>'


def _singles(demo: Demo) -> str:
    names = demo.table.queries
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    rows = [f'<tr><td class="corner">query ↓ &ensp; searched in →</td>{head}</tr>']
    for query, found in demo.singles.items():
        cells = (
            f'<td class="heat" style="--value:{found[name]:.1f}">{found[name]:.1f}</td>'
            if name in found
            else "<td>–</td>"
            for name in names
        )
        rows.append(f'<tr><th scope="row">{escape(query)}</th>{"".join(cells)}</tr>')
    return "\n".join(rows)


def _confidence(demo: Demo) -> str:
    """Reliability of the confidence on held-out drives and on the query, or why the map has none."""
    calibration = demo.place_map.calibration
    if calibration is None:
        return "<p>This map has no confidence, because the held-out matches were all right or all wrong.</p>"
    confidence, right = confidences(demo), demo.right
    sure = confidence >= SURE
    plot = reliability_plot(
        [
            ("held-out drives", "held-out", calibration.curve),
            (demo.query, "own", reliability(confidence, right)),
        ]
    )
    auc = f"{area_under_curve(confidence, right):.2f}" if 0 < right.sum() < len(right) else "not defined"
    answered = (
        f"Of the {sure.sum()} {demo.query} pictures with a confidence of {SURE} or more, "
        f"{percent(right[sure]):.1f} % were located correctly"
        if sure.any()
        else f"No {demo.query} picture reached a confidence of {SURE}"
    )
    return f"""<div class="beside"><div>{plot}</div><div>
<p>{answered}; of all {len(right)}, {percent(right):.1f} % were.</p>
<ul class="keys">
<li><svg viewBox="0 0 40 16" class="held-out"><polyline points="2,8 38,8"/><circle cx="20" cy="8" r="5"/></svg>
{calibration.n_queries} held-out pictures of the drives in the map, some of them of places removed from it:
AUC {calibration.auc:.2f}, calibration error {calibration.error:.3f}</li>
<li><svg viewBox="0 0 40 16" class="own"><polyline points="2,8 38,8"/><rect x="15" y="3" width="10" height="10"/></svg>
the {len(right)} pictures at {demo.query}, a condition that the confidence was never fitted on:
AUC {auc}</li>
<li><svg viewBox="0 0 40 16"><path class="ideal" d="M2 14L38 2"/></svg>
a perfect confidence; below this line it is too high. Larger marks stand for more pictures.</li>
</ul></div></div>"""
