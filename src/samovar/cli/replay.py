"""`samovar replay`: makes a result again elsewhere, and compares."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samovar.cli.answer import Json, only_answer, print_json
from samovar.cli.console import open_notes

if TYPE_CHECKING:
    from samovar.provenance.replay import ReplayReport


def replay(
    directory: Annotated[Path, typer.Argument(help="A finished result directory.", metavar="DIR")],
    into: Annotated[Path | None, typer.Option(help="Keep the new result here.", metavar="DIR")] = None,
    as_json: Json = False,
) -> None:
    """Make a result again, and compare it bit for bit.

    From what its directory holds: equal, or the first places where it differs, with exit code 1.

    Example: samovar replay models/click_1
    """
    from samovar.provenance.replay import replay as run

    console = open_notes()
    with tempfile.TemporaryDirectory(prefix="samovar-replay-") as temporary, only_answer(as_json):
        done = run(directory, into or Path(temporary) / directory.resolve().name, console)
    if as_json:
        answer = {"files": done.num_files, "differences": done.differences, "environment": done.environment}
        print_json({"directory": directory, **answer})
    else:
        _print(directory, done)
    if done.differences:
        raise typer.Exit(1)


def _print(directory: Path, done: "ReplayReport") -> None:
    compared = f"{done.num_files} file{'s' if done.num_files != 1 else ''} compared"
    if not done.differences:
        print(f"{directory}: equal, {compared}")
    else:
        print(f"{directory}: differs, {compared}")
    for line in done.differences:
        print(f"  {line}")
    if done.environment:
        print("not as when it was made:")
    for line in done.environment:
        print(f"  {line}")
