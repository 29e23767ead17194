"""`samovar queue retry`: failed and cancelled jobs wait again."""

from typing import Annotated

import typer

from samovar.cli.queue.database import DEFAULT, Db


def retry(
    numbers: Annotated[list[int] | None, typer.Argument(help="Numbers of jobs.", metavar="ID…")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="All that failed.")] = False,
    db: Db = DEFAULT,
) -> None:
    """Try jobs again that failed or were cancelled; they go on from their snapshots.

    Example: samovar queue retry --failed
    """
    from samovar.experiments.queue import open_queue

    queue = open_queue(db)
    wanted = set(numbers or []) | ({job.id for job in queue.jobs(["failed"])} if failed else set())
    if not wanted and not failed:
        raise typer.BadParameter("found no number; expected some, or --failed")
    changed = {job.id for job in queue.retry(sorted(wanted))}
    for number in sorted(wanted):
        said = "waits again" if number in changed else f"is {queue.job(number).state}, nothing to do"
        print(f"job {number}: {said}")
    if not wanted:
        print("no job has failed")
