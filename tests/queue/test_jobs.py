"""Adding and rebuilding jobs, the commands of tasks, and errors in addresses and arguments."""

import json
import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from tests.queue.fleet import run_here, toy_task

from samovar.errors import BadInput, ConfigError, Conflict, NotAResult, QueueUnavailable
from samovar.queue import Outcome, Queue, Worker, make_task, open_queue, rebuild, worker_name
from samovar.queue.task import make_command
from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.store import LocalStore


@pytest.fixture
def queue(quick_path: Path) -> Queue:
    return open_queue(f"sqlite:///{quick_path}/queue.db", is_new=True)


def test_the_same_config_twice_is_one_job(queue: Queue, quick_path: Path) -> None:
    task = toy_task(quick_path, "a")
    assert [added.how for added in queue.add([task, task])] == ["added", "known"]
    run_here(queue)
    assert [(added.how, added.job.state) for added in queue.add([task])] == [("known", "done")]


def test_a_removed_directory_is_made_again(queue: Queue, quick_path: Path) -> None:
    task = toy_task(quick_path, "a")
    queue.add([task])
    job = queue.take("w/1")
    assert job is not None
    queue.end(job, Outcome("done", 0))
    assert [(added.how, added.job.state) for added in queue.add([task])] == [("again", "waiting")]


def test_a_finished_directory_counts_as_done_at_once(queue: Queue, quick_path: Path) -> None:
    config, script = quick_path / "a.json", quick_path / "stage.py"
    config.write_text('{"out": "results/a", "steps": 2, "source": ["data", "more"], "files": null}')
    script.write_text("")
    sources = [str((quick_path / name).resolve()) for name in ("data", "more")]
    kept = {"steps": 2, "source": sources, "files": None, "num_threads": 3}
    with begin(ResultDirectory(LocalStore(quick_path / "results/a")), ResultPlan("toy", kept)) as result:
        result.restore()
        result.finish(None, 2)
    [added] = queue.add([make_task(config, kind="run", script=script)])
    assert (added.how, added.job.state) == ("finished", "done")
    [other] = queue.add([make_task(config, kind="run", script=script, overrides=[{"out": "b"}])])
    assert other.job.state == "waiting"


def test_a_finished_directory_of_another_config_does_not_count(queue: Queue, quick_path: Path) -> None:
    config, script = quick_path / "a.json", quick_path / "stage.py"
    config.write_text('{"steps": 3}')
    script.write_text("")
    with begin(ResultDirectory(LocalStore(quick_path / "a")), ResultPlan("toy", {"steps": 2})) as result:
        result.restore()
        result.finish(None, 2)
    [added] = queue.add([make_task(config, kind="run", script=script)])
    assert added.job.state == "waiting"  # its command will report the difference


def test_another_config_for_the_same_directory_is_an_error_and_nothing_is_added(queue: Queue, quick_path: Path) -> None:
    queue.add([toy_task(quick_path, "a")])
    tasks = [toy_task(quick_path, "b"), toy_task(quick_path, "a", {"steps": 5})]
    with pytest.raises(
        Conflict,
        match=r"job 1 \(waiting\) already uses this directory with another config: steps is 2 there and 5 here",
    ):
        queue.add(tasks)
    assert len(queue.jobs()) == 1
    queue.cancel([1])
    assert [added.how for added in queue.add(tasks)] == ["added", "replaced"]


def test_a_queue_can_be_created_many_times_at_once(url: str, quick_path: Path) -> None:
    tasks = [toy_task(quick_path, f"{number % 4}") for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda task: open_queue(url, is_new=True).add([task]), tasks))
    assert len(open_queue(url).jobs()) == 4


def test_taking_again_after_a_lost_answer_gives_the_same_job(queue: Queue, quick_path: Path) -> None:
    queue.add([toy_task(quick_path, name) for name in "ab"])
    first, again = queue.take("w/1"), queue.take("w/1")
    assert first is not None
    assert again is not None
    assert (again.id, again.epoch) == (first.id, first.epoch)


