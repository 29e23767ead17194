"""The table of commands, their help, and what starting one imports."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tests.cli.commands import COMMANDS, GROUP, on_a_terminal, samovar
from tests.runs.runs import make_run

from samovar.cli.app import PANELS, app

MOST_LETTERS = 60  # what a terminal of 80 columns shows beside the longest name
TERMINAL_COLUMNS = 100
HEAVY = {"torch", "pyarrow", "duckdb", "matplotlib", "scipy", "sqlalchemy"}


# Help


def test_the_help_of_the_program_shows_the_first_line_of_every_command() -> None:
    listed = {name: line for panel in PANELS for name, line in panel.commands.items()}
    assert listed == {name: command.help.split("\n\n")[0] for name, command in GROUP.commands.items()}
    shown = on_a_terminal("--help", columns=TERMINAL_COLUMNS)
    for panel in PANELS:
        assert f"─ {panel.title} ─" in shown
        for name, line in panel.commands.items():
            assert re.search(rf"│ {name} +{re.escape(line)} +│", shown), name


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_one_clear_line_then_more_then_an_example(name: str) -> None:
    first, *_, example = COMMANDS[name].help.split("\n\n")
    assert re.fullmatch(r"[A-Z][^\n]*\.", first.strip()), first
    assert len(first) <= MOST_LETTERS, first
    assert example.strip().startswith(f"Example: samovar {name} ")
    assert any("--json" in param.opts for param in COMMANDS[name].params)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_terminal_wraps_help_well(name: str) -> None:
    """The help keeps line breaks of a docstring: a paragraph on several lines would be broken twice."""
    paragraphs = COMMANDS[name].help.strip().split("\n\n")
    assert not any("\n" in paragraph.strip() for paragraph in paragraphs)
    assert len(paragraphs[-1]) <= TERMINAL_COLUMNS - 2, "the example fits on one line, to be copied"


@pytest.mark.parametrize("words", [[], ["queue"], *(name.split() for name in COMMANDS)])
def test_help_names_no_python_types(words: list[str]) -> None:
    done = run_help(words)
    usage = next(line for line in done.splitlines() if "Usage:" in line)
    assert "{" not in usage
    assert not re.search(r"<\w+|\[x|\[\d", done), done


def run_help(words: list[str]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        app([*words, "--help"], standalone_mode=False)
    return out.getvalue()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("verify-resume x.json --script y.py --kills 0", "'--kills': must be at least 1, got 0"),
        ("verify-resume x.json --script y.py --kills ten", "'--kills': must be an integer, got ten"),
        ("worker --lease soon", "'--lease': must be a number, got soon"),
        ("queue retry a", "'ID': must be an integer, got a"),
        ("metrics x --by week", "'--by': 'week' is not one of 'hour', 'day'"),
    ],
)
def test_a_wrong_value_of_an_option_is_reported_in_plain_words(words: str, problem: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        app(words.split(), standalone_mode=False)
    assert problem in caught.value.format_message()


def test_no_group_has_options_of_its_own() -> None:
    """Such as those of typer to install shell completion."""
    assert {param.name for param in GROUP.params} == {"show_version", "debug"}
    assert GROUP.commands["queue"].params == []


def test_a_misspelled_command_is_corrected() -> None:
    done = samovar("shwo")
    assert done.returncode == 2
    assert "No such command 'shwo'. Did you mean 'show'?" in done.stderr


def test_wrong_usage_is_a_user_error(tmp_path: Path) -> None:
    assert samovar("diff", tmp_path).returncode == 2
    assert samovar("no-such-command").returncode == 2


def test_the_version_is_printed() -> None:
    done = samovar("--version")
    assert (done.returncode, done.stdout) == (0, "samovar 0.2.0\n")


# What is imported


def imported_by(*arguments: object) -> set[str]:
    """The modules that a successful command has loaded."""
    code = f"""
import sys
from samovar.cli import main
sys.argv = ["samovar", *{list(map(str, arguments))}]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_help_imports_no_command() -> None:
    loaded = imported_by("--help")
    assert "samovar.cli.app" in loaded
    assert not {"numpy", "pydantic", *HEAVY} & loaded
    assert {name for name in loaded if name.startswith("samovar.cli.")} <= {
        f"samovar.cli.{name}" for name in ("app", "entry", "help")
    }


@pytest.mark.parametrize("command", ["show", "ls", "diff"])
def test_commands_that_only_look_import_nothing_heavy(quick_path: Path, command: str) -> None:
    for name in ("one", "two"):
        make_run(quick_path / name, {"name": name}, [])
    targets = [quick_path / "one"] if command == "show" else [quick_path / "one", quick_path / "two"]
    loaded = imported_by(command, *targets)
    assert "samovar.cli.runs" in loaded
    assert not HEAVY & loaded


# Colors

COLOR = re.compile(r"\x1b\[[0-9;]*[34][0-9][0-9;]*m")


@pytest.mark.parametrize("words", [["--help"], ["queue", "add", "--help"], ["no-such-command"], ["show", "none"]])
def test_a_file_gets_no_colors(words: list[str]) -> None:
    done = samovar(*words)
    assert "\x1b" not in done.stdout + done.stderr


def test_a_terminal_gets_colors_unless_it_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert COLOR.search(on_a_terminal("--help", terminal="xterm-256color"))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not COLOR.search(on_a_terminal("--help", terminal="xterm-256color"))


def test_a_pipe_that_closes_early_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "samovar", "--help"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert "Traceback" not in done.stderr
