"""Jobs as rows of the table, there and back. Changes nothing."""

import json
from typing import Any

from sqlalchemy import Row, select

from samovar.experiments.queue.job import Job
from samovar.experiments.queue.schema import database_now, jobs
from samovar.experiments.queue.task import Task

SELECT = select(
    jobs,
    (database_now() - jobs.c.beat_at).label("silent_seconds"),
    (jobs.c.lease_until - database_now()).label("lease_seconds"),
)


def to_columns(task: Task) -> dict[str, Any]:
    return {
        "out": task.out,
        "kind": task.kind,
        "config_path": task.config_path,
        "overrides": json.dumps(task.overrides),
        "config": task.config,
        "script": task.script,
        "folder": task.folder,
        "priority": task.priority,
        "max_attempts": task.max_attempts,
    }


def to_job(row: Row[Any]) -> Job:
    task = Task(
        row.kind,
        row.config_path,
        tuple(json.loads(row.overrides)),
        row.config,
        row.script,
        row.out,
        row.folder,
        row.priority,
        row.max_attempts,
    )
    return Job(
        row.id,
        task,
        row.state,
        row.attempts,
        row.epoch,
        row.holder,
        row.silent_seconds,
        row.lease_seconds,
        row.exit_code,
        row.error,
        row.log,
    )
