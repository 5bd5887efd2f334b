"""The command line: defaults, messages, exit codes."""

from __future__ import annotations

import builtins
import functools
import importlib.util
import inspect
import io
import json
import re
import shlex
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import typer
from commands import commands_in
from tiny import make_route

from displace import __main__ as command
from displace import __version__, cli, verbs
from displace.cli import console
from displace.cli.commands import _kind, all_verbs
from displace.verbs.listing import REGISTRIES

VERBS = {verb.name: verb for verb in all_verbs()}


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    return commands_in(tmp_path, monkeypatch)


@pytest.fixture
def route(tmp_path):
    return make_route(tmp_path / "route", n_places=4, shape=(60, 80))


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_is_documented_and_has_the_default_of_the_verb(verb):
    behind = inspect.signature(VERBS[verb].function).parameters
    assert {*(p.name for p in VERBS[verb].parameters), *VERBS[verb].callbacks} == {*behind}
    for option in VERBS[verb].parameters:
        assert option.help, option.name
        shown, default = option.typed().default, behind[option.name].default
        if default is inspect.Parameter.empty:
            assert shown is default
        else:
            assert option.value(shown) == default or str(shown) == default


def test_from_folders_to_a_store(run, route):
    made = run("manifest", route.root, "-o", "made.csv")
    assert made.exit_code == 0
    assert "8 images, 4 places, 2 traversals" in made.stdout
    done = run("extract", "made.csv", "-o", "made.desc")
    assert done.exit_code == 0
    assert "8 images described, 0 reused, 0 skipped" in done.stdout
    assert "made.desc: 8 × 3168 float32, by hog" in done.stdout
    again = run("extract", "made.csv", "-o", "made.desc")
    assert "0 images described, 8 reused" in again.stdout
    shown = run("inspect", "made.desc")
    assert shown.exit_code == 0
    assert all(
        text in shown.stdout for text in ("hog", "8 of 8 images", "101.4 kB in 1 shard", "night", "100.0%")
    )


def test_inspect_as_json_is_what_the_verb_says(run, route):
    run("extract", route.root / "route.csv", "-o", "d")
    record = json.loads(run("inspect", "d", "--json").stdout)
    assert (record["n_described"], record["model"]["model"], record["skipped"]) == (8, "hog", {})


def test_skipped_images_are_named_and_strict_exits_with_1(run, route):
    (route.root / route.images[2]).write_bytes(b"")
    loose = run("extract", route.root / "route.csv", "-o", "d")
    assert loose.exit_code == 0
    assert "7 images described, 0 reused, 1 skipped" in loose.stdout
    assert "002.png" in loose.stdout
    strict = run("extract", route.root / "route.csv", "-o", "d", "--strict")
    assert strict.exit_code == 1
    assert "error: 1 of 8 images skipped" in strict.stderr
    assert "002.png" in strict.stderr
    assert "skipped      1 images" in run("inspect", "d").stdout


def test_many_skipped_images_are_cut_short(run, tmp_path):
    route = make_route(tmp_path / "r", n_places=15, traversals=("a",), shape=(60, 80))
    for name in route.images[:13]:
        (route.root / name).write_bytes(b"")
    shown = run("extract", route.root / "route.csv", "-o", "d").stdout
    assert shown.count("skipped: ") == console.SHOWN
    assert "and 3 more" in shown


def test_relabel_with_manifest(run, route):
    run("extract", route.root / "route.csv", "-o", "d")
    text = (route.root / "route.csv").read_text().replace(",sun", ",midday")
    (route.root / "new.csv").write_text(text)
    done = run("extract", "d", "--manifest", route.root / "new.csv")
    assert done.exit_code == 0
    assert "midday" in done.stdout
    assert run("extract", "d", "--manifest", route.root / "new.csv", "-o", "e").exit_code == 2


