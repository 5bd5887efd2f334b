"""The page of the demonstration: one HTML file that needs nothing else."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template

from displace.demo.comparison import Comparison
from displace.demo.drawings import confidences, reliability_plot, route_map
from displace.demo.markdown import meaning, worst_sentence
from displace.demo.outcome import Demo
from displace.demo.pictures import RIVAL, example, kinds, picture
from displace.files.atomic import atomic_write
from displace.maps.calibration import area_under_curve, reliability

SURE = 0.8
"""Confidence above which the page counts matches as sure."""


def write_page(demo: Demo) -> None:
    """Write the page to ``demo.html`` in the demonstration's folder."""
    template = Template((files("displace.demo") / "page.html").read_text(encoding="utf-8"))
    with atomic_write(demo.page, "w") as file:
        file.write(template.substitute(_parts(demo)))


def _parts(demo: Demo) -> dict[str, str]:
    """What the template's names stand for."""
    comparison = demo.comparison
    return {
        "summary": summary(demo),
        "query": escape(comparison.query),
        "n_queries": str(len(demo.queries)),
        "n_right": str(int(demo.right.sum())),
        "n_traversals": str(len(demo.town.traversals)),
        "right_is": meaning(comparison),
        "protocol": comparison.protocol.name,
        "conditions": _conditions_strip(demo),
        "map": route_map(demo),
        "examples": _examples(demo),
        "fusions": _fusions(comparison),
        "worst": worst_sentence(comparison),
        "leads": _leads(comparison),
        "singles": _singles(comparison),
        "singles_range": _singles_range(comparison),
        "confidence": _confidence(demo),
        "folder": escape(demo.folder.as_posix()),
        "first": escape(demo.queries.images[len(demo.queries) // 2]),
    }


def summary(demo: Demo) -> str:
    """Say in one sentence how the map did on the query."""
    comparison, query = demo.comparison, demo.comparison.query
    rival = comparison.score(RIVAL)
    best, found = max(comparison.singles[query].items(), key=lambda item: item[1])
    return (
        f"Made of {len(demo.town.traversals)} drives, none of them at {query}, a map of "
        f"{demo.map_file.stat().st_size / 1e6:.1f} MB locates "
        f"<b>{100 * demo.right.mean():.1f} %</b> of {len(demo.queries)} pictures taken at {query}; "
        f"{rival.title} locates {rival.recalls[query][1]:.1f} %, plain matching in the best single drive ({best}) "
        f"{found:.1f} %."
    )


def _conditions_strip(demo: Demo) -> str:
    place = str(demo.queries.places[len(demo.queries) // 2])
    return "".join(
        picture(demo, name, place, name, "the query" if name == demo.comparison.query else "in the map")
        for name in demo.comparison.singles
    )


def _examples(demo: Demo) -> str:
    parts = []
    for kind in kinds(demo):
        share = f"{len(kind.rows)} of {len(demo.queries)}"
        parts.append(f"<h3>{escape(kind.title)} <span>{share} pictures</span></h3>")
        parts += [example(demo, row) for row in kind.shown]
    return "\n".join(parts)


def _fusions(comparison: Comparison) -> str:
    rows = []
    for score in comparison.scores:
        recall = score.recalls[comparison.query]
        star = "" if score.storable else "<sup>*</sup>"
        kind = ' class="own"' if score.name == "displace" else ""
        rows.append(
            f"<tr{kind}><th>{escape(score.title)}{star}</th>{_bar(recall[1])}{_bar(recall[5])}{_bar(score.mean)}"
            f"<td>{score.seconds:.2f}</td><td>{score.milliseconds:.3f}</td><td>{score.n_bytes / 1e6:.1f}</td></tr>"
        )
    return "\n".join(rows)


def _bar(value: float) -> str:
    return f'<td class="bar" style="--value:{value:.1f}"><span>{value:.1f}</span></td>'


def _leads(comparison: Comparison) -> str:
    return "\n".join(
        f"<tr><th>{escape(c.name)}</th><td>{c.recall:.1f}</td><td>{c.other_recall:.1f} "
        f"<small>{escape(c.other)}</small></td>"
        f"<td>{c.lead.value:+.1f} <small>[{c.lead.low:+.1f}, {c.lead.high:+.1f}]</small></td>"
        f"<td>{escape(c.verdict)}</td></tr>"
        for c in comparison.conditions
    )


def _singles(comparison: Comparison) -> str:
    names = list(comparison.singles)
    head = (
        '<tr><td class="corner">query ↓ &ensp; searched in →</td>'
        + "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
        + "</tr>"
    )
    rows = [head]
    for query, found in comparison.singles.items():
        cells = (
            f'<td class="heat" style="--value:{found[name]:.1f}">{found[name]:.1f}</td>'
            if name in found
            else "<td>–</td>"
            for name in names
        )
        rows.append(f'<tr><th scope="row">{escape(query)}</th>{"".join(cells)}</tr>')
    return "\n".join(rows)


def _singles_range(comparison: Comparison) -> str:
    values = [value for found in comparison.singles.values() for value in found.values()]
    return f"{min(values):.1f} to {max(values):.1f} %"


def _confidence(demo: Demo) -> str:
    """The reliability of the confidence, on held-out drives and on the query; or why there is none."""
    calibration = demo.town.calibration
    if calibration is None:
        return "<p>The held-out matches were all right or all wrong, so that this map has no confidence.</p>"
    confidence, right = confidences(demo), demo.right
    sure = confidence >= SURE
    plot = reliability_plot(
        [
            ("held-out drives", "held-out", calibration.curve),
            (demo.comparison.query, "own", reliability(confidence, right)),
        ]
    )
    auc = f"{area_under_curve(confidence, right):.2f}" if 0 < right.sum() < len(right) else "not defined"
    answered = (
        f"Of the {sure.sum()} {demo.comparison.query} pictures with a confidence of {SURE} or more, "
        f"{100 * right[sure].mean():.1f} % were located rightly"
        if sure.any()
        else f"No {demo.comparison.query} picture reached a confidence of {SURE}"
    )
    return f"""<div class="beside"><div>{plot}</div><div>
<p>{answered}; of all {len(right)} it was {100 * right.mean():.1f} %.</p>
<ul class="keys">
<li><svg viewBox="0 0 40 16" class="held-out"><polyline points="2,8 38,8"/><circle cx="20" cy="8" r="5"/></svg>
{calibration.n_queries} held-out pictures of the drives in the map, some of places that were removed from it:
AUC {calibration.auc:.2f}, calibration error {calibration.error:.3f}</li>
<li><svg viewBox="0 0 40 16" class="own"><polyline points="2,8 38,8"/><rect x="15" y="3" width="10" height="10"/></svg>
the {len(right)} pictures at {demo.comparison.query}, a condition that the confidence was never fitted on:
AUC {auc}</li>
<li><svg viewBox="0 0 40 16"><path class="ideal" d="M2 14L38 2"/></svg>
what a perfect confidence would say; below it is too sure. Larger marks stand for more pictures.</li>
</ul></div></div>"""
