"""Reports of the shipped suites in a real browser: plots are drawn, the explorer filters, nothing leaves the page."""

from __future__ import annotations

import os
import shutil
from itertools import product

import numpy as np
import pytest
from PIL import Image
from report_results import generated_results, shipped_sped_results, shipped_town_results
from routes import make_store

from displace import verbs

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright (the extra 'dev')")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium (apt-get install chromium)"),
    pytest.mark.flaky(reruns=2),  # a browser under remote control loses an event now and then
]
LIMIT = 300_000
"""Milliseconds until waiting for the page has failed: that a machine is busy is no failure, that nothing comes is."""
# Remote control makes V8 parse plotly's code once more to know lines and columns, half a second that no reader of a
# report waits for; the last flag has them noted at once.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--js-flags=--no-enable-lazy-source-positions",
]


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=LIMIT)
        yield browser
        browser.close()


STUDIES = {"town": "all", "sped400": "tau"}
N_PLOTS = {"town": 1 + 4 + 1, "sped400": 1 + 1 + 1}
"""The overview, every study but the pictures, and the suite's own random projections."""


@pytest.fixture(scope="module", params=["town", "sped400"])
def suite(request):
    return request.param


@pytest.fixture(scope="module")
def results(suite, request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(suite)
    if suite == "town":
        return shipped_town_results(folder)
    shared = request.getfixturevalue("shared")
    if not (shared / "data" / "sped400").is_dir():
        pytest.skip("no sped400 in the shared data")
    return shipped_sped_results(shared, folder)


@pytest.fixture(scope="module")
def report(suite, results):
    folder = results.folder.parent
    return verbs.report(results.folder, folder / "browser.html", studies=STUDIES[suite], root=folder).path


on_the_town = pytest.mark.parametrize("suite", ["town"], indirect=True, scope="module")


@pytest.fixture
def visit(browser):
    """Open a page; what it asks for, and what goes wrong in it, is gathered."""
    pages = []

    def open_page(path, width=1280, height=900):
        page = browser.new_page(viewport={"width": width, "height": height})
        page.asked, page.errors = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("console", lambda message: message.type == "error" and page.errors.append(message.text))
        page.set_default_timeout(LIMIT)
        page.goto(path.as_uri())
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()


def draw_all(page):
    for plot in page.locator("[data-plot]").all():
        plot.scroll_into_view_if_needed()
        sync_api.expect(plot).to_have_attribute("data-drawn", "yes", timeout=LIMIT)


def hits(results, query):
    """Right or wrong of each query, by method, from the ranking files."""
    return {
        result.label: results.ranking(result).correct[:, 0] for result in results.select(query=query, ok=True)
    }


def shown_counts(page):
    """Number on each filter's button."""
    return {
        button.get_attribute("data-kind"): int(button.query_selector("b").inner_text().replace(",", ""))
        for button in page.query_selector_all("#ex-filters button")
    }


def boxes(plot, parts):
    return [node.bounding_box() for node in plot.query_selector_all(parts)]


def overlap(a, b):
    """Whether two boxes share more than an edge; rounding moves edges by less than a tenth of a pixel."""
    return all(
        a[start] + 0.1 < b[start] + b[size] and b[start] + 0.1 < a[start] + a[size]
        for start, size in (("x", "width"), ("y", "height"))
    )


@pytest.mark.parametrize("width", [1280, 420])
def test_plots_are_drawn_and_nothing_leaves_the_page(visit, suite, report, width):
    page = visit(report, width)
    draw_all(page)
    plots = page.query_selector_all("[data-plot]")
    assert len(plots) == N_PLOTS[suite]
    for plot in plots:
        marks = plot.query_selector_all("svg.main-svg .scatterlayer .points path")
        expected = page.evaluate(
            "name => JSON.parse(document.getElementById('plots').textContent)[name].data"
            ".filter(t => t.mode.includes('markers'))"
            ".reduce((n, t) => n + t.y.filter(y => y !== null).length, 0)",  # what was impossible has no mark
            plot.get_attribute("data-plot"),
        )
        assert len(marks) == expected > 0
        box = plot.query_selector("svg.main-svg").bounding_box()
        assert box["width"] > 0.6 * width
        assert box["height"] > 300
        for name, other in product(
            boxes(plot, ".xtitle, .x2title, .x3title"), boxes(plot, ".legend, .nsewdrag")
        ):
            assert not overlap(name, other), plot.text_content()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.errors == []
    assert {url.split(":")[0] for url in page.asked} <= {"file", "data"}
    assert [url for url in page.asked if url.startswith("file:")] == [report.as_uri()]


@on_the_town
def test_axes_say_which_way_is_better(visit, report):
    page = visit(report)
    draw_all(page)
    titles = [node.text_content() for node in page.query_selector_all(".xtitle, .ytitle, .x2title, .y2title")]
    assert sum("↑ better" in title for title in titles) >= 3
    assert sum("← better" in title for title in titles) == 2


@pytest.mark.parametrize("number", [0, -1])
def test_the_explorer_filters(visit, report, results, number):
    page = visit(report)
    titles = page.locator("#ex-block option").all_inner_texts()
    page.select_option("#ex-block", label=titles[number])
    query = titles[number].rpartition(" ")[2]
    found = hits(results, query)
    rivals = {
        result.label: found[result.label].mean()
        for result in results.select(query=query, ok=True, group=["score", "descriptor"])
        if result.fusion != "displace"
    }
    rival = page.eval_on_selector("#ex-rival", "node => node.selectedOptions[0].textContent")
    assert rivals[rival] == max(rivals.values())
    for other in (rival, "Pooling"):
        page.select_option("#ex-rival", label=other)
        own, against = found["DisPlace"], found[other]
        expected = {
            "all": len(own),
            "win": (own & ~against).sum(),
            "loss": (~own & against).sum(),
            "right": (own & against).sum(),
            "wrong": (~own & ~against).sum(),
        }
        assert shown_counts(page) == expected
        for kind, flags in (("win", own & ~against), ("wrong", ~own & ~against)):
            page.click(f"#ex-filters [data-kind={kind}]")
            assert page.inner_text("#ex-count").startswith(f"{expected[kind]} of {len(own)} queries")
            rows = [int(node.inner_text()) for node in page.query_selector_all("#ex-rows .ex-number")]
            assert rows == np.flatnonzero(flags)[: len(rows)].tolist()
            assert len(rows) == min(expected[kind], len(rows)) > 0 or expected[kind] == 0
        page.click("#ex-filters [data-kind=all]")
    assert page.errors == []


@on_the_town
def test_a_query_shows_its_pictures_and_who_is_right(visit, report, results):
    page = visit(report)
    query = page.eval_on_selector("#ex-block", "node => node.selectedOptions[0].textContent").rpartition(" ")[
        2
    ]
    found = hits(results, query)
    page.fill("#ex-search", "0013")
    assert page.inner_text("#ex-count").startswith("1 of 16 queries")
    page.click("#ex-rows .ex-row")
    images = page.query_selector_all("#ex-detail img")
    assert len(images) == 2 + len(found)
    page.eval_on_selector_all("#ex-detail img", "images => Promise.all(images.map(image => image.decode()))")
    captions = [node.inner_text() for node in page.query_selector_all("#ex-detail figcaption")]
    assert captions[0].startswith("query")
    assert captions[1].split() == ["truth", "place", "0013"]
    for label, flags in found.items():
        figure = page.query_selector(f"#ex-detail figure:has(figcaption span:text-is('{label}'))")
        assert figure.get_attribute("class") == ("right" if flags[13] else "wrong")
        assert "✓✗"[not flags[13]] in figure.inner_text()


@on_the_town
def test_arrow_keys_go_through_the_list(visit, report):
    page = visit(report)
    page.click("#ex-rows .ex-row >> nth=0")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    assert page.inner_text("#ex-detail .ex-head b") == "query 3"
    assert page.inner_text("#ex-rows [aria-current=true] .ex-number") == "3"


def with_pictures(results):
    """Put a picture where the results say that each query's is: a few of noise, under all their names."""
    asked = results.questions(next(iter(results)))
    root = asked.root(results.folder)
    (root / "frames").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number, name in enumerate(asked.query_images.tolist()):
        if number < 20:
            noise = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
            noise.resize((160, 120)).save(root / name, format="jpeg")
        else:
            os.link(root / asked.query_images[number % 20], root / name)
    return results


def test_5000_queries_and_all_the_pictures_that_fit(visit, tmp_path):
    results = with_pictures(generated_results(tmp_path / "results", 5000))
    report = verbs.report(results.folder, tmp_path / "report.html")
    assert report.picture_bytes > 14.9e6
    page = visit(report.path)
    assert shown_counts(page)["all"] == 5000
    loaded = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd / 1000")
    sync_api.expect(page.locator("[data-plot]").first).to_have_attribute("data-drawn", "yes", timeout=LIMIT)
    drawn = page.evaluate("performance.now() / 1000")
    print(f"{report.n_bytes / 1e6:.0f} MB: explorer after {loaded:.1f} s, first plot after {drawn:.1f} s")
    draw_all(page)
    found = hits(results, "night")
    assert shown_counts(page)["loss"] == (~found["DisPlace"] & found["Pooling"]).sum()
    assert page.locator("#ex-rows .ex-row").count() < 60
    page.eval_on_selector("#ex-list", "node => { node.scrollTop = node.scrollHeight; }")
    sync_api.expect(page.locator(".ex-number").last).to_have_text("4999", timeout=LIMIT)
    assert page.locator("#ex-rows .ex-row").count() < 60
    assert page.errors == []


@pytest.fixture(scope="module")
def small_report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    return verbs.report(generated_results(folder / "results", 20).folder, folder / "small.html").path


@pytest.mark.parametrize("width", [1280, 390])
def test_the_highlight_of_a_row_covers_all_of_it_and_lets_nothing_through(visit, small_report, width):
    """On a phone the first cell stays while the others move under it: it must not be transparent."""
    page = visit(small_report, width)
    paint = "cell => { const s = getComputedStyle(cell); return [s.backgroundColor, s.backgroundImage]; }"
    cells = [cell.evaluate(paint) for cell in page.query_selector_all(".recalls tr.own > *")]
    assert len(cells) > 1
    (first, over_it), tint = cells[0], cells[1][0]
    assert tint != "rgba(0, 0, 0, 0)"
    assert all(tint in colour + image for colour, image in cells)
    card = page.eval_on_selector("main .card", "card => getComputedStyle(card).backgroundColor")
    assert width > 390 or (first == card and tint in over_it)


def test_names_are_cut_at_their_beginning(visit, small_report):
    """Names of one route begin alike: their ends tell them apart."""
    page = visit(small_report)
    name = page.locator(".ex-name").first
    assert name.evaluate("cell => getComputedStyle(cell).direction") == "rtl"
    name.evaluate("cell => { cell.style.width = '60px'; cell.style.flex = 'none'; }")
    name.locator("bdi").evaluate("text => { text.textContent = 'a/very/long/folder/before/0042.jpg'; }")
    edges = name.evaluate(
        """cell => { const own = cell.getBoundingClientRect();
        const text = cell.firstElementChild.getBoundingClientRect();
        return [text.left < own.left, text.right <= own.right + 1]; }"""
    )
    assert edges == [True, True]


def test_a_long_legend_leaves_the_name_of_the_axis_free(visit, tmp_path):
    """Every fusion once for each frame and along the drive: ten rows of names covered the axis's, and scrolled."""
    store = make_store(tmp_path / "made.desc", n_places=12)
    verbs.evaluate(
        store.folder,
        queries=["night"],
        sequence="single_frame,seqslam,filter,viterbi,smoother",
        output=tmp_path / "results",
    )
    page = visit(verbs.report(tmp_path / "results", tmp_path / "long.html").path)
    draw_all(page)
    axis, legend = (
        page.query_selector(f"[data-plot] {part}").bounding_box() for part in (".xtitle", ".legend")
    )
    assert not overlap(axis, legend)
    assert axis["y"] < legend["y"]
    assert page.query_selector("[data-plot] .legend .scrollbar").get_attribute("height") == "0"
    assert not page.errors
