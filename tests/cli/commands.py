"""Commands for tests: in a process of their own, with a pipe or a terminal as output, or in this process.

In this process torch is already loaded: starting Python takes longer than most commands."""

import contextlib
import io
import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import typer.main

from samovar.cli.app import app


def find_commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from find_commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


GROUP: Any = typer.main.get_command(app)
COMMANDS = dict(find_commands(GROUP))
"""Every command by its full name, `queue add` for one."""


def samovar(*arguments: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "samovar", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, input=stdin)


def on_a_terminal(*arguments: object, terminal: str = "dumb", columns: int = 200) -> str:
    """What the command prints when its output is a terminal."""
    outer, inner = pty.openpty()
    command = [sys.executable, "-m", "samovar", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": terminal}
    process = subprocess.Popen(command, stdout=inner, env=environment)
    os.close(inner)
    text = b""
    while True:
        try:
            piece = os.read(outer, 1 << 16)
        except OSError:  # Linux reports so that the other end is closed
            break
        if not piece:
            break
        text += piece
    os.close(outer)
    assert process.wait() == 0
    return text.decode()


def run_here(words: Sequence[str]) -> str:
    """What the command prints, plain as for a file."""
    out, notes = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(notes), unchanged_process():
        code = app(list(words), standalone_mode=False)
    assert not code, f"{words}: exit code {code}\n{notes.getvalue()}"
    assert "\x1b" not in out.getvalue() + notes.getvalue(), words
    return out.getvalue()


@contextlib.contextmanager
def unchanged_process() -> Iterator[None]:
    """Undo what a command changes in its process."""
    path, threads = list(sys.path), torch.get_num_threads()
    try:
        yield
    finally:
        sys.path[:] = path
        torch.set_num_threads(threads)
