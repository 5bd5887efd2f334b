"""Located images: which are accepted, and which names they go by elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from interop_route import N_PLACES, make_town

from displace.descriptors.imported import described, names_from


@pytest.fixture(scope="module")
def case():
    return make_town(calibration=False)


def test_a_confidence_at_the_limit_is_accepted(case):
    confidence = np.linspace(0, 1, N_PLACES)
    locations = replace(case.locations, matches=replace(case.locations.matches, confidence=confidence))
    limit = float(confidence[10])
    np.testing.assert_array_equal(locations.accepted(limit), np.arange(N_PLACES) >= 10)
    assert locations.accepted(0).all()


def test_names_are_compared_without_dots_and_doubled_slashes(case):
    names = [f"./{name.replace('/', '//')}" for name in case.manifest.images]
    found = described(case.manifest, names[::-1], case.vectors[::-1], None, "elsewhere")
    np.testing.assert_array_equal(found.vectors, case.vectors)


def test_names_from_another_folder(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the manifest's root is the folder "route" of the current one
    for root in (tmp_path, ".", tmp_path / "route" / ".."):
        assert names_from(case.manifest, root)[0] == "route/sun/000.jpg"
    assert names_from(case.manifest, "route/sun")[0] == "000.jpg"
    assert names_from(case.manifest, None)[0] == "sun/000.jpg"
