"""The page of a served map in a real browser: a picture, a video, the keyboard, a phone; nothing leaves the host."""

from __future__ import annotations

import os
import re
import shutil
import socket
import threading
from urllib.parse import urlsplit

import cv2
import numpy as np
import pytest
from PIL import Image

from displace import ReferenceSet, build
from displace.images import read_image
from displace.manifest.table import Manifest
from displace.models import get_model
from displace.places import Places

pytest.importorskip("fastapi", reason="needs the extra web")
playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra dev")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.flaky(reruns=2),  # a browser under remote control loses an event now and then
]

PLACES = 10
LIMIT = 300_000
"""Milliseconds until waiting for the page has failed: that a machine is busy is no failure, that nothing comes is."""
AXE = os.environ.get("AXE_CORE")
"""Path of axe.min.js, which ``npm install axe-core`` brings."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pictures of a short route, a map of three traversals, a video of a fourth, and a picture from elsewhere."""
    folder = tmp_path_factory.mktemp("route")
    rng, images, places, traversals = np.random.default_rng(1), [], [], []
    video = cv2.VideoWriter(str(folder / "drive.webm"), cv2.VideoWriter_fourcc(*"VP80"), 2.0, (320, 240))
    for place in range(PLACES):
        base = rng.integers(0, 256, (6, 8, 3), np.uint8)
        base = np.asarray(Image.fromarray(base).resize((320, 240), Image.Resampling.BICUBIC), np.float64)
        for name in ("sun", "rain", "dusk", "query"):
            (folder / name).mkdir(exist_ok=True)
            noisy = np.clip(base + rng.normal(0, 12, base.shape), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(folder / name / f"{place:02d}.png")
            if name == "query":
                video.write(noisy[..., ::-1])
            else:
                images.append(f"{name}/{place:02d}.png")
                places.append(f"{place:02d}")
                traversals.append(name)
    video.release()
    Image.fromarray(np.zeros((240, 320, 3), np.uint8)).save(folder / "black.png")
    Manifest(images, places, traversals, folder).write(folder / "route.csv")
    model = get_model("hog")
    vectors = model.describe(np.stack([model.prepare(read_image(folder / image)) for image in images]))
    ids = np.unique(places)
    refs = ReferenceSet(vectors, places, traversals, info=Places(ids, frames=np.arange(PLACES)))
    build(refs, model=model.fingerprint()).save(folder / "town.displace")
    return folder


@pytest.fixture(scope="module")
def address(folder):
    """A server on a free port of this machine."""
    import uvicorn

    from displace.web.api import make_app
    from displace.web.server import ServerSettings

    app = make_app(
        ServerSettings(folder / "town.displace", manifest=folder / "route.csv", min_confidence=0.3)
    )
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # what is asked before the server is ready waits
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as p:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = p.chromium.launch(executable_path=CHROMIUM, args=flags, timeout=LIMIT)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, address):
    """Opens the page; at the end nothing may have been said on the console or asked of another host."""
    said, hosts, contexts = [], set(), []

    def open_page(**options):
        context = browser.new_context(**options)
        context.set_default_timeout(LIMIT)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(LIMIT)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
        page.goto(address)
        page.wait_for_selector("#about:has-text('places from')")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    assert hosts - {""} == {urlsplit(address).netloc}


def test_a_picture_is_located_and_shown_beside_its_place(opened, folder):
    page = opened()
    page.set_input_files("#pick", folder / "query" / "04.png")
    page.wait_for_selector("#matches li")
    assert page.inner_text("#verdict strong") == "At 04"
    page.wait_for_selector("#match img[src]")
    assert page.locator("#traversal option").all_inner_texts() == ["sun", "rain", "dusk"]
    assert page.locator("#route circle.best").count() == 1
    assert page.locator("#matches li:first-child img").count() == 3
    page.fill("#compare", "50")
    assert page.locator("#query img.over").count() == 1
    assert page.locator("#history li").count() == 1
    page.set_input_files("#pick", folder / "black.png")
    page.wait_for_selector("#history li:nth-child(2)")
    assert page.inner_text("#verdict strong") == "Not in this map"
    assert page.locator("#route circle.best").count() == 0
    assert "most similar" in page.inner_text("#route-caption")


