"""What the command line does with names, encodings and memory that are out of the ordinary."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from displace import cli
from displace.cli import console
from displace.errors import DisplaceWarning


def test_control_characters_of_names_are_shown_not_sent():
    stream = io.StringIO()
    shown = Console(file=stream, force_terminal=True, width=200, _environ={"TERM": "xterm"})
    shown.push_render_hook(console.Visible())
    shown.print("bad\x1b]0;owned\x07name\x9b31m\u202egpj.exe", style="red", markup=False, highlight=False)
    console.show_error("cannot read a\x1b[2Jb.jpg", shown)
    text = stream.getvalue()
    assert "bad\\x1b]0;owned" in text
    assert "\x1b]0" not in text
    assert "\x1b[2J" not in text
    assert "\x9b" not in text
    assert "\u202e" not in text
    assert "\x1b[31m" in text  # the console's own colour


@pytest.mark.parametrize("shown", [console.out, console.err], ids=["out", "err"])
def test_nothing_that_the_command_prints_controls_the_terminal(shown):
    with shown.capture() as captured:
        shown.print("a\x1b]0;owned\x07b", markup=False)
        console.show_json({"image": "a\x1b[2J\x9b31m\u202egpj.exe"}, shown)
    text = captured.get() + console.format_warning("a\x1b[2Jb", DisplaceWarning, "x.py", 1)
    text += console.format_warning("a\x9bb", UserWarning, "x.py", 1)
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & {*text}
    start = captured.get().index("{")
    assert json.loads(captured.get()[start:]) == {"image": "a\x1b[2J\x9b31m\u202egpj.exe"}


def test_no_memory_is_one_message(monkeypatch, tmp_path):
    def full(*_args, **_options):
        raise MemoryError

    monkeypatch.setattr("displace.manifest.table.Manifest.read", full)
    (tmp_path / "m.csv").write_text("image,place,traversal\n")
    result = CliRunner().invoke(cli.app, ["extract", str(tmp_path / "m.csv"), "-o", str(tmp_path / "s")])
    assert result.exit_code == 2
    assert "not enough memory" in result.stderr
    assert "Traceback" not in result.stderr
    assert "smaller --threads or --batch-size," in result.stderr


def test_where_memory_is_short_no_options_are_named_that_the_verb_lacks():
    assert "close other programs, or work on fewer images" in console.no_memory({"--anchor"})


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_output_of_any_encoding_shows_what_it_can(tmp_path, encoding):
    (tmp_path / "drive" / "日本").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "drive" / "日本" / "0.png")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "displace",
            "manifest",
            str(tmp_path / "drive"),
            "-o",
            str(tmp_path / "m.csv"),
        ],
        env={**os.environ, "PYTHONUTF8": "1", "PYTHONIOENCODING": encoding, "NO_COLOR": "1"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert ("日本" if encoding == "utf-8" else "\\u65e5\\u672c") in done.stdout.decode(encoding)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are Unicode whatever the locale says")
def test_names_that_the_locale_cannot_encode_are_named_with_the_way_out(tmp_path):
    """Where names of files are ASCII: no manifest is written that would not be read, and one of elsewhere is."""
    folder = tmp_path / "drive" / "régen"
    folder.mkdir(parents=True)
    Image.new("RGB", (64, 64)).save(folder / "straße.png")
    (tmp_path / "m.csv").write_text(
        "image,place,traversal\ndrive/régen/straße.png,0,régen\n", encoding="utf-8"
    )
    for verb, message in (
        (["manifest", "drive", "-o", "new.csv"], "rename it, or set PYTHONUTF8=1"),
        (["extract", "m.csv", "-o", "new.desc", "--model", "hog"], "which has no '\\xe9'; set PYTHONUTF8=1"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "displace", *verb],
            env={**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "NO_COLOR": "1"},
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        shown = " ".join((done.stdout + done.stderr).decode("ascii").split())
        assert done.returncode == 2
        assert message in shown
        assert "Traceback" not in shown
    assert not (tmp_path / "new.csv").exists()


@pytest.mark.parametrize("megabytes", ["inf", "nan", "-1", "1e300"])
def test_a_size_of_a_report_that_is_none(tmp_path, megabytes):
    result = CliRunner().invoke(cli.app, ["report", str(tmp_path), "--megabytes", megabytes])
    assert result.exit_code == 2
    assert "megabytes" in result.stderr


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("update", "town.displace", "--add", "a.desc", "--add", "b.desc"), "--add is given 2 times"),
        (("evaluate", "route.desc", "--fusion", "hops", "--fusion", "bsf"), "--fusion is given 2 times"),
        (("build", "route.desc", "-o", "a.displace", "--output=b.displace"), "--output is given 2 times"),
    ],
)
def test_an_option_that_takes_one_value_is_not_given_twice(given, named):
    """All but the last were lost without a word."""
    done = CliRunner().invoke(cli.app, given)
    assert done.exit_code == 2
    assert f"error: {named}, but takes one value" in done.stderr


def test_options_that_take_several_values_and_flags_may_be_repeated():
    given = ("build", "nowhere.desc", "--exclude", "a", "--exclude", "b", "--overwrite", "--overwrite")
    assert "no recording" in (said := CliRunner().invoke(cli.app, given).stderr) or "nowhere" in said
    assert "times" not in said


def test_a_file_that_begins_like_an_option_is_told_how_to_be_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-winter 1.avi").touch()
    done = CliRunner().invoke(cli.app, ("build", "-winter 1.avi", "-o", "town.displace"))
    assert (done.exit_code, done.stderr) == (
        2,
        "error: -winter 1.avi begins like an option: write './-winter 1.avi'\n",
    )
    done = CliRunner().invoke(cli.app, ("build", "-summer.avi"))
    assert "No such option" in done.stderr


def test_what_the_system_refuses_is_one_message(monkeypatch):
    def refused(*args, **kwargs):
        raise PermissionError(13, "Permission denied", "secret/index.json")

    monkeypatch.setattr("displace.descriptors.store.is_store", refused)
    done = CliRunner().invoke(cli.app, ("build", "secret", "-o", "town.displace"))
    assert (done.exit_code, done.stderr) == (2, "error: cannot use secret/index.json: Permission denied\n")
