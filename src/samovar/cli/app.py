"""The `samovar` command: its options, its commands, and how an error ends it.

Exit codes: 0 done, 1 failure, 2 the user's mistake, 75 stopped and resumable, 130 interrupted.
"""

import sys
from importlib.metadata import version
from typing import Annotated

import typer
from rich.console import Console

from samovar.cli.audit import audit
from samovar.cli.brew import brew
from samovar.cli.chain import chain
from samovar.cli.checksum import checksum
from samovar.cli.clone import clone
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

app = typer.Typer(
    name="samovar",
    help="Train PyTorch models on tables of any size, without ever losing a step.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    add_completion=False,
)
app.command()(brew)
app.command()(table)
app.command()(train)
app.command()(predict)
app.command()(metrics)
app.command()(verify_resume)
app.command()(embeddings)
app.command()(show)
app.command()(ls)
app.command()(diff)
app.command()(clone)
app.command()(plot)
app.command()(tree)
app.command()(checksum)
app.command()(run)
app.command()(chain)
app.command()(why)
app.command()(audit)
app.command()(replay)
app.command()(experiment)
app.add_typer(queue)
app.command()(worker)


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
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        if not isinstance(error, Stopped):
            console.print("[bold red]error:[/]", end=" ")
        console.print(str(error), markup=False)
        sys.exit(error.exit_code)
