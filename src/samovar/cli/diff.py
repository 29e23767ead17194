"""`samovar diff`: the keys in which configs differ. A table on a terminal, CSV when piped."""

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from samovar.config import flat_diff, to_csv
from samovar.config.diff import Diff, show_value
from samovar.experiments.targets import find_targets


def diff(
    configs: Annotated[
        list[str], typer.Argument(help="Config files, result directories, patterns of them.", metavar="A B …")
    ],
    ignore: Annotated[list[str] | None, typer.Option(help="A key or section to leave out; repeatable.")] = None,
) -> None:
    """Only the keys in which two or more configs differ.

    Example: samovar diff models/click_1 models/click_2 new_config.json > difference.csv
    """
    targets = find_targets(configs)
    if len(targets) < 2:
        raise typer.BadParameter("expected at least two configs or directories: give another one")
    found = flat_diff({target.name: target.config for target in targets}, ignore or ())
    if not sys.stdout.isatty():
        print(to_csv(found), end="")
    elif not found:
        print("no difference")
    else:
        Console().print(_table(found))


def _table(found: Diff) -> Table:
    table = Table("key", *found.names)
    for key, values in found.rows.items():
        table.add_row(key, *(show_value(value) for value in values))
    return table
