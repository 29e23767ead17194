"""The commands `brew` and `table`: tensor tables made and shown."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table as Grid

from samovar.cli.options import Conf, Json
from samovar.cli.output import count_of, open_console, open_stderr, print_json, print_notes, show_progress
from samovar.hours import show_hour

if TYPE_CHECKING:
    from samovar.brewing.brew import BrewResult
    from samovar.tables import Table

_BAR_WIDTH = 40
_MOST_BINS = 12


def brew(
    recipe: Annotated[Path, typer.Argument(help="The recipe, a JSON file.", metavar="RECIPE")],
    append: Annotated[bool, typer.Option("--append", help="Add whole hours to a live table.")] = False,
    conf: Conf = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the table.", metavar="DIR")] = None,
    as_json: Json = False,
) -> None:
    """Turn raw rows into a tensor table of ready minibatches.

    Example: samovar brew clicks.json --conf '{"batch_size": 512}' --out tables/clicks
    """
    from samovar.brewing.brew import brew as brew_recipe
    from samovar.brewing.progress import Progress
    from samovar.brewing.recipe import Recipe
    from samovar.config import merge, parse_override, read_config
    from samovar.config.identity import PLACE_KEYS, named_place

    tree = merge(read_config(recipe), *map(parse_override, conf or []))
    loaded = Recipe.load(tree, str(recipe))
    place = out or named_place(recipe, tree, PLACE_KEYS["brew"])
    console = open_stderr()
    progress = Progress()
    with show_progress(progress, console):
        done = brew_recipe(loaded, tree, recipe.parent, place, append=append, progress=progress)
    print_notes(done.notes, console)
    print_json(_brew_answer(done)) if as_json else _print_brewed(done)


def _brew_answer(done: "BrewResult") -> dict[str, Any]:
    tally = done.counts
    counts = (
        {}
        if tally is None
        else {
            "rows": tally.num_rows,
            "minibatches": tally.num_batches,
            "short_minibatches": tally.num_short_batches,
            "spanning_groups": tally.num_spanning_pivots,
        }
    )
    return {
        "directory": done.directory,
        "was_finished": tally is None,
        "version": done.version,
        **counts,
        "notes": done.notes,
    }


def _print_brewed(done: "BrewResult") -> None:
    tally = done.counts
    if tally is None:
        print(f"{done.directory}: already finished, nothing to do")
        return
    examples, minibatches = count_of(tally.num_rows, "example"), count_of(tally.num_batches, "minibatch", "es")
    print(f"{done.directory}: version {done.version}, {examples} in {minibatches}")
    print(f"short minibatches: {tally.num_short_batches}")
    if tally.num_spanning_pivots:
        print(f"pivot values split because they continue in the next granule: {tally.num_spanning_pivots}")


def table(
    directory: Annotated[Path, typer.Argument(help="A tensor table.", metavar="DIR")],
    minibatch: Annotated[int | None, typer.Option(help="Print minibatch K instead.", metavar="K")] = None,
    export: Annotated[
        Path | None, typer.Option(help="Write all examples to this Parquet file, one row each.", metavar="FILE")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the columns, hours and sizes of a tensor table.

    Example: samovar table tables/clicks --minibatch 0
    """
    from samovar.tables import open_table
    from samovar.tables.export import export_rows

    found = open_table(directory)
    if export is not None:
        num_rows = export_rows(found, export)
        print_json({"path": export, "rows": num_rows}) if as_json else print(f"{export}: {num_rows} rows")
    elif as_json:
        print_json(_table_answer(found) if minibatch is None else _minibatch_answer(found, minibatch))
    elif minibatch is not None:
        _print_minibatch(open_console(), found, minibatch)
    else:
        _print_facts(open_console(), found)


# The table


def _table_answer(table: "Table") -> dict[str, Any]:
    sizes = table.column_bytes()
    return {
        "table": table.name,
        "id": table.id,
        "version": table.version,
        "versions": table.versions,
        "compression": table.compression,
        "minibatches": table.num_minibatches,
        "examples": table.num_examples,
        "hours": [show_hour(hour) for hour in table.hours if hour is not None],
        "complete_until": None if table.complete_until is None else show_hour(table.complete_until),
        "columns": [
            {
                "name": column.name,
                "kind": column.kind,
                "rank": column.rank,
                "source_type": column.source_type,
                "bytes": sizes[column.name],
            }
            for column in table.schema.columns
        ],
        "batch_sizes": dict(sorted(table.batch_sizes().items())),
    }


