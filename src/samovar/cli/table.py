"""`samovar table`: what is in a tensor table."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table as Grid

from samovar.cli.answer import Json, print_json
from samovar.cli.console import open_console
from samovar.cli.sizes import readable
from samovar.cli.table_answer import describe_minibatch, describe_table, sum_column_bytes
from samovar.hours import show_hour

if TYPE_CHECKING:
    from samovar.tables import Table


_BAR_WIDTH = 40


def table(
    directory: Annotated[Path, typer.Argument(help="A tensor table.", metavar="DIR")],
    row: Annotated[int | None, typer.Option(help="Print one minibatch instead.", metavar="K")] = None,
    export: Annotated[
        Path | None, typer.Option(help="Write all examples as ordinary rows.", metavar="OUT.parquet")
    ] = None,
    as_json: Json = False,
) -> None:
    """Look into a tensor table: its columns, hours and sizes.

    --row prints one minibatch, --export writes all examples as ordinary rows.

    Example: samovar table tables/clicks --row 0
    """
    from samovar.tables import open_table
    from samovar.tables.export import export_rows

    found = open_table(directory)
    if export is not None:
        num_rows = export_rows(found, export)
        print_json({"path": export, "rows": num_rows}) if as_json else print(f"{export}: {num_rows} rows")
        return
    if as_json:
        print_json(describe_table(found) if row is None else describe_minibatch(found, row))
        return
    console = open_console()
    if row is not None:
        _print_minibatch(console, found, row)
    else:
        _print_facts(console, found)


def _print_facts(console: Console, table: "Table") -> None:
    grid = Grid.grid(padding=(0, 2))
    hours = [hour for hour in table.hours if hour is not None]
    grid.add_row("table", table.name)
    grid.add_row("id", table.id)
    grid.add_row("version", f"{table.version} of {', '.join(map(str, table.versions[-10:]))}")
    grid.add_row("compression", table.compression)
    grid.add_row("minibatches", f"{table.num_minibatches:,} of {table.num_examples:,} examples")
    grid.add_row(
        "hours",
        f"{len(hours):,}, {show_hour(hours[0])} to {show_hour(hours[-1])}" if hours else "none: an offline table",
    )
    if table.complete_until is not None:
        grid.add_row("live", f"complete until {show_hour(table.complete_until)}")
    console.print(grid)
    console.print(_columns(table))
    console.print(_batch_sizes(table))


def _columns(table: "Table") -> Grid:
    sizes = sum_column_bytes(table)
    grid = Grid("column", "kind", "rank", "brewed from", "bytes", "bytes an example", box=None)
    for column in table.schema.columns:
        size = sizes[column.name]
        share = f"{size / table.num_examples:.2f}" if table.num_examples else "-"
        grid.add_row(column.name, column.kind, str(column.rank), column.source_type, readable(size), share)
    return grid


def _batch_sizes(table: "Table") -> Grid:
    counts = table.batch_sizes()
    usual = max(counts, key=lambda size: (counts[size], size), default=0)
    short = sum(count for size, count in counts.items() if size < usual)
    grid = Grid("examples in a minibatch", "minibatches", "", box=None)
    for (first, last), count in _bins(counts).items():
        name = f"{first:,}" if first == last else f"{first:,} to {last:,}"
        grid.add_row(name, f"{count:,}", "█" * max(1, round(_BAR_WIDTH * count / max(table.num_minibatches, 1))))
    share = short / table.num_minibatches if table.num_minibatches else 0
    grid.add_row(f"shorter than {usual:,}", f"{short:,}", f"{share:.2%}")
    return grid


def _bins(counts: dict[int, int], most: int = 12) -> dict[tuple[int, int], int]:
    """Sizes put together, so that a histogram has few lines."""
    sizes = sorted(counts)
    if len(sizes) <= most:
        return {(size, size): counts[size] for size in sizes}
    width = -(-(sizes[-1] - sizes[0] + 1) // most)
    bins: Counter[tuple[int, int]] = Counter()
    for size in sizes:
        first = sizes[0] + (size - sizes[0]) // width * width
        bins[first, first + width - 1] += counts[size]
    return dict(bins)


def _print_minibatch(console: Console, table: "Table", row: int) -> None:
    import torch

    from samovar.tables import Bag

    record = next(table.read(start=row, stop=row + 1))
    hour = "" if record.hour is None else f" of hour {show_hour(record.hour)}"
    console.print(f"minibatch {row}{hour}: {record.num_examples} examples")
    grid = Grid("column", "shape", "values", box=None)
    for name, value in record.items():
        if isinstance(value, Bag):
            ids = [number % 2**64 for number in value.data[:8].tolist()]
            grid.add_row(
                name, f"data {len(value.data)}, data_len {list(value.data_len.shape)}", _few(ids, len(value.data))
            )
            lengths = value.data_len.reshape(-1)
            grid.add_row("", "data_len", _few(lengths[:16].tolist(), len(lengths)))
        elif isinstance(value, torch.Tensor):
            grid.add_row(name, str(list(value.shape)), _few(value.reshape(-1)[:8].tolist(), value.numel()))
        else:
            grid.add_row(name, str(value.type), _few(value[:8].to_pylist(), len(value)))
    console.print(grid)


def _few(values: list[object], count: int) -> str:
    shown = ", ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in values)
    return f"{shown}, …" if count > len(values) else shown
