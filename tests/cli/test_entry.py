"""How a command starts and ends: settings that must precede torch, errors and exit codes."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.commands import samovar
from tests.training import toys

ASK = """
import os, sys
from samovar.cli import main
sys.argv = ["samovar", "--version"]
try:
    main()
except SystemExit:
    print(os.environ.get("GOMP_SPINCOUNT"), "torch" in sys.modules)
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "20000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_openmp_threads_stop_spinning_soon_unless_the_user_sets_it_otherwise(
    given: dict[str, str], expected: str
) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True, env=kept | given)
    assert done.stdout.splitlines()[-1] == f"{expected} False"


BROKEN = [
    ("{\n  'lr': 1}", "line 2, column 3"),
    ('{"lr": 1,\n "lr": 2}', "'lr'"),
    ('{"lr": NaN}', "NaN"),
    ("[1]", "object"),
]


@pytest.mark.parametrize(("text", "expected"), BROKEN)
def test_a_broken_config_is_one_readable_message(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    done = samovar("diff", tmp_path / "bad.json", tmp_path / "bad.json")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in samovar("--debug", "diff", tmp_path / "bad.json", tmp_path / "bad.json").stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["show", "none"], "none does not exist; expected a result directory"),
        (["diff", "none.json", "none.json"], "none.json"),
        (["show", "."], "has no model_config.json"),
    ],
)
def test_a_wrong_path_is_a_user_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = samovar(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr


LOG = """
import logging, sys
from samovar.cli import entry
logging.basicConfig(format="root %(message)s")  # as a user's script may do
logger = logging.getLogger("samovar.some.room")
logger.warning("before")
with entry.showing_log():
    logger.info("[red] 100 %% of %s :tea:", "it")
    logger.debug("unseen")
    logging.getLogger("another").warning("library")
logger.info("unseen")
print(len(logging.getLogger("samovar").handlers), logging.getLogger("samovar").level)
"""


def test_a_command_prints_what_the_library_logs_once_and_verbatim() -> None:
    done = subprocess.run([sys.executable, "-c", LOG], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == ["root before", "[red] 100 % of it :tea:", "root library"]
    assert done.stdout == "0 0\n"


def test_the_library_adds_no_handlers_of_its_own() -> None:
    program = (
        "import logging, samovar\n"
        "for name in samovar.__all__: getattr(samovar, name)\n"
        "loggers = [logging.getLogger(), *map(logging.getLogger, logging.root.manager.loggerDict)]\n"
        "print([each for each in loggers if each.name.partition('.')[0] in ('root', 'samovar') and each.handlers])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


LIVE = """
import logging, sys
from rich.console import Console
from samovar.cli import entry
from samovar.cli.output import make_bars, open_stderr
with entry.showing_log(), make_bars(open_stderr(), "{task.description}") as bars:
    bars.add_task("a bar", total=3)
    bars.refresh()
    logging.getLogger("samovar.room").info("a line")
    bars.refresh()
"""


def test_a_log_line_appears_above_a_bar() -> None:
    outer, inner = os.openpty()
    child = subprocess.Popen([sys.executable, "-c", LIVE], stderr=inner, env={**os.environ, "TERM": "xterm"})
    os.close(inner)
    parts = []
    with contextlib.suppress(OSError):  # how the end of a terminal shows
        while True:
            parts.append(os.read(outer, 65536))
    os.close(outer)
    assert child.wait() == 0
    assert "\r\x1b[2Ka line" in b"".join(parts).decode()  # the bar was erased first


SCRIPT = """
import json

def main(params, out):
    json.loads("{")
"""


def test_an_error_of_a_script_is_shown_without_the_frames_of_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "config.json").write_text("{}")
    done = samovar("run", "script.py", "-c", "config.json", "--out", "result")
    first, code, problem, last = done.stderr.splitlines()
    assert done.returncode == 1
    assert (first, code) == ('  File "script.py", line 5, in main', '    json.loads("{")')
    assert problem.startswith("json.decoder.JSONDecodeError: ")
    assert last == "error: your code failed; `samovar --debug …` shows the whole traceback"
    whole = samovar("--debug", "run", "script.py", "-c", "config.json", "--out", "result")
    assert whole.returncode == 1
    assert "decoder.py" in whole.stderr


def test_an_error_in_training_names_the_minibatch(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(quick_path)
    toys.write_table(quick_path / "clicks", toys.make_hours([2, 1]))
    (quick_path / "online.json").write_text(json.dumps(toys.ONLINE))
    (quick_path / "script.py").write_text(
        toys.SCRIPT.replace("    wanted =", "    targets['clicked'].split('no')\n    wanted =")
    )
    done = samovar("train", "online.json", "--script", "script.py")
    assert done.returncode == 1
    assert done.stderr.startswith('  File "script.py", line ')
    assert "error: your code failed in minibatch 0 of 2021-01-01T00:00; " in done.stderr
