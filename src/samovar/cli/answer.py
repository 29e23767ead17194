"""`--json`: the answer for a program, one JSON document and nothing else on stdout. Knows no command.

Numbers stay numbers, ids up to 64 bits included; what JSON has no word for (NaN, an infinity) is null.
"""

import json
import math
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
    """While the block runs, what scripts and libraries print goes to stderr, if the answer is to stand alone."""
    if not is_json:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield


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
