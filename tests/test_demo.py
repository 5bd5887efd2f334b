"""The demonstration: its numbers against plain numpy and against the documentation, its page, its command."""

from __future__ import annotations

import base64
import dataclasses
import io
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from commands import set_columns
from drawn import copy_drawn
from PIL import Image
from typer.testing import CliRunner

from displace import PlaceMap, build, cli, verbs
from displace.bootstrap import Estimate
from displace.descriptors.store import DescriptorStore
from displace.errors import DisplaceError, InputError
from displace.evaluation.tables import Column
from displace.fusion import FUSIONS
from displace.report.demonstration import demo_markdown
from displace.report.html.demo_page import kinds, write_demo_page
from displace.report.html.findings import verdict as in_words
from displace.report.html.route_drawing import route_map
from displace.synthetic import make_route
from displace.verbs.demo import check_own

ROOT = Path(__file__).resolve().parent.parent
CONDITIONS = ["sun", "overcast", "rain", "dusk", "night", "snow"]
VOID = {"meta", "img", "input", "br"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    copy_drawn(folder / "town", 200)
    return verbs.demo(folder)


@pytest.fixture(scope="module")
def vectors(demo):
    """Descriptors of each condition, row i being place i."""
    store = DescriptorStore(demo.folder / "town.desc")
    return {name: store.queries(name).vectors for name in CONDITIONS}


@pytest.fixture(scope="module")
def page(demo):
    return demo.page.read_text(encoding="utf-8")


def fill_disk(monkeypatch):
    """Let the disk take no file any more: every one is written through `os.replace`."""

    def replace(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("displace.files.atomic.os.replace", replace)


def test_a_full_disk_is_one_message(tmp_path, monkeypatch):
    copy_drawn(tmp_path / "d" / "town", 20)
    fill_disk(monkeypatch)
    done = CliRunner().invoke(cli.app, ["demo", "--folder", str(tmp_path / "d"), "--places", "20"])
    assert done.exit_code == 2
    assert isinstance(done.exception, SystemExit)  # no traceback
    assert "No space left on device" in " ".join(done.stderr.split())
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_disk_that_is_full_while_the_town_is_drawn_is_one_message(tmp_path, monkeypatch):
    def replace(source, target, replace=os.replace):
        if str(target).endswith(".jpg"):
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr("displace.descriptors.preparation.n_cores", lambda: 1)
    monkeypatch.setattr("displace.files.atomic.os.replace", replace)
    done = CliRunner().invoke(cli.app, ["demo", "--folder", str(tmp_path / "d"), "--places", "20"])
    assert done.exit_code == 2
    assert isinstance(done.exception, SystemExit)  # no traceback
    assert "No space left on device" in " ".join(done.stderr.split())


def test_a_disk_that_is_full_at_the_end_leaves_the_page_as_it_was(demo, page, monkeypatch):
    fill_disk(monkeypatch)
    for write in (lambda: write_demo_page(demo), lambda: demo.place_map.save(demo.map_file)):
        with pytest.raises(DisplaceError, match="No space left on device"):
            write()
    assert demo.page.read_text(encoding="utf-8") == page


def right_within_one(scores):
    """Whether the best column is the row's own or a neighbour of it."""
    return abs(scores.argmax(axis=1) - np.arange(len(scores))) <= 1


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("query", CONDITIONS)
def test_hops_pooling_and_singles_are_those_of_plain_numpy(demo, vectors, query):
    others = {name: rows for name, rows in vectors.items() if name != query}
    column, rows = Column("hog", query), vectors[query]
    hops = right_within_one(rows @ unit(sum(others.values())).T)
    assert demo.score("hops").row.value(column) == pytest.approx(100 * hops.mean(), abs=0.51)
    similarities = {name: rows @ other.T for name, other in others.items()}
    pooling = right_within_one(np.max(list(similarities.values()), axis=0))
    assert demo.score("pooling").row.value(column) == pytest.approx(100 * pooling.mean(), abs=0.51)
    singles = {name: 100 * right_within_one(matrix).mean() for name, matrix in similarities.items()}
    assert demo.singles[query] == pytest.approx(singles, abs=0.51)


def test_single_recordings_fail_often_but_not_always(demo):
    recalls = np.array([value for found in demo.singles.values() for value in found.values()])
    assert len(recalls) == 30
    assert np.mean((recalls >= 20) & (recalls <= 80)) >= 0.9


def test_the_saved_map_locates_what_the_demo_says(demo, vectors):
    town = PlaceMap.load(demo.map_file)
    assert list(town.traversals) == sorted(set(CONDITIONS) - {"night"})
    by_descriptors = town.locate(vectors["night"], k=1).places[:, 0].astype(int)
    recall = 100 * np.mean(abs(by_descriptors - np.arange(200)) <= 1)
    assert recall == pytest.approx(demo.score("displace").recall_1, abs=0.51)
    photos = sorted((demo.folder / "town" / "night").glob("*.jpg"))
    placed = town.locate(photos, k=1).places[:, 0].astype(int)
    right = abs(placed - np.arange(200)) <= 1
    np.testing.assert_array_equal(right, demo.right)
    assert 100 * right.mean() > recall + 10  # photos are compared with the places' pictures


def test_the_tolerance_of_the_confidence_is_the_protocol(demo):
    """Nine metres reach the neighbours and, but for the sharpest bends, no other place."""
    points = demo.place_map.positions.metres()
    away = np.linalg.norm(points[:, None] - points[None], axis=2)
    apart = abs(np.subtract.outer(np.arange(200), np.arange(200)))
    assert (away[apart == 1] <= demo.place_map.tolerance.value).all()
    assert np.mean(away[apart == 2] <= demo.place_map.tolerance.value) < 0.02


def test_all_fusions_are_compared_best_first(demo):
    scores = demo.scores
    assert {score.row.fusion for score in scores} == set(FUSIONS.names())
    means = [score.mean for score in scores]
    assert means == sorted(means, reverse=True)
    assert {score.row.fusion for score in scores if not score.storable} == {
        "bsf",
        "dmat_min",
        "dmat_med",
        "std_dmat_min",
        "subspace",
    }
    for score in scores:
        assert score.mean == pytest.approx(np.mean([recall(score, name) for name in CONDITIONS]))
        assert score.effort.seconds > 0
        assert score.effort.milliseconds > 0


def recall(score, query):
    return score.row.value(Column("hog", query))


def test_the_worst_condition_has_the_smallest_lead(demo):
    leads = {
        name: recall(demo.score("displace"), name)
        - max(recall(score, name) for score in demo.scores if score.row.fusion != "displace")
        for name in CONDITIONS
    }
    worst = demo.finding.worst.column.query
    assert worst == min(leads, key=leads.get)
    found = {duel.column.query: duel.difference.value for duel in demo.finding.wins.duels}
    assert found == pytest.approx(leads)
    assert f"on {worst}:" in demo_markdown(demo)


@pytest.mark.parametrize(
    ("lead", "verdict"),
    [
        (Estimate(5, 1, 9), "ahead"),
        (Estimate(5, -1, 9), "ahead, not significantly"),
        (Estimate(-5, -9, -1), "behind"),
        (Estimate(-2, -5, 1), "behind, not significantly"),
        (Estimate(0, -1, 1), "level"),
    ],
    ids=str,
)
def test_a_lead_in_words(lead, verdict):
    assert in_words(lead) == verdict


def cells(text):
    """Rows of the Markdown tables of a text, by their first cell and their header."""
    rows, head = {}, ""
    for line in text.splitlines():
        if not line.startswith("|"):
            head = ""
            continue
        first, *rest = (cell.strip() for cell in line.strip("|").split("|"))
        head = head or first
        if set(first) != {"-"} and first != head:
            rows[head, first] = rest
    return rows


PAGES = [
    page
    for page in (ROOT / "README.md", ROOT / "docs" / "demo.md")
    if "<!-- tables" in page.read_text("utf-8")
]


@pytest.mark.parametrize("page_with_tables", PAGES, ids=lambda page: page.name)
def test_documented_recalls_are_those_of_a_run(demo, page_with_tables):
    """Recalls only: times belong to a machine. Rounding of pixels elsewhere may move a picture or two of 200."""
    text = page_with_tables.read_text(encoding="utf-8")
    documented = cells(text.partition("<!-- tables")[2].partition("<!-- end")[0])
    made = cells(demo_markdown(demo))
    assert len(documented) >= 9
    assert documented.keys() <= made.keys()
    for (head, first), known in documented.items():
        values = made[head, first]
        compared = values[:3] if head == "fusion" else values[:1] if head == "query" else values
        for value, written in zip(compared, known, strict=False):
            if value != "–":
                assert float(value) == pytest.approx(float(written), abs=1.01), f"{head}, {first}"


def test_the_documentation_has_every_table(demo):
    text = (ROOT / "docs" / "demo.md").read_text(encoding="utf-8")
    documented = cells(text.partition("<!-- tables")[2].partition("<!-- end")[0])
    assert documented.keys() == cells(demo_markdown(demo)).keys()
    assert len(documented) == len(FUSIONS.names()) + 6 + 6 + 3


def test_what_pictures_add_is_told_apart_from_what_descriptors_tell(demo, page):
    """HOPS has descriptors alone: a share with pictures beside its would compare two things."""
    lead = " ".join(page.partition('<p class="lead">')[2].partition("</p>")[0].replace("&nbsp;", " ").split())
    assert f"<b>{100 * demo.right.mean():.1f} %</b>" in lead
    assert f"{demo.by_descriptors:.1f} % by their descriptors alone" in lead
    assert demo.by_descriptors == demo.score("displace").recall_1


def test_the_night_is_followed_as_a_drive(demo, page):
    assert demo.drive.recalls["smoothed"] >= demo.drive.recalls["followed"] > 100 * demo.right.mean() + 10
    assert demo.drive.missing.sum() == 40
    assert min(precision for precision, _ in demo.drive.off_map.values()) >= 0.8
    chart = page.partition('<svg class="belief"')[2].partition("</svg>")[0]
    assert '<rect class="missing"' in chart
    assert '<polyline class="off"' in chart
    assert chart.count("<rect x=") > 200  # what each frame may show
    assert "reported as off the map" in page


def test_documented_confidence_is_that_of_a_run(demo):
    n_sure, n_right = map(
        int,
        re.search(
            r"Of the (\d+) night pictures with a\s+confidence of 0.8 or more, (\d+) are right",
            (ROOT / "docs" / "demo.md").read_text(encoding="utf-8"),
        ).groups(),
    )
    sure = demo.matches.confidence >= 0.8
    assert sure.sum() == pytest.approx(n_sure, abs=2)
    assert demo.right[sure].sum() == pytest.approx(n_right, abs=2)


class Tags(HTMLParser):
    """Collects tags with attributes, and fails where they are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.found, self.open = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def of(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


def test_the_page_is_one_file_without_a_network(page):
    tags = Tags(page)
    assert len(page) < 3_000_000
    assert "://" not in page
    assert not re.search(r"@import|url\(", page)
    assert all("src" not in script for script in tags.of("script"))
    assert not tags.of("link")
    for image in tags.of("img"):
        kind, _, data = image["src"].partition(",")
        assert kind == "data:image/jpeg;base64"
        assert Image.open(io.BytesIO(base64.b64decode(data))).size == (320, 240)
        assert image["alt"]
    assert "$" not in page.partition("</style>")[2], "a name of the template was left"


def test_the_page_draws_every_query_with_its_outcome(demo, page):
    marks = [m for m in Tags(page).of("g") if "query" in m.get("class", "").split()]
    assert len(marks) == 200
    assert sum("right" in mark["class"].split() for mark in marks) == demo.right.sum()
    drawn = sorted(float(mark["data-confidence"]) for mark in marks)
    np.testing.assert_allclose(drawn, np.sort(demo.matches.confidence), atol=6e-4)
    confidence, opacity = (
        np.array([float(mark[name]) for mark in marks]) for name in ("data-confidence", "opacity")
    )
    assert (np.diff(opacity[np.lexsort((opacity, confidence))]) >= 0).all()  # equal ones differ unrounded
    assert page.count('class="cross"') == (~demo.right).sum() + 1  # and one in the legend


def test_the_route_is_drawn_to_scale_and_not_mirrored(demo):
    road = re.search(r'class="road" points="([^"]+)"', route_map(demo)).group(1)
    drawn = np.array([pair.split(",") for pair in road.split()], float)
    points = demo.place_map.positions.metres()
    lengths = [np.linalg.norm(np.diff(line, axis=0), axis=1) for line in (drawn, points)]
    np.testing.assert_allclose(lengths[0] / lengths[1], (lengths[0] / lengths[1]).mean(), rtol=0.03)
    (ax, ay), (bx, by) = (line[120] - line[0] for line in (drawn, points))
    (cx, cy), (dx, dy) = (line[60] - line[0] for line in (drawn, points))
    # y points down on paper: a turn to the left in the world is one of the opposite sign there.
    assert np.sign(cx * ay - cy * ax) == -np.sign(dx * by - dy * bx)


def test_examples_are_what_their_titles_say(demo, page):
    found = kinds(demo)
    assert sorted(np.concatenate([kind.rows for kind in found]).tolist()) == list(range(200))
    block = demo.blocks["night"]
    hops = block.ranking("HOPS").places[:, 0]
    hops_right = abs(hops - np.arange(200)) <= 1
    wanted = [(True, False), (True, True), (False, True), (False, False)]
    for kind, outcome in zip(found, wanted, strict=True):
        assert kind.shown
        assert {(bool(demo.right[row]), bool(hops_right[row])) for row in kind.shown} == {outcome}
        sure = demo.matches.confidence
        assert kind.shown[0] == max(kind.rows.tolist(), key=lambda row: sure[row])
    shown = sum(len(kind.shown) for kind in found)
    assert page.count('<figure class="right">') + page.count('<figure class="wrong">') == 2 * shown


def test_a_page_of_a_map_without_confidence(demo, tmp_path):
    (tmp_path / "town").symlink_to(demo.folder / "town")
    shutil.copy(demo.map_file, tmp_path)
    matches = dataclasses.replace(demo.matches, confidence=None)
    bare = dataclasses.replace(
        demo,
        folder=tmp_path,
        matches=matches,
        place_map=demo.place_map.changed(calibration=None),
    )
    write_demo_page(bare)
    text = bare.page.read_text(encoding="utf-8")
    assert "This map has no confidence" in text
    assert Tags(text).of("svg")


def test_the_page_runs_in_a_browser(demo):
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("no chromium to open the page with")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--dump-dom"]
    shown = subprocess.run(
        [browser, *flags, demo.page.as_uri()], capture_output=True, text=True, check=True
    ).stdout
    told = re.search(r'<output id="told"[^>]*>([^<]*)<', shown).group(1)
    assert told == f"0.00: 200 of 200 answered, {100 * demo.right.mean():.1f} % of them right"


def test_the_command_keeps_what_is_drawn(tmp_path, monkeypatch):
    folder = tmp_path / "small"
    copy_drawn(folder / "town", 20)
    times = {path: path.stat().st_mtime_ns for path in folder.rglob("*.jpg")}
    set_columns(100, monkeypatch)
    done = CliRunner().invoke(cli.app, ["demo", "--folder", str(folder), "--places", "20"])
    assert done.exit_code == 0, done.output
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.jpg")} == times
    for name in ("DisPlace", "HOPS", "Pooling", "BSF", "Single", "town-1", "does worst", "demo.html"):
        assert name in done.output
    assert {path.name for path in folder.iterdir()} >= {
        "demo.html",
        "demo.md",
        "town.desc",
        "town.displace",
        "demo_results",
    }


@pytest.mark.parametrize("places", [19, 2001])
def test_a_number_of_places_out_of_range_is_refused_before_anything_is_drawn(tmp_path, places):
    done = CliRunner().invoke(cli.app, ["demo", "--folder", str(tmp_path / "d"), "--places", str(places)])
    assert done.exit_code == 2
    assert f"places={places} must be from 20 to 2000" in " ".join(done.output.split())
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("name", ["town.displace", "town.desc", "demo.html"])
def test_nothing_of_the_user_is_replaced(tmp_path, name):
    """Such as a map of the user's own town, which the demonstration used to overwrite."""
    own = tmp_path / name
    own.write_bytes(b"the user's")
    with pytest.raises(
        InputError, match="was not made by displace demo and would be replaced: choose another"
    ):
        verbs.demo(tmp_path, places=20)
    assert own.read_bytes() == b"the user's"
    assert list(tmp_path.iterdir()) == [own]


def test_what_the_demonstration_made_is_its_own(demo):
    check_own(demo.folder)


def test_a_map_of_other_traversals_is_not_the_demonstrations(tmp_path):
    refs = make_route(n_places=20, n_traversals=2, dim=8).references
    build(refs, "hops", calibration=False).save(tmp_path / "town.displace")
    with pytest.raises(InputError, match="was not made by displace demo"):
        check_own(tmp_path)