def test_what_is_no_picture_is_said(browser, address, folder, tmp_path):
    (tmp_path / "no.jpg").write_bytes(b"no picture")
    page = browser.new_page()
    page.set_default_timeout(LIMIT)
    page.goto(address)
    page.wait_for_selector("#about:has-text('places from')")
    page.set_input_files("#pick", tmp_path / "no.jpg")
    page.wait_for_selector("#error:not([hidden])")
    assert page.inner_text("#error").startswith("no.jpg: this is no image")
    assert page.is_hidden("#result")
    assert page.inner_text("#busy") == ""
    page.set_input_files("#pick", [tmp_path / "no.jpg", folder / "query" / "04.png"])
    page.wait_for_selector("#verdict strong:has-text('At 04')")
    assert "no.jpg" in page.inner_text("#error")  # though another picture was located since
    page.click("#history button")
    assert page.is_hidden("#error")
    page.close()


def test_several_pictures_are_located_one_after_the_other(opened, folder):
    page = opened()
    page.set_input_files("#pick", [folder / "query" / f"{place}.png" for place in ("03", "06")])
    page.wait_for_selector("#history li:nth-child(2)")
    assert page.locator("#history button").all_inner_texts() == ["06.png: At 06", "03.png: At 03"]
    page.fill("#compare", "50")
    page.set_input_files("#pick", folder / "query" / "06.png")  # the same again
    page.wait_for_selector("#history li:nth-child(3)")
    assert page.input_value("#compare") == "0"


def test_what_is_chosen_meanwhile_takes_the_place_of_a_video(opened, folder):
    page, held = opened(), []
    page.route("**/frames?*", lambda route: held.append(route))
    with page.expect_request("**/frames?*"):
        page.set_input_files("#pick", folder / "drive.webm")
    page.set_input_files("#pick", folder / "query" / "04.png")
    page.wait_for_selector("#history li")
    with page.expect_request(lambda request: request.method == "DELETE"):  # the drive is ended
        held[0].continue_()
    assert len(held) == 1
    assert page.inner_text("#verdict strong") == "At 04"
    assert page.is_hidden("#scrub-row")


def test_a_server_that_is_out_of_reach_is_said(browser, address, folder):
    page = browser.new_page()
    page.set_default_timeout(LIMIT)
    page.goto(address)
    page.wait_for_selector("#about:has-text('places from')")
    page.route("**/v1/locate?*", lambda route: route.abort())
    page.set_input_files("#pick", folder / "query" / "04.png")
    page.wait_for_selector("#error:has-text('the server cannot be reached')")
    page.unroute("**/v1/locate?*")
    page.route("**/v1/locate?*", lambda route: route.fulfill(status=502, body="<html>bad gateway"))
    page.set_input_files("#pick", folder / "query" / "04.png")
    page.wait_for_selector("#error:has-text('the server answered 502')")
    page.close()


def test_a_video_is_followed(opened, folder):
    page = opened()
    page.set_input_files("#pick", folder / "drive.webm")
    page.wait_for_selector("#scrub-row:not([hidden])")
    assert int(page.get_attribute("#scrub", "max")) >= PLACES - 2
    assert page.locator("#belief .cell").count() >= PLACES - 2
    page.fill("#scrub", "5")
    assert page.inner_text("#verdict strong") in ("At 04", "At 05", "At 06")