def test_check_counts_and_exits_with_1_on_problems(run, route):
    good = run("manifest", route.root / "route.csv", "--check")
    assert good.exit_code == 0
    assert "every image can be read" in good.stdout
    (route.root / route.images[0]).write_bytes(b"")
    (route.root / route.images[1]).unlink()
    bad = run("manifest", route.root / "route.csv", "--check")
    assert bad.exit_code == 1
    assert "1 files missing" in bad.stdout
    assert "1 images unreadable" in bad.stdout
    table = route.root / "windows.csv"
    table.write_text("image,place,traversal\nsun\\\\0.jpg,0,sun\n")
    gone = run("manifest", table, "--check").stdout
    assert "every image that is there can be read" in gone
    assert "write / instead" in gone


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("extract", "none.csv"), "error: cannot read manifest none.csv: No such file"),
        (("extract", "route"), "error: route is a folder, but a manifest is a CSV file"),
        (("extract", "route/route.csv", "--model", "hgo"), "did you mean 'hog'?"),
        (
            ("extract", "route/route.csv", "--dtype", "int8"),
            "error: dtype='int8' must be one of float32, float16",
        ),
        (("extract", "route/route.csv", "--threads", "0"), "error: threads=0 must be at least 1"),
        (
            ("extract", "route/route.csv", "-o", "route/route.csv/x"),
            "error: cannot write to route/route.csv/x",
        ),
        (("inspect", "route"), "error: route is not a descriptor store"),
        (("inspect", "none.displace"), "make a map with: displace build SOURCE -o none.displace"),
        (
            ("inspect", "http://127.0.0.1:1"),
            "is the address of a server, but inspect reads files and databases",
        ),
        (("manifest", "nothing", "-o", "x.csv"), "error: no file or folder at nothing"),
        (("manifest", "route", "-o", "route/route.csv"), "error: route/route.csv exists"),
        (("manifest", "route", "-o", "x.csv", "--layout", "name"), "did you mean 'names'?"),
        (("manifest", "route", "--check"), "error: route is a folder"),
        (
            ("manifest", "route/route.csv"),
            "error: route/route.csv is not a recording; if it is a manifest, use --check",
        ),
        (("extract", "none.csv"), "make one with: displace manifest FOLDER -o none.csv"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_message_and_exit_code_2(run, route, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_examples_and_fits_80_columns(run, monkeypatch, verb):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run(verb, "--help").stdout
    assert f"displace {verb}" in shown.partition("Example")[2]
    assert max(map(len, shown.splitlines())) <= 80


def test_listings(run):
    assert "hog  3168-D  no weights needed" in run("list", "models").stdout
    assert "nordland" in run("list", "datasets").stdout
    assert {row["name"] for row in json.loads(run("list", "fusions", "--json").stdout)} >= {
        "displace",
        "hops",
    }
    assert run("list", "things").exit_code == 2
    for what in REGISTRIES:
        rows = json.loads(run("list", what, "--json").stdout)
        assert rows
        assert all(row["about"] for row in rows), what


def test_addresses_are_given_to_verbs_as_they_are_and_paths_as_paths(run, monkeypatch):
    seen = {}

    @functools.wraps(verbs.locate)
    def locate(**given):
        seen.update(given)
        raise KeyboardInterrupt

    monkeypatch.setattr(VERBS["locate"].module, "locate", locate)
    run("locate", "postgresql://reader@db/maps#city", "a.jpg", "b", "-o", "x.csv")
    assert seen["map_file"] == "postgresql://reader@db/maps#city"
    assert (seen["sources"], seen["output"], seen["mask"]) == (
        [Path("a.jpg"), Path("b")],
        Path("x.csv"),
        None,
    )


def test_a_result_without_a_view_is_printed_as_text_and_none_not_at_all(capsys, run):
    console.show_text(None, {})
    console.show_text("a [b] c", {})
    assert capsys.readouterr().out == "a [b] c\n"


def test_version(run):
    assert run("--version").stdout.strip() == __version__


def test_progress_in_a_log_file_is_a_line_now_and_then(run, route, monkeypatch):
    shown = run("extract", route.root / "route.csv", "-o", "d").stderr
    lines = [line for line in shown.splitlines() if " of 8" in line]
    assert lines == ["reading 1 of 8", "reading 8 of 8", "describing 0 of 8", "describing 8 of 8"]


def test_progress_on_a_terminal_has_rate_and_time_left():
    terminal = console.Console(force_terminal=True, width=100, file=io.StringIO())
    with closing(console.Bars(terminal)) as bars:
        for done in range(101):
            bars.stage("describing", done, 200)
    shown = terminal.file.getvalue()
    assert "100/200" in shown
    assert "/s" in shown
    assert re.search(r"\d:\d\d:\d\d", shown)


def test_progress_of_a_stage_that_grew_is_of_the_new_total():
    terminal = console.Console(force_terminal=True, width=100, file=io.StringIO())
    with closing(console.Bars(terminal)) as bars:
        bars.stage("reading", 100, 100)
        bars.stage("reading", 150, 200)
    shown = terminal.file.getvalue()
    assert "150/200" in shown
    assert "150/100" not in shown


RESUMING = {"build", "demo", "manifest", "extract", "bench", "report"}
ARGUMENTS = {
    "locate": ("m", "i"),
    "export": ("m", "--to", "csv", "-o", "x"),
    "import": ("f", "--manifest", "r.csv", "-m", "x"),
    "list": ("models",),
    "demo": (),
}


@pytest.mark.parametrize("verb", VERBS)
def test_ctrl_c_promises_to_resume_only_where_it_does(run, monkeypatch, verb):
    module = VERBS[verb].module

    @functools.wraps(VERBS[verb].function)
    def stopped(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, stopped.__name__, stopped)
    done = run(verb, *ARGUMENTS.get(verb, ("x",)))
    assert done.exit_code == 130
    assert ("again to resume" in done.stderr) == (verb in RESUMING)
    assert ("no file is left half-written; run the same command to start again" in done.stderr) == (
        verb not in RESUMING
    )


def test_ctrl_c_while_building_from_a_store_promises_nothing(run, route, monkeypatch):
    run("extract", route.root / "route.csv", "-o", "d")

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("displace.maps.building.build", stopped)
    done = run("build", "d")
    assert done.exit_code == 130
    assert "run the same command to start again" in done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_the_examples_of_a_verb_are_commands_that_there_are(verb):
    commands = typer.main.get_command(cli.app).commands
    assert VERBS[verb].documentation.examples
    for line in VERBS[verb].documentation.examples:
        program, name, *arguments = shlex.split(line)
        assert program == "displace"
        commands[name].make_context(name, arguments)  # refuses what is no option


def test_every_verb_is_a_function_of_the_package():
    assert {verb.function.__name__ for verb in VERBS.values()} < {*verbs.__all__}
    for verb in VERBS.values():
        assert getattr(verbs, verb.function.__name__) is verb.function


def test_a_parameter_that_no_option_can_have_is_refused():
    with pytest.raises(TypeError, match="no option for a parameter of type"):
        _kind(dict[str, int])


@pytest.mark.parametrize("arguments", [["--help"], ["build", "--help"]], ids=" ".join)
def test_help_imports_nothing_heavy(arguments):
    code = "import sys; sys.argv[0] = 'displace'\nfrom displace import cli\ntry:\n    cli.main()\nfinally:\n"
    code += "    print('loaded', *{name.split('.')[0] for name in sys.modules})"
    shown = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True).stdout
    loaded = {*shown.splitlines()[-1].split()}
    assert {"loaded", "displace", "typer"} < loaded
    heavy = {"numpy", "scipy", "sklearn", "skimage", "cv2", "PIL", "torch", "matplotlib", "plotly", "faiss"}
    assert not loaded & heavy


def test_the_page_on_the_command_line_is_what_the_verbs_say():
    path = Path(__file__).resolve().parent.parent / "docs" / "cli_page.py"
    spec = importlib.util.spec_from_file_location("cli_page", path)
    cli_page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cli_page)
    assert cli_page.page() == cli_page.PAGE.read_text("utf-8"), "run: python docs/cli_page.py"


