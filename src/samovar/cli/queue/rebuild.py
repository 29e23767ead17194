"""`samovar queue rebuild`: a lost queue is made again from directories."""

from pathlib import Path
from typing import Annotated

import typer

from samovar.cli.answer import Json, print_json
from samovar.cli.queue.database import DEFAULT, Db


def rebuild(
    roots: Annotated[list[Path], typer.Argument(help="Result directories, or folders that hold them.", metavar="DIR…")],
    max_attempts: Annotated[int, typer.Option(help="Failures and dead workers until it is given up.", min=1)] = 3,
    db: Db = DEFAULT,
    as_json: Json = False,
) -> None:
    """Make a lost queue again from result directories.

    Finished ones are done, the others go on from their snapshots.

    Example: samovar queue rebuild models/ --db sqlite:///queue.db
    """
    from samovar.queue import open_queue
    from samovar.queue import rebuild as read

    counts = read(open_queue(db, is_new=True), roots, max_attempts)
    if as_json:
        print_json(counts)
        return
    print(", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "no result directory was found")
