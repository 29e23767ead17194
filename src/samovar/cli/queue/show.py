"""`samovar queue show`: one job, with its error and the end of its log."""

from typing import Annotated

import typer
from rich.table import Table

from samovar.cli.answer import Json, print_json
from samovar.cli.console import open_console
from samovar.cli.queue.database import DEFAULT, Db
from samovar.cli.queue.job_answer import describe_job


def show(
    number: Annotated[int, typer.Argument(help="A job's number.", metavar="ID")],
    db: Db = DEFAULT,
    as_json: Json = False,
) -> None:
    """Show all that is known of a job.

    Example: samovar queue show 1
    """
    from samovar.queue import open_queue

    job = open_queue(db).job(number)
    if as_json:
        print_json({**describe_job(job), "log": job.log})
        return
    facts = {
        "job": str(job.id),
        "state": f"{job.state}{', but its worker is silent' if job.is_lost else ''}",
        "kind": job.task.kind,
        "directory": job.task.out,
        "config": " ".join([job.task.config_path, *(f"--conf '{each}'" for each in job.task.overrides)]),
        "script": job.task.script,
        "priority": str(job.task.priority),
        "attempts": f"{job.attempts} of {job.task.max_attempts} used",
        "worker": job.holder,
        "last sign": f"{job.silent_seconds:.0f} s ago" if job.silent_seconds is not None else None,
        "exit code": str(job.exit_code) if job.exit_code is not None else None,
        "error": job.error,
    }
    table = Table.grid(padding=(0, 2))
    for name, fact in facts.items():
        if fact is not None:
            table.add_row(name, fact)
    console = open_console()
    console.print(table)
    if job.log:
        console.print("end of its log:")
        console.print(job.log, end="")
