"""Runs contestants on tasks, each in a process of its own with one thread, and keeps every outcome as a file."""

import importlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from benchmarks.contest.machine import look_at_machine
from benchmarks.learning.outcome import Array, Outcome, Standing, group
from numpy.typing import NDArray

from samovar.errors import BadInput

Predicted = NDArray[np.float64]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Task(Protocol):
    """What there is to learn."""

    @property
    def name(self) -> str: ...
    @property
    def is_regression(self) -> bool: ...
    def losses(self, predicted: Predicted) -> Array: ...


@dataclass(frozen=True)
class Contestant:
    settings: Mapping[str, Callable[[Any, int], Predicted]]
    """By name: takes a task and a seed, and returns predictions. Of several, the best on the task counts."""
    num_seeds: int = 1
    library: str = "numpy"
    """Imported before the clock starts."""


@dataclass(frozen=True)
class Field:
    """Tasks of one kind and who learns them. A field is the module that defines both, so that a process can find it."""

    tasks: Mapping[str, Callable[[int], Task]]
    """By name: takes the largest number of rows to learn from."""
    contestants: Mapping[str, Contestant]


@dataclass(frozen=True)
class Job:
    field: str
    """The module that has `FIELD`."""
    task: str
    contestant: str
    setting: str
    seed: int
    most_rows: int

    def path(self, folder: Path) -> Path:
        return path_of(folder, self.field, self.task, self.contestant, self.setting, self.seed)


def path_of(folder: Path, field: str, *words: object) -> Path:
    """The file of an outcome: a folder per field, and a name that is safe everywhere."""
    name = "".join(letter if letter.isalnum() else "_" for letter in " ".join(map(str, words)))
    return folder / field.rpartition(".")[2] / f"{name}.json"


def open_field(module: str) -> Field:
    field: Field = importlib.import_module(module).FIELD
    return field


def measure(job: Job) -> Outcome:
    field = open_field(job.field)
    task = field.tasks[job.task](job.most_rows)
    contestant = field.contestants[job.contestant]
    importlib.import_module(contestant.library)
    learn = contestant.settings[job.setting]
    began, start = datetime.now(UTC), time.process_time()
    predicted = learn(task, job.seed)
    seconds = time.process_time() - start
    rows, sums = group(task.losses(predicted))
    machine = look_at_machine()
    asked = (job.task, job.contestant, job.setting, job.seed, job.most_rows)
    return Outcome(began, machine, *asked, task.is_regression, rows, sums, seconds)


@dataclass(frozen=True)
class Plan:
    """What to run of a field."""

    field: str
    tasks: Sequence[str]
    contestants: Sequence[str]
    most_rows: int
    most_seeds: int


def run(plan: Plan, folder: Path, num_processes: int) -> list[Exception]:
    """Run what has no outcome in the folder yet, first seeds first. Of several settings, the best gets all seeds.

    Returns:
        The errors of jobs that failed, which stop no others.

    Raises:
        BadInput: The folder has outcomes of other sizes.
    """
    field = open_field(plan.field)
    pairs = [(task, name) for task in plan.tasks for name in plan.contestants]

    def make_jobs(task: str, name: str, settings: Iterable[str], num_seeds: int) -> list[Job]:
        seeds = range(min(num_seeds, plan.most_seeds))
        return [Job(plan.field, task, name, setting, seed, plan.most_rows) for setting in settings for seed in seeds]

    first, rest = [], []
    for task, name in pairs:
        one = field.contestants[name]
        first += make_jobs(task, name, one.settings, one.num_seeds if len(one.settings) == 1 else 1)
    errors = _run_jobs(sorted(first, key=lambda job: job.seed), folder, num_processes)
    for task, name in pairs:
        best = find_standing(plan.field, task, name, folder)
        if best is not None:
            rest += make_jobs(task, name, [best.outcomes[0].setting], field.contestants[name].num_seeds)
    return errors + _run_jobs(rest, folder, num_processes)


def _run_jobs(jobs: Iterable[Job], folder: Path, num_processes: int) -> list[Exception]:
    wanted = [job for job in jobs if not _is_done(job, folder)]
    os.environ.update(dict.fromkeys(THREADS, "1"))  # inherited by the processes, before they load a library
    errors: list[Exception] = []
    with ProcessPoolExecutor(num_processes, get_context("spawn"), max_tasks_per_child=1) as pool:
        running = {pool.submit(measure, job): job for job in wanted}
        for number, future in enumerate(as_completed(running), 1):
            job = running[future]
            shown = f"[{number}/{len(wanted)}] {job.task}: {job.contestant} {job.setting} seed {job.seed}"
            try:
                outcome = future.result()
            except Exception as error:
                error.add_note(shown)
                errors.append(error)
                print(f"{shown}: failed: {error!r}", flush=True)
                continue
            job.path(folder).parent.mkdir(parents=True, exist_ok=True)
            outcome.save(job.path(folder))
            print(f"{shown}: {outcome.score:.4f}, {outcome.cpu_seconds:.0f} CPU s", flush=True)
    return errors


def _is_done(job: Job, folder: Path) -> bool:
    path = job.path(folder)
    if not path.exists():
        return False
    most_rows = Outcome.load(path).most_rows
    if most_rows != job.most_rows:
        raise BadInput(f"{path} is of {most_rows} rows, not {job.most_rows}. Name another folder with --results")
    return True


def find_standings(module: str, task: str, folder: Path) -> Iterator[tuple[str, Standing]]:
    """Every contestant that has an outcome, in the order of the field."""
    for name in open_field(module).contestants:
        standing = find_standing(module, task, name, folder)
        if standing is not None:
            yield name, standing


def find_standing(module: str, task: str, name: str, folder: Path) -> Standing | None:
    """The contestant's best setting by its first seed, with all seeds that have run."""
    found = find_settings(module, task, name, folder).values()
    return min(found, key=lambda standing: standing.scores[0], default=None)


def find_settings(module: str, task: str, name: str, folder: Path) -> dict[str, Standing]:
    """Every setting of a contestant that has an outcome."""
    contestant = open_field(module).contestants[name]
    found = {}
    for setting in contestant.settings:
        paths = [path_of(folder, module, task, name, setting, seed) for seed in range(contestant.num_seeds)]
        outcomes = [Outcome.load(path) for path in paths if path.exists()]
        if outcomes:
            found[setting] = Standing(outcomes)
    return found
