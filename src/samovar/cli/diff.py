"""`samovar diff`: the keys in which configs differ. A table on a terminal, CSV when piped."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from samovar.cli.answer import Json, print_json
from samovar.cli.console import open_console
from samovar.cli.rows import save_text
from samovar.config import Diff
from samovar.config.diff import show_value
from samovar.runs.diff import against_baseline, compare_targets, put_first, summarize
from samovar.runs.find import find_targets

_MOST_COLUMNS = 12


def diff(
    configs: Annotated[
        list[str], typer.Argument(help="Config files, result directories, folders, patterns.", metavar="A B …")
    ],
    baseline: Annotated[
        str | None, typer.Option(help="Show of the others only what differs from this one.", metavar="X")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="A key or section to leave out, or *.key at any depth; repeatable.")
    ] = None,
    environment: Annotated[
        bool, typer.Option("--environment", help="Also versions, threads and devices that results were made with.")
    ] = False,
    csv: Annotated[Path | None, typer.Option(help="Write the table here.", metavar="FILE")] = None,
    as_json: Json = False,
) -> None:
    """Show only the keys in which configs differ.

    A table on a terminal, CSV when piped.

    Example: samovar diff models/click_1 models/click_2 new_config.json > difference.csv
    """
    targets = find_targets(configs)
    if baseline is not None:
        targets = put_first(find_targets([baseline])[0], targets)
    found = compare_targets(targets, ignore or (), environment)
    if baseline is not None:
        found = against_baseline(found)
    if csv is not None:
        save_text(csv, found.to_csv())
    if as_json:
        values = {key: dict(zip(found.names, row, strict=True)) for key, row in found.rows.items()}
        print_json({"names": found.names, "differences": values})
    elif csv is not None:
        return
    elif not sys.stdout.isatty():
        print(found.to_csv(), end="")
    elif not found:
        print("no difference")
    else:
        open_console().print(_table(found) if len(found.names) <= _MOST_COLUMNS else _summary(found))


def _table(found: Diff) -> Table:
    table = Table("key", *found.names)
    for key, values in found.rows.items():
        table.add_row(key, *(show_value(value) for value in values))
    return table


def _summary(found: Diff) -> Table:
    table = Table("key", "values", "the commonest", caption=f"{len(found.names)} configs; all of it with --csv FILE")
    for summary in summarize(found):
        shown = ", ".join(f"{value} ({count})" for value, count in summary.commonest)
        rest = summary.num_values - len(summary.commonest)
        table.add_row(summary.key, str(summary.num_values), f"{shown}, {rest} more" if rest else shown)
    return table
