"""Runs the blocks of a page as its reader would, one after the other, in one folder. Checks only what a page says."""

import contextlib
import io
import linecache
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from tests.docs.pages import OUTPUT, ROOT, Block

from samovar.cli.app import app

# Starting Python takes longer than these commands; others fork, which a process that used torch must not do.
_RUN_HERE = {"brew", "diff", "embeddings", "metrics", "predict", "show", "table", "train"}
_NEEDS_A_SHELL = re.compile(r"[|<>&;$*]")


class Reader:
    """The current folder is the page's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._printed = ""
        self._module = ModuleType("__main__")  # as in a notebook
        sys.modules["__main__"] = self._module  # classes look up the module that defined them
        (folder / "examples").symlink_to(ROOT / "examples")

    def follow(self, block: Block) -> None:
        if block.title == OUTPUT:
            expected = ".*".join(map(re.escape, _tidy(block.text).split("…")))
            assert re.fullmatch(expected, _tidy(self._printed), re.DOTALL), f"{block.place}:\n{self._printed}"
        elif block.title is not None:
            path = self._folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.language == "python":
            self._printed = self._run_python(block)
        elif block.language == "sh":
            self._printed = "".join(self._run_command(line, block) for line in _commands(block.text))

    def _run_python(self, block: Block) -> str:
        printed = io.StringIO()
        # The source of a function can be looked up, as in a notebook.
        linecache.cache[block.place] = (len(block.text), None, block.text.splitlines(keepends=True), block.place)
        with contextlib.redirect_stdout(printed), _told(block):
            exec(compile(block.text, block.place, "exec"), self._module.__dict__)
        return printed.getvalue()

    def _run_command(self, line: str, block: Block) -> str:
        words = shlex.split(line, comments=True)
        is_plain = _NEEDS_A_SHELL.search(re.sub(r"'[^']*'", "", line.partition(" #")[0])) is None
        if words[0] != "samovar" or words[1] not in _RUN_HERE or not is_plain:
            return self._run_in_a_shell(line, block)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), _told(block):
            app(words[1:], standalone_mode=False)
        return printed.getvalue()

    def _run_in_a_shell(self, line: str, block: Block) -> str:
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{block.place}: {line}\n{done.stdout}{done.stderr}"
        return done.stdout


@contextlib.contextmanager
def _told(block: Block) -> Iterator[None]:
    """An error names its block."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the block at {block.place}")
        raise


def _commands(text: str) -> list[str]:
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def _tidy(text: str) -> str:
    """Without spaces at the ends of lines, and in tables."""
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())
