from __future__ import annotations

import errno
import json
import pickle
import stat

import pytest

from displace.errors import WriteError
from displace.files.atomic import atomic_write, make_folder, write_json


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


def test_what_cannot_be_written_says_why_and_the_way_out(tmp_path):
    (tmp_path / "file").touch()
    for path, why in (
        (tmp_path, "it is a folder"),
        (tmp_path / "absent" / "report.html", f"there is no folder {tmp_path / 'absent'}"),
        (tmp_path / "file" / "report.html", f"there is no folder {tmp_path / 'file'}"),
    ):
        with pytest.raises(WriteError) as caught, atomic_write(path):
            pass
        assert str(caught.value) == f"cannot write {path}: {why}. Choose another place for it"
    with pytest.raises(WriteError, match="file: it is a file, and a folder is needed"):
        make_folder(tmp_path / "file")
    with pytest.raises(WriteError, match="full: No space left on device"), atomic_write(tmp_path / "full"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_worker_processes_can_raise_it():
    error = pickle.loads(pickle.dumps(WriteError("a/b", OSError(errno.ENOSPC, "No space left on device"))))
    assert isinstance(error, WriteError)
    assert str(error) == "cannot write a/b: No space left on device. Choose another place for it"


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
