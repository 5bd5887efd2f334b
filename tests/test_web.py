"""A served map: what robots ask for over HTTP, and what a server refuses."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import tempfile
import threading

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra web")
pytest.importorskip("httpx", reason="needs the extra web")

import httpx
from fastapi.testclient import TestClient
from PIL import Image

from displace import PlaceMap, ReferenceSet, build
from displace.client import Client, RemoteDrive, ServerError
from displace.errors import DisplaceError, InputError
from displace.geo import Positions
from displace.images import read_image
from displace.manifest.table import Manifest
from displace.maps.remote import RemoteMap
from displace.matches import joined
from displace.models import get_model
from displace.models.efficientnet_lite import EfficientNetLite
from displace.models.hog import Hog
from displace.places import Places
from displace.synthetic import make_route
from displace.verbs import extract, locate
from displace.verbs.serve import read_tokens, serve
from displace.web import gallery
from displace.web.api import _stretches, make_app
from displace.web.batching import Batcher
from displace.web.drives import Drives
from displace.web.hosting import Hosted
from displace.web.limits import Limits, RateLimit, Tokens
from displace.web.metrics import Metrics
from displace.web.server import Server, ServerSettings

PLACES = 12


@pytest.fixture(scope="module")
def route():
    return make_route(n_places=40, n_traversals=3, dim=16, seed=3)


@pytest.fixture(scope="module")
def vectors_map(route, tmp_path_factory):
    """A map of bare vectors, with an order along the route."""
    path = tmp_path_factory.mktemp("vectors") / "town.displace"
    refs = route.references
    known = ReferenceSet(
        refs.vectors, refs.places, refs.traversals, info=Places(np.arange(40), frames=np.arange(40))
    )
    build(known).save(path)
    return path


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Folders of pictures, their manifest and a map of two traversals."""
    folder = tmp_path_factory.mktemp("pictures")
    rng, images, places, traversals = np.random.default_rng(0), [], [], []
    for place in range(PLACES):
        base = Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8)).resize(
            (160, 120), Image.Resampling.BICUBIC
        )
        for name in ("sun", "rain", "query"):
            (folder / name).mkdir(exist_ok=True)
            noisy = np.clip(np.asarray(base) + rng.normal(0, 15, (120, 160, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(folder / name / f"{place:02d}.png")
            if name != "query":
                images.append(f"{name}/{place:02d}.png")
                places.append(f"{place:02d}")
                traversals.append(name)
    Manifest(images, places, traversals, folder).write(folder / "route.csv")
    model = get_model("hog")
    prepared = np.stack([model.prepare(read_image(folder / image)) for image in images])
    refs = ReferenceSet(model.describe(prepared), places, traversals)
    build(refs, model=model.fingerprint()).save(folder / "town.displace")
    return folder


def app_of(path, **settings):
    return make_app(ServerSettings(path, **settings))


@pytest.fixture
def asked(vectors_map):
    with TestClient(app_of(vectors_map)) as client:
        yield client


@pytest.fixture
def shown(pictures):
    with TestClient(app_of(pictures / "town.displace", manifest=pictures / "route.csv")) as client:
        yield client


def raw(vectors):
    return {
        "content": np.ascontiguousarray(vectors, "<f4").tobytes(),
        "headers": {"content-type": "application/octet-stream"},
    }


class TestLocating:
    def test_descriptors_as_numbers_and_as_bytes(self, asked, vectors_map, route):
        own = PlaceMap.load(vectors_map).locate(route.queries[:3], k=4)
        as_json = asked.post("/v1/locate?k=4", json={"descriptors": route.queries[:3].tolist()})
        as_bytes = asked.post("/v1/locate?k=4", **raw(route.queries[:3]))
        assert as_json.status_code == as_bytes.status_code == 200
        assert as_json.json() == as_bytes.json()
        results = as_bytes.json()["results"]
        assert [result["places"] for result in results] == own.places.tolist()
        np.testing.assert_allclose([r["confidence"] for r in results], own.confidence, atol=1e-5)

    def test_in_map_follows_the_confidence_asked_for(self, asked, route):
        for least in (0.0, 1.0):
            (result,) = asked.post(f"/v1/locate?min_confidence={least}", **raw(route.queries[:1])).json()[
                "results"
            ]
            assert result["in_map"] == (result["confidence"] >= least)

    def test_an_image_and_a_form_of_images(self, shown, pictures):
        files = [pictures / "query" / f"{place:02d}.png" for place in (3, 7)]
        one = shown.post(
            "/v1/locate", content=files[0].read_bytes(), headers={"content-type": "image/png"}
        ).json()
        assert one["results"][0]["places"][0] == "03"
        form = [("image", (path.name, path.read_bytes(), "image/png")) for path in files]
        both = shown.post("/v1/locate", files=form).json()
        assert [result["places"][0] for result in both["results"]] == ["03", "07"]

    def test_requests_at_one_time_are_located_together_and_get_their_own(self, asked, vectors_map, route):
        own = PlaceMap.load(vectors_map).locate(route.queries, k=3).places.tolist()
        answers = {}

        def ask(row):
            answers[row] = asked.post("/v1/locate?k=3", **raw(route.queries[row : row + 1])).json()

        threads = [threading.Thread(target=ask, args=(row,)) for row in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [answers[row]["results"][0]["places"] for row in range(40)] == own

    def test_requests_of_one_batch_get_as_many_places_as_each_asked_for(self, vectors_map, route):
        hosted, batcher = Hosted(PlaceMap.load(vectors_map), "v"), Batcher(waiting=9)

        async def both():
            asked = [batcher.locate(hosted, route.queries[row : row + 1], k) for row, k in ((0, 1), (1, 4))]
            return await asyncio.gather(*asked)

        (one,), (other,) = asyncio.run(both())
        batcher.close()
        own = hosted.place_map.locate(route.queries[:2], k=4).to_json()
        assert one == {**own[0], "places": own[0]["places"][:1], "scores": own[0]["scores"][:1]}
        assert other == own[1]
        assert sum(batcher.sizes) == 2 - batcher.sizes[1]  # two batches of one query, or one of two

    def test_the_query_of_an_address_is_read_once_and_refused_every_time(self, asked, route):
        for _ in range(2):
            assert (
                len(asked.post("/v1/locate?k=2", **raw(route.queries[:1])).json()["results"][0]["places"])
                == 2
            )
            refused = asked.post("/v1/locate?k=0&q=1", **raw(route.queries[:1]))
            assert refused.status_code == 422
            assert "k: " in refused.json()["error"]["message"]
            assert "q: " in refused.json()["error"]["message"]

    @pytest.mark.parametrize("path", ["/v1/locate", "/v1/describe"])
    def test_a_client_that_leaves_is_counted_and_nothing_else(self, vectors_map, path):
        app, sent = app_of(vectors_map), []

        async def leaves():
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message["type"])

        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "root_path": ""}
        scope["headers"] = [(b"content-type", b"application/octet-stream")]
        asyncio.run(app(scope, leaves, send))
        assert f'route="{path}",status="499"}} 1' in app.metrics.text("v", {})

    def test_the_document_has_an_example_of_every_answer(self, asked, route):
        paths = asked.get("/openapi.json").json()["paths"]
        drive = asked.post("/v1/drives").json()
        answers = {
            ("post", "/v1/locate"): asked.post("/v1/locate?k=2", **raw(route.queries[:1])).json(),
            ("post", "/v1/drives"): drive,
            ("post", "/v1/drives/{drive}/frames"): asked.post(
                f"/v1/drives/{drive['drive']}/frames", **raw(route.queries[:1])
            ).json(),
            **{
                ("get", path): asked.get(path).json()
                for path in ("/v1/map", "/v1/places", "/health", "/ready")
            },
        }
        for (method, path), answer in answers.items():
            told = paths[path][method]["responses"]["201" if path == "/v1/drives" else "200"]["content"]
            example = told["application/json"]["example"]
            if path == "/v1/map":  # the most of it
                assert set(example) <= set(answer)
            else:  # this map has no positions
                assert set(example) - {"latitude", "longitude"} == set(answer)
        (told,) = paths["/v1/locate"]["post"]["responses"]["200"]["content"].values()
        assert set(told["example"]["results"][0]) - {"latitude", "longitude"} == set(
            answers["post", "/v1/locate"]["results"][0]
        )
        assert (
            "image/jpeg"
            in paths["/v1/places/{place}/images/{traversal}"]["get"]["responses"]["200"]["content"]
        )
        assert paths["/v1/locate"]["post"]["responses"]["413"]["content"]["application/json"]["example"][
            "error"
        ]


class TestRefused:
    @pytest.mark.parametrize(
        ("body", "kind", "status"),
        [
            (b"hello", "text/plain", 415),
            (b"", "application/json", 422),
            (b"[" * 100_000, "application/json", 422),
            (b'{"descriptors": [["a"]]}', "application/json", 422),
            (b'{"descriptors": [[1, 2]]}', "application/json", 422),
            (b'{"descriptors": []}', "application/json", 422),
            (b'{"descriptors": [' + b"1e99," * 15 + b"1e99]}", "application/json", 422),
            (b'{"descriptors": [[NaN]]}', "application/json", 422),
            (b"12345", "application/octet-stream", 422),
            (np.full(16, np.inf, "<f4").tobytes(), "application/octet-stream", 422),
            (b"", "application/octet-stream", 422),
            (b"", "multipart/form-data", 422),
        ],
    )
    def test_with_a_message(self, asked, body, kind, status):
        refused = asked.post("/v1/locate", content=body, headers={"content-type": kind})
        assert refused.status_code == status
        assert refused.json()["error"]["message"]

    @pytest.mark.parametrize("body", [b"no image at all", b"%!PS-Adobe-3.0 EPSF-3.0\n", b""])
    @pytest.mark.parametrize("as_form", [False, True], ids=["alone", "form"])
    def test_what_is_no_image(self, shown, body, as_form):
        sent = {"content": body, "headers": {"content-type": "image/jpeg"}}
        refused = shown.post("/v1/locate", **({"files": [("image", ("a.jpg", body))]} if as_form else sent))
        assert refused.status_code == 415
        expected = "this is no image that is read here" if body else "the image is empty"
        assert refused.json()["error"]["message"].startswith(expected)

    @pytest.mark.parametrize("workers", [0, 1])
    def test_which_image_of_several_is_said(self, pictures, workers):
        whole = (pictures / "query" / "03.png").read_bytes()
        with TestClient(app_of(pictures / "town.displace", workers=workers)) as client:
            for content, why in (
                (b"none", "this is no image"),
                (whole[:2000], "cannot read the image given as"),
            ):
                refused = client.post("/v1/locate", files=[("image", whole), ("image", content)])
                assert refused.json()["error"]["message"].startswith(f"image 2 of 2: {why}")

    def test_the_way_out_is_said(self, asked, route):
        def message(answer):
            return answer.json()["error"]["message"]

        assert message(asked.get("/elsewhere")).startswith("there is nothing at /elsewhere: /openapi.json")
        assert message(asked.get("/v1/locate")).startswith("GET is not understood at /v1/locate")
        assert message(asked.post("/v1/locate?top=3", **raw(route.queries[:1]))) == (
            "top: there is no such parameter; there are k, min_confidence, near, radius, adapt"
        )
        form = {"photo": ("a.jpg", b"\xff\xd8", "image/jpeg")}
        assert "curl -F image=@photo.jpg" in message(asked.post("/v1/locate", files=form))

    def test_a_photo_of_a_phone_with_50_megapixels_is_taken(self):
        assert Limits().pixels >= 8192 * 6144

    def test_more_than_the_limits(self, pictures, vectors_map, route):
        limits = Limits(upload_bytes=2000, pixels=10_000, queries=2, places=3)
        with TestClient(app_of(pictures / "town.displace", limits=limits)) as client:
            large = (pictures / "query" / "00.png").read_bytes()
            assert (
                client.post("/v1/locate", content=large, headers={"content-type": "image/png"}).status_code
                == 413
            )
            buffer = io.BytesIO()
            Image.new("L", (2000, 2000)).save(buffer, "PNG", optimize=True)
            small = buffer.getvalue()[:2000]
            many = client.post("/v1/locate", content=small, headers={"content-type": "image/png"})
            assert many.status_code == 413
            assert "4,000,000 pixels" in many.json()["error"]["message"]
            assert client.post("/v1/locate?k=4", json={"descriptors": []}).status_code == 422
            three = client.post("/v1/locate", files=[("image", b"x")] * 3)
            assert three.status_code == 413
            assert three.json()["error"]["message"] == "the form has more than 2 files: send fewer"
        with TestClient(app_of(vectors_map, limits=limits)) as client:
            assert client.post("/v1/locate", **raw(route.queries[:3])).status_code == 413

    def test_a_map_of_bare_vectors_describes_no_image(self, asked, pictures):
        body = (pictures / "query" / "00.png").read_bytes()
        refused = asked.post("/v1/locate", content=body, headers={"content-type": "image/png"})
        assert refused.status_code == 422
        assert "only descriptors can be located" in refused.json()["error"]["message"]
        assert asked.get("/v1/map").json()["no_images"] == refused.json()["error"]["message"]

    def test_too_many_requests_of_one_client(self, vectors_map):
        with TestClient(app_of(vectors_map, limits=Limits(requests_per_second=1e-6))) as client:
            assert [client.get("/health").status_code for _ in range(3)] == [200, 429, 429]

    def test_too_many_queries_waiting(self, vectors_map, route):
        with TestClient(app_of(vectors_map, limits=Limits(waiting=1))) as client:
            refused = client.post("/v1/locate", **raw(route.queries[:2]))
            assert refused.status_code == 503

    def test_no_upload_is_kept(self, shown, pictures, tmp_path, monkeypatch):
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        form = [("image", ("../../x.png", (pictures / "query" / "00.png").read_bytes(), "image/png"))]
        assert shown.post("/v1/locate", files=form).status_code == 200
        assert list(tmp_path.rglob("*")) == []


class TestTokens:
    def test_who_may_do_what(self, vectors_map, route):
        tokens = Tokens("full token of a robot", "token for reading")
        with TestClient(app_of(vectors_map, tokens=tokens)) as client:
            for token, reads, asks in (
                (None, 401, 401),
                ("wrong", 401, 401),
                (tokens.reading, 200, 401),
                (tokens.full, 200, 200),
            ):
                client.headers = {"authorization": f"Bearer {token}"} if token else {}
                assert client.get("/v1/map").status_code == reads
                assert (
                    client.post("/v1/locate", json={"descriptors": route.queries[:1].tolist()}).status_code
                    == asks
                )
                assert client.get("/health").status_code == client.get("/").status_code == 200

    def test_a_wrong_one_is_told_from_none(self, vectors_map):
        """Whoever had sent one was told to send one."""
        with TestClient(app_of(vectors_map, tokens=Tokens("full token of a robot"))) as client:
            for headers, said in (
                ({}, "DISPLACE_TOKEN"),
                ({"authorization": "Bearer x"}, "the token is wrong"),
            ):
                assert said in client.get("/v1/map", headers=headers).json()["error"]["message"]

    def test_are_never_shown(self):
        assert "secret" not in repr(Tokens("secret", "secret"))

    def test_other_machines_need_one(self, vectors_map, monkeypatch):
        monkeypatch.delenv("DISPLACE_TOKEN", raising=False)
        with pytest.raises(InputError, match="requires a token"):
            serve(vectors_map, host="0.0.0.0")

    def test_come_from_a_file_or_the_environment(self, tmp_path, monkeypatch):
        monkeypatch.setenv("DISPLACE_TOKEN", "of the environment")
        assert read_tokens(None).full == "of the environment"
        (tmp_path / "token").write_text("0123456789abcdef\n token for reading \n")
        assert read_tokens(tmp_path / "token") == Tokens("0123456789abcdef", "token for reading")
        (tmp_path / "token").write_text("0123456789abcdef")
        assert read_tokens(tmp_path / "token") == Tokens("0123456789abcdef")

    @pytest.mark.parametrize("text", ["", "hunter2", "\n0123456789abcdef", "0123456789abcdef\nhunter2"])
    def test_short_ones_of_a_file_are_refused(self, tmp_path, text):
        (tmp_path / "token").write_text(text)
        with pytest.raises(InputError, match="at least 16 characters") as refused:
            read_tokens(tmp_path / "token")
        assert "hunter2" not in str(refused.value)

    @pytest.mark.parametrize("name", ["DISPLACE_TOKEN", "DISPLACE_READING_TOKEN"])
    def test_short_ones_of_the_environment_are_refused(self, monkeypatch, name):
        monkeypatch.setenv("DISPLACE_TOKEN", "of the environment")
        monkeypatch.setenv(name, "short")
        with pytest.raises(InputError, match=f"{name} must be a token of at least 16 characters, it has 5"):
            read_tokens(None)


class TestMap:
    def test_pictures_asked_for_last_are_kept(self, pictures, monkeypatch):
        read = []
        monkeypatch.setattr(gallery, "KEPT", 2)
        monkeypatch.setattr(gallery, "read_image", lambda path: read.append(path.stem) or read_image(path))
        place_map = PlaceMap.load(pictures / "town.displace")
        shown = gallery.Gallery([pictures], Manifest.read(pictures / "route.csv"))
        for place in ("01", "02", "01", "03", "01"):
            assert shown.thumbnail(place_map, place, "sun").startswith(b"\xff\xd8")
        assert read == ["01", "02", "03"]

    def test_a_manifest_of_other_places_is_told_of(self, pictures, caplog):
        """No picture was ever shown, without a word."""
        place_map, manifest = PlaceMap.load(pictures / "town.displace"), Manifest.read(pictures / "route.csv")
        gallery.Gallery([pictures], manifest).say_if_of_other_places(place_map)
        assert not caplog.records
        other = Manifest(
            manifest.images, [f"x{p}" for p in manifest.places], manifest.traversals, manifest.root
        )
        other.write(pictures / "other.csv")
        Server(ServerSettings(pictures / "town.displace", [pictures], pictures / "other.csv")).close()
        assert "the manifest has none of the map's places" in caplog.text

    def test_facts_places_and_pictures(self, shown, pictures):
        facts = shown.get("/v1/map").json()
        assert (facts["places"], facts["traversals"], facts["takes_images"]) == (
            PLACES,
            {"sun": 12, "rain": 12},
            True,
        )
        listed = shown.get("/v1/places?start=2&count=3").json()
        assert [place["place"] for place in listed["places"]] == ["02", "03", "04"]
        assert listed["places"][0]["images"] == ["sun", "rain"]
        picture = shown.get("/v1/places/02/images/rain")
        assert picture.headers["content-type"] == "image/jpeg"
        assert Image.open(io.BytesIO(picture.content)).size == (160, 120)

    @pytest.mark.parametrize("address", ["02/images/fog", "99/images/sun", "..%2F..%2Fetc/images/passwd"])
    def test_what_is_not_there(self, shown, address):
        assert shown.get(f"/v1/places/{address}").status_code == 404

    def test_pictures_outside_of_the_folders_are_not_read(self, pictures, tmp_path):
        (tmp_path / "inside").mkdir()
        (tmp_path / "inside" / "link.png").symlink_to(pictures / "sun" / "00.png")
        rows = [str(pictures / "sun" / "01.png"), "inside/link.png"]
        Manifest(rows, ["00", "01"], ["a", "a"], tmp_path).write(tmp_path / "route.csv")
        app = app_of(
            pictures / "town.displace", manifest=tmp_path / "route.csv", images=[tmp_path / "inside"]
        )
        with TestClient(app) as client:
            for place in ("00", "01"):
                assert client.get(f"/v1/places/{place}/images/a").status_code == 404
            assert [place["images"] for place in client.get("/v1/places").json()["places"][:2]] == [[], []]

    def test_metrics_count(self, asked, route):
        asked.post("/v1/locate", **raw(route.queries[:1]))
        asked.get("/openapi.json")
        asked.get("/elsewhere")
        text = asked.get("/metrics").text
        assert 'displace_requests_total{route="/openapi.json",status="200"} 1' in text
        assert 'displace_requests_total{route="other",status="404"} 1' in text
        assert 'displace_requests_total{route="/v1/locate",status="200"} 1' in text
        assert 'displace_request_seconds_bucket{route="/v1/locate",le="+Inf"} 1' in text
        assert 'displace_batch_queries_bucket{le="1"} 1\n' in text
        assert f'displace_map_info{{version="{asked.get("/ready").json()["map"]}"}} 1' in text

    def test_a_replaced_map_is_served_from_the_next_request_on(self, route, tmp_path):
        refs, path = route.references, tmp_path / "town.displace"
        build(refs, "hops").save(path)
        with TestClient(app_of(path)) as client:
            old = client.post("/v1/locate", **raw(route.queries[:1])).json()["map"]
            build(refs.without("t0"), "hops").save(path)
            new = client.post("/v1/locate", **raw(route.queries[:1])).json()["map"]
            assert old != new
            PlaceMap.load(path).changed(reason="the same rows").save(path)
            old, new = new, client.get("/v1/map").json()["map"]
            assert old != new
            build(refs, "hops").save(path)
            old, new = new, client.get("/ready").json()["map"]
            assert old != new
            path.write_bytes(b"half a map")
            assert client.post("/v1/locate", **raw(route.queries[:1])).json()["map"] == new
            path.unlink()
            assert client.post("/v1/locate", **raw(route.queries[:1])).json()["map"] == new

    def test_pages_allow_no_foreign_script(self, asked):
        page = asked.get("/")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "<script>" not in page.text
        assert "style=" not in page.text
        for name in ("/app.js", "/app.css"):
            assert asked.get(name).status_code == 200
            assert "://" not in asked.get(name).text.replace("http://www.w3.org/2000/svg", "")
        assert (
            "access-control-allow-origin"
            not in asked.get("/v1/map", headers={"origin": "http://other"}).headers
        )


def test_pictures_that_lie_elsewhere_are_said(pictures, tmp_path, caplog):
    with TestClient(
        app_of(pictures / "town.displace", manifest=pictures / "route.csv", images=[tmp_path])
    ) as client:
        assert client.get("/v1/places").json()["places"][0]["images"] == []
    (said,) = (record.getMessage() for record in caplog.records if record.name == "displace.serve")
    assert said.endswith(f"00.png lies outside of {tmp_path} and is not shown: name its folder with --images")


class TestWithoutTheModel:
    """A map whose model is not installed where it is served, which is told before the first photo."""

    @pytest.fixture
    def lacking(self, route, tmp_path, monkeypatch):
        monkeypatch.setattr(EfficientNetLite, "packages", {"not_there": "not-there"})
        path = tmp_path / "town.displace"
        model = {"model": "efficientnet_lite", "variant": "1792", "dim": 16}
        build(route.references, model=model).save(path)
        return path

    def test_it_is_said_when_the_server_starts(self, lacking, monkeypatch, caplog):
        monkeypatch.setattr("uvicorn.run", lambda *_, **__: None)
        serve(lacking, port=0)
        opening, said = caplog.messages
        assert (
            opening
            == f"reading {lacking} and opening its model; weights that are not here are downloaded first"
        )
        assert said == (
            "only descriptors can be located, no images: model 'efficientnet_lite' needs 'not-there': "
            "pip install 'displace[lite]'"
        )

    def test_it_is_said_to_whoever_asks_and_descriptors_are_located(self, lacking, route):
        photo = {"content": b"\xff\xd8", "headers": {"content-type": "image/jpeg"}}
        with TestClient(app_of(lacking)) as client:
            facts = client.get("/v1/map").json()
            assert not facts["takes_images"]
            assert not client.get("/ready").json()["takes_images"]
            assert "pip install 'displace[lite]'" in facts["no_images"]
            for path in ("/v1/locate", "/v1/describe"):
                refused = client.post(path, **photo)
                assert refused.status_code == 422
                assert refused.json()["error"]["message"] == facts["no_images"]
            assert client.post("/v1/locate", **raw(route.queries[:2])).status_code == 200

    def test_a_mask_is_given_again(self, pictures, tmp_path):
        """Of a map whose references were described with a mask no image could be located, by any option."""
        mask, path = tmp_path / "mask.png", tmp_path / "town.displace"
        Image.fromarray(np.repeat([[255], [0]], [100, 20], 0).repeat(160, 1).astype(np.uint8)).save(mask)
        images = [pictures / "sun" / f"{place:02d}.png" for place in range(PLACES)]
        model = get_model("hog", mask=mask)
        vectors = model.describe(np.stack([model.prepare(read_image(image)) for image in images]))
        refs = ReferenceSet(vectors, np.arange(PLACES), ["sun"] * PLACES)
        build(refs, "hops", model=model.fingerprint()).save(path)
        photo = {"content": images[3].read_bytes(), "headers": {"content-type": "image/png"}}
        with TestClient(app_of(path)) as client:
            assert "--mask FILE" in client.post("/v1/locate", **photo).json()["error"]["message"]
        with TestClient(app_of(path, model={"mask": mask})) as client:
            assert client.post("/v1/locate", **photo).json()["results"][0]["places"][0] == 3
        with pytest.raises(InputError, match=r"mask='.*none\.png' is not a file"):
            serve(path, mask=tmp_path / "none.png")

    def test_a_model_that_is_there_by_then_is_used(self, pictures, monkeypatch):
        body = (pictures / "query" / "03.png").read_bytes()
        with monkeypatch.context() as gone:
            gone.setattr(Hog, "packages", {"not_there": "not-there"})
            app = app_of(pictures / "town.displace")
        with TestClient(app) as client:
            assert not client.get("/v1/map").json()["takes_images"]
            found = client.post("/v1/locate", content=body, headers={"content-type": "image/png"})
            assert found.json()["results"][0]["places"][0] == "03"
            assert client.get("/v1/map").json()["takes_images"]


class TestAdapting:
    def test_queries_of_one_request_adapt_the_matching(self, asked, vectors_map, route):
        own = PlaceMap.load(vectors_map)
        for adapt in ("none", "batch", "auto"):
            answer = asked.post(f"/v1/locate?k=3&adapt={adapt}", **raw(route.queries)).json()["results"]
            expected = own.locate(route.queries, k=3, adapt=adapt)
            assert [record["places"] for record in answer] == expected.places.tolist()
            scores = [record["scores"] for record in answer]
            np.testing.assert_allclose(scores, expected.scores, atol=1e-5)

    def test_what_it_may_be_is_said(self, asked, route):
        refused = asked.post("/v1/locate?adapt=often", **raw(route.queries[:1]))
        assert refused.status_code == 422
        assert "adapt: Input should be 'none', 'batch' or 'auto'" in refused.json()["error"]["message"]


class TestDescribing:
    def test_images_are_described_by_the_maps_model(self, shown, pictures):
        files = [pictures / "query" / f"{place:02d}.png" for place in (3, 7)]
        own = PlaceMap.load(pictures / "town.displace").describe(files)
        one = shown.post("/v1/describe", content=files[0].read_bytes(), headers={"content-type": "image/png"})
        np.testing.assert_array_equal(np.frombuffer(one.content, "<f4"), own[0])
        assert one.headers["displace-map"] == shown.get("/v1/map").json()["map"]
        form = [("image", (path.name, path.read_bytes(), "image/png")) for path in files]
        both = shown.post("/v1/describe", files=form)
        np.testing.assert_array_equal(np.frombuffer(both.content, "<f4").reshape(2, -1), own)

    def test_no_image_goes_to_the_disk(self, shown, pictures, monkeypatch):
        def no_file(*_, **__):
            raise AssertionError("a temporary file")

        noise = np.random.default_rng(0).integers(0, 256, (800, 1000, 3), np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(noise).save(buffer, "PNG")
        assert len(buffer.getvalue()) > 2 * 2**20
        monkeypatch.setattr(tempfile, "TemporaryFile", no_file)
        files = [("image", buffer.getvalue()), ("image", (pictures / "query" / "03.png").read_bytes())]
        assert shown.post("/v1/describe", files=files).status_code == 200

    @pytest.mark.parametrize("workers", [0, 1])
    def test_several_at_a_time(self, pictures, workers):
        files = [pictures / "query" / f"{place:02d}.png" for place in (3, 7)]
        form = [("image", (path.name, path.read_bytes(), "image/png")) for path in files]
        with TestClient(app_of(pictures / "town.displace", workers=workers)) as client:
            found = client.post("/v1/describe", files=form)
            damaged = [("image", ("x.png", files[0].read_bytes()[:2000], "image/png"))]
            assert client.post("/v1/describe", files=damaged).status_code == 422
            assert client.post("/v1/describe", files=[("image", b"none")]).status_code == 415
        own = PlaceMap.load(pictures / "town.displace").describe(files)
        np.testing.assert_array_equal(np.frombuffer(found.content, "<f4").reshape(2, -1), own)


class TestOtherSites:
    def test_those_named_may_ask_from_a_browser(self, vectors_map):
        with TestClient(
            app_of(vectors_map, origins=("https://fleet.example",), tokens=Tokens("x" * 20))
        ) as client:
            asked = {
                "origin": "https://fleet.example",
                "access-control-request-method": "POST",
                "access-control-request-headers": "content-type",
            }
            allowed = client.options("/v1/locate", headers=asked)
            assert allowed.status_code == 204
            assert allowed.headers["access-control-allow-origin"] == "https://fleet.example"
            assert "content-type" in allowed.headers["access-control-allow-headers"]
            refused = client.options("/v1/locate", headers={**asked, "origin": "https://other.example"})
            assert refused.status_code == 401
            assert "access-control-allow-origin" not in refused.headers


class TestDrives:
    def test_a_drive_is_followed(self, asked, route):
        drive = asked.post("/v1/drives").json()["drive"]
        for row in range(10, 16):
            fix = asked.post(f"/v1/drives/{drive}/frames", **raw(route.queries[row : row + 1])).json()
        assert fix["frame"] == 6
        assert abs(fix["place"] - 15) <= 1
        assert 0 <= fix["off_map"] <= 1
        assert len(fix["places"]) == len(fix["scores"]) == 10
        assert asked.delete(f"/v1/drives/{drive}").status_code == 204
        assert asked.post(f"/v1/drives/{drive}/frames", **raw(route.queries[:1])).status_code == 404

    def test_a_map_without_an_order_follows_none(self, shown):
        assert shown.post("/v1/drives").status_code == 422

    def test_their_number_is_bounded_and_idle_ones_are_forgotten(self, vectors_map):
        now = [0.0]
        drives = Drives(Limits(drives=2, idle_seconds=60), clock=lambda: now[0])
        hosted = Hosted(PlaceMap.load(vectors_map), "v")
        first, second = drives.begin(hosted), drives.begin(hosted)
        assert drives.begin(hosted) is None
        now[0] = 50
        assert drives.get(second) is not None
        now[0] = 100
        assert drives.get(first) is None
        assert drives.begin(hosted) is not None
        assert len(drives) == 2

    def test_begins_as_it_is_told_and_takes_nothing_that_it_would_not_heed(self, asked, route):
        places = []
        for begins_off in (0.001, 0.999):
            drive = asked.post(f"/v1/drives?begins_off={begins_off}").json()["drive"]
            frame = asked.post(f"/v1/drives/{drive}/frames", **raw(route.queries[:1])).json()
            places.append(frame["off_map"])
        assert places[0] < places[1]
        for answer, said in (
            (asked.post("/v1/drives?lag=3"), "lag: there is no such parameter; there are adapt, begins_off"),
            (asked.post("/v1/drives", json={"adapt": "none"}), "no body is read here"),
            (asked.post("/v1/drives?begins_off=1"), "begins_off"),
        ):
            assert answer.status_code == 422
            assert said in answer.json()["error"]["message"]

    def test_a_long_belief_is_summed_over_stretches(self):
        belief = np.arange(10.0)
        assert _stretches(belief, 20) == belief.tolist()
        assert _stretches(belief, 4) == [0 + 1, 2 + 3 + 4, 5 + 6, 7 + 8 + 9]

    def test_the_belief_over_the_route_is_sent_where_it_is_asked_for(self, asked, route):
        drive = asked.post("/v1/drives").json()["drive"]
        frames, frame = f"/v1/drives/{drive}/frames", raw(route.queries[:1])
        assert "belief" not in asked.post(frames, **frame).json()
        assert len(asked.post(f"{frames}?belief=8", **frame).json()["belief"]) == 8
        assert len(asked.post(f"{frames}?belief=60", **frame).json()["belief"]) == 40
        for query, said in (
            ("belief=9999", "less than or equal to 2000"),
            ("k=3", "k: there is no such parameter"),
        ):
            refused = asked.post(f"{frames}?{query}", **frame)
            assert refused.status_code == 422
            assert said in refused.json()["error"]["message"]

    def test_a_drive_has_an_end(self, vectors_map, route):
        with TestClient(app_of(vectors_map, limits=Limits(frames=2))) as client:
            drive = client.post("/v1/drives").json()["drive"]
            answers = [client.post(f"/v1/drives/{drive}/frames", **raw(route.queries[:1])) for _ in range(3)]
            assert [answer.status_code for answer in answers] == [200, 200, 413]
            assert "begin another" in answers[2].json()["error"]["message"]

    def test_too_many_are_refused(self, vectors_map):
        with TestClient(app_of(vectors_map, limits=Limits(drives=1))) as client:
            assert [client.post("/v1/drives").status_code for _ in range(2)] == [201, 429]


class TestTheClient:
    """The client against the server in the same process."""

    @pytest.fixture
    def client(self, vectors_map):
        with TestClient(app_of(vectors_map)) as server:
            made = Client("http://testserver", wait=lambda seconds: None)
            made.http = server
            yield made

    def test_locates_and_follows(self, client, route):
        assert client.map()["places"] == 40
        assert client.locate(route.queries[:2], k=2)["results"][0]["places"]
        with client.drive() as drive:
            assert "off_map" in drive.step(route.queries[0])
            assert len(drive.step(route.queries[1], belief=5)["belief"]) == 5
        with pytest.raises(ServerError, match="or the server was restarted since"):
            drive.step(route.queries[0])

    def test_what_is_no_query_is_named(self, client, tmp_path):
        for query, said in (
            (np.zeros((10, 16, 3), np.uint8), "send pixels as the bytes of an image file"),
            (np.zeros((2, 3, 4), np.float32), "no descriptors"),
            ([1.0, 2.0], "got list"),
            (tmp_path / "none.jpg", "cannot read image"),
            (tmp_path, "cannot read image"),
        ):
            with pytest.raises(DisplaceError, match=said):
                client.locate(query)

    def test_a_request_is_sent_once_at_least(self):
        with pytest.raises(InputError, match="tries=0 must be a whole number of at least 1"):
            Client("http://map", tries=0)

    def test_sends_again_while_the_server_is_busy(self):
        answers = [httpx.Response(503), httpx.ConnectError("no"), httpx.Response(200, json={"places": 1})]
        waited = []

        def respond(request):
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        client = Client("http://map", wait=waited.append, transport=httpx.MockTransport(respond))
        assert client.map() == {"places": 1}
        assert waited == [0.4, 0.8]

    def test_a_frame_is_sent_once_and_the_client_goes_on_trying(self):
        """While a frame is under way, other threads send what may be sent again."""
        tries, waited = [], []

        def respond(request):
            tries.append(request.url.path)
            if request.url.path.endswith("frames"):
                with pytest.raises(ServerError, match="503"):
                    client.map()
            return httpx.Response(503)

        client = Client("http://map", tries=3, wait=waited.append, transport=httpx.MockTransport(respond))
        with pytest.raises(ServerError, match="503"):
            RemoteDrive(client, "d").step(np.zeros(4, np.float32))
        assert tries == ["/v1/drives/d/frames", *["/v1/map"] * 3]
        assert len(waited) == 2

    def test_a_drive_that_the_server_forgot_is_over(self, client):
        drive = client.drive()
        drive.end()
        with pytest.raises(ZeroDivisionError), drive:
            raise ZeroDivisionError
        refusal = httpx.MockTransport(lambda request: httpx.Response(401))
        with pytest.raises(ServerError, match="401"):
            RemoteDrive(Client("http://map", transport=refusal), "d").end()

    def test_says_what_the_server_said(self):
        refusal = httpx.Response(413, json={"error": {"message": "send less"}})
        client = Client("http://map", transport=httpx.MockTransport(lambda request: refusal))
        with pytest.raises(ServerError, match=r"refused \(413\): send less"):
            client.map()


class TestLocatingByAServer:
    """`displace locate http://…`: what the verb says of a server's map is what it says of the map's file."""

    @pytest.fixture
    def by_server(self, monkeypatch):
        """Run the verb with a client of an app in this process in place of a connection."""

        def run(app, *args, **options):
            with TestClient(app) as server:
                monkeypatch.setattr("httpx.Client", lambda **_: server)
                return locate("http://testserver", *args, **options)

        return run

    def same(self, one, other):
        first, second = one.to_json(), other.to_json()
        assert [record.keys() for record in first] == [record.keys() for record in second]
        for a, b in zip(first, second, strict=True):
            assert (a["image"], a["places"], a["in_map"]) == (b["image"], b["places"], b["in_map"])
            np.testing.assert_allclose(a["scores"], b["scores"], atol=1e-5)
            if a.get("confidence") is not None:
                np.testing.assert_allclose(a["confidence"], b["confidence"], atol=1e-5)

    def test_images(self, by_server, pictures, tmp_path):
        (tmp_path / "no.png").write_bytes(b"no image")
        files = [pictures / "query" / "03.png", tmp_path / "no.png", pictures / "query" / "07.png"]
        app, path = app_of(pictures / "town.displace"), pictures / "town.displace"
        found, own = by_server(app, files, k=3), locate(path, files, k=3)
        self.same(found, own)
        assert list(found.skipped) == list(own.skipped) == [str(files[1])]
        steps = []
        by_server(
            app_of(path),
            files[:1],
            tmp_path / "places.csv",
            progress=lambda *step: steps.append(step),
        )
        assert "03" in (tmp_path / "places.csv").read_text()
        assert steps == [("describing", 1, 1)]

    def test_a_store_in_parts_of_what_one_request_takes(self, by_server, pictures, tmp_path):
        extract(pictures / "route.csv", tmp_path / "route.desc")
        app = app_of(pictures / "town.displace", limits=Limits(queries=5))
        found = by_server(app, [tmp_path / "route.desc"], traversal="sun", adapt="none")
        self.same(found, locate(pictures / "town.displace", [tmp_path / "route.desc"], traversal="sun"))

    def test_what_is_the_servers_to_choose_is_refused(self, by_server, pictures):
        photo = [pictures / "query" / "03.png"]
        for options in ({"device": "cpu"}, {"crop": "1,1,1,1"}, {"search": "exact"}):
            with pytest.raises(InputError, match="leave it out"):
                by_server(app_of(pictures / "town.displace"), photo, **options)

    def test_a_map_of_bare_vectors(self, by_server, vectors_map, pictures):
        with pytest.raises(InputError, match="no model to describe images"):
            by_server(app_of(vectors_map), [pictures / "query" / "03.png"])

    def test_a_drive_and_an_area(self, vectors_map, route, tmp_path):
        points = Positions(np.column_stack([np.arange(40) * 10.0, np.zeros(40)]))
        path = tmp_path / "town.displace"
        refs = route.references
        info = Places(np.arange(40), points, frames=np.arange(40))
        build(ReferenceSet(refs.vectors, refs.places, refs.traversals, info=info)).save(path)
        with TestClient(app_of(path)) as server:
            client = Client("http://testserver")
            client.http = server
            town, own = RemoteMap(client), PlaceMap.load(path)
            found = town.smoothed(route.queries[10:16], 3)
            assert found.places.shape == (6, 3)
            assert abs(found.places[-1, 0] - 15) <= 1
            np.testing.assert_allclose(found.positions.points[:, 0], 10.0 * found.places[:, 0])
            many = joined([town.smoothed(route.queries[10:12], 20), town.locate(route.queries[:2], 20)])
            assert [len(record["places"]) for record in many.to_json()] == [10, 10, 20, 20]
            near = town.within((100, 0), 15).locate(route.queries[30:31], 9)
            expected = own.within((100, 0), 15).locate(route.queries[30:31], 9)
            assert near.places.tolist() == expected.places.tolist()

    def test_an_image_that_cannot_be_read_here_is_one_failure(self, pictures):
        """It ended the run, and all other images were lost."""
        with TestClient(app_of(pictures / "town.displace")) as server:
            client = Client("http://testserver")
            client.http = server
            failures = {}
            paths = [pictures / "query" / "03.png", pictures / "query" / "gone.png"]
            vectors = RemoteMap(client).described(paths, failures)
        assert np.isfinite(vectors[0]).all()
        assert np.isnan(vectors[1]).all()
        assert failures == {1: f"cannot read image {paths[1]}: No such file or directory"}

    def test_no_server(self):
        def respond(request):
            raise httpx.ConnectError("refused")

        client = Client("http://map", wait=lambda _: None, transport=httpx.MockTransport(respond))
        with pytest.raises(ServerError, match="cannot be reached"):
            RemoteMap(client)
        page = httpx.MockTransport(lambda request: httpx.Response(200, text="<html>"))
        with pytest.raises(ServerError, match="no map server"):
            RemoteMap(Client("http://map", transport=page))


def test_a_port_that_is_taken_is_named_with_the_way_out(tmp_path):
    """The server's own log said so among four other lines, after it had read the map."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = rf"cannot listen on .*port={port}: .*choose another --port, or 0 for any free one"
        with pytest.raises(InputError, match=message):
            serve(tmp_path / "absent.displace", port=port)


def test_rates_recover_with_time():
    now = [0.0]
    limit = RateLimit(1.0, clock=lambda: now[0])
    assert [limit.admits("a") for _ in range(11)] == [True] * 10 + [False]
    now[0] = 2.0
    assert [limit.admits("a") for _ in range(3)] == [True, True, False]


def test_a_histogram_is_cumulative():
    metrics = Metrics()
    for seconds in (0.0005, 0.003, 20.0):
        metrics.count("/x", 200, seconds)
    lines = [line for line in metrics.text("v", {}).splitlines() if "bucket" in line]
    counts = [int(line.rsplit(" ", 1)[1]) for line in lines]
    assert (counts[0], counts[2], counts[-2], counts[-1]) == (1, 2, 2, 3)
    assert json.dumps(counts) == json.dumps(sorted(counts))


def test_an_area_bounds_the_places(route, tmp_path):
    refs, points = route.references, Positions(np.column_stack([np.arange(40) * 10.0, np.zeros(40)]))
    build(refs, "hops", positions=points).save(tmp_path / "town.displace")
    with TestClient(app_of(tmp_path / "town.displace")) as client:
        (found,) = client.post("/v1/locate?k=9&near=100,0&radius=15", **raw(route.queries[30:31])).json()[
            "results"
        ]
        assert sorted(found["places"]) == [9, 10, 11]
        own = Client("http://testserver")
        own.http = client
        for near in ((100, 0), np.array([100.0, 0.0]), "100,0"):  # of a pair the second number was sent alone
            (result,) = own.locate(route.queries[30:31], 9, near=near, radius=15)["results"]
            assert result == found
        for wrong in ("near=100,0", "near=here&radius=5", "near=nan,0&radius=5", "near=1,2&radius=-1"):
            assert client.post(f"/v1/locate?{wrong}", **raw(route.queries[:1])).status_code == 422, wrong
