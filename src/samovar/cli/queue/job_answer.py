"""A job as every command of the queue tells it with --json. Prints nothing."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samovar.queue import Job


def describe_job(job: "Job") -> dict[str, Any]:
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
