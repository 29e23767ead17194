"""`samovar queue retry`: failed and cancelled jobs wait again."""

from typing import Annotated

import typer

from samovar.cli.answer import Json, print_json
from samovar.cli.queue.database import DEFAULT, Db
from samovar.cli.queue.job_answer import describe_job


def retry(
    numbers: Annotated[list[int] | None, typer.Argument(help="Numbers of jobs.", metavar="ID…")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="All that failed.")] = False,
    db: Db = DEFAULT,
    as_json: Json = False,
) -> None:
    """Try jobs again that failed or were cancelled.

    They go on from their snapshots.

    Example: samovar queue retry --failed
    """
    from samovar.queue import open_queue

    queue = open_queue(db)
    wanted = set(numbers or []) | ({job.id for job in queue.jobs(["failed"])} if failed else set())
    if not wanted and not failed:
        raise typer.BadParameter("found no number; expected some, or --failed")
    changed = {job.id for job in queue.retry(sorted(wanted))}
    if as_json:
        print_json([{**describe_job(queue.job(number)), "is_changed": number in changed} for number in sorted(wanted)])
        return
    for number in sorted(wanted):
        said = "waits again" if number in changed else f"is {queue.job(number).state}, nothing to do"
        print(f"job {number}: {said}")
    if not wanted:
        print("no job has failed")
