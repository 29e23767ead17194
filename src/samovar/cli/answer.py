"""`--json`: the answer for a program, one JSON document and nothing else on stdout. Knows no command.

Numbers stay numbers, ids up to 64 bits included; what JSON has no word for (NaN, an infinity) is null.
"""

import ctypes
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Annotated, Any

import typer

from samovar.config.values import MISSING

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]


def print_json(answer: Any) -> None:
    print(json.dumps(_plain(answer), indent=2, ensure_ascii=False, allow_nan=False))


@contextmanager
def only_answer(is_json: bool) -> Iterator[None]:
    """While the block runs, what scripts, libraries and processes that they start print goes to stderr, if the answer
    is to stand alone."""
    if not is_json:
        yield
        return
    with redirect_stdout(sys.stderr), _moved(1, 2):
        yield


@contextmanager
def _moved(descriptor: int, target: int) -> Iterator[None]:
    """What is not Python knows only the descriptor."""
    kept = os.dup(descriptor)
    os.dup2(target, descriptor)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # what C code has not written yet
        os.dup2(kept, descriptor)
        os.close(kept)


def _plain(value: Any) -> Any:
    """What is missing is left out of an object, and null in a list."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items() if each is not MISSING}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is MISSING:
        return None
    return value if isinstance(value, str | int | None) else str(value)
