"""The commands `recipe`, `brew` and `table`: tensor tables described, made and shown."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table as Grid

from samovar.cli.options import Json
from samovar.cli.output import count_of, open_console, print_json, print_line, print_notes

if TYPE_CHECKING:
    from samovar.brewing import BrewResult
    from samovar.tables import Table

_BAR_WIDTH = 40
_MOST_BINS = 12


def recipe(
    source: Annotated[list[str], typer.Argument(help="Raw files or globs.", metavar="FILE")],
    out: Annotated[
        Path | None, typer.Option(help="Write the recipe to this file instead of stdout.", metavar="FILE")
    ] = None,
    as_json: Json = False,
) -> None:
    """Draft a recipe from raw files, and explain each column.

    Doubtful guesses are marked with a question mark. The draft can be brewed as it is.

    Example: samovar recipe rows.csv > drafted.json
    """
    from samovar.brewing import draft_recipe, write_recipe

    draft = draft_recipe(source[0] if len(source) == 1 else source)
    if out is not None:
        draft = write_recipe(draft, out)
    if as_json:
        guesses = draft.guesses.items()
        columns = {name: {"reason": each.reason, "is_doubtful": each.is_doubtful} for name, each in guesses}
        print_json({"recipe": draft.recipe, "columns": columns, "notes": draft.notes})
        return
    print_notes(draft.explain())
    print_line(draft.to_json().rstrip() if out is None else f"{out}: brew it with samovar brew {out}")


def brew(
    recipe: Annotated[str, typer.Argument(help="The recipe, a JSON file.", metavar="RECIPE")],
    append: Annotated[bool, typer.Option("--append", help="Add whole hours to a live table, or make one.")] = False,
    allow_gap: Annotated[
        bool, typer.Option("--allow-gap", help="Append even if the hours before are missing.")
    ] = False,
    conf: Annotated[
        list[str] | None, typer.Option(help="Recipe keys to change, as a JSON object. Repeatable.", metavar="JSON")
    ] = None,
    out: Annotated[str | None, typer.Option(help="Directory of the table.", metavar="DIR")] = None,
    engine: Annotated[
        str | None, typer.Option(help="Who sorts the rows: duckdb or spark. The table is the same.", metavar="NAME")
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Address of the Spark cluster, such as spark://host:7077.", metavar="URL")
    ] = None,
    as_json: Json = False,
) -> None:
    """Turn raw rows into a tensor table of ready minibatches.

    Example: samovar brew clicks.json --conf '{"batch_size": 512}' --out tables/clicks
    """
    from samovar.brewing import brew_recipe
    from samovar.config import parse_override

    done = brew_recipe(
        recipe,
        out,
        overrides=[parse_override(each) for each in conf or []],
        append=append,
        allow_gap=allow_gap,
        engine=engine,
        master=master,
    )
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
        print_line(f"{done.directory}: already finished, nothing to do")
        return
    examples, minibatches = count_of(tally.num_rows, "example"), count_of(tally.num_batches, "minibatch", "es")
    print_line(f"{done.directory}: version {done.version}, {examples} in {minibatches}")
    print_line(f"short minibatches: {tally.num_short_batches}")
    if tally.num_spanning_pivots:
        print_line(f"pivot values split because they continue in the next granule: {tally.num_spanning_pivots}")


def table(
    directory: Annotated[str, typer.Argument(help="A tensor table.", metavar="DIR")],
    minibatch: Annotated[int | None, typer.Option(help="Print minibatch K instead.", metavar="K")] = None,
    export: Annotated[
        Path | None,
        typer.Option(help="Write one row per example to this .parquet, .csv or .arrow file.", metavar="FILE"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the columns, hours and sizes of a tensor table.

    Example: samovar table tables/clicks --minibatch 0
    """
    from samovar.tables import export_rows, open_table

    found = open_table(directory)
    if export is not None:
        num_rows = export_rows(found, export)
        print_json({"path": export, "rows": num_rows}) if as_json else print_line(f"{export}: {num_rows} rows")
    elif as_json:
        print_json(_table_answer(found) if minibatch is None else _minibatch_answer(found, minibatch))
    elif minibatch is not None:
        _print_minibatch(open_console(), found, minibatch)
    else:
        _print_facts(open_console(), found)


# The table


def _table_answer(table: "Table") -> dict[str, Any]:
    sizes, show = table.column_bytes(), table.period.show
    return {
        "table": table.name,
        "id": table.id,
        "version": table.version,
        "versions": table.versions,
        "compression": table.compression,
        "minibatches": table.num_minibatches,
        "examples": table.num_examples,
        "uri": table.period.full_name,
        "hours": [show(hour) for hour in table.hours if hour is not None],
        "complete_until": None if table.complete_until is None else show(table.complete_until),
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
    hours, show = [hour for hour in table.hours if hour is not None], table.period.show
    grid.add_row("table", table.name)
    grid.add_row("id", table.id)
    grid.add_row("version", f"{table.version} of {', '.join(map(str, table.versions[-10:]))}")
    grid.add_row("compression", table.compression)
    grid.add_row("minibatches", f"{table.num_minibatches:,} with {table.num_examples:,} examples")
    grid.add_row(
        table.period.plural,
        f"{len(hours):,}, {show(hours[0])} to {show(hours[-1])}" if hours else "none: an offline table",
    )
    if table.complete_until is not None:
        grid.add_row("live", f"complete until {show(table.complete_until)}")
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
    hour = None if record.hour is None else table.period.show(record.hour)
    values = {name: _to_lists(value) for name, value in record.items()}
    return {"minibatch": number, "hour": hour, "examples": record.num_examples, "columns": values}


def _to_lists(value: Any) -> Any:
    import torch

    from samovar.tables import Bag, plain_values

    if isinstance(value, Bag):
        return {"data": [number % 2**64 for number in value.data.tolist()], "data_len": value.data_len.tolist()}
    return value.tolist() if isinstance(value, torch.Tensor) else plain_values(value)


def _print_minibatch(console: Console, table: "Table", number: int) -> None:
    import torch

    from samovar.tables import Bag, plain_values

    record = next(table.read(start=number, stop=number + 1))
    hour = "" if record.hour is None else f" of hour {table.period.show(record.hour)}"
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
            grid.add_row(name, str(value.type), _join_first(plain_values(value[:8]), len(value)))
    console.print(grid)


def _join_first(values: list[object], count: int) -> str:
    shown = ", ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in values)
    return f"{shown}, …" if count > len(values) else shown