def test_a_lost_database_is_rebuilt_from_directories(queue: Queue, quick_path: Path) -> None:
    runs = quick_path / "runs"
    tasks = [
        toy_task(runs, "done"),
        toy_task(runs, "broken", {"fails_until": str(quick_path / "cure")}, max_attempts=1),
    ]
    queue.add(tasks)
    run_here(queue)
    with begin(ResultDirectory(LocalStore(runs / "stopped")), ResultPlan("model", {"steps": 2}, script=b"")):
        pass
    for kind in ("PytorchTrainer", "table"):  # made by calls from Python
        with begin(ResultDirectory(LocalStore(runs / kind)), ResultPlan(kind, {"seed": 1})):
            pass
    new = open_queue(f"sqlite:///{quick_path}/new.db", is_new=True)
    assert rebuild(new, [quick_path], max_attempts=3) == {"done": 1, "failed": 1, "waiting": 1, "left out": 2}
    found = {Path(job.task.out).name: job for job in new.jobs()}
    assert {name: job.state for name, job in found.items()} == {
        "broken": "failed",
        "done": "done",
        "stopped": "waiting",
    }
    assert found["broken"].error == "RuntimeError: the toy broke"
    assert found["stopped"].task.kind == "train"
    assert rebuild(new, [quick_path], max_attempts=3) == {"known": 3, "left out": 2}
    assert make_command(found["stopped"].task)[4:] == [
        "train", str(runs / "stopped/model_config.json"), "--script", str(runs / "stopped/script.py"),
        "--out", str(runs / "stopped"),
    ]  # fmt: skip
    with pytest.raises(BadInput, match="none: not a folder"):
        rebuild(new, [quick_path / "none"], max_attempts=3)


def test_rebuilding_counts_what_it_cannot_read(quick_path: Path) -> None:
    queue = open_queue(f"sqlite:///{quick_path}/queue.db", is_new=True)
    for name in ("a", "b"):
        with begin(ResultDirectory(LocalStore(quick_path / name)), ResultPlan("model", {"steps": 2}, script=b"")):
            pass
    stray = quick_path / "a/external_stuff/tool"
    stray.mkdir(parents=True)
    (stray / "model_config.json").write_text("{}")
    (quick_path / "b/lineage.json").unlink()
    assert rebuild(queue, [quick_path], max_attempts=3) == {"waiting": 1, "unreadable": 1}


def test_the_original_task_replaces_a_rebuilt_job(quick_path: Path) -> None:
    """The directory has absolute paths and values chosen from the machine, but it is the same config."""
    queue = open_queue(f"sqlite:///{quick_path}/queue.db", is_new=True)
    tasks = {}
    for kind, asked, kept in (
        ("train", {"model_dir": "train", "x": 1}, {"model_dir": str(quick_path / "old"), "x": 1, "num_threads": 2}),
        ("predict", {"source": "m"}, {"source": str(quick_path / "m"), "position": 3, "keys": []}),
        ("brew", {"source": ["a"], "y": None}, {"source": [str(quick_path / "a")], "y": None}),
        ("run", {"source": "s"}, {"source": str(quick_path / "s"), "num_threads": 2}),
    ):
        result = ResultDirectory(LocalStore(quick_path / kind))
        lineage = {"train": "model", "predict": "prediction", "brew": "table", "run": "stage:s"}[kind]
        with begin(result, ResultPlan(lineage, kept, script=b"")):
            pass
        (quick_path / f"{kind}.json").write_text(json.dumps(asked))
        (quick_path / "s.py").touch()
        tasks[kind] = make_task(quick_path / f"{kind}.json", kind=kind, script=quick_path / "s.py")
    assert rebuild(queue, [quick_path], max_attempts=3) == {"waiting": 4}
    assert [(added.how, added.job.state) for added in queue.add(list(tasks.values()))] == [("replaced", "waiting")] * 4
    assert [added.how for added in queue.add(list(tasks.values()))] == ["known"] * 4

    new = open_queue(f"sqlite:///{quick_path}/new.db", is_new=True)
    rebuild(new, [quick_path], max_attempts=3)
    other = make_task(
        quick_path / "train.json", script=quick_path / "s.py", overrides=[{"x": 5}], out=quick_path / "train"
    )
    with pytest.raises(
        Conflict, match=r"\(waiting\) already uses this directory with another config: x is 1 there and 5 here"
    ):
        new.add([other])