def _print_facts(console: Console, table: "Table") -> None:
    grid = Grid.grid(padding=(0, 2))
    hours = [hour for hour in table.hours if hour is not None]
    grid.add_row("table", table.name)
    grid.add_row("id", table.id)
    grid.add_row("version", f"{table.version} of {', '.join(map(str, table.versions[-10:]))}")
    grid.add_row("compression", table.compression)
    grid.add_row("minibatches", f"{table.num_minibatches:,} with {table.num_examples:,} examples")
    grid.add_row(
        "hours",
        f"{len(hours):,}, {show_hour(hours[0])} to {show_hour(hours[-1])}" if hours else "none: an offline table",
    )
    if table.complete_until is not None:
        grid.add_row("live", f"complete until {show_hour(table.complete_until)}")
    console.print(grid)
    console.print(_column_grid(table))
    console.print(_size_histogram(table))


def _column_grid(table: "Table") -> Grid:
    sizes = table.column_bytes()
    grid = Grid("column", "kind", "rank", "source type", "size", "bytes per example", box=None)
    for column in table.schema.columns:
        size = sizes[column.name]
        share = f"{size / table.num_examples:.2f}" if table.num_examples else "-"
        grid.add_row(column.name, column.kind, str(column.rank), column.source_type, decimal(size), share)
    return grid


def _size_histogram(table: "Table") -> Grid:
    counts = table.batch_sizes()
    usual = max(counts, key=lambda size: (counts[size], size), default=0)
    short = sum(count for size, count in counts.items() if size < usual)
    grid = Grid("examples per minibatch", "minibatches", "", box=None)
    for (first, last), count in _group_sizes(counts).items():
        name = f"{first:,}" if first == last else f"{first:,} to {last:,}"
        grid.add_row(name, f"{count:,}", "█" * max(1, round(_BAR_WIDTH * count / max(table.num_minibatches, 1))))
    share = short / table.num_minibatches if table.num_minibatches else 0
    grid.add_row(f"fewer than {usual:,}", f"{short:,}", f"{share:.2%}")
    return grid


def _group_sizes(counts: dict[int, int]) -> dict[tuple[int, int], int]:
    """Sizes in bins of equal width, so that the histogram stays short."""
    sizes = sorted(counts)
    if len(sizes) <= _MOST_BINS:
        return {(size, size): counts[size] for size in sizes}
    width = -(-(sizes[-1] - sizes[0] + 1) // _MOST_BINS)
    bins: Counter[tuple[int, int]] = Counter()
    for size in sizes:
        first = sizes[0] + (size - sizes[0]) // width * width
        bins[first, first + width - 1] += counts[size]
    return dict(bins)


# One minibatch


def _minibatch_answer(table: "Table", number: int) -> dict[str, Any]:
    """Every value, with ids as unsigned numbers."""
    record = next(table.read(start=number, stop=number + 1))
    hour = None if record.hour is None else show_hour(record.hour)
    values = {name: _to_lists(value) for name, value in record.items()}
    return {"minibatch": number, "hour": hour, "examples": record.num_examples, "columns": values}


def _to_lists(value: Any) -> Any:
    import torch

    from samovar.tables import Bag

    if isinstance(value, Bag):
        return {"data": [number % 2**64 for number in value.data.tolist()], "data_len": value.data_len.tolist()}
    return value.tolist() if isinstance(value, torch.Tensor) else value.to_pylist()


def _print_minibatch(console: Console, table: "Table", number: int) -> None:
    import torch

    from samovar.tables import Bag

    record = next(table.read(start=number, stop=number + 1))
    hour = "" if record.hour is None else f" of hour {show_hour(record.hour)}"
    console.print(f"minibatch {number}{hour}: {count_of(record.num_examples, 'example')}")
    grid = Grid("column", "shape", "values", box=None)
    for name, value in record.items():
        if isinstance(value, Bag):
            ids = [number % 2**64 for number in value.data[:8].tolist()]
            shape = f"data {len(value.data)}, data_len {list(value.data_len.shape)}"
            grid.add_row(name, shape, _join_first(ids, len(value.data)))
            lengths = value.data_len.reshape(-1)
            grid.add_row("", "data_len", _join_first(lengths[:16].tolist(), len(lengths)))
        elif isinstance(value, torch.Tensor):
            grid.add_row(name, str(list(value.shape)), _join_first(value.reshape(-1)[:8].tolist(), value.numel()))
        else:
            grid.add_row(name, str(value.type), _join_first(value[:8].to_pylist(), len(value)))
    console.print(grid)


def _join_first(values: list[object], count: int) -> str:
    shown = ", ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in values)
    return f"{shown}, …" if count > len(values) else shown
