"""How to repeat the results: versions, machine, descriptors, methods and commands."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from shlex import quote

from displace.evaluation.benchmark import COMMANDS
from displace.evaluation.record import Result
from displace.evaluation.studies.study_files import KINDS, kind_of, load_studies
from displace.files.reading import text_of
from displace.report.html.markup import cells, folded, heading, html_table, n_of


def environment_html(results: Sequence[Result], folder: Path) -> str:
    """Versions, descriptors, methods with their settings, suites, and the commands."""
    suites = sorted((folder / "suites").glob("*.toml"))
    shown = [
        folded(f"Suite {path.name}", f"<pre>{escape(text_of(path, 'a suite'))}</pre>") for path in suites
    ]
    name = quote(folder.name)
    typed = folder / "suites" / COMMANDS
    given = text_of(typed, "a list of commands") if typed.exists() else ""
    recorded = {Path(suite).stem for suite in re.findall(r"^displace bench '?([^'\s]+)", given, re.MULTILINE)}
    commands = [
        f"displace bench {quote(path.name)} -o {name}/" for path in suites if path.stem not in recorded
    ]
    commands += [
        *given.splitlines(),
        f"displace table {name}/",
        f"displace report {name}/ -o report.html{_studied(folder)}",
    ]
    return "".join(
        [
            heading("Commands"),
            f"<pre>{escape(chr(10).join(commands))}</pre>",
            *shown,
            heading("Versions and machine"),
            _versions(results),
            heading("Descriptors"),
            _stores(results),
            _methods(results),
        ]
    )


def _studied(folder: Path) -> str:
    """Options of `displace report` that run the studies in the folder."""
    found = [(kind_of(study), study.setting.query) for study in load_studies(folder)]
    kinds = list(dict.fromkeys(kind for kind, _ in found))
    queries = {query for kind, query in found if kind != "tau"}  # tau uses all queries
    option = f" --query {quote(queries.pop())}" if len(queries) == 1 else ""
    named = "all" if len(kinds) == len(KINDS) else ",".join(kinds)
    return f" --studies {named}{option}" if kinds else ""


def _versions(results: Sequence[Result]) -> str:
    """Each combination of versions once."""
    seen = [json.loads(text) for text in dict.fromkeys(json.dumps(result.versions) for result in results)]
    names = list(dict.fromkeys(name for versions in seen for name in versions))
    rows = [f"<tr>{cells(*(versions.get(name, '') for name in names))}</tr>" for versions in seen]
    return html_table("plain", names, rows)


def _stores(results: Sequence[Result]) -> str:
    """Descriptors with their fingerprints."""
    seen = dict.fromkeys((result.dataset, result.model, json.dumps(result.store)) for result in results)
    rows = []
    for dataset, model, text in seen:
        store = json.loads(text)
        made_by = json.dumps(store.get("model", {}), ensure_ascii=False)
        content = str(store.get("content", ""))
        rows.append(f"<tr>{cells(dataset, model)}{_code(content)}{_code(made_by)}</tr>")
    return html_table("plain", ["data set", "model", "content", "how they were made"], rows)


def _code(text: str) -> str:
    return f"<td><code>{escape(text)}</code></td>"


def _methods(results: Sequence[Result]) -> str:
    """Settings of every method that has some, and what it decided by itself; a single reference has but its name."""
    rows = []
    protocols = {result.protocol for result in results}
    for result in results:
        if result.explanation or result.parameters.keys() - {"traversal"}:
            settings = ", ".join(f"{name}={value}" for name, value in result.parameters.items())
            where = [result.dataset, result.model, result.query]
            where += [result.protocol] if len(protocols) > 1 else []
            where += [] if result.projection is None else [f"{result.projection}-D, seed {result.seed}"]
            told = cells(result.label, " · ".join(where), settings or "defaults", result.explanation)
            rows.append(f"<tr>{told}</tr>")
    if not rows:
        return ""
    table = html_table("plain", ["method", "cell", "parameters", "what it decided"], rows)
    return folded(f"Settings of the methods, {n_of(len(rows), 'cell')}", table)
