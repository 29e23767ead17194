"""`samovar diff`: the keys in which configs differ. A table on a terminal, CSV when piped."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from samovar.config import flat_diff, read_config, to_csv
from samovar.config.diff import Diff, show_value
from samovar.results import open_directory


def diff(
    configs: Annotated[list[Path], typer.Argument(help="Config files or result directories.", metavar="A B …")],
    ignore: Annotated[list[str] | None, typer.Option(help="A key or section to leave out; repeatable.")] = None,
) -> None:
    """Only the keys in which two or more configs differ.

    Example: samovar diff models/click_1 models/click_2 new_config.json > difference.csv
    """
    if len(configs) < 2:
        raise typer.BadParameter("expected at least two configs or directories: give another one")
    found = flat_diff({name: _read(path) for name, path in _names(configs).items()}, ignore or ())
    if not sys.stdout.isatty():
        print(to_csv(found), end="")
    elif not found:
        print("no difference")
    else:
        Console().print(_table(found))


def _read(path: Path) -> dict[str, Any]:
    return open_directory(path).config if path.is_dir() else read_config(path)


def _names(paths: list[Path]) -> dict[str, Path]:
    """The column of each; the same file twice stays two columns."""
    names: dict[str, Path] = {}
    for path in paths:
        name, number = str(path), 2
        while name in names:
            name, number = f"{path} ({number})", number + 1
        names[name] = path
    return names


def _table(found: Diff) -> Table:
    table = Table("key", *found.names)
    for key, values in found.rows.items():
        table.add_row(key, *(show_value(value) for value in values))
    return table
