"""`samovar plot`: losses and metrics of many runs, on the terminal or as a picture."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from samovar.cli.answer import Json, print_json
from samovar.cli.console import open_console
from samovar.cli.rows import save_text
from samovar.config import format_csv


def plot(
    runs: Annotated[list[str], typer.Argument(help="Result directories, folders, patterns.", metavar="RUN …")],
    metric: Annotated[
        list[str] | None, typer.Option(help="A metric in full or by its last part; repeatable. Losses if absent.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the points here.", metavar="FILE")] = None,
    png: Annotated[Path | None, typer.Option(help="Draw here.", metavar="FILE")] = None,
    svg: Annotated[Path | None, typer.Option(help="Draw here.", metavar="FILE")] = None,
    as_json: Json = False,
) -> None:
    """Plot the curves of many runs, finished or not.

    The legend shows only what differs between their configs.

    Example: samovar plot models/click_* --metric auc --png auc.png
    """
    from samovar.runs.curves import make_panels
    from samovar.runs.find import find_targets
    from samovar.runs.terminal import draw_lines

    panels = make_panels(find_targets(runs), metric or ())
    points = [
        (line.label, panel.metric, step, value)
        for panel in panels
        for line in panel.lines
        for step, value in zip(line.steps, line.values, strict=True)
    ]
    columns = ("run", "metric", "step", "value")
    pictures = {kind: file for kind, file in (("png", png), ("svg", svg)) if file is not None}
    if csv is not None:
        save_text(csv, format_csv(columns, points))
    if pictures:
        from samovar.runs.pictures import save_panels

        save_panels(panels, pictures)
    if as_json:
        print_json([dict(zip(columns, point, strict=True)) for point in points])
        return
    if csv is not None or pictures:
        return
    if not sys.stdout.isatty():
        print(format_csv(columns, points), end="")
        return
    console = open_console()
    for panel in panels:
        console.print(draw_lines(panel.metric, panel.lines, max(20, min(100, console.width - 14))))
