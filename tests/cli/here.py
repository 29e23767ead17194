"""Commands run in this process, where torch is loaded already: starting Python takes longer than most of them."""

import contextlib
import io
import sys
from collections.abc import Iterator, Sequence

import torch

from samovar.cli.app import app


def run(words: Sequence[str]) -> str:
    """What it prints, plain as for a file."""
    out, notes = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(notes), unchanged():
        code = app(list(words), standalone_mode=False)
    assert not code, f"{words}: exit code {code}\n{notes.getvalue()}"
    assert "\x1b" not in out.getvalue() + notes.getvalue(), words
    return out.getvalue()


@contextlib.contextmanager
def unchanged() -> Iterator[None]:
    """What a command changes in its process is put back."""
    path, threads = list(sys.path), torch.get_num_threads()
    try:
        yield
    finally:
        sys.path[:] = path
        torch.set_num_threads(threads)
