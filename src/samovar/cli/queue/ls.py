"""`samovar queue ls`: every job and its state."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from samovar.cli.console import open_console
from samovar.cli.queue.database import DEFAULT, Db

if TYPE_CHECKING:
    from samovar.experiments.queue import Job

_ERROR_WIDTH = 60


def ls(
    state: Annotated[
        list[str] | None, typer.Option(help="Only waiting, running, done, failed or cancelled ones; repeatable.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="The same as --state failed, with whole errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    db: Db = DEFAULT,
) -> None:
    """The jobs of the queue.

    Example: samovar queue ls --state running
    """
    from samovar.experiments.queue import STATES, open_queue

    states = [*(state or []), *(["failed"] if failed else [])]
    for each in states:
        if each not in STATES:
            raise typer.BadParameter(f"{each!r} is no state; expected one of {', '.join(STATES)}")
    queue = open_queue(db)
    found = queue.jobs(states)
    if as_json:
        for job in found:
            print(json.dumps(_record(job), ensure_ascii=False))
        return
    if found:
        open_console().print(_table(found, is_whole=failed))
    counts = queue.counts()
    print(", ".join(f"{counts[each]} {each}" for each in STATES if counts.get(each)) or "no jobs", file=sys.stderr)


def _table(found: "list[Job]", is_whole: bool) -> Table:
    table = Table("id", "state", "kind", "priority", "attempts", "worker", "directory", "error", box=None)
    for job in found:
        error = job.error or ""
        shown = error if is_whole else error.partition("\n")[0][:_ERROR_WIDTH]
        state = "lost" if job.is_lost else job.state
        holder = (job.holder or "").rpartition("/")[0] if job.state == "running" else ""
        row = (str(job.id), state, job.task.kind, str(job.task.priority), f"{job.attempts}/{job.task.max_attempts}")
        table.add_row(*row, *(text.replace("[", r"\[") for text in (holder, job.task.out, shown)))
    return table


def _record(job: "Job") -> dict[str, Any]:
    return {
        "id": job.id,
        "state": job.state,
        "is_lost": job.is_lost,
        "kind": job.task.kind,
        "out": job.task.out,
        "config": job.task.config_path,
        "script": job.task.script,
        "priority": job.task.priority,
        "attempts": job.attempts,
        "max_attempts": job.task.max_attempts,
        "epoch": job.epoch,
        "worker": job.holder,
        "silent_seconds": job.silent_seconds,
        "exit_code": job.exit_code,
        "error": job.error,
    }