def test_with_the_keyboard_alone(opened, folder):
    page = opened()
    page.on("filechooser", lambda chooser: chooser.set_files(folder / "query" / "04.png"))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "tab-locate"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "pick"
    page.keyboard.press("Enter")
    page.wait_for_selector("#matches li")
    page.focus("#compare")
    page.keyboard.press("ArrowRight")
    assert page.locator("#query img.over").count() == 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "04"
    page.keyboard.press("Tab")
    second = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#match img[alt^='place {second} in']", state="attached")
    page.focus("#tab-locate")
    page.keyboard.press("ArrowRight")
    assert page.is_visible("#facts")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#places li img")
    assert page.locator("#places li").count() == PLACES
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.is_visible("#drop")
    assert page.inner_text("#verdict strong") == "Place 00"


def test_the_map_explains_itself(opened):
    page = opened()
    page.click("#tab-map")
    assert page.locator("#reliability .curve").count() == 1
    assert page.locator("#spectrum .curve").count() == 1
    facts = page.inner_text("#facts")
    for name in ("dusk (10), rain (10), sun (10)", "held-out queries", "of projection to locate with", "hog"):
        assert name in facts
    assert "Nothing stands out" in page.inner_text("#advice")


def test_a_server_without_the_maps_model_asks_for_no_pictures(opened):
    page = opened()
    lacking = {
        "takes_images": False,
        "no_images": "only descriptors can be located, no images: needs 'torch'",
    }
    page.route("**/v1/map", lambda route: route.fulfill(json={**route.fetch().json(), **lacking}))
    page.reload()
    page.wait_for_selector(
        "#drop-hint:has-text(\"Only descriptors can be located, no images: needs 'torch'\")"
    )
    assert not page.is_visible("#drop .button")


def test_all_places_of_a_large_map_are_read(opened):
    page = opened()

    def some(route):
        start, count = (int(value) for value in re.findall(r"=(\d+)", route.request.url))
        listed = [{"place": place, "images": []} for place in range(start, min(start + count, 7000))]
        route.fulfill(json={"map": "v", "total": 7000, "places": listed})

    page.route("**/v1/map", lambda route: route.fulfill(json={**route.fetch().json(), "places": 7000}))
    page.route("**/v1/places?*", some)
    page.reload()
    page.click("#tab-places")
    page.wait_for_selector("#page-of:has-text('1–60 of 7,000')")


def test_the_history_brings_a_result_back(opened, folder):
    page = opened()
    for place in ("04", "07"):
        page.set_input_files("#pick", folder / "query" / f"{place}.png")
        page.wait_for_selector(f"#history button:has-text('At {place}')")
    page.click("#history button:has-text('At 04')")
    assert page.inner_text("#verdict strong") == "At 04"


@pytest.mark.skipif(AXE is None, reason="AXE_CORE names no axe.min.js (npm install axe-core)")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1100])
def test_axe_finds_nothing_serious(opened, folder, scheme, width):
    page = opened(viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)
    page.add_script_tag(path=AXE)

    def audit(what):
        found = page.evaluate("axe.run()")["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert not serious, (what, [(each["id"], each["nodes"][0]["html"]) for each in serious])
        print(f"{scheme}, {width} px, {what}: {len(found)} findings of any kind")

    audit("empty")
    page.set_input_files("#pick", folder / "query" / "04.png")
    page.wait_for_selector("#history li")
    audit("a picture")
    page.set_input_files("#pick", folder / "drive.webm")
    page.wait_for_selector("#history li:nth-child(2)")
    audit("a video")
    page.click("#tab-map")
    audit("the map")
    page.click("#tab-places")
    page.wait_for_selector("#places li img")
    audit("places")


def test_on_a_phone_in_the_dark(opened, folder):
    page = opened(viewport={"width": 375, "height": 700}, color_scheme="dark")
    page.set_input_files("#pick", folder / "query" / "02.png")
    page.wait_for_selector("#matches li")
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    red, green, blue = page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    )
    assert max(red, green, blue) < 60


def test_a_link_leads_to_a_place(opened, address):
    page = opened()
    page.goto(f"{address}/#place=03")
    page.reload()
    page.wait_for_selector("#matches li")
    assert page.inner_text("#matches li button") == "03"
    assert page.is_hidden("#query")
