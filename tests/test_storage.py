from __future__ import annotations

import json
import stat

import pytest

from displace.files.atomic import atomic_write, write_json


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "map.json"
    path.write_text("old")

    def interrupted():
        with atomic_write(path, "w") as file:
            file.write("half of the ne")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        interrupted()
    assert path.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["map.json"]


def test_the_new_file_appears_only_when_it_is_complete(tmp_path):
    path = tmp_path / "new.bin"
    with atomic_write(path) as file:
        file.write(b"abc")
        file.flush()
        assert not path.exists()
    assert path.read_bytes() == b"abc"


def test_modes_are_those_of_an_ordinary_file(tmp_path):
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    write_json(tmp_path / "new.json", {"ü": [1]})
    assert stat.S_IMODE((tmp_path / "new.json").stat().st_mode) == stat.S_IMODE(ordinary.stat().st_mode)
    assert json.loads((tmp_path / "new.json").read_text(encoding="utf-8")) == {"ü": [1]}
    (tmp_path / "new.json").chmod(0o600)
    write_json(tmp_path / "new.json", {})
    assert stat.S_IMODE((tmp_path / "new.json").stat().st_mode) == 0o600
