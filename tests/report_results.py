"""Results folders for the tests of the report: small towns, a part of sped400, and generated rankings."""

from __future__ import annotations

import numpy as np
from drawn import SMALL, copy_drawn

from displace import verbs
from displace.evaluation.rankings import Questions, Ranking
from displace.evaluation.record import Result
from displace.evaluation.results import Results
from displace.manifest.table import Manifest

METHODS = """
[[methods]]
fusion = "single"
each_reference = true
[[methods]]
fusion = "dmat_avg"
[[methods]]
fusion = "pooling"
[[methods]]
fusion = "hops"
[[methods]]
fusion = "displace"
label = "DisPlace (paper)"
parameters = { ridge = 0.0, center = false }
[[methods]]
fusion = "displace"
"""


def town_results(tmp_path_factory):
    """Draw 24 places, describe them, and run a suite on two conditions, once for all tests."""
    folder = tmp_path_factory.getbasetemp() / "report-town"
    if not folder.exists():
        manifest = copy_drawn(folder / "town", 24, ("sun", "rain", "night", "snow"))
        verbs.extract(manifest, folder / "town_hog.desc", model="hog", threads=1)
        suite = 'dataset = "town"\nprotocol = "town-1"\nqueries = ["night", "sun"]\n[stores]\nhog = "town_hog.desc"\n'
        (folder / "small.toml").write_text(suite + METHODS)
        verbs.bench(folder / "small.toml", folder / "results")
    return Results.open(folder / "results")


def shipped_town_results(folder):
    """Run the package's suite `town` on 16 small places."""
    manifest = copy_drawn(folder / "town", 16, size=SMALL)
    verbs.extract(manifest, folder / "town_hog.desc", model="hog", threads=1)
    return verbs.bench("town", folder / "results", root=folder, threads=1).results


def shipped_sped_results(shared, folder):
    """Run the package's suite `sped400` on 40 of the 400 webcams, with one of its models."""
    verbs.manifest([shared / "data" / "sped400"], folder / "all.csv")
    whole = Manifest.read(folder / "all.csv")
    whole.select(np.isin(whole.places, whole.place_ids()[:40])).write(folder / "sped.csv")
    verbs.extract(folder / "sped.csv", folder / "sped400_hog.desc", model="hog", threads=1)
    return verbs.bench("sped400", folder / "results", root=folder, threads=1).results


def generated_results(
    folder, n_queries, methods=("HOPS", "Pooling", "DisPlace"), seed=0, names="frames/{:05d}.jpg"
):
    """Random rankings of `n_queries` queries, without any picture."""
    rng = np.random.default_rng(seed)
    results = Results(folder)
    ids = np.array([f"{place:05d}" for place in range(n_queries)])
    truth = np.arange(n_queries, dtype=np.int32)
    images = np.array([names.format(row) for row in range(n_queries)])
    starts = np.arange(n_queries + 1, dtype=np.int32)
    asked = Questions(ids, images, images, ids, starts, truth, np.array("nowhere"))
    questions = results.add_questions("generated", asked)
    for number, label in enumerate(methods):
        right = rng.random(n_queries) < 0.5 + 0.1 * number
        places = np.where(right, truth, (truth + 1 + rng.integers(0, n_queries - 1)) % n_queries)[:, None]
        places = places.astype(np.int32)
        ranking = Ranking(places, np.ones((n_queries, 1), np.float32), asked.correct(places))
        fusion = label.lower() if label.lower() in ("hops", "pooling", "displace") else "bsf"
        result = Result(
            cell=f"{number:016x}",
            dataset="generated",
            protocol="generated-exact",
            tolerance="exact place",
            model="noise",
            fusion=fusion,
            parameters={},
            label=label,
            group="descriptor",
            query="night",
            references=["sun"],
            dim=8,
            order=[0, 0, number],
            questions=questions,
            n_places=n_queries,
            n_queries=n_queries,
            recalls={1: 100 * float(ranking.hits().mean())},
            seconds={"fit": 0.1, "rank": 0.1},
            n_bytes=32 * n_queries,
            n=8,
            versions={"displace": "0"},
        )
        results.add(result, ranking)
    return results
