"""Weights files: downloads, the cache, digests, and files that are not what they should be."""

from __future__ import annotations

import hashlib
import http.server
import os
import re
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import rich

from displace.cli.console_store import models_table
from displace.errors import WeightsError
from displace.models import _weights, get_model, list_models
from displace.models._weights import Weights, cache_folder, cached_path, checked_sha256, fetch

ROOT = Path(__file__).resolve().parent.parent
CONTENT = bytes(range(256)) * 9000


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers each path in its own way."""

    def do_GET(self) -> None:
        answers = {
            "/good.pth": (200, CONTENT, len(CONTENT)),
            "/short.pth": (200, CONTENT[:1000], len(CONTENT)),
            "/page.pth": (200, b"\n<!DOCTYPE html><html>sign in</html>", None),
            "/empty.pth": (200, b"", 0),
            "/slow.pth": (200, CONTENT[:70000], len(CONTENT)),
        }
        code, body, length = answers.get(self.path, (404, b"", 0))
        self.send_response(code)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)
        if self.path == "/slow.pth":
            self.wfile.flush()
            self.rfile.read()  # until the other side is gone

    def log_message(self, *args: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        running.block_on_close = False
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("DISPLACE_CACHE", str(folder))
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    return folder


def contents(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_download_once_with_progress(server: str, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    weights = Weights("good.pth", f"{server}/good.pth")
    path = cached_path("some", weights)
    seen: list[tuple[int, int | None]] = []
    fetch(path, "some:one", weights, lambda done, total: seen.append((done, total)))
    assert path == cache / "weights" / "some" / "good.pth"
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert len(seen) > 1
    # What is there is not fetched again, not even from a dead address.
    fetch(path, "some:one", Weights("good.pth", "http://127.0.0.1:9/good.pth"))
    assert caplog.messages == [f"downloading the weights of some:one from {server}/good.pth to {path}"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("short.pth", "1000 of 2304000 bytes"),
        ("page.pth", "web page"),
        ("empty.pth", "sent nothing"),
        ("absent.pth", "404"),
    ],
)
def test_bad_answers_leave_nothing(server: str, cache: Path, name: str, reason: str) -> None:
    weights = Weights(name, f"{server}/{name}")
    with pytest.raises(WeightsError, match=reason) as caught:
        fetch(cached_path("some", weights), "some:one", weights)
    for part in ("some:one", f"{server}/{name}", "weights=FILE"):
        assert part in str(caught.value)
    assert contents(cache) == set()


def test_silent_server_is_given_up(server: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_weights, "TIMEOUT", 0.3)
    weights = Weights("slow.pth", f"{server}/slow.pth")
    with pytest.raises(WeightsError, match="timed out"):
        fetch(cached_path("some", weights), "some:one", weights)
    assert contents(cache) == set()


def test_unreachable_address() -> None:
    with socket.socket() as taken:  # where nobody listens
        taken.bind(("127.0.0.1", 0))
        weights = Weights("w.pth", f"http://127.0.0.1:{taken.getsockname()[1]}/w.pth")
        with pytest.raises(WeightsError, match="refused") as caught:
            fetch(cached_path("some", weights), "some:one", weights)
    assert "cannot be reached" in str(caught.value)
    assert "cannot write" not in str(caught.value)  # the file is not what is wrong


def test_killed_download_leaves_nothing_that_looks_complete(server: str, cache: Path) -> None:
    code = (
        "from displace.models._weights import *;"
        f"w = Weights('slow.pth', '{server}/slow.pth'); fetch(cached_path('some', w), 'some:one', w)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "DISPLACE_CACHE": str(cache)})
    while not contents(cache) and process.poll() is None:
        time.sleep(0.02)
    process.kill()
    process.wait()
    left = contents(cache)
    assert left, "the download had not begun"
    assert "slow.pth" not in left
    # A later download clears away what is old enough to be nobody's.
    for leftover in (cache / "weights" / "some").iterdir():
        os.utime(leftover, (0, 0))
    weights = Weights("slow.pth", f"{server}/good.pth")
    fetch(cached_path("some", weights), "some:one", weights)
    assert contents(cache) == {"slow.pth"}


def test_page_instead_of_a_file_is_explained(cache: Path) -> None:
    with pytest.raises(WeightsError) as caught:
        get_model("mixvpr:512").load()
    message = str(caught.value)
    for part in ("drive.google.com", "rows(2).ckpt", "--weights FILE", str(cache)):
        assert part in message


def test_cache_folder_follows_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DISPLACE_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "displace"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "displace"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == Path.home() / "Library" / "Caches" / "displace"


def test_digest_is_recorded_and_checked(cache: Path) -> None:
    path = cache / "weights" / "some" / "w.pth"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"first")
    digest = hashlib.sha256(b"first").hexdigest()
    assert checked_sha256(path) == digest
    assert path.with_name("w.pth.sha256").read_text() == f"{digest}  w.pth\n"
    assert checked_sha256(path) == digest
    path.write_bytes(b"second")
    with pytest.raises(
        WeightsError, match=rf"{digest} was recorded at its first use.*delete it and w\.pth\.sha256"
    ):
        checked_sha256(path)


def test_digest_outside_of_the_cache_is_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "mine.pth"
    path.write_bytes(b"mine")
    assert checked_sha256(path) == hashlib.sha256(b"mine").hexdigest()
    assert contents(tmp_path) == {"mine.pth"}


def test_published_digest_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "w.pth"
    path.write_bytes(b"other")
    with pytest.raises(WeightsError, match="published is 57934424"):
        checked_sha256(path, "57934424")
    digest = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(WeightsError, match="damaged or another one"):
        checked_sha256(path, digest[:63])  # its beginning is not enough
    assert checked_sha256(path, digest) == digest


@pytest.mark.parametrize("name", ["megaloc", "efficientnet_lite"])
def test_another_file_than_the_published_one_is_refused_by_its_model(
    cache: Path, name: str, monkeypatch
) -> None:
    pytest.importorskip("torch")
    model = get_model(name)
    cache.mkdir()
    (cache / "w").write_bytes(b"other")
    monkeypatch.setattr(type(model), "weights_path", lambda *_: cache / "w")
    with pytest.raises(WeightsError, match=rf"published is {model.weights.sha256}"):
        model.weights_sha256()


def test_published_digests_are_whole_and_addresses_are_of_fixed_revisions() -> None:
    published = {row.name: row.weights_sha256 for row in list_models() if row.weights_sha256}
    assert set(published) == {"efficientnet_lite:1792", "megaloc:8448"}
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in published.values())
    for row in list_models():
        assert not re.search("/(main|master|latest|HEAD)/", row.weights_address or "")


def test_the_list_of_models_says_whose_weights_are_trusted_on_first_use(capsys) -> None:
    rich.print(models_table(list_models()))
    shown = capsys.readouterr().out
    lines = {line.split()[0]: line for line in shown.splitlines() if "-D" in line}
    assert "trusted on first use" in lines["salad:8448"]
    assert "SHA-256 d4f9f2bcb600" in lines["megaloc:8448"]
    assert "trusted" not in lines["megaloc:8448"] + lines["hog"]


def test_torch_is_one_whose_weights_only_is_safe() -> None:
    """Before 2.6 `weights_only=True` could be made to run code (CVE-2025-32434)."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    needed = [name for names in extras.values() for name in names if re.match(r"torch\b", name)]
    assert needed
    assert all(
        tuple(map(int, re.fullmatch(r"torch>=(\d+)\.(\d+)", name).groups())) >= (2, 6) for name in needed
    )


