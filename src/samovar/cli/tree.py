"""`samovar tree`: which configs are next of kin, drawn as a dendrogram."""

from pathlib import Path
from typing import Annotated

import typer

from samovar.cli.answer import Json, print_json
from samovar.cli.console import open_console
from samovar.cli.rows import save_text
from samovar.config import format_csv
from samovar.config.values import MISSING

_MOST_LEAVES = 40


def tree(
    configs: Annotated[
        list[str], typer.Argument(help="Config files, result directories, folders, patterns.", metavar="A B …")
    ],
    metric: Annotated[str | None, typer.Option(help="Colour the names by the last value of this metric.")] = None,
    clusters: Annotated[
        int, typer.Option(help="Draw at most so many branches; the closest stay together.", min=2, metavar="N")
    ] = _MOST_LEAVES,
    csv: Annotated[Path | None, typer.Option(help="Write a line a config: its branch and metric.")] = None,
    png: Annotated[Path | None, typer.Option(help="Draw here.", metavar="FILE")] = None,
    svg: Annotated[Path | None, typer.Option(help="Draw here.", metavar="FILE")] = None,
    as_json: Json = False,
) -> None:
    """Draw which configs are next of kin, as a dendrogram.

    By the share of their keys that differ; numbers count by their relative size.

    Example: samovar tree models/click_* --metric auc --svg kin.svg
    """
    from samovar.runs.find import find_targets
    from samovar.runs.terminal import draw_dendrogram
    from samovar.runs.tree import grow

    found = grow(find_targets(configs), clusters, metric)
    pictures = {kind: file for kind, file in (("png", png), ("svg", svg)) if file is not None}
    columns = ("branch", "name", metric or "metric")
    rows = [
        (number, name, MISSING if leaf.value is None else leaf.value)
        for number, leaf in enumerate(found.leaves)
        for name in leaf.names
    ]
    if csv is not None:
        save_text(csv, format_csv(columns, rows))
    if pictures:
        from samovar.runs.pictures import save_dendrogram

        save_dendrogram(found, metric, pictures)
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif csv is None and not pictures:
        open_console().print(draw_dendrogram(found), end="")
