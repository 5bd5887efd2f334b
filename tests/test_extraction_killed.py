"""Extraction killed with SIGKILL, again and again, ends with what an uninterrupted run gives.

The killed processes are forked from one that has imported everything, so that many kills take little time.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from killing import die_at
from tiny import HeavyTinyModel, TinyModel, expected, make_route

from displace.descriptors import extraction, preparation
from displace.descriptors.extraction import extract
from displace.descriptors.shards import Shards, exclusive
from displace.descriptors.store import DescriptorStore, is_store
from displace.manifest.table import Manifest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

N_KILLS = 25


def keep_ledger(ledger: Path) -> None:
    """Note from now on how many vectors were reported as safe, in a file that is not part of the store."""
    append = Shards.append

    def acknowledged(self, keys, vectors):
        append(self, keys, vectors)
        ledger.write_text(str(len(self)))

    Shards.append = acknowledged


def run_child(route: Manifest, folder: Path, ledger: Path, before=lambda: None) -> int:
    """Fork a process that extracts into `folder`; return its id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        keep_ledger(ledger)
        extraction.SHARD_BYTES = 1
        before()
        extract(route, TinyModel(seconds=0.004), folder, batch_size=3, workers=2)
        status = 0
    finally:
        os._exit(status)


def check_opens(folder: Path, ledger: Path, route: Manifest, truth: np.ndarray) -> int:
    """Open what a killed process left; return how many images it holds, all of them right."""
    acknowledged = count(ledger)
    if not is_store(folder):
        assert acknowledged == 0
        return 0
    store = DescriptorStore(folder)
    assert store.shards.damaged == []
    assert len(store) >= acknowledged
    row_of = {name: row for row, name in enumerate(route.images)}
    rows = [row_of[name] for name in store.images]
    np.testing.assert_allclose(store.vectors(), truth[rows], atol=1e-6)
    return len(store)


def kill_after(child: int, ledger: Path, rng: random.Random) -> int:
    """Kill `child` at a random moment: at once, or when it has acknowledged some more images. Return its status."""
    wanted = count(ledger) + rng.choice([0, 0, 3, 12, 24])
    while count(ledger) < wanted:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.001)
    time.sleep(rng.random() * 0.05)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def count(ledger: Path) -> int:
    """How many images a child has acknowledged."""
    return int(ledger.read_text() or 0) if ledger.exists() else 0


def kill_at_random_points(home: Path) -> None:
    """Kill runs until there were enough kills; each store is finished in the end and compared."""
    route = make_route(home / "route", n_places=45)
    truth = expected(route)
    clean = extract(route, TinyModel(), home / "clean.desc", batch_size=3).store
    rng = random.Random(11)
    reached, n_kills, n_stores = [], 0, 0
    while n_kills < N_KILLS:
        n_stores += 1
        folder, ledger = home / f"{n_stores}.desc", home / f"{n_stores}.txt"
        finished = False
        while not finished:
            child = run_child(route, folder, ledger)
            status = kill_after(child, ledger, rng)
            finished = os.WIFEXITED(status)
            assert not finished or os.WEXITSTATUS(status) == 0
            n_kills += not finished
            reached.append(check_opens(folder, ledger, route, truth))
        store = DescriptorStore(folder)
        assert store.images == clean.images
        np.testing.assert_allclose(store.vectors(), clean.vectors(), rtol=0, atol=1e-6)
        assert not list(folder.rglob("*.tmp"))
    print(json.dumps({"kills": n_kills, "stores": n_stores, "reached": reached, "images": len(route)}))


def test_killed_at_random_points_it_ends_as_if_uninterrupted(tmp_path):
    command = [sys.executable, __file__, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    outcome = json.loads(run.stdout)
    assert outcome["kills"] >= N_KILLS
    # However fast the machine is, most kills are asked for in the midst of the work.
    reached = np.array(outcome["reached"])
    assert np.unique(reached[(reached > 0) & (reached < outcome["images"])]).size >= 5


def test_killed_at_every_step_of_every_write_it_loses_nothing_acknowledged(tmp_path):
    """Kill before and after each fsync and each rename of a run, then again while it goes on."""
    route = make_route(tmp_path / "route", n_places=3)
    truth = expected(route)
    finished, step = False, 0
    while not finished:
        folder, ledger = tmp_path / f"{step}.desc", tmp_path / f"{step}.txt"
        for moment in (step, step // 2):
            child = run_child(route, folder, ledger, before=partial(die_at, moment))
            _, status = os.waitpid(child, 0)
            finished = os.WIFEXITED(status)
            assert not finished or os.WEXITSTATUS(status) == 0
            check_opens(folder, ledger, route, truth)
            if finished:
                # A run that only had to finish may have nothing left to acknowledge; one from the start has all.
                assert moment != step or count(ledger) == len(route)
                break
        store = extract(route, TinyModel(), folder, batch_size=3).store
        np.testing.assert_allclose(store.vectors(), truth, rtol=0, atol=1e-6)
        finished = finished and moment == step
        step += 1
    # An index, a listing, two shards of two files and the final index, each synced, renamed and synced.
    assert step > 7 * 3 * 2


def test_worker_processes_end_with_their_killed_parent(tmp_path):
    route = make_route(tmp_path / "route", n_places=50)
    run = subprocess.Popen(
        [sys.executable, __file__, str(tmp_path), "processes"], stdout=subprocess.PIPE, text=True
    )
    with run:
        workers = json.loads(run.stdout.readline())
        run.kill()
        run.wait()
        run.stdout.read()  # returns when nobody holds the other end: the workers, who have it too, have ended
    assert len(workers) == 2
    with exclusive(tmp_path / "heavy.desc"):
        pass
    store = extract(route, HeavyTinyModel(), tmp_path / "heavy.desc").store
    np.testing.assert_allclose(store.vectors(), expected(route), atol=1e-6)


def extract_in_processes(home: Path) -> None:
    """Extract slowly in worker processes, whose ids are printed as soon as there is a result."""
    import multiprocessing

    preparation.WORTH_PROCESSES = 1
    announced = []

    def announce(stage, done, _total):
        if stage == "describing" and done and not announced:
            announced.append(True)
            print(json.dumps([child.pid for child in multiprocessing.active_children()]), flush=True)

    route = Manifest.read(home / "route" / "route.csv")
    extract(
        route, HeavyTinyModel(seconds=0.2), home / "heavy.desc", batch_size=2, workers=2, progress=announce
    )


if __name__ == "__main__":
    (extract_in_processes if "processes" in sys.argv else kill_at_random_points)(Path(sys.argv[1]))
