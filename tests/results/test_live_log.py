"""Logs read while a run writes them: every line once, in order, at every moment."""

import threading
from pathlib import Path

from tests.runs.runs import train_lines

from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.results.artifacts import METRICS_LOG, read_live_log, read_log, read_tail_end
from samovar.store import LocalStore, MemoryStore, Store

PLAN = ResultPlan("model", {"lr": 1}, b"script")
LINES = train_lines([1 / (number + 1) for number in range(40)])


def numbers(store: Store) -> tuple[list[int], list[int]]:
    log = read_live_log(store, METRICS_LOG)
    return [line["uri"] for line in log.sealed], [line["uri"] for line in log.open]


def test_lines_are_open_until_a_snapshot(tmp_path: Path) -> None:
    for store in (LocalStore(tmp_path / "run"), MemoryStore()):
        directory = ResultDirectory(store)
        assert numbers(store) == ([], [])
        with begin(directory, PLAN, heartbeat_seconds=None) as result:
            result.restore()
            for number in (0, 1):
                result.append(METRICS_LOG, LINES[number])
            assert numbers(store) == ([], [0, 1])
            assert list(read_log(store, METRICS_LOG)) == []
            result.save({}, 2)
            assert numbers(store) == ([0, 1], [])
            result.append(METRICS_LOG, LINES[2])
            assert numbers(store) == ([0, 1], [2])
            assert [line["uri"] for line in read_tail_end(store, METRICS_LOG)] == [0, 1, 2]
            assert [line["uri"] for line in read_tail_end(store, METRICS_LOG, 1)] == [2]
            result.finish({}, 3)
        assert numbers(store) == ([0, 1, 2], [])


def test_a_line_that_is_half_written_waits(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    tail = store.tail(METRICS_LOG)
    tail.append(b'{"uri": 0}\n{"uri": 1}\n{"ur')
    assert numbers(store) == ([], [0, 1])
    tail.close()


def test_lines_that_were_just_sealed_are_not_shown_twice(tmp_path: Path) -> None:
    """Between the segment and the removal of the open end, both have the same lines; a kill there leaves both."""
    store = LocalStore(tmp_path)
    tail = store.tail(METRICS_LOG)
    tail.append(b'{"uri": 0}\n')
    with store.create("logs/metrics/000001.jsonl") as writer:
        writer.write(b'{"uri": 0}\n')
    assert numbers(store) == ([0], [])
    tail.close(keep=True)
    assert numbers(store) == ([0], [])


def test_a_reader_beside_a_writer_sees_every_line_once(tmp_path: Path) -> None:
    store, seen = LocalStore(tmp_path / "run"), []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            sealed, still_open = numbers(store)
            seen.append([*sealed, *still_open])

    reader = threading.Thread(target=read)
    with begin(ResultDirectory(LocalStore(tmp_path / "run")), PLAN, heartbeat_seconds=None) as result:
        result.restore()
        reader.start()
        for number, line in enumerate(LINES):
            result.append(METRICS_LOG, line)
            if number % 5 == 4:
                result.save({}, number)
        done.set()
        reader.join()
    assert all(each == list(range(len(each))) for each in seen)
