"""A queue that does each config once, though workers die. The directories are the truth; a database keeps the order."""

from samovar.experiments.kinds import KINDS
from samovar.experiments.queue.database import Database
from samovar.experiments.queue.job import STATES, Job, Outcome
from samovar.experiments.queue.queue import Added, Queue, open_queue
from samovar.experiments.queue.rebuild import rebuild
from samovar.experiments.queue.task import Task, make_task
from samovar.experiments.queue.worker import Worker, worker_name

__all__ = [
    "KINDS",
    "STATES",
    "Added",
    "Database",
    "Job",
    "Outcome",
    "Queue",
    "Task",
    "Worker",
    "make_task",
    "open_queue",
    "rebuild",
    "worker_name",
]
