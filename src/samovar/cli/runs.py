"""The commands `ls`, `show`, `diff`, `clone`, `copy`, `plot`, `tree`, `rm` and `gc`: runs and configs side by side."""

import itertools
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal
from rich.table import Table

from samovar.cli.options import Csv, Json, Png, ResultDir, Svg, Targets
from samovar.cli.output import (
    count_of,
    make_bars,
    open_console,
    open_stderr,
    print_json,
    print_line,
    print_notes,
    print_table,
)
from samovar.config import Diff, show_value

if TYPE_CHECKING:
    from samovar.results import ResultDirectory

_AGES = ((86400.0 * 2, 86400.0, "d"), (3600.0 * 2, 3600.0, "h"), (120.0, 60.0, "min"), (0.0, 1.0, "s"))
"""From this many seconds on, the unit in seconds, its name."""
_MOST_RUNS = 200
_MOST_COLUMNS = 12
_MOST_BRANCHES = 40


def ls(
    places: Annotated[
        list[str] | None, typer.Argument(help="Folders or glob patterns. Default: this folder.", metavar="DIR")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help='A condition such as "lr>0.01" or state=finished. Repeatable.', metavar="CONDITION"),
    ] = None,
    sort: Annotated[
        list[str] | None, typer.Option(help="A column to sort by; -COLUMN descends. Repeatable.", metavar="COLUMN")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Facts, config keys and metrics to show.", metavar="A,B,…")
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(help="Join runs that differ only in this key, such as seed: mean and spread.", metavar="KEY"),
    ] = None,
    csv: Csv = None,
    as_json: Json = False,
) -> None:
    """List runs with their state, age and latest metrics.

    Prints a table on a terminal and CSV to a pipe.

    A column such as auc:max is another value of a metric than the last: best, min, max or mean.

    Example: samovar ls models --where "lr>0.01" --sort -auc --columns state,lr,auc
    """
    from samovar.runs import list_runs

    wanted = [name.strip() for name in columns.split(",")] if columns else []
    listing = list_runs(places or ".", where=where or (), sort=sort or (), columns=wanted, group=group or ())
    print_notes(f"unreadable: {problem}" for problem in listing.unreadable)
    names = listing.names

    def show() -> None:
        console = open_console()
        cells = [[*map(_show_cell, names, row)] for row in listing.rows[:_MOST_RUNS]]
        count = len(names) if wanted else _count_fitting(names, cells, console.width)
        table = Table(*names[:count])
        for row in cells:
            table.add_row(*row[:count])
        console.print(table)
        if count < len(names):
            print_notes([f"no room for {', '.join(names[count:])}; choose columns with --columns, or write --csv FILE"])
        if len(listing.rows) > _MOST_RUNS:
            more = len(listing.rows) - _MOST_RUNS
            print_notes([f"{more} more; narrow the list with --where, or write all of it with --csv FILE"])

    print_table(
        to_csv=listing.to_csv,
        to_json=lambda: [dict(zip(names, row, strict=True)) for row in listing.rows],
        show=show,
        csv_file=csv,
        as_json=as_json,
    )


