"""The page about evaluation: its suite is one, its Python runs, its numbers of the paper are right."""

from __future__ import annotations

import re
from pathlib import Path

from routes import make_store, make_suite

from displace.evaluation.benchmark import run_suite
from displace.evaluation.suites import Suite, shipped_suites
from displace.verbs import bench

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "evaluate.md").read_text("utf-8")


def test_the_suite_of_the_page_is_one(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "my_suite.toml").write_text(text, encoding="utf-8")
    suite = Suite.read(tmp_path / "my_suite.toml")
    assert str(suite.protocol.tolerance) == "within 10 m"
    assert [method.label for method in suite.methods] == ["Single", "HOPS", "DisPlace, τ = 1"]
    assert suite.dims == (64, 128, 256)


def test_every_suite_that_comes_with_the_package_is_named():
    (listed,) = re.findall(r"come with the package and are used by name: (.*?)\. ", " ".join(PAGE.split()))
    assert sorted(re.findall(r"`(\w+)`", listed)) == shipped_suites()
    (listed,) = re.findall(r"A TOML file, or (.*)\.", bench.__doc__)
    assert sorted(re.split(r", | or ", listed)) == shipped_suites()


def test_the_python_of_the_page_runs(tmp_path, monkeypatch, capsys):
    store = make_store(tmp_path / "made.desc")
    run_suite(make_suite({"cosplace": store.folder}), tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if ">>>" not in block]
    namespace: dict = {}
    exec(code, namespace)
    assert "HOPS" in capsys.readouterr().out
    assert namespace["ranking"].places.shape == (30, 10)
    assert len(namespace["table"].rows) == 2
