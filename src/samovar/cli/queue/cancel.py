"""`samovar queue cancel`: jobs are given up."""

from typing import Annotated

import typer

from samovar.cli.queue.database import DEFAULT, Db


def cancel(
    numbers: Annotated[list[int], typer.Argument(help="Numbers of jobs.", metavar="ID…")],
    db: Db = DEFAULT,
) -> None:
    """Give up jobs that wait or run; a running one is stopped by its worker, and its snapshot stays.

    Example: samovar queue cancel 12 13
    """
    from samovar.experiments.queue import open_queue

    queue = open_queue(db)
    changed = {job.id for job in queue.cancel(numbers)}
    for number in numbers:
        said = "cancelled" if number in changed else f"is {queue.job(number).state}, nothing to do"
        print(f"job {number}: {said}")
