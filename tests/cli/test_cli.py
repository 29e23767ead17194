import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from samovar.results import ResultDirectory, ResultPlan, Source, begin, open_directory
from samovar.store import LocalStore


def samovar(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "samovar", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"})


def on_a_terminal(*arguments: object, terminal: str = "dumb") -> str:
    """The same with a terminal as its output."""
    outer, inner = pty.openpty()
    command = [sys.executable, "-m", "samovar", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=inner, env={**os.environ, "COLUMNS": "200", "TERM": terminal})
    os.close(inner)
    text = b""
    while True:
        try:
            piece = os.read(outer, 1 << 16)
        except OSError:  # Linux says so when the other end is closed
            break
        if not piece:
            break
        text += piece
    os.close(outer)
    assert process.wait() == 0
    return text.decode()


def make_result(folder: Path, config: dict[str, Any], *sources: Path) -> None:
    origins = [Source("source", str(source), open_directory(source).id) for source in sources]
    plan = ResultPlan("model", config, b"script", sources=origins)
    with begin(ResultDirectory(LocalStore(folder)), plan) as result:
        result.restore()
        result.finish({"w": [1, 2]}, {"hour": 3})


def test_the_version_is_printed() -> None:
    done = samovar("--version")
    assert (done.returncode, done.stdout) == (0, "samovar 0.1.0\n")


def test_help_lists_the_commands_and_starts_without_torch_or_pyarrow() -> None:
    code = """
import sys
from samovar.cli import main
sys.argv = ["samovar", "--help"]
try:
    main()
except SystemExit as end:
    print(end.code, sorted({"torch", "pyarrow", "duckdb", "matplotlib", "scipy", "sqlalchemy"} & sys.modules.keys()))
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "show" in loaded.stdout
    assert "diff" in loaded.stdout
    assert loaded.stdout.endswith("\n0 []\n")


def test_show_tells_status_holder_config_chain_and_sizes(tmp_path: Path) -> None:
    make_result(tmp_path / "data", {"name": "data"})
    make_result(tmp_path / "model", {"lr": 0.5, "source": str(tmp_path / "data")}, tmp_path / "data")
    done = samovar("show", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    for expected in (
        "status     finished",
        '"lr": 0.5',
        "model_config.json",
        f"source = {tmp_path}/data",
        "[good]",
        "{'hour': 3}",
    ):
        assert expected in done.stdout, done.stdout


def test_show_names_who_holds_a_directory(tmp_path: Path) -> None:
    with begin(ResultDirectory(LocalStore(tmp_path)), ResultPlan("model", {})):
        assert f"running, held by process {os.getpid()} on " in samovar("show", tmp_path).stdout


def test_show_tells_why_a_run_failed(tmp_path: Path) -> None:
    said = "no more tea in [/x], [bold] or [a, b] :tea:"
    with pytest.raises(RuntimeError), begin(ResultDirectory(LocalStore(tmp_path)), ResultPlan("model", {})):
        raise RuntimeError(said)
    assert f"RuntimeError: {said}" in samovar("show", tmp_path).stdout


def test_diff_is_csv_when_piped_and_a_table_on_a_terminal(tmp_path: Path) -> None:
    make_result(tmp_path / "a", {"lr": 0.5, "name": "x", "same": 1})
    (tmp_path / "b.json").write_text(json.dumps({"lr": 0.25, "name": None, "same": 1, "new": [1, 2]}))
    done = samovar("diff", tmp_path / "a", tmp_path / "b.json")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        f"key,{tmp_path}/a,{tmp_path}/b.json",
        "lr,0.5,0.25",
        "name,x,null",
        'new,,"[1, 2]"',
    ]
    (tmp_path / "c.json").write_text(json.dumps({"lr": "[red]", "layers": ["[/]", "a"]}))
    shown = on_a_terminal("diff", tmp_path / "c.json", tmp_path / "b.json")
    assert "[red]" in shown
    assert '["[/]", "a"]' in shown
    shown = on_a_terminal("diff", tmp_path / "a", tmp_path / "b.json", "--ignore", "new")
    assert "│ lr" in shown
    assert "same" not in shown
    assert "new" not in shown.replace(str(tmp_path), "")
    assert on_a_terminal("diff", tmp_path / "a", tmp_path / "a").strip() == "no difference"


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
def test_a_wrong_path_is_the_users_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = samovar(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr


def test_wrong_usage_is_the_users_mistake(tmp_path: Path) -> None:
    assert samovar("diff", tmp_path).returncode == 2
    assert samovar("no-such-command").returncode == 2
