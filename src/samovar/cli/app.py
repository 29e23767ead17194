"""The table of commands. A command's module is imported when the command is used: `samovar --help` imports none."""

from collections import UserDict
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
import typer.main
from typer.core import TyperCommand

from samovar.cli.help import PlainCommand, PlainGroup

HELP = "Train PyTorch models on tables of any size, without ever losing a step."


class Panel(NamedTuple):
    """One box of `samovar --help`."""

    title: str
    module: str
    """Of `samovar.cli`, with one function per command."""
    commands: dict[str, str]
    """Each command's line of help: the first line of its docstring. A test compares them."""


PANELS = (
    Panel(
        "Tables",
        "tables",
        {
            "recipe": "Draft a recipe from raw files, and explain each column.",
            "brew": "Turn raw rows into a tensor table of ready minibatches.",
            "table": "Show the columns, hours and sizes of a tensor table.",
        },
    ),
    Panel(
        "Training",
        "training",
        {
            "train": "Train a model, or resume one that was stopped or killed.",
            "predict": "Apply a model to a table and write its predictions.",
            "metrics": "Show the metrics of evaluations by hour, day or epoch.",
            "embeddings": "Show the hash tables of a model: sizes, ages, vectors.",
            "verify-resume": "Check that a training run survives kills bit for bit.",
        },
    ),
    Panel(
        "Deployment",
        "deployment",
        {
            "export": "Make a bundle that scores raw rows without a script.",
            "serve": "Answer requests for scores over HTTP.",
        },
    ),
    Panel(
        "Your own stages",
        "stages",
        {
            "run": "Run a script of your own: its main(params, out).",
            "chain": "Show what results were made from, and what is stale.",
            "why": "Explain why a result is stale.",
        },
    ),
    Panel(
        "Compare runs",
        "runs",
        {
            "ls": "List runs with their state, age and latest metrics.",
            "show": "Show the state, sources, sizes and config of a result.",
            "diff": "Show the keys in which configs differ.",
            "clone": "Copy a config with changes, under the next free name.",
            "copy": "Copy a result or table to another place, verified.",
            "plot": "Plot the metrics of many runs, finished or not.",
            "tree": "Draw similar configs close together, as a dendrogram.",
            "rm": "Remove results, tables or experiments.",
            "gc": "Find what killed processes left behind, and delete it.",
        },
    ),
    Panel(
        "Look",
        "web",
        {
            "ui": "Show every run of a folder as a web page, live.",
            "report": "Write runs and what differs between them as one HTML file.",
        },
    ),
    Panel(
        "Verify results",
        "verify",
        {
            "audit": "Check that finished results have not changed.",
            "replay": "Rebuild a result and compare it bit for bit.",
            "checksum": "Compute one SHA-256 of a folder and list what changed.",
        },
    ),
    Panel(
        "Many configs",
        "queue",
        {
            "experiment": "Run many variants of one config and collect one table.",
            "worker": "Run the jobs of a queue, one after another.",
            "queue": "Manage a queue of configs, each run exactly once.",
        },
    ),
)
_MODULES = {name: panel.module for panel in PANELS for name in panel.commands}


class _LoadedOnUse(UserDict[str, Any]):
    """The commands by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        found = getattr(import_module(f"samovar.cli.{_MODULES[name]}"), name.replace("-", "_"))
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        single = typer.Typer(add_completion=False)
        single.command(name, cls=PlainCommand)(found)
        return typer.main.get_command(single)


class _LazyGroup(PlainGroup):
    """Lists commands from `PANELS`, and imports only the one that runs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._lines = {
            name: TyperCommand(name, help=line, rich_help_panel=panel.title)
            for panel in PANELS
            for name, line in panel.commands.items()
        }
        self.commands = _LoadedOnUse(self._lines)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self._lines)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """What `--help` shows of a command."""
        return self._lines.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else self.commands[name], rest


app = typer.Typer(
    name="samovar",
    cls=_LazyGroup,
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    add_completion=False,
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print(f"samovar {version('samovar')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """The options of `samovar` itself, before the name of a command."""