def interrupted(folder, patch):
    """Run extract on 40 images, with Ctrl-C when `patch` says, in a process and a group of its own."""
    make_route(folder / "route", n_places=20, shape=(60, 80))
    code = f"""
import os, signal, sys
from displace import cli
from displace.cli import console
from displace.descriptors import preparation
# Programs that a shell starts in the background ignore Ctrl-C, and so would the children of such a test run.
signal.signal(signal.SIGINT, signal.default_int_handler)
{patch}
sys.argv = ["displace", "extract", "route/route.csv", "-o", "d", "--threads", "2"]
cli.main()
"""
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    assert run.returncode == 130, run.stderr
    assert "nothing lost, run the same command again to resume" in run.stderr
    assert "Traceback" not in run.stderr
    return verbs.extract(folder / "route" / "route.csv", folder / "d")


def test_ctrl_c_while_the_command_is_loaded_is_no_traceback(monkeypatch, capsys):
    def loading(name, *args, load=builtins.__import__, **options):
        if name == "displace.cli":
            raise KeyboardInterrupt
        return load(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", loading)
    try:
        with pytest.raises(SystemExit) as ended:
            command.main()
    except KeyboardInterrupt:  # which would end the tests as a whole
        pytest.fail("Ctrl-C is a traceback")
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent the POSIX way")
def test_ctrl_c_says_that_nothing_is_lost_and_the_next_run_goes_on(tmp_path):
    after_the_first_batch = """
def stage(self, name, done, total, show=console.Bars.stage):
    show(self, name, done, total)
    if name == "describing" and done:
        signal.raise_signal(signal.SIGINT)
console.Bars.stage = stage
"""
    done = interrupted(tmp_path, after_the_first_batch)
    assert (done.n_reused, done.n_described) == (16, 24)
    assert np.isfinite(done.store.vectors()).all()


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent the POSIX way")
def test_ctrl_c_while_worker_processes_start_is_neither_lost_nor_a_traceback(tmp_path):
    """To all processes of the group, as a terminal does, while the first worker imports."""
    (tmp_path / "slow.py").write_text("""
import os, pathlib, time
from displace.descriptors import preparation
def start(model):
    preparation._start_process(model)
if "IN_A_WORKER" in os.environ:
    pathlib.Path("importing").touch()
    while not pathlib.Path("sent").exists():
        time.sleep(0.01)
""")
    while_the_first_worker_imports = """
import pathlib, slow, time
os.environ["IN_A_WORKER"] = "from here on"
class Pool(preparation.ProcessPoolExecutor):
    def __init__(self, workers, context, initializer, initargs):
        super().__init__(workers, context, slow.start, initargs)
    def submit(self, *args):
        future = super().submit(*args)
        while not pathlib.Path("importing").exists():
            time.sleep(0.01)
        if not pathlib.Path("sent").exists():
            os.killpg(0, signal.SIGINT)
            pathlib.Path("sent").touch()
        return future
preparation.ProcessPoolExecutor = Pool
preparation.WORTH_PROCESSES = 1
"""
    done = interrupted(tmp_path, while_the_first_worker_imports)
    assert done.n_described == 40
