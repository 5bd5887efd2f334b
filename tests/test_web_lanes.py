"""Images described side by side: in threads, in processes once many wait, and what becomes of a process that ends."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="needs the extra web")

from displace import PlaceMap, ReferenceSet, build
from displace.models import get_model
from displace.web import describer as describer_file
from displace.web import lanes as lanes_file
from displace.web import worker as worker_file
from displace.web.describer import THREADS, Describer
from displace.web.lanes import MANY, TOGETHER, TRIES, Lanes
from displace.web.limits import Limits, RefusedError
from displace.web.worker import Worker, WorkerEndedError, prepared_image

HOG = get_model("hog")
NO_IMAGE = b"no image"


def picture(seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (48, 64, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


PICTURES = [picture(seed) for seed in range(12)]
EXPECTED = HOG.describe(np.stack([prepared_image(HOG, image, Limits()) for image in PICTURES]))


@pytest.fixture
def made():
    """Makes lanes that are closed at the end."""
    open_ones = []

    def make(n_lanes=1, **options):
        open_ones.append(Lanes(HOG, n_lanes, options.pop("limits", Limits()), **options))
        return open_ones[-1]

    yield make
    for lanes in open_ones:
        lanes.close()


def describe(lanes, images):
    return asyncio.run(lanes.describe(images))


def with_processes(lanes):
    """Have the processes started, and wait until they are ready."""
    describe(lanes, PICTURES[: len(lanes.lanes)] * 2)
    for lane in lanes.lanes:
        if (starting := lane._starting) is not None:
            starting.join()
    assert lanes.n_processes
    return lanes


class Fragile:
    """Stands for a process that ends when it meets a certain image, or that cannot start."""

    fatal = b"fatal"
    starts = True
    made = 0

    def __init__(self, model, limits):
        type(self).made += 1
        self.model, self.limits, self.pid = model, limits, 0
        self.ended = threading.Event()

    def wait(self):
        if not self.starts:
            raise WorkerEndedError("it cannot start")

    def prepare(self, images):
        if self.fatal in images:
            raise WorkerEndedError("it ended")
        return [prepared_image(self.model, image, self.limits) for image in images]

    def end(self):
        self.ended.set()


@pytest.fixture
def fragile(monkeypatch):
    kind = type("Fragile", (Fragile,), {})
    monkeypatch.setattr(lanes_file, "Worker", kind)
    return kind


@pytest.fixture(scope="module")
def worker():
    worker = Worker(HOG, Limits(pixels=5000))
    worker.wait()
    yield worker
    worker.end()


def test_a_worker_has_the_mask_of_the_model(tmp_path):
    """Of which a fingerprint has only the hash."""
    mask = np.full((60, 80), 255, np.uint8)
    mask[30:] = 0
    Image.fromarray(mask).save(tmp_path / "mask.png")
    masked = get_model("hog", mask=tmp_path / "mask.png")
    worker = Worker(masked, Limits())
    try:
        worker.wait()
        (answer,) = worker.prepare(PICTURES[:1])
    finally:
        worker.end()
    np.testing.assert_array_equal(answer, prepared_image(masked, PICTURES[0], Limits()))


class TestWorker:
    def test_it_prepares_as_the_server_itself_does(self, worker):
        answers = worker.prepare(PICTURES)
        np.testing.assert_array_equal(np.stack(answers), EXPECTED)

    def test_what_is_wrong_with_an_image_is_an_answer(self, worker):
        large = io.BytesIO()
        Image.new("RGB", (100, 60)).save(large, "PNG")
        first, none, huge, cut, last = worker.prepare(
            [PICTURES[0], NO_IMAGE, large.getvalue(), PICTURES[1][:2000], PICTURES[2]]
        )
        assert [each.status for each in (none, huge, cut)] == [415, 413, 422]
        assert "no image" in none.message
        np.testing.assert_array_equal(np.stack([first, last]), EXPECTED[[0, 2]])

    @pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
    def test_signals_of_a_terminal_or_of_systemd_do_not_end_it(self, worker):
        os.kill(worker.pid, signal.SIGTERM)
        os.kill(worker.pid, signal.SIGINT)
        np.testing.assert_array_equal(worker.prepare(PICTURES[:1])[0], EXPECTED[0])

    @pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
    def test_one_that_was_killed_is_noticed(self):
        worker = Worker(HOG, Limits())
        worker.wait()
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(WorkerEndedError, match=f"process {worker.pid}, which reads images, ended"):
            worker.prepare(PICTURES)
        worker.end()

    @pytest.mark.skipif(sys.platform == "win32", reason="timers of POSIX")
    def test_an_image_that_takes_too_long_ends_it(self):
        worker = Worker(HOG, Limits(seconds=1e-6))
        worker.wait()
        with pytest.raises(WorkerEndedError):
            worker.prepare(PICTURES[:1])
        worker.end()

    def test_one_that_cannot_start_is_noticed(self, monkeypatch):
        monkeypatch.setattr(worker_file, "COMMAND", (sys.executable, "-c", "raise SystemExit(1)"))
        worker = Worker(HOG, Limits())
        with pytest.raises(WorkerEndedError, match="ended unexpectedly"):
            worker.wait()
        worker.end()

    @pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
    def test_it_does_not_outlive_a_server_that_was_killed(self):
        server = (
            "import os, signal, sys\n"
            "from displace.models import get_model\n"
            "from displace.web.limits import Limits\n"
            "from displace.web.worker import Worker\n"
            "worker = Worker(get_model('hog'), Limits())\n"
            "worker.wait()\n"
            "print(worker.pid, flush=True)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        # Both write to this pipe, which is at its end when both have ended; none is waited for any longer.
        ended = subprocess.run([sys.executable, "-c", server], capture_output=True)
        assert int(ended.stdout) > 0
        assert ended.returncode == -signal.SIGKILL


class TestLanes:
    def test_threads_describe_what_is_little(self, made):
        lanes = made(2)
        np.testing.assert_array_equal(describe(lanes, PICTURES[:3]), EXPECTED[:3])
        assert lanes.n_processes == 0
        assert not any(lane._starting for lane in lanes.lanes)

    def test_processes_describe_what_is_much(self, made):
        lanes = with_processes(made(1, many=0))
        before = lanes.lanes[0].worker
        np.testing.assert_array_equal(describe(lanes, PICTURES), EXPECTED)
        with pytest.raises(RefusedError, match="no image"):
            describe(lanes, [*PICTURES, NO_IMAGE])
        assert lanes.lanes[0].worker is before
        lanes.close()
        assert lanes.n_processes == 0

    @pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
    def test_a_process_that_was_killed_is_replaced_and_no_image_lost(self, made):
        lanes = with_processes(made(1, many=0))
        killed = lanes.lanes[0].worker.pid
        os.kill(killed, signal.SIGKILL)
        np.testing.assert_array_equal(describe(lanes, PICTURES), EXPECTED)
        assert lanes.lanes[0].worker.pid != killed

    def test_images_wait_when_lanes_are_taken(self, made, fragile):
        lanes = made(1, many=len(PICTURES) - TOGETHER)
        describe(lanes, PICTURES)  # the first take leaves some
        assert lanes.n_waited == TOGETHER

    def test_an_image_that_ends_processes_is_refused_and_the_others_are_not(self, made, fragile):
        lanes = with_processes(made(1, many=0))

        async def all_of_them():
            asked = [lanes.describe([image]) for image in (*PICTURES[:3], fragile.fatal, *PICTURES[3:6])]
            return await asyncio.gather(*asked, return_exceptions=True)

        *first, refused, fourth, fifth, sixth = asyncio.run(all_of_them())
        assert (refused.status, refused.message[:29]) == (503, "the image could not be read: ")
        np.testing.assert_array_equal(np.concatenate([*first, fourth, fifth, sixth]), EXPECTED[:6])
        np.testing.assert_array_equal(describe(lanes, PICTURES), EXPECTED)

    def test_where_no_process_can_be_started_threads_go_on(self, made, fragile):
        fragile.starts = False
        lanes = made(1, many=0)
        for _ in range(2 * TRIES):
            np.testing.assert_array_equal(describe(lanes, PICTURES), EXPECTED)
            if (starting := lanes.lanes[0]._starting) is not None:
                starting.join()
        assert (fragile.made, lanes.n_processes) == (TRIES, 0)

    def test_an_idle_process_is_ended(self, made, fragile, monkeypatch):
        lanes = with_processes(made(1, many=0))
        worker, waits = lanes.lanes[0].worker, lanes.changed.wait_for
        idle = iter([False])
        monkeypatch.setattr(
            lanes.changed, "wait_for", lambda *args: next(idle, None) is None and waits(*args)
        )
        lanes.many = 100
        describe(lanes, PICTURES[:1])
        worker.ended.wait()
        describe(lanes, PICTURES[:1])
        assert lanes.n_waited == 0
        assert lanes.n_processes == 0

    def test_images_whose_clients_have_gone_are_left_out(self, made, monkeypatch):
        lanes, seen, gate = made(1), [], threading.Event()
        prepared = lanes_file.prepared_image

        def held(model, image, limits):
            gate.wait()
            seen.append(image)
            return prepared(model, image, limits)

        monkeypatch.setattr(lanes_file, "prepared_image", held)

        async def ask():
            tasks = [asyncio.create_task(lanes.describe([image])) for image in PICTURES[:1]]
            await asyncio.sleep(0)
            while lanes.queue:  # until the lane has taken the first
                await asyncio.sleep(0)
            tasks += [asyncio.create_task(lanes.describe([image])) for image in PICTURES[1:4]]
            await asyncio.sleep(0)
            tasks[2].cancel()
            await asyncio.gather(tasks[2], return_exceptions=True)
            gate.set()
            return await asyncio.gather(*tasks, return_exceptions=True)

        found = asyncio.run(ask())
        assert isinstance(found[2], asyncio.CancelledError)
        assert seen == [PICTURES[0], PICTURES[1], PICTURES[3]]

    def test_too_many_are_refused(self, made):
        with pytest.raises(RefusedError, match="images are waiting"):
            describe(made(1, limits=Limits(waiting=3)), PICTURES[:4])

    def test_what_waits_at_the_end_is_described(self, made):
        lanes = made(1)

        async def ask():
            task = asyncio.create_task(lanes.describe(PICTURES))
            await asyncio.sleep(0)
            lanes.close(wait=False)
            return await task

        np.testing.assert_array_equal(asyncio.run(ask()), EXPECTED)


class Light(type(HOG)):
    """A model whose `prepare` is not the work."""

    prepare_is_heavy = False


class TestDescriber:
    @pytest.fixture
    def place_map(self):
        refs = ReferenceSet(
            np.concatenate([EXPECTED, EXPECTED[:, ::-1]]),
            np.tile(np.arange(12), 2),
            np.repeat(["a", "b"], 12),
        )
        return build(refs, model=HOG.fingerprint())

    @pytest.fixture
    def pool(self):
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(2) as pool:
            yield pool

    @pytest.mark.parametrize(
        ("cores", "workers", "expected"),
        [
            (1, None, (THREADS, None)),
            (2, None, (2, MANY)),
            (64, None, (8, MANY)),
            (8, 0, (THREADS, None)),
            (1, 3, (3, MANY)),
        ],
    )
    def test_how_many(self, place_map, pool, monkeypatch, cores, workers, expected):
        monkeypatch.setattr(describer_file, "n_cores", lambda: cores)
        describer = Describer(pool, workers, Limits())
        np.testing.assert_array_equal(asyncio.run(describer.describe(place_map, PICTURES)), EXPECTED)
        (lanes,) = describer._lanes.values()
        assert (len(lanes.lanes), lanes.many) == expected
        describer.close()

    def test_models_whose_work_is_elsewhere_have_threads(self, place_map, pool, monkeypatch):
        monkeypatch.setattr(PlaceMap, "open_model", lambda self: Light())
        describer = Describer(pool, 2, Limits())
        np.testing.assert_array_equal(asyncio.run(describer.describe(place_map, PICTURES)), EXPECTED)
        with pytest.raises(RefusedError, match="no image"):
            asyncio.run(describer.describe(place_map, [*PICTURES, NO_IMAGE]))
        assert not describer._lanes
        assert describer.n_processes == 0

    def test_a_map_of_the_same_model_keeps_them(self, place_map, pool):
        describer, other = Describer(pool, 1, Limits()), PlaceMap(place_map.state)
        asyncio.run(describer.describe(place_map, PICTURES[:1]))
        (before,) = describer._lanes.values()
        asyncio.run(describer.describe(other, PICTURES[:1]))
        assert list(describer._lanes.values()) == [before]
        describer.close()

    def test_of_other_models_the_last_two_are_kept(self, place_map, pool):
        describer = Describer(pool, 1, Limits())
        kept = [describer._lanes_of(HOG, key) for key in ("a", "b", "a", "c")]
        assert list(describer._lanes) == ["a", "c"]
        assert kept[0] is kept[2]
        assert [lanes.closed for lanes in kept] == [False, True, False, False]
        kept[1].close()
        describer.close()
