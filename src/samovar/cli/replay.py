"""`samovar replay`: makes a result again elsewhere, and compares."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def replay(
    directory: Annotated[Path, typer.Argument(help="A finished result directory.", metavar="DIR")],
    into: Annotated[Path | None, typer.Option(help="Keep the new result here.", metavar="DIR")] = None,
) -> None:
    """Run a result again from what its directory holds: equal, or the first places where it differs.

    Example: samovar replay models/click_1
    """
    from samovar.experiments.replay import replay as run

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="samovar-replay-") as temporary:
        done = run(directory, into or Path(temporary) / directory.resolve().name, console)
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
    if done.differences:
        raise typer.Exit(1)
