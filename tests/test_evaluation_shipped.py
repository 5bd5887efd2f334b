"""The suites `town` and `sped400`, from images or descriptors to tables."""

from __future__ import annotations

import numpy as np
import pytest
from drawn import SMALL, copy_drawn

from displace import verbs
from displace.datasets import town
from displace.descriptors.imported import write_store
from displace.descriptors.store import Queries
from displace.evaluation.tables import Column
from displace.manifest.table import Manifest


def test_the_town_from_pictures_to_a_table(tmp_path):
    copy_drawn(tmp_path / "town", 10, size=SMALL)
    verbs.extract(tmp_path / "town" / "manifest.csv", tmp_path / "town_hog.desc")
    outcome = verbs.bench("town", tmp_path / "results", root=tmp_path, threads=1)
    assert not outcome.absent
    # Six queries; five single references and nine fusions, DisPlace twice among them; the night also projected.
    assert len(outcome.cells) == (6 + 2 * 3) * (5 + 9)
    assert {result.label for result in outcome.impossible} == {
        "DisPlace (paper)"
    }  # 3168 dimensions, 10 places
    (table, wins), *projected = ((t.table, t.wins) for t in verbs.tabulate(tmp_path / "results"))
    assert [(other.projection, other.queries) for other, _ in projected] == [
        (64, ["night"]),
        (256, ["night"]),
    ]
    assert table.protocol == "town-exact"
    assert table.queries == list(town.TRAVERSALS)
    for column in table.columns:
        # Pooling ranks as dMat Min: two independent codes.
        assert table.row("Pooling").value(column) == table.row("dMat. Min.").value(column)
    assert [len(w.duels) for w in wins] == [6, 6]
    asked = outcome.results.questions(outcome.cells[0])
    pictures = [*asked.query_images, *asked.place_images]
    assert all((asked.root(tmp_path / "results") / picture).is_file() for picture in pictures)


@pytest.fixture
def webcams(shared, tmp_path):
    """The descriptors of sped400 as a store."""
    source = shared / "data" / "sped400_efficientnet_lite0.npz"
    if not source.is_file():
        pytest.skip(f"no {source}")
    with np.load(source) as arrays:
        vectors = np.concatenate(
            [arrays[name].astype(np.float32) for name in ("ref1", "ref2", "ref3", "query")]
        )
    names = np.repeat(["ref1", "ref2", "ref3", "query"], 400)
    places = [f"{place:03d}" for place in range(400)] * 4
    manifest = Manifest([f"{n}/{p}.jpg" for n, p in zip(names, places, strict=True)], places, names, tmp_path)
    return write_store(
        Queries(vectors, manifest.places, manifest), tmp_path / "sped.desc", "efficientnet_lite"
    )


def test_the_webcams_give_the_recalls_measured_before(webcams, tmp_path):
    """Recalls stated with the data: pooling 75.0, HOPS 77.5; DisPlace by default at least 90."""
    stores = {"efficientnet_lite": webcams.folder}
    outcome = verbs.bench("sped400", tmp_path / "results", stores=stores, root=tmp_path, threads=1)
    assert list(outcome.absent) == ["hog"]
    tabulated, *projected = verbs.tabulate(tmp_path / "results")
    assert [other.table.projection for other in projected] == [64, 256]
    column = Column("efficientnet_lite", "query")
    values = {row.label: row.value(column) for row in tabulated.table.rows}
    assert (values["Pooling"], values["dMat. Min."], values["HOPS"]) == (75.0, 75.0, 77.5)
    assert values["DisPlace"] >= 90
    assert values["DisPlace (paper)"] is None  # γ = 2.24
    multi = tabulated.wins[0]
    assert (multi.n_won, multi.duels[0].rival) == (1, "HOPS")
    assert multi.duels[0].difference.low > 5
