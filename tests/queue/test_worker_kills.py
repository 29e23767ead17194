"""Many workers killed at random: every config is finished exactly once. Real processes, kills and databases."""

from collections import Counter
from pathlib import Path

import pytest
from tests.queue.fleet import finishes, kill, metrics, start_worker, toy_task
from tests.waiting import wait_until

from samovar.queue import Queue, open_queue
from samovar.results import open_directory
from samovar.seeds import numpy_generator

NUM_WORKERS = 8


def run_all(url: str, folder: Path, num_jobs: int, num_kills: int) -> Queue:
    """Kill a worker each time a share of the jobs is done."""
    chance = numpy_generator(7, "kills")
    queue = open_queue(url, is_new=True)
    tasks = [toy_task(folder, f"{number:04d}", max_attempts=1000) for number in range(num_jobs)]
    queue.add(tasks)
    workers = [start_worker(url, lease_seconds=3.0) for _ in range(NUM_WORKERS)]
    for number in range(num_kills):
        wait_until_done(queue, (number + 1) * num_jobs // (num_kills + 2))
        victim = int(chance.integers(NUM_WORKERS))
        kill(workers[victim])
        workers[victim] = start_worker(url, lease_seconds=3.0)
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    return queue


def wait_until_done(queue: Queue, count: int) -> None:
    wait_until(lambda: queue.counts().get("done", 0) >= count, f"{count} jobs are done")


def check_all(queue: Queue, folder: Path, num_jobs: int) -> None:
    assert queue.counts() == {"done": num_jobs}
    reported = Counter(finishes(folder))
    for job in queue.jobs():
        directory = open_directory(job.task.out)
        assert directory.is_finished
        assert [line["step"] for line in metrics(job.task.out)] == [0, 1]
        # a process may be killed after its finish and before it writes the line, so a line may be missing
        assert reported[Path(job.task.out).name] <= 1
    assert sum(reported.values()) >= num_jobs * 0.8


def test_fifty_configs_are_each_finished_once_even_if_workers_die(url: str, quick_path: Path) -> None:
    queue = run_all(url, quick_path, 50, num_kills=8)
    check_all(queue, quick_path, 50)
    assert sum(job.attempts for job in queue.jobs()) > 0  # the kills hit busy workers


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_thousand_configs_are_each_finished_once_even_if_workers_die(url: str, quick_path: Path) -> None:
    check_all(run_all(url, quick_path, 1000, num_kills=100), quick_path, 1000)
