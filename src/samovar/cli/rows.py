"""Rows as a command prints them: a table on a terminal, CSV when piped, a CSV file or JSON when asked."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.table import Table

from samovar.cli.answer import print_json
from samovar.cli.console import open_console
from samovar.config import format_csv
from samovar.errors import BadInput


def print_rows(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    show: Callable[[str, Any], str],
    csv_file: Path | None = None,
    as_json: bool = False,
) -> None:
    """`show` is how people read a value of a column; programs get it as it is."""
    if csv_file is not None:
        save_text(csv_file, format_csv(columns, rows))
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif csv_file is not None:
        return
    elif not sys.stdout.isatty():
        print(format_csv(columns, rows), end="")
    else:
        table = Table(*columns)
        for row in rows:
            table.add_row(*map(show, columns, row))
        open_console().print(table)


def save_text(path: Path, text: str) -> None:
    with writing_to(path):
        path.write_text(text)


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """A place that cannot be written to is the user's mistake."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; expected a place to write to: give another") from None