def test_a_torch_whose_weights_only_is_unsafe_reads_no_checkpoint(tmp_path: Path, monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    from displace.models._checkpoint import read_state

    torch.save({"a": torch.zeros(1)}, tmp_path / "w.pth")
    assert read_state(tmp_path / "w.pth", "weights")["a"] == 0
    monkeypatch.setattr(torch, "__version__", "2.5.1+cu124")
    with pytest.raises(WeightsError, match=r"torch 2\.5\.1\+cu124 may run code .*; 2\.6 or later"):
        read_state(tmp_path / "w.pth", "weights")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real, if untrained, weights of cosplace:resnet18-64."""
    torch = pytest.importorskip("torch")
    from displace.models.heads.gem import gem_network

    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "ResNet18_64_cosplace.pth"
    torch.save(gem_network("resnet18", 64).state_dict(), path)
    return path


def refused(name: str, path: Path) -> str:
    with pytest.raises(WeightsError) as caught:
        get_model(name, weights=path).load()
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_file_of_another_variant(checkpoint: Path) -> None:
    message = refused("cosplace:resnet18-128", checkpoint)
    assert "ResNet18_128_cosplace.pth from https://github.com/gmberton/CosPlace" in message
    assert "aggregation.3.weight is [64, 512], not [128, 512]" in message


def test_file_of_another_model(checkpoint: Path) -> None:
    message = refused("mixvpr", checkpoint)
    assert "missing (backbone.model.conv1.weight" in message
    assert "unexpected (backbone.0.weight" in message


def test_file_with_one_tensor_missing_or_too_many(checkpoint: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    state = torch.load(checkpoint, weights_only=True)
    path = tmp_path / "w.pth"
    torch.save({**state, "surplus": torch.zeros(1)}, path)
    assert "tensors 1 unexpected (surplus)" in refused("cosplace:resnet18-64", path)
    del state["aggregation.1.p"]
    torch.save(state, path)
    assert "tensors 1 missing (aggregation.1.p)" in refused("cosplace:resnet18-64", path)


@pytest.mark.parametrize("name", ["cosplace:resnet18-64", "netvlad", "megaloc"])
@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "is empty"), (b"<html>404</html>", "web page"), (b"\x00" * 4096, "cannot be read")],
)
def test_files_that_are_no_weights(name: str, content: bytes, reason: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "w.pth"
    path.write_bytes(content)
    message = refused(name, path)
    assert reason in message
    assert f"the weights of {name}" in message


def test_truncated_and_absent_files(checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "w.pth"
    path.write_bytes(checkpoint.read_bytes()[:100_000])
    assert "cut short or of another kind" in refused("cosplace:resnet18-64", path)
    message = refused("cosplace:resnet18-64", tmp_path / "none.pth")
    assert "is not there; expected the weights of cosplace:resnet18-64" in message


def test_cached_file_that_is_no_weights_can_be_replaced(checkpoint: Path, cache: Path) -> None:
    path = cache / "weights" / "cosplace" / checkpoint.name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x00" * 100)
    with pytest.raises(WeightsError, match="delete it and get it again"):
        get_model("cosplace:resnet18-64").load()
    path.write_bytes(checkpoint.read_bytes())
    get_model("cosplace:resnet18-64").load()


def test_code_in_a_checkpoint_does_not_run(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    target = tmp_path / "ran"

    class Payload:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (target,))

    path = tmp_path / "w.pth"
    torch.save({"x": Payload()}, path)
    refused("cosplace:resnet18-64", path)
    assert not target.exists()


def test_table_of_other_things_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "w.pth"
    torch.save({"epoch": 3}, path)
    assert "no table of named tensors" in refused("cosplace:resnet18-64", path)


def test_nested_checkpoint_gives_the_same_descriptors(checkpoint: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    nested = tmp_path / "nested.ckpt"
    torch.save({"epoch": 3, "state_dict": torch.load(checkpoint, weights_only=True)}, nested)
    image = np.random.default_rng(0).integers(0, 256, (64, 96, 3), np.uint8)
    vectors = []
    for path in (checkpoint, nested):
        model = get_model("cosplace:resnet18-64", weights=path)
        vectors.append(model.describe(model.prepare(image)[None]))
    np.testing.assert_array_equal(*vectors)
    assert vectors[0].shape == (1, 64)
    assert np.linalg.norm(vectors[0]) == pytest.approx(1, abs=1e-6)


def test_batch_equals_single_images_and_repeats_exactly(checkpoint: Path) -> None:
    model = get_model("cosplace:resnet18-64", weights=checkpoint)
    images = np.random.default_rng(1).integers(0, 256, (3, 64, 96, 3), np.uint8)
    batch = np.stack([model.prepare(image) for image in images])
    together = model.describe(batch)
    apart = np.concatenate([model.describe(one[None]) for one in batch])
    np.testing.assert_allclose(together, apart, atol=1e-6)
    np.testing.assert_array_equal(together, model.describe(batch))


def test_fingerprint_holds_the_digest_without_reading_tensors(checkpoint: Path) -> None:
    model = get_model("cosplace:resnet18-64", weights=checkpoint)
    digest = hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    assert model.fingerprint()["weights_sha256"] == digest
    other = get_model("eigenplaces:vgg16-512", weights=checkpoint)
    assert other.fingerprint()["weights_sha256"] == digest


def test_cached_file_is_used_and_listed(checkpoint: Path, cache: Path) -> None:
    from displace.models import list_models

    model = get_model("cosplace:resnet18-64")
    assert not {row.name: row for row in list_models()}[model.full_name].weights_here
    path = cache / "weights" / "cosplace" / checkpoint.name
    path.parent.mkdir(parents=True)
    path.write_bytes(checkpoint.read_bytes())
    model.load()
    assert contents(cache) == {checkpoint.name, checkpoint.name + ".sha256"}
    row = {row.name: row for row in list_models()}[model.full_name]
    assert row.weights_here
    assert row.weights_path == path
