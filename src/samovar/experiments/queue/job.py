"""A task and its life in the queue.

    add ─▶ waiting ──take──▶ running ──▶ done           its directory is finished
              ▲                 │ ├────▶ failed         the user's mistake, or no attempt is left; retry ─▶ waiting
              │                 │ └────▶ cancelled      retry ─▶ waiting
              └─────────────────┘ stopped; failed with attempts left; its worker gave no sign of life

Every taking raises the epoch, and a change by a worker counts only with the epoch that it took.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from samovar.experiments.queue.task import Task

State = Literal["waiting", "running", "done", "failed", "cancelled"]
STATES: tuple[State, ...] = get_args(State)
OVER: tuple[State, ...] = ("done", "failed", "cancelled")


@dataclass(frozen=True)
class Job:
    id: int
    task: Task
    state: State
    attempts: int
    """Failures and dead workers so far."""
    epoch: int
    holder: str | None
    """The worker that has it, or had it last."""
    silent_seconds: float | None
    """Since its worker's last sign of life, by the database's clock; None when it is not running."""
    lease_seconds: float | None
    """What is left of the lease; below zero it may be taken over."""
    exit_code: int | None
    error: str | None
    log: str | None
    """The end of what the command printed."""

    @property
    def is_lost(self) -> bool:
        """Running on paper, but its worker is silent for too long."""
        return self.lease_seconds is not None and self.lease_seconds < 0


@dataclass(frozen=True)
class Outcome:
    """What a worker says of a job that it had."""

    verdict: Literal["done", "wrong", "failed", "put back"]
    """wrong: cannot work however often it is tried; failed: may work the next time; put back: stopped on request."""
    exit_code: int | None = None
    error: str | None = None
    log: str | None = None
    delay_seconds: float = 0.0
    """How long a job that was put back is left alone."""
