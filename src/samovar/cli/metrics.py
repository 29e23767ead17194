"""`samovar metrics`: AUC, log-loss and calibration of a model directory. A table on a terminal, CSV when piped."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from samovar.cli.answer import Json, print_json
from samovar.cli.console import open_console, print_notes
from samovar.cli.rows import save_text, writing_to
from samovar.errors import NotAResult


class Span(StrEnum):
    HOUR = "hour"
    DAY = "day"


def metrics(
    model: Annotated[Path, typer.Argument(help="A model directory, finished or not.", metavar="MODEL_DIR")],
    by: Annotated[Span, typer.Option(help="What a row is.")] = Span.HOUR,
    csv: Annotated[Path | None, typer.Option(help="Write the rows here.", metavar="OUT.csv")] = None,
    png: Annotated[Path | None, typer.Option(help="Draw them here.", metavar="OUT.png")] = None,
    as_json: Json = False,
) -> None:
    """Tell how good predictions in flight were, by hour or by day.

    A table on a terminal, CSV when piped.

    Example: samovar metrics models/click_1 --by day --png click_1.png
    """
    from samovar.results import open_directory
    from samovar.scoring.quality import COLUMNS, draw, evaluations, is_measured, to_csv

    directory = open_directory(model)
    rows = evaluations(directory, "day" if by is Span.DAY else "hour")
    if not rows and "evaluation" in directory.config:
        raise NotAResult(f"{model}: no evaluation is there yet, or none had rows; expected some: wait for a snapshot")
    if not rows:
        raise NotAResult(f"{model}: has no evaluations; expected a model with `evaluation` in its config: add it there")
    if not is_measured(rows):
        need = "AUC, log-loss and calibration need a target and a prediction of one number an example"
        print_notes([f"{model}: nothing to measure: {need}; let `predict` give a tensor [B], or a dict of such"])
    if csv is not None:
        save_text(csv, to_csv(rows))
    if png is not None:
        with writing_to(png):
            draw(rows, png)
    if as_json:
        print_json(rows)
    if as_json or csv is not None or png is not None:
        return
    if not sys.stdout.isatty():
        print(to_csv(rows), end="")
        return
    table = Table(*(column.replace("_", " ") for column in COLUMNS))
    for row in rows:
        table.add_row(*(_show(row[column]) for column in COLUMNS))
    open_console().print(table)


def _show(value: Any) -> str:
    return "" if value is None else f"{value:.5f}" if isinstance(value, float) else str(value)
