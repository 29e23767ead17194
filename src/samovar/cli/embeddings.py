"""`samovar embeddings`: the hash tables of a model directory."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table as Grid

from samovar.cli.answer import Json, print_json
from samovar.cli.console import open_console
from samovar.cli.sizes import readable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from samovar.embeddings.stored import StoredTable


_BAR_WIDTH = 40
_COUNTERS = ("inserted", "reset", "freed", "skipped")


def embeddings(
    directory: Annotated[Path, typer.Argument(help="A model directory.", metavar="DIR")],
    as_json: Json = False,
) -> None:
    """Show the hash tables of a model: sizes, and ages of ids.

    While the model is not finished, those of its newest snapshot.

    Example: samovar embeddings models/click_1
    """
    from samovar.embeddings.stored import stored_tables
    from samovar.errors import NotAResult
    from samovar.results import open_directory

    found = open_directory(directory)
    tables = list(stored_tables(found.load_model().tree))
    if not tables:
        raise NotAResult(f"{found.name}: its model has no hash tables; expected some: check the path")
    if as_json:
        print_json(list(map(_record, tables)))
        return
    console = open_console()
    console.print(_facts(tables))
    for table in tables:
        console.print(_ages(table))


def _record(table: "StoredTable") -> dict[str, Any]:
    return {
        "place": table.place,
        "name": table.name,
        "optimizer": table.optimizer,
        "dim": table.dim,
        "ttl": table.ttl,
        "ids": table.num_ids,
        "bytes": table.size_bytes,
        **{name: table.counters[name] for name in _COUNTERS},
        "ages": table.count_ages().tolist(),
    }


def _facts(tables: list["StoredTable"]) -> Grid:
    headings = ("table", "optimizer", "dim", "ttl", "ids", "bytes", "inserted", "reset", "freed", "skipped updates")
    grid = Grid(*headings, box=None)
    for table in tables:
        counters = table.counters
        grid.add_row(
            f"{table.place}: {table.name}",
            table.optimizer,
            str(table.dim),
            "never" if table.ttl is None else str(table.ttl),
            f"{table.num_ids:,}",
            readable(table.size_bytes),
            *(f"{counters[name]:,}" for name in _COUNTERS),
        )
    total = sum(table.num_ids for table in tables), sum(table.size_bytes for table in tables)
    grid.add_row("all", "", "", "", f"{total[0]:,}", readable(total[1]))
    return grid


def _ages(table: "StoredTable") -> Grid:
    """A bar for each span of ages, each twice as long as the one before."""
    spans = _spans(table.count_ages())
    longest = max((count for _, count in spans), default=0)
    grid = Grid(f"{table.name}: URIs since last used", "ids", "", box=None)
    for name, count in spans:
        grid.add_row(name, f"{count:,}", "█" * round(_BAR_WIDTH * count / longest) if longest else "")
    return grid


def _spans(counts: "NDArray[np.int64]") -> list[tuple[str, int]]:
    spans, first, width = [], 0, 1
    while first < len(counts):
        last = first + width - 1
        spans.append((str(first) if width == 1 else f"{first}-{last}", int(counts[first : last + 1].sum())))
        first, width = last + 1, width * 2 if first else 1
    return spans
