"""The `samovar` command: its options, its commands, and how an error ends it.

Exit codes: 0 done, 1 failure, 2 the user's mistake, 75 stopped and resumable, 130 and 143 interrupted.
"""

import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer

from samovar.cli.audit import audit
from samovar.cli.brew import brew
from samovar.cli.chain import chain
from samovar.cli.checksum import checksum
from samovar.cli.clone import clone
from samovar.cli.console import open_notes
from samovar.cli.diff import diff
from samovar.cli.embeddings import embeddings
from samovar.cli.experiment import experiment
from samovar.cli.ls import ls
from samovar.cli.metrics import metrics
from samovar.cli.plot import plot
from samovar.cli.predict import predict
from samovar.cli.queue import queue
from samovar.cli.replay import replay
from samovar.cli.run import run
from samovar.cli.show import show
from samovar.cli.table import table
from samovar.cli.train import train
from samovar.cli.tree import tree
from samovar.cli.verify_resume import verify_resume
from samovar.cli.why import why
from samovar.cli.worker import worker
from samovar.errors import SamovarError, Stopped
from samovar.signals import how_to_continue

app = typer.Typer(
    name="samovar",
    help="Train PyTorch models on tables of any size, without ever losing a step.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    add_completion=False,
)
_PANELS: dict[str, list[Callable[..., None]]] = {
    "Rows to tables": [brew, table],
    "Training": [train, predict, metrics, embeddings, verify_resume],
    "Stages of your own": [run, chain, why],
    "Runs side by side": [ls, show, diff, clone, plot, tree],
    "Proof": [audit, replay, checksum],
    "Many configs": [experiment, worker],
}
for _panel, _commands in _PANELS.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(_command)
app.add_typer(queue, rich_help_panel="Many configs")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"samovar {version('samovar')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Train PyTorch models on tables of any size, without ever losing a step."""


def main() -> None:
    """The entry point of the command line."""
    try:
        app()
    except SamovarError as error:
        if "--debug" in sys.argv[1:]:
            raise
        console = open_notes()
        is_stop = isinstance(error, Stopped)
        if not is_stop:
            console.print("error:", style="bold red", end=" ")
        console.print(" ".join([str(error), *(f"({note})" for note in getattr(error, "__notes__", ()))]))
        if is_stop:
            console.print(how_to_continue())
        sys.exit(error.exit_code)
