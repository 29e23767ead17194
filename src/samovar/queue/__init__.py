"""A queue that runs each config once, even if workers die. Directories are the truth; a database keeps the order."""

from samovar.queue.database import Database
from samovar.queue.jobs import ENDED_STATES, STATES, Added, Job, Outcome, Queue, open_queue
from samovar.queue.rebuild import rebuild
from samovar.queue.task import Task, make_task
from samovar.queue.worker import Worker, worker_name
from samovar.runs.find import KINDS

__all__ = [
    "ENDED_STATES",
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
