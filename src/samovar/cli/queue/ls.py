"""`samovar queue ls`: every job and its state."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from samovar.cli.answer import Json, print_json
from samovar.cli.console import open_console, print_notes
from samovar.cli.queue.database import DEFAULT, Db
from samovar.cli.queue.job_answer import describe_job

if TYPE_CHECKING:
    from samovar.queue import Job


_ERROR_WIDTH = 60


def ls(
    state: Annotated[
        list[str] | None, typer.Option(help="Only waiting, running, done, failed or cancelled ones; repeatable.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="The same as --state failed, with whole errors.")] = False,
    db: Db = DEFAULT,
    as_json: Json = False,
) -> None:
    """List the jobs of the queue.

    Example: samovar queue ls --state running
    """
    from samovar.queue import STATES, open_queue

    states = [*(state or []), *(["failed"] if failed else [])]
    for each in states:
        if each not in STATES:
            raise typer.BadParameter(f"{each!r} is no state; expected one of {', '.join(STATES)}")
    queue = open_queue(db)
    found = queue.jobs(states)
    if as_json:
        print_json(list(map(describe_job, found)))
        return
    if found:
        open_console().print(_table(found, is_whole=failed))
    counts = queue.counts()
    print_notes([", ".join(f"{counts[each]} {each}" for each in STATES if counts.get(each)) or "no jobs"])


def _table(found: "list[Job]", is_whole: bool) -> Table:
    table = Table("id", "state", "kind", "priority", "attempts", "worker", "directory", "error", box=None)
    for job in found:
        error = job.error or ""
        shown = error if is_whole else error.partition("\n")[0][:_ERROR_WIDTH]
        state = "lost" if job.is_lost else job.state
        holder = (job.holder or "").rpartition("/")[0] if job.state == "running" else ""
        row = (str(job.id), state, job.task.kind, str(job.task.priority), f"{job.attempts}/{job.task.max_attempts}")
        table.add_row(*row, holder, job.task.out, shown)
    return table