@pytest.mark.parametrize(
    ("kind", "config", "words"),
    [
        ("train", {"model_dir": "m"}, ["train", "{c}", "--script", "{s}", "--conf", '{"seed": 1}', "--out", "{f}/m"]),
        (
            "run",
            {"out": "r", "model_dir": "mine"},
            ["run", "{s}", "-c", "{c}", "--conf", '{"seed": 1}', "--out", "{f}/r"],
        ),
        ("brew", {"result": "t"}, ["brew", "{c}", "--conf", '{"seed": 1}', "--out", "{f}/t"]),
        (
            "predict",
            {"source": "m", "table": "t", "keys": ["a", "b"], "start_date": "2026-01-01"},
            ["predict", "{f}/m", "--table", "{f}/t", "--keys", "a,b", "--start-date", "2026-01-01", "--out", "{f}/c"],
        ),
    ],
)
def test_a_task_is_what_a_user_would_type(
    kind: str, config: dict[str, object], words: list[str], quick_path: Path
) -> None:
    path, script = quick_path / "c.json", quick_path / "s.py"
    path.write_text(json.dumps(config))
    script.write_text("")
    task = make_task(path, kind=kind, script=script, overrides=[{"seed": 1}])
    fill: Callable[[str], str] = lambda word: (  # noqa: E731  # three placeholders
        word.replace("{c}", str(path)).replace("{s}", str(script)).replace("{f}", str(quick_path))
    )
    assert make_command(task) == [sys.executable, "-P", "-m", "samovar", *map(fill, words)]


def test_a_config_that_changed_since_it_was_added_is_not_run(queue: Queue, quick_path: Path) -> None:
    path, script = quick_path / "c.json", quick_path / "s.py"
    path.write_text("{}")
    script.write_text("")
    queue.add([make_task(path, kind="run", script=script)])
    path.write_text('{"a": 1}')
    Worker(queue, worker_name(), lambda line: None).run_until_empty()
    [job] = queue.jobs()
    assert job.state == "failed"
    assert job.error is not None
    assert "changed since it was added to the queue" in job.error
    assert not (quick_path / "c").exists()


def test_invalid_arguments_are_errors(quick_path: Path) -> None:
    path = quick_path / "c.json"
    path.write_text("{}")
    with pytest.raises(BadInput, match=r"kind must be one of brew, train, predict, run, got 'bake'"):
        make_task(path, kind="bake")
    with pytest.raises(BadInput, match=r"none\.py: no such script"):
        make_task(path, script=quick_path / "none.py")
    with pytest.raises(ConfigError, match="no such file"):
        make_task(quick_path / "d.json", kind="brew")


def test_an_invalid_address_is_an_error(quick_path: Path) -> None:
    with pytest.raises(NotAResult, match="no queue there"):
        open_queue(f"sqlite:///{quick_path}/none.db")
    with pytest.raises(BadInput, match=r"queue.db: not the address of a database"):
        open_queue("queue.db")
    with pytest.raises(BadInput, match="mysql is not supported"):
        open_queue("mysql://somewhere/jobs")
    with pytest.raises(BadInput, match="a queue cannot be in memory"):
        open_queue("sqlite://", is_new=True)
    with pytest.raises(BadInput, match=r"the folder .*/none does not exist"):
        open_queue(f"sqlite:///{quick_path}/none/queue.db", is_new=True)
    (quick_path / "text.db").write_text("no database at all" * 100)
    with pytest.raises(QueueUnavailable, match=r"text.db: not an SQLite file that can hold a queue"):
        open_queue(f"sqlite:///{quick_path}/text.db", is_new=True)
    with pytest.raises(QueueUnavailable, match="cannot be used"):
        open_queue("postgresql://nobody@/none?host=/nowhere", patience_seconds=0.1)
    (quick_path / "empty.db").touch()
    with pytest.raises(NotAResult, match="no queue there"):
        open_queue(f"sqlite:///{quick_path}/empty.db")


def test_a_damaged_text_is_reported_at_once_as_waiting_does_not_help(quick_path: Path) -> None:
    path = quick_path / "queue.db"
    queue = open_queue(f"sqlite:///{path}", is_new=True, patience_seconds=3600.0)
    queue.add([toy_task(quick_path, "a")])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE samovar_jobs_1 SET script = CAST(x'ff' AS TEXT)")
        connection.commit()
    with pytest.raises(QueueUnavailable, match=r"cannot be used: Could not decode to UTF-8"):
        queue.jobs()