def _count_fitting(names: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> int:
    """How many of the first columns a table of this width has room for; at least one."""
    widths = (max(map(len, column)) + 3 for column in zip(names, *cells, strict=True))  # 3: two blanks and a line
    return max(1, sum(total < width for total in itertools.accumulate(widths)))


def _show_cell(column: str, value: Any) -> str:
    if column == "age" and isinstance(value, float):
        _, unit, name = next(age for age in _AGES if value >= age[0])
        return f"{value / unit:.0f} {name}"
    return f"{value:.5g}" if isinstance(value, float) else show_value(value)


def show(directory: ResultDir, as_json: Json = False) -> None:
    """Show the state, sources, sizes and config of a result.

    Example: samovar show models/click_1
    """
    from samovar.cli.stages import draw_links, nest_links
    from samovar.config import dump_config
    from samovar.results import open_directory

    result = open_directory(directory)
    if as_json:
        print_json({**_result_answer(result), "sources": nest_links(result.chain()), "config": result.config})
        return
    console = open_console()
    console.print(_result_grid(result))
    console.print(_size_grid(result))
    if result.lineage.sources:
        console.print(draw_links("made from:", result.chain()))
    console.print("config:")
    console.print(dump_config(result.config), end="")


def _result_answer(result: "ResultDirectory") -> dict[str, Any]:
    status = result.status
    return {
        "directory": result.name,
        "kind": result.lineage.kind,
        "id": result.id,
        "state": result.condition,
        "holder": None if status is None or status.holder is None else asdict(status.holder),
        "position": None if status is None else status.position,
        "error": None if status is None else status.error,
        "code_changes": [asdict(change) for change in result.code_changes],
        "bytes": result.sizes(),
    }


def _result_grid(result: "ResultDirectory") -> Table:
    grid = Table.grid(padding=(0, 2))
    status = result.status
    grid.add_row("directory", result.name)
    grid.add_row("kind", result.lineage.kind)
    grid.add_row("id", result.id)
    grid.add_row("status", result.describe_state())
    if status is not None and status.position is not None:
        grid.add_row("position", str(status.position))
    if status is not None and status.error is not None:
        grid.add_row("error", f"{status.error['type']}: {status.error['message']}")
    for change in result.code_changes:
        grid.add_row("code changed", f"at position {change.position}: {', '.join(change.files)}")
    return grid


def _size_grid(result: "ResultDirectory") -> Table:
    grid = Table("file or folder", "size", box=None)
    for name, size in result.sizes().items():
        grid.add_row(name, decimal(size))
    return grid


def diff(
    configs: Targets,
    baseline: Annotated[
        str | None, typer.Option(help="Show only values that differ from this target's.", metavar="TARGET")
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(help="A key or section to leave out; *.key at any depth. Repeatable.", metavar="KEY"),
    ] = None,
    environment: Annotated[
        bool, typer.Option("--environment", help="Also compare versions, threads and devices of results.")
    ] = False,
    csv: Csv = None,
    as_json: Json = False,
) -> None:
    """Show the keys in which configs differ.

    Prints a table on a terminal and CSV to a pipe.

    Example: samovar diff models/click_1 models/click_2 new_config.json > difference.csv
    """
    from samovar.runs import diff as compare

    found = compare(configs, baseline=baseline, ignore=ignore or (), environment=environment)
    print_table(
        to_csv=found.to_csv,
        to_json=lambda: {
            "names": found.names,
            "differences": {key: dict(zip(found.names, row, strict=True)) for key, row in found.rows.items()},
        },
        show=lambda: _print_diff(found),
        csv_file=csv,
        as_json=as_json,
    )


def _print_diff(found: Diff) -> None:
    if not found:
        print_line("no difference")
    elif len(found.names) <= _MOST_COLUMNS:
        table = Table("key", *found.names)
        for key, values in found.rows.items():
            table.add_row(key, *map(show_value, values))
        open_console().print(table)
    else:
        open_console().print(_diff_summary(found))


def _diff_summary(found: Diff) -> Table:
    from samovar.runs import summarize

    table = Table("key", "values", "most common", caption=f"{len(found.names)} configs; every value with --csv FILE")
    for summary in summarize(found):
        shown = ", ".join(f"{value} ({count})" for value, count in summary.commonest)
        rest = summary.num_values - len(summary.commonest)
        table.add_row(summary.key, str(summary.num_values), f"{shown}, {rest} more" if rest else shown)
    return table


def clone(
    config: Annotated[str, typer.Argument(help="A config or a result directory.", metavar="CONFIG")],
    conf: Annotated[
        list[str], typer.Option(help="Config keys to change, as a JSON object. Repeatable.", metavar="JSON")
    ],
    as_json: Json = False,
) -> None:
    """Copy a config with changes, under the next free name.

    online.json becomes onlinea.json, then onlineb.json. The copy records its parent.

    Example: samovar clone online.json --conf '{"model.lr": 0.01}'
    """
    from samovar.config import did_you_mean, parse_override
    from samovar.runs import clone as make_clone

    made = make_clone(config, [parse_override(text) for text in conf])
    for key, near in made.new_keys.items():
        print_notes([f"note: {config} has no key {key!r}; the clone adds it{did_you_mean(near)}"])
    if as_json:
        changes = {key: {"old": old, "new": new} for key, (old, new) in made.changes.rows.items()}
        print_json({"path": os.path.relpath(made.path), "changes": changes, "new_keys": list(made.new_keys)})
        return
    for key, (old, new) in made.changes.rows.items():
        print_line(f"  {key}: {show_value(old) or '(none)'} → {show_value(new) or '(none)'}")
    print_line(os.path.relpath(made.path))


def copy(
    source: Annotated[str, typer.Argument(help="A result or table: a folder or a URL.", metavar="SRC")],
    target: Annotated[str, typer.Argument(help="A new or empty directory: a folder or a URL.", metavar="DST")],
    as_json: Json = False,
) -> None:
    """Copy a result or table to another place, verified.

    The copy can be audited, resumed and served like the original. If it is interrupted, the same command goes on.

    Example: samovar copy models/click_1 backup/click_1
    """
    from samovar.runs import copy as make_copy

    with make_bars(open_stderr(), "{task.fields[amount]}") as bars:
        task = bars.add_task("copying", total=None, amount="")

        def show(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total, amount=f"{decimal(done)} of {decimal(total)}")

        made = make_copy(source, target, progress=show)
    if as_json:
        print_json({**asdict(made), "source": str(made.source), "target": str(made.target)})
        return
    facts = f"{made.kind}, {count_of(made.num_files, 'file')}, {decimal(made.size_bytes)}"
    news = f"{made.num_copied} of them new" if made.num_copied else "all there already, nothing to do"
    print_line(f"{made.target}: {facts}, {news}")


def plot(
    runs: Targets,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="A metric, by full name or last part. Repeatable. Default: losses.", metavar="NAME"),
    ] = None,
    csv: Csv = None,
    png: Png = None,
    svg: Svg = None,
    as_json: Json = False,
) -> None:
    """Plot the metrics of many runs, finished or not.

    The legend shows only what differs between their configs. Prints the points as CSV to a pipe.

    Example: samovar plot models/click_* --metric auc --png auc.png
    """
    from samovar.runs import plot as collect

    found = collect(runs, metric or ())
    pictures = _name_pictures(png, svg)
    for kind, file in pictures.items():
        found.save(file, kind)

    def show() -> None:
        console = open_console()
        console.print(found.to_text(max(20, min(100, console.width - 14))))

    print_table(
        to_csv=found.to_csv,
        to_json=lambda: [dict(zip(found.columns, point, strict=True)) for point in found.points],
        show=show,
        csv_file=csv,
        as_json=as_json,
        is_drawn=bool(pictures),
    )


