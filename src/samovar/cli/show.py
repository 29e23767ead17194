"""`samovar show`: what a result directory is, who holds it, where it comes from."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from samovar.cli.answer import Json, print_json
from samovar.cli.chain import make_tree, nest
from samovar.cli.console import open_console
from samovar.cli.sizes import readable
from samovar.config import dump_config
from samovar.results import ResultDirectory, open_directory


def show(
    directory: Annotated[Path, typer.Argument(help="A result directory.", metavar="DIR")],
    as_json: Json = False,
) -> None:
    """Show a result: state, holder, sources, sizes and config.

    Example: samovar show models/click_1
    """
    result = open_directory(directory)
    if as_json:
        print_json(_answer(result))
        return
    console = open_console()
    console.print(_facts(result))
    console.print(_sizes(result))
    if result.lineage.sources:
        console.print(make_tree(f"made from (chain of {result.name}):", result.chain()))
    console.print("config:")
    console.print(dump_config(result.config), end="")


def _answer(result: ResultDirectory) -> dict[str, Any]:
    status = result.status
    return {
        "directory": result.name,
        "kind": result.lineage.kind,
        "id": result.id,
        "state": result.condition,
        "holder": None if status is None or status.holder is None else asdict(status.holder),
        "position": None if status is None else status.position,
        "error": None if status is None else status.error,
        "code_changes": _code_changes(result),
        "bytes": result.sizes(),
        "sources": nest(result.chain()),
        "config": result.config,
    }


def _code_changes(result: ResultDirectory) -> list[dict[str, Any]]:
    return list(result.store.attributes().values.get("script_changes", []))


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
    for change in _code_changes(result):
        table.add_row("code changed", f"at position {change['position']}: {', '.join(change['files'])}")
    return table


def _sizes(result: ResultDirectory) -> Table:
    table = Table("file or folder", "size", box=None)
    for name, size in result.sizes().items():
        table.add_row(name, readable(size))
    return table
