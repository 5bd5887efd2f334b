"""Extraction killed with SIGKILL, again and again, ends with what an uninterrupted run gives.

The killed processes are forked from one that has imported everything, so that many kills take little time.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from killing import die_at, die_at_call
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
        extract(route, TinyModel(), folder, batch_size=3, workers=2)
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


def count(ledger: Path) -> int:
    """How many images a child has acknowledged."""
    return int(ledger.read_text() or 0) if ledger.exists() else 0


def test_killed_at_random_points_it_ends_as_if_uninterrupted(tmp_path):
    """Kill runs until there were enough kills; each store is finished in the end and compared."""
    route = make_route(tmp_path / "route", n_places=45)
    truth = expected(route)
    clean = extract(route, TinyModel(), tmp_path / "clean.desc", batch_size=3).store
    n_calls = calls_of_a_run(route, tmp_path)
    rng = random.Random(11)
    reached, n_kills, n_stores = [], 0, 0
    while n_kills < N_KILLS:
        n_stores += 1
        folder, ledger = tmp_path / f"{n_stores}.desc", tmp_path / f"{n_stores}.txt"
        finished, attempt = False, 0
        while not finished:
            attempt += 1
            moment = rng.randrange(n_calls * attempt // 2)  # later and later, so that it finishes
            child = run_child(route, folder, ledger, before=partial(die_at_call, moment))
            _, status = os.waitpid(child, 0)
            finished = os.WIFEXITED(status)
            assert not finished or os.WEXITSTATUS(status) == 0
            n_kills += not finished
            reached.append(check_opens(folder, ledger, route, truth))
        store = DescriptorStore(folder)
        assert store.images == clean.images
        np.testing.assert_allclose(store.vectors(), clean.vectors(), rtol=0, atol=1e-6)
        assert not list(folder.rglob("*.tmp"))
    reached = np.array(reached)
    assert np.unique(reached[(reached > 0) & (reached < len(route))]).size >= 5


def calls_of_a_run(route: Manifest, home: Path) -> int:
    """How many calls of functions an uninterrupted run makes, about: threads make it differ by a few."""
    counted = home / "calls.txt"

    def count_calls() -> None:
        calls = itertools.count()
        sys.setprofile(lambda *_: counted.write_text(str(n)) if (n := next(calls)) % 1000 == 0 else None)

    _, status = os.waitpid(run_child(route, home / "counted.desc", home / "counted.txt", count_calls), 0)
    assert status == 0
    return int(counted.read_text())


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
        [sys.executable, __file__, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with run:
        workers = json.loads(run.stdout.readline())
        run.kill()
        run.wait()
        run.stdout.read()  # returns when nobody holds the other end: the workers, who have it too, have ended
    assert len(workers) in (1, 2)  # the second is started only where the first is not free by then
    with exclusive(tmp_path / "heavy.desc"):
        pass
    store = extract(route, HeavyTinyModel(), tmp_path / "heavy.desc").store
    np.testing.assert_allclose(store.vectors(), expected(route), atol=1e-6)


def extract_in_processes(home: Path) -> None:
    """Extract in worker processes, whose ids are printed as soon as there is a result; then wait to be killed."""
    import multiprocessing

    preparation.WORTH_PROCESSES = 1
    announced = []

    def announce(stage, done, _total):
        if stage == "describing" and done and not announced:
            announced.append(True)
            print(json.dumps([child.pid for child in multiprocessing.active_children()]), flush=True)
            sys.stdin.read()

    route = Manifest.read(home / "route" / "route.csv")
    extract(route, HeavyTinyModel(), home / "heavy.desc", batch_size=2, workers=2, progress=announce)


if __name__ == "__main__":
    extract_in_processes(Path(sys.argv[1]))