def tree(
    configs: Targets,
    metric: Annotated[
        str | None, typer.Option(help="Color the names by the last value of this metric.", metavar="NAME")
    ] = None,
    clusters: Annotated[
        int, typer.Option(help="Draw at most N branches; similar configs share one.", min=2, metavar="N")
    ] = _MOST_BRANCHES,
    csv: Csv = None,
    png: Png = None,
    svg: Svg = None,
    as_json: Json = False,
) -> None:
    """Draw similar configs close together, as a dendrogram.

    The distance is the share of keys that differ; numbers count by their relative difference.

    Example: samovar tree models/click_* --metric auc --svg tree.svg
    """
    from samovar.runs import tree as cluster

    found = cluster(configs, metric=metric, max_leaves=clusters)
    pictures = _name_pictures(png, svg)
    if csv is not None:
        from samovar.store import save_text

        save_text(csv, found.to_csv())
    for kind, file in pictures.items():
        found.save(file, kind)
    if as_json:
        print_json([dict(zip(found.columns, row, strict=True)) for row in found.rows])
    elif csv is None and not pictures:
        open_console().print(found.to_text(), end="")


def _name_pictures(png: Path | None, svg: Path | None) -> dict[str, Path]:
    return {kind: file for kind, file in (("png", png), ("svg", svg)) if file is not None}


def rm(
    directories: Annotated[
        list[str], typer.Argument(help="Directories of results, tables or experiments.", metavar="DIR…")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Remove results, tables or experiments.

    Asks first. Refuses a directory that a process works in, and one that is none of these.

    Example: samovar rm models/click_1 --yes
    """
    from samovar.runs import find_removable, remove

    found = [find_removable(directory) for directory in directories]  # all are checked before the first is removed
    lines = [f"{each.path}: {each.kind}, {each.num_files} files, {decimal(each.size_bytes)}" for each in found]
    if not yes:
        print_notes(lines)
        if not typer.confirm("Remove?", err=True):
            raise typer.Exit(1)
    removed = [remove(each.path) for each in found]
    if as_json:
        print_json([{**asdict(each), "path": str(each.path)} for each in removed])
        return
    for line in lines:
        print_line(f"removed {line}")


def gc(
    directory: Annotated[str, typer.Argument(help="A result, or a folder of results.", metavar="DIR")],
    delete: Annotated[bool, typer.Option("--delete", help="Delete what is found.")] = False,
    as_json: Json = False,
) -> None:
    """Find what killed processes left behind, and delete it.

    Lists only files that no result needs. Skips directories that a process works in.

    Example: samovar gc models --delete
    """
    from samovar.runs import find_leftovers

    left = find_leftovers(directory, delete=delete)
    print_notes(f"skipped: {each}" for each in left.skipped)
    if as_json:
        print_json([{**asdict(each), "place": str(each.place)} for each in left.found])
        return
    for each in left.found:
        print_line(f"{each.place}: {each.kind}, {count_of(len(each.paths), 'file')}, {decimal(each.size_bytes)}")
    if not left.found:
        print_line("nothing left behind")
    elif delete:
        print_line(f"deleted {decimal(left.size_bytes)}")
    else:
        print_line(f"{decimal(left.size_bytes)} in all; delete them with --delete")
