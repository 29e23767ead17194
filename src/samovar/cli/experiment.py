"""`samovar experiment`: many configs from one, and one table of what came out."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from samovar.cli.answer import Json, print_json
from samovar.cli.console import open_console, open_notes
from samovar.config.diff import show_value
from samovar.errors import SamovarError

if TYPE_CHECKING:
    from samovar.sweep.experiment import Done, Show


def experiment(
    path: Annotated[Path, typer.Argument(help="The experiment, a JSON file.", metavar="EXPERIMENT")],
    num_workers: Annotated[
        int, typer.Option("-j", "--jobs", help="Parts at a time; 0 leaves them to other workers of --db.", min=0)
    ] = 1,
    db: Annotated[
        str | None, typer.Option(help="A queue that other workers share; a file of its own if absent.", metavar="URL")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the experiment.", metavar="DIR")] = None,
    as_json: Json = False,
) -> None:
    """Run many configs made from one, and collect one table.

    A grid, a list or random samples. Finished parts are kept; remove a part's directory to do it again.

    Example: samovar experiment lr.json -j 4
    """
    from samovar.signals import StopRequest
    from samovar.sweep import Request, run_experiment

    if num_workers == 0 and db is None:
        raise typer.BadParameter("-j 0 leaves the parts to workers of a shared queue: name it with --db")
    stop = StopRequest()
    console = open_notes()
    with stop.asking(most=2), _shown(console) as show:
        done = run_experiment(Request(path, out, db, num_workers), stop, show)
    print_json(_answer(done)) if as_json else _print(done)
    if done.errors:
        lines = "".join(f"\n  part {name}: {error}" for name, error in done.errors.items())
        raise SamovarError(
            f"{done.folder}: {len(done.errors)} of {len(done.table.rows)} parts failed or were cancelled; expected "
            f"none: mend what they name and start it again{lines}"
        )


def _answer(done: "Done") -> dict[str, Any]:
    parts = [
        {
            "name": row.name,
            "state": row.state,
            "changed": row.values,
            "metrics": row.metrics,
            "error": done.errors.get(row.name),
        }
        for row in done.table.rows
    ]
    return {"folder": done.folder, "parts": parts}


def _print(done: "Done") -> None:
    table = Table("part", "state", *done.table.changed, *done.table.metrics, box=None)
    for row in done.table.rows:
        measured = (row.metrics[name] for name in done.table.metrics)
        shown = ("" if value is None else f"{value:.5g}" for value in measured)
        table.add_row(row.name, row.state, *(show_value(row.values[key]) for key in done.table.changed), *shown)
    open_console().print(table)
    print(f"{done.folder / 'table.csv'}")


@contextmanager
def _shown(console: Console) -> "Iterator[Show]":
    """A bar on a terminal, else a line whenever a part is through."""
    if not console.is_terminal:
        yield _Lines(console).show
        return
    from samovar.queue import ENDED_STATES

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
    )
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(states: Mapping[str, str]) -> None:
            running = [name for name, state in states.items() if state == "running"]
            over = sum(state in ENDED_STATES for state in states.values())
            bar.update(task, description=f"part {', '.join(running[:8])}", completed=over, total=len(states))

        yield show


class _Lines:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._told: dict[str, str] = {}

    def show(self, states: Mapping[str, str]) -> None:
        from samovar.queue import ENDED_STATES

        over = {name: state for name, state in states.items() if state in ENDED_STATES}
        is_first = not self._told
        for name, state in over.items():
            if self._told.get(name) != state and not is_first:
                self._console.print(f"part {name}: {state} ({len(over)} of {len(states)})")
        if is_first:
            self._console.print(f"{len(states)} parts, {len(over)} of them over already")
        self._told = dict(states)
