"""`samovar show`: what a result directory is, who holds it, where it comes from."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from samovar.cli.chain import make_tree
from samovar.cli.console import open_console
from samovar.cli.sizes import readable
from samovar.config import dump_config
from samovar.results import ResultDirectory, open_directory


def show(
    directory: Annotated[Path, typer.Argument(help="A result directory.", metavar="DIR")],
) -> None:
    """Status, holder, config, chain of sources and sizes of a result directory.

    Example: samovar show models/click_1
    """
    result = open_directory(directory)
    console = open_console()
    console.print(_facts(result))
    console.print(_sizes(result))
    if result.lineage.sources:
        console.print(make_tree(f"made from (chain of {result.name}):", result.chain()))
    console.print("config:")
    console.print(dump_config(result.config), markup=False, end="")


def _facts(result: ResultDirectory) -> Table:
    table = Table.grid(padding=(0, 2))
    status = result.status
    table.add_row("directory", result.name)
    table.add_row("kind", result.lineage.kind)
    table.add_row("id", result.id)
    table.add_row("status", result.describe_state())
    if status is not None and status.position is not None:
        table.add_row("position", str(status.position))
    if status is not None and status.error is not None:
        table.add_row("error", f"{status.error['type']}: {status.error['message']}")
    for change in result.store.attributes().values.get("script_changes", []):
        table.add_row("code changed", f"at position {change['position']}: {', '.join(change['files'])}")
    return table


def _sizes(result: ResultDirectory) -> Table:
    table = Table("file or folder", "size", box=None)
    for name, size in result.sizes().items():
        table.add_row(name, readable(size))
    return table
