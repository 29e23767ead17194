"""`samovar ls`: the runs below a folder, with state, age and metrics."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from samovar.cli.answer import Json
from samovar.cli.console import print_notes
from samovar.cli.rows import print_rows
from samovar.config.diff import show_value

_AGES = ((86400.0 * 2, 86400.0, "d"), (3600.0 * 2, 3600.0, "h"), (120.0, 60.0, "min"), (0.0, 1.0, "s"))
"""From so many seconds on, in units of so many, which is called so."""
_MOST_ROWS = 200


def ls(
    places: Annotated[list[str] | None, typer.Argument(help="Folders or patterns.", metavar="[DIR|GLOB …]")] = None,
    where: Annotated[
        list[str] | None, typer.Option(help='A condition such as "lr>0.01" or state=finished; repeatable.')
    ] = None,
    sort: Annotated[list[str] | None, typer.Option(help="A column; -COLUMN from high to low; repeatable.")] = None,
    columns: Annotated[
        str | None, typer.Option(help="Facts, config keys and metrics, with commas.", metavar="A,B,…")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the rows here.", metavar="FILE")] = None,
    as_json: Json = False,
) -> None:
    """List runs with state, age and the last of their metrics.

    A table on a terminal, CSV when piped.

    Example: samovar ls models --where state=finished --where "lr>0.01" --sort -auc --columns state,lr,auc
    """
    from samovar.runs.find import find_directories
    from samovar.runs.listing import list_runs

    named = [name.strip() for name in columns.split(",")] if columns else []
    listing = list_runs(find_directories(places or ["."]), datetime.now(UTC), where or [], sort or [], named)
    print_notes(f"unreadable: {problem}" for problem in listing.unreadable)
    is_shortened = sys.stdout.isatty() and csv is None and not as_json and len(listing.rows) > _MOST_ROWS
    rows = listing.rows[:_MOST_ROWS] if is_shortened else listing.rows
    print_rows(_shorten(listing.columns), rows, _show, csv, as_json)
    if is_shortened:
        print_notes([f"{len(listing.rows) - _MOST_ROWS} more; see them with --where, --sort or --csv FILE"])


def _shorten(columns: Sequence[str]) -> list[str]:
    """Without `config.` and `metric.`, where the name is still that of one column."""
    short = [column.partition(".")[2] or column for column in columns]
    return [name if short.count(name) == 1 else column for name, column in zip(short, columns, strict=True)]


def _show(column: str, value: Any) -> str:
    if column == "age" and isinstance(value, float):
        _, unit, name = next(age for age in _AGES if value >= age[0])
        return f"{value / unit:.0f} {name}"
    return f"{value:.5g}" if isinstance(value, float) else show_value(value)
