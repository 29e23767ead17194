"""`samovar queue cancel`: jobs are given up."""

from typing import Annotated

import typer

from samovar.cli.answer import Json, print_json
from samovar.cli.queue.database import DEFAULT, Db
from samovar.cli.queue.job_answer import describe_job


def cancel(
    numbers: Annotated[list[int], typer.Argument(help="Numbers of jobs.", metavar="ID…")],
    db: Db = DEFAULT,
    as_json: Json = False,
) -> None:
    """Give up jobs that wait or run.

    A running one is stopped by its worker, and its snapshot stays.

    Example: samovar queue cancel 1
    """
    from samovar.queue import open_queue

    queue = open_queue(db)
    changed = {job.id for job in queue.cancel(numbers)}
    if as_json:
        print_json([{**describe_job(queue.job(number)), "is_changed": number in changed} for number in numbers])
        return
    for number in numbers:
        said = "cancelled" if number in changed else f"is {queue.job(number).state}, nothing to do"
        print(f"job {number}: {said}")
