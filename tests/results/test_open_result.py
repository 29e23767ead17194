import errno
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samovar.errors import BadPath, Conflict, CorruptData, LeaseHeld, LeaseLost, NotAResult, SamovarError, Stopped
from samovar.results import OpenResult, ResultDirectory, ResultPlan, Source, begin, open_directory, read_log
from samovar.results.checked import map_checked
from samovar.results.snapshot import committed_snapshots
from samovar.store import LocalStore, MemoryStore, Store, write_file
from samovar.store.disk import Disk
from samovar.store.heartbeat import Clock

CONFIG: dict[str, Any] = {"lr": 0.1, "model": {"dim": 8}, "snapshotter": {"frequency": 60}}


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "result")


def start(store: Store, config: dict[str, Any] = CONFIG, script: bytes = b"one", **options: Any) -> OpenResult:
    plan = ResultPlan(
        "model",
        config,
        script,
        **{name: options.pop(name) for name in ("files", "sources", "init_from") if name in options},
    )
    return begin(ResultDirectory(store), plan, heartbeat_seconds=None, **options)


def finish(store: Store, **options: Any) -> None:
    with start(store, **options) as result:
        result.restore()
        result.finish({"w": np.arange(4.0)}, {"hour": 1})


def test_a_new_result_has_its_config_script_and_environment(store: Store) -> None:
    with start(store, files={"helpers/net.py": b"net"}):
        pass
    result = ResultDirectory(store)
    assert result.config == CONFIG
    assert store.read("script.py") == b"one"
    assert store.read("all_files/helpers/net.py") == b"net"
    assert result.environment["packages"]["numpy"] == np.__version__
    assert result.status is not None
    assert result.status.state == "stopped"


def test_resuming_restores_the_newest_snapshot_and_rolls_the_directory_back(store: Store) -> None:
    with start(store) as result:
        assert result.restore() is None
        result.append("metrics.jsonl", {"hour": 0})
        with result.create("evaluation/train/0") as part:
            part.write(b"zero")
        result.save({"w": np.arange(3.0)}, {"hour": 1})
        result.append("metrics.jsonl", {"hour": 1})
        with result.create("evaluation/train/1") as part:
            part.write(b"one")
    with start(store) as result:
        snapshot = result.restore()
        assert snapshot is not None
        assert snapshot.position == {"hour": 1}
        assert snapshot.tree["w"].tolist() == [0, 1, 2]
        assert [entry.path for entry in store.list("evaluation")] == ["evaluation/train/0"]
        result.append("metrics.jsonl", {"hour": "again"})
        result.finish(snapshot.tree, {"hour": 2})
    assert store.read("logs/metrics.jsonl") == b'{"hour": 0}\n{"hour": "again"}\n'
    assert store.list("snapshot") == []
    assert [entry.path for entry in store.list("logs")] == ["logs/metrics.jsonl"]


def test_a_finished_result_is_left_alone_whatever_the_script(store: Store) -> None:
    finish(store)
    before = {entry.path: store.read(entry.path) for entry in store.list()}
    with start(store, script=b"two") as result:
        assert result.is_finished
        with pytest.raises(Conflict, match="is finished and is never overwritten"):
            result.save({}, {})
    assert {entry.path: store.read(entry.path) for entry in store.list()} == before


def test_a_finished_result_reports_that_the_script_changed_since(store: Store) -> None:
    with start(store, script=b"rate = 1\nsteps = 2\n") as result:
        result.restore()
        result.finish({}, 1)
    assert start(store, script=b"rate = 1\nsteps = 2\n").notes == []
    (note,) = start(store, script=b"rate = 3\nsteps = 2\n").notes
    assert note.startswith("the code has changed since this result was made")
    assert "-rate = 1" in note
    assert "+rate = 3" in note
    assert "steps" not in note


def test_a_finished_result_reports_that_a_module_of_the_script_changed_since(store: Store) -> None:
    finish(store, files={"net.py": b"dim = 1\n", "gone.py": b"old = 1\n"})
    (note,) = start(store, files={"net.py": b"dim = 2\n"}).notes
    assert note.startswith("the code has changed since this result was made")
    for line in ("--- all_files/net.py", "-dim = 1", "+dim = 2", "-old = 1"):
        assert f"\n  {line}" in note


def test_another_config_is_refused_and_the_difference_printed(store: Store) -> None:
    with start(store):
        pass
    for config in ({**CONFIG, "lr": 0.2}, {**CONFIG, "lr": 0.2, "extra": 1}):
        with pytest.raises(
            Conflict,
            match=r"belongs to another config(.|\n)*lr,0.1,0.2(.|\n)*, or remove the directory: it has no snapshot$",
        ):
            start(store, config)
    with start(store) as result:
        result.restore()
        result.save({}, 1)
    with pytest.raises(Conflict, match=r"belongs to another config(.|\n)*or the config that it was made with$"):
        start(store, {**CONFIG, "lr": 0.2})
    finish(store)
    with pytest.raises(Conflict, match=r"belongs to another config(.|\n)*or the config that it was made with$"):
        start(store, {**CONFIG, "lr": 0.2})


def test_settings_that_cannot_change_the_result_may_differ_and_are_reported(store: Store) -> None:
    with start(store):
        pass
    with start(store, {**CONFIG, "snapshotter": {"frequency": 5}}) as result:
        assert result.notes == ["snapshotter.frequency changed since this run started: 60 → 5"]
    assert ResultDirectory(store).config == CONFIG


def test_another_script_is_refused_unless_accepted_and_then_the_old_one_is_kept(store: Store) -> None:
    with start(store, files={"net.py": b"n1"}) as result:
        result.restore()
        result.save({}, {"hour": 9})
    with pytest.raises(Conflict, match=r"script.py changed since this run started.*--accept-script"):
        start(store, script=b"two", files={"net.py": b"n1"})
    with pytest.raises(Conflict, match=r"all_files/net.py changed"):
        start(store, files={"net.py": b"n2"})
    with start(store, script=b"two", files={"net.py": b"n2"}, accept_script=True) as result:
        assert result.notes == [
            "the code changed at position {'hour': 9}: all_files/net.py, script.py; the old code is kept"
        ]
    with start(store, script=b"two", files={"net.py": b"n2"}) as result:
        assert result.notes == []
    with start(store, script=b"three", files={"net.py": b"n2"}, accept_script=True):
        pass
    names = ("script.py", "script.1.py", "script.2.py", "all_files/net.py", "all_files.1/net.py")
    assert [store.read(name) for name in names] == [b"three", b"one", b"two", b"n2", b"n1"]
    assert [change["position"] for change in store.attributes().values["script_changes"]] == [{"hour": 9}, {"hour": 9}]


def test_a_source_that_moved_is_the_same_and_one_that_changed_is_not(store: Store) -> None:
    config = {**CONFIG, "table": "a"}
    with start(store, config, sources=[Source("table", "a", "id1")]):
        pass
    with start(store, {**config, "table": "b"}, sources=[Source("table", "b", "id1")]) as result:
        assert len(result.notes) == 1
    with pytest.raises(Conflict, match="table"):
        start(store, config, sources=[Source("table", "a", "id2")])


def test_init_from_starts_from_a_finished_model_or_from_the_newest_snapshot(store: Store) -> None:
    finish(store)
    for origin in (ResultDirectory(store), _with_snapshot()):
        with start(MemoryStore(), init_from=origin) as result:
            snapshot = result.restore()
            assert snapshot is not None
            assert snapshot.tree["w"].tolist() == [0, 1, 2, 3]
            assert snapshot.position == {"hour": 1}


def _with_snapshot() -> ResultDirectory:
    store = MemoryStore()
    with start(store) as result:
        result.restore()
        result.save({"w": np.arange(4.0)}, {"hour": 1})
    return ResultDirectory(store)


def test_a_directory_without_a_model_cannot_be_started_from() -> None:
    store = MemoryStore()
    with start(store):
        pass
    with pytest.raises(NotAResult, match="has no model yet"):
        ResultDirectory(store).load_model()


def test_the_status_reports_a_failure_and_a_stop(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), start(store):
        _ = 1 // 0
    status = ResultDirectory(store).status
    assert status is not None
    assert (status.state, status.error) == (
        "failed",
        {"type": "ZeroDivisionError", "message": "integer division or modulo by zero"},
    )
    with pytest.raises(Stopped), start(store):
        raise Stopped("as asked")
    status = ResultDirectory(store).status
    assert status is not None
    assert (status.state, status.error) == ("stopped", None)


def test_the_newest_two_snapshots_are_kept(store: Store) -> None:
    with start(store) as result:
        result.restore()
        for hour in range(5):
            result.save({"hour": hour}, {"hour": hour})
        names = {entry.path.split("/")[1] for entry in store.list("snapshot")}
        assert names == {"000004.e1", "000005.e1"}


@pytest.mark.parametrize("harm", ["flip", "cut", "remove", "empty"])
def test_any_damage_to_the_newest_snapshot_is_found_and_the_one_before_is_used(harm: str, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "good")
    with start(store) as result:
        result.restore()
        for hour in (1, 2):
            result.append("metrics.jsonl", {"hour": hour})
            result.save({"w": np.full(100, hour)}, {"hour": hour})
    newest = [entry.path for entry in store.list("snapshot/000002.e1")] + ["logs/metrics/000002.jsonl"]
    assert len(newest) == 4
    for path in newest:
        places = range(0, (tmp_path / "good" / path).stat().st_size, 17) if harm == "flip" else [0]
        for place in places:
            bad = tmp_path / "bad"
            shutil.copytree(tmp_path / "good", bad)
            _harm(bad / path, harm, place)
            with start(LocalStore(bad)) as result:
                snapshot = result.restore()
                assert snapshot is not None
                assert (snapshot.position, snapshot.tree["w"][0]) == ({"hour": 1}, 1), (path, place)
                assert "snapshot 2 is damaged" in result.notes[0]
                result.save(snapshot.tree, {"hour": 2})
                assert [name.number for name in committed_snapshots(LocalStore(bad))] == [3, 1]  # the bad one goes
            shutil.rmtree(bad)


def _harm(path: Path, harm: str, place: int) -> None:
    data = bytearray(path.read_bytes())
    if harm == "flip":
        data[place] ^= 1 << random.Random(place).randrange(8)
    path.write_bytes({"flip": bytes(data), "cut": bytes(data[:-1]), "empty": b"", "remove": b""}[harm])
    if harm == "remove":
        path.unlink()


def test_a_resumed_run_keeps_the_files_that_only_the_snapshot_before_lists(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with start(store) as result:
        result.restore()
        with result.create("evaluation/best.bin") as file:
            file.write(b"the best so far")
        result.save({"hour": 1}, {"hour": 1})
        result.drop("evaluation/best.bin")
        result.save({"hour": 2}, {"hour": 2})
    with start(store) as result:  # resumes from the newest, and is killed before it takes another
        assert result.restore() is not None
    _harm(tmp_path / "snapshot/000002.e1/state.json", "flip", 3)
    with start(store) as result:
        snapshot = result.restore()
        assert snapshot is not None
        assert snapshot.position == {"hour": 1}
        assert store.read("evaluation/best.bin") == b"the best so far"
        result.drop("evaluation/best.bin")
        for hour in (2, 3):
            result.save({"hour": hour}, {"hour": hour})
        assert store.size("evaluation/best.bin") is None


def test_if_all_snapshots_are_damaged_it_is_reported_and_nothing_is_removed(tmp_path: Path) -> None:
    with start(LocalStore(tmp_path)) as result:
        result.restore()
        result.append("metrics.jsonl", {"hour": 1})
        result.save({"w": np.zeros(3)}, {"hour": 1})
    (tmp_path / "snapshot" / "000001.e1" / "state.json").write_text("{}")
    before = [entry.path for entry in LocalStore(tmp_path).list()]
    with (
        pytest.raises(CorruptData, match="has no usable snapshot: snapshot 1 is damaged"),
        start(LocalStore(tmp_path)) as result,
    ):
        result.restore()
    assert [entry.path for entry in LocalStore(tmp_path).list()] == before


def test_external_stuff_and_notes_of_the_user_are_never_touched(tmp_path: Path) -> None:
    (tmp_path / "external_stuff").mkdir()
    (tmp_path / "external_stuff" / "metrics.txt").write_text("mine")
    store = LocalStore(tmp_path)
    with start(store) as result:
        result.restore()
        (tmp_path / "notes.txt").write_text("mine too")
    finish(store)
    assert (tmp_path / "external_stuff" / "metrics.txt").read_text() == "mine"
    assert (tmp_path / "notes.txt").read_text() == "mine too"


def test_a_snapshot_waits_for_files_written_in_the_background(store: Store) -> None:
    with start(store) as result:
        result.restore()
        for number in range(40):
            with result.create_in_background(f"evaluation/train/{number:02d}") as part:
                part.write(b"%d" % number)
        with pytest.raises(ZeroDivisionError), result.create_in_background("evaluation/train/broken"):
            raise ZeroDivisionError
        result.save({}, {"hour": 1})
        assert [store.read(entry.path) for entry in store.list("evaluation")] == [b"%d" % n for n in range(40)]
    with start(store) as result:
        snapshot = result.restore()
        assert snapshot is not None
        assert len(snapshot.inventory) == 40


def test_an_error_in_the_background_fails_the_next_snapshot(tmp_path: Path) -> None:
    class FullForParts(Disk):
        def replace(self, source: Path, target: Path) -> None:
            if target.parent.name == "train":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            super().replace(source, target)

    with start(LocalStore(tmp_path / "result", FullForParts())) as result:
        result.restore()
        with result.create_in_background("evaluation/train/0") as part:
            part.write(b"zero")
        with pytest.raises(SamovarError, match="the disk is full"):
            result.save({}, {"hour": 1})
    store = LocalStore(tmp_path / "result")
    assert store.list("evaluation") == []
    assert committed_snapshots(store) == []


def test_an_unfinished_result_cannot_be_written_after_its_with_block(store: Store) -> None:
    with start(store) as result:
        result.restore()
    with pytest.raises(Conflict, match=r"is closed, because its with block has ended. Call begin\(\) again"):
        result.save({}, {})


def test_files_of_a_run_must_be_in_the_folders_for_them(store: Store) -> None:
    with start(store) as result:
        result.restore()
        with pytest.raises(BadPath, match="files of a run must be in logs, evaluation, model"), result.create("x"):
            pass


def test_a_directory_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(NotAResult, match=r"has files that Samovar did not make, such as thesis.txt"):
        start(LocalStore(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["thesis.txt"]
    with pytest.raises(NotAResult, match=r"has no model_config.json"):
        open_directory(tmp_path)
    with pytest.raises(NotAResult, match="does not exist; expected a result directory"):
        open_directory(tmp_path / "none")
    with pytest.raises(NotAResult, match="is a file; expected a result directory"):
        open_directory(tmp_path / "thesis.txt")


def test_a_directory_copied_without_its_hidden_folder_is_refused(tmp_path: Path) -> None:
    finish(LocalStore(tmp_path))
    shutil.rmtree(tmp_path / ".samovar")
    with pytest.raises(NotAResult, match="with hidden files"):
        start(LocalStore(tmp_path))


def test_a_directory_copied_in_the_middle_resumes_elsewhere(tmp_path: Path) -> None:
    with start(LocalStore(tmp_path / "a")) as result:
        result.restore()
        result.append("metrics.jsonl", {"hour": 1})
        result.save({"w": np.arange(4.0)}, {"hour": 1})
        shutil.copytree(tmp_path / "a", tmp_path / "b")  # while it is held
        finish(LocalStore(tmp_path / "b"))
    finish(LocalStore(tmp_path / "a"))
    for path in ("model/state.json", "model/arrays.safetensors", "logs/metrics.jsonl", "inventory.json"):
        assert LocalStore(tmp_path / "a").read(path) == LocalStore(tmp_path / "b").read(path)


def test_the_chain_of_sources_shows_the_state_of_each(tmp_path: Path) -> None:
    def make(name: str, *sources: str) -> None:
        origins = [Source("source", str(tmp_path / source), open_directory(tmp_path / source).id) for source in sources]
        finish(LocalStore(tmp_path / name), config={"name": name}, sources=origins)

    make("data")
    make("augmentation", "data")
    make("model", "augmentation")
    chain = open_directory(tmp_path / "model").chain()
    assert [(link.depth, Path(link.source.path).name, link.state) for link in chain] == [
        (0, "augmentation", "good"),
        (1, "data", "good"),
    ]
    shutil.rmtree(tmp_path / "data")
    make("other")
    shutil.copytree(tmp_path / "other", tmp_path / "data")
    assert [link.state for link in open_directory(tmp_path / "model").chain()] == ["good", "changed"]
    shutil.rmtree(tmp_path / "data")
    assert [link.state for link in open_directory(tmp_path / "model").chain()] == ["good", "missing"]


def test_a_killed_run_is_shown_as_dead(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from samovar.results import ResultPlan, ResultDirectory, begin
from samovar.store import LocalStore
begin(ResultDirectory(LocalStore(sys.argv[1])), ResultPlan("model", {}))
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert open_directory(tmp_path).describe_state().startswith("dead: process ")
    with begin(open_directory(tmp_path), ResultPlan("model", {})):
        assert open_directory(tmp_path).describe_state().startswith(f"running, held by process {os.getpid()} on ")
    assert open_directory(tmp_path).describe_state() == "stopped"


def test_the_heartbeat_writes_the_status(tmp_path: Path) -> None:
    result = begin(ResultDirectory(LocalStore(tmp_path)), ResultPlan("model", {}), heartbeat_seconds=0.001)
    with result:
        (tmp_path / "status.json").unlink()
        seen = threading.Event()
        while not seen.is_set():  # ends when the heartbeat has written the file again
            if (tmp_path / "status.json").exists():
                seen.set()
        assert json.loads((tmp_path / "status.json").read_text())["state"] == "running"


ONE_OF_TWO = """
import sys
from samovar.errors import LeaseHeld
from samovar.results import ResultPlan, ResultDirectory, begin
from samovar.store import LocalStore
for line in sys.stdin:
    try:
        with begin(ResultDirectory(LocalStore(line.strip())), ResultPlan("model", {"a": 1}, b"x")):
            print("runs", flush=True)
            sys.stdin.readline()
    except LeaseHeld as error:
        print(error, flush=True)
        sys.stdin.readline()
    print("ended", flush=True)
"""


def test_of_two_processes_that_start_at_once_one_runs_and_the_other_names_it(tmp_path: Path) -> None:
    pair = [
        subprocess.Popen([sys.executable, "-c", ONE_OF_TWO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]

    def say(text: str) -> list[str]:
        for process in pair:
            assert process.stdin is not None
            process.stdin.write(text + "\n")
            process.stdin.flush()
        return [process.stdout.readline().strip() for process in pair if process.stdout is not None]

    for number in range(100):
        answers = say(str(tmp_path / str(number)))
        assert answers.count("runs") == 1, answers
        winner = answers.index("runs")
        assert f"is in use by process {pair[winner].pid} on " in answers[1 - winner]
        assert say("end it") == ["ended", "ended"]
    for process in pair:
        process.communicate()


def test_one_process_cannot_hold_a_directory_twice(store: Store) -> None:
    with start(store), pytest.raises(LeaseHeld):
        start(store)


def test_a_large_save_needs_little_memory(tmp_path: Path) -> None:
    code = """
import resource, sys
import numpy as np
from samovar.results import ResultPlan, ResultDirectory, begin
from samovar.store import LocalStore
array = np.ones((1 << 27) // 4, np.float32)            # 128 MB
tree = {"a": array, "b": array[::2], "c": [array, array]}
with begin(ResultDirectory(LocalStore(sys.argv[1])), ResultPlan("model", {})) as result:
    result.restore()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result.save(tree, 0)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True, text=True)
    assert float(done.stdout) < 64 + 64  # the half array must be copied once


class Meanwhile(MemoryStore):
    """Something happens just before the next file is read."""

    def __init__(self) -> None:
        super().__init__()
        self.act: Callable[[], None] | None = None

    def map(self, path: str) -> memoryview:
        act, self.act = self.act, None
        if act is not None:
            act()
        return super().map(path)


def test_a_model_is_found_although_the_run_moves_on_meanwhile() -> None:
    store = Meanwhile()
    with start(store) as result:
        result.restore()
        result.save({"w": 1}, None)

        def save_thrice() -> None:
            for number in (2, 3, 4):
                result.save({"w": number}, None)

        store.act = save_thrice
        assert ResultDirectory(store).load_model().tree == {"w": 4}
        store.act = lambda: result.finish({"w": 5}, None)
        assert ResultDirectory(store).load_model().tree == {"w": 5}


# A holder that sleeps too long


class SleepingDisk(Disk):
    """A disk that takes so long over one file that another process takes the directory over."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.files_until_slow = 0
        self._meanwhile = meanwhile

    def fsync(self, descriptor: int) -> None:
        super().fsync(descriptor)
        self.files_until_slow -= 1
        if self.files_until_slow == 0:
            self._meanwhile()


def log_and(act: Callable[[OpenResult], None], result: OpenResult, seconds: float) -> None:
    result.restore()
    result.append("timing.jsonl", {"seconds": seconds})
    act(result)


@pytest.mark.parametrize(
    "act",
    [lambda result: result.finish({"w": 1}, {"hour": 1}), lambda result: result.save({"w": 1}, {"hour": 1})],
    ids=["finish", "save"],
)
@pytest.mark.parametrize("nap", [1, 3, 5])
def test_a_replaced_holder_does_no_harm_to_the_new_one(
    act: Callable[[OpenResult], None], nap: int, tmp_path: Path
) -> None:
    def take_over() -> None:
        later = LocalStore(tmp_path / "result", clock=Clock(steady=lambda: time.monotonic() + 100))
        with start(later) as result:
            log_and(act, result, 22.5)

    def act_asleep(result: OpenResult) -> None:
        disk.files_until_slow = nap
        act(result)

    disk = SleepingDisk(take_over)
    with pytest.raises(LeaseLost, match="took over the lease"), start(LocalStore(tmp_path / "result", disk)) as result:
        log_and(act_asleep, result, 3)
    directory = open_directory(tmp_path / "result")
    assert directory.load_model().tree == {"w": 1}
    with start(directory.store) as result:
        assert result.is_finished or result.restore() is not None
    for path, record in (directory.inventory() if directory.is_finished else {}).items():
        assert map_checked(directory.store, path, record) is not None


def save_hours(store: Store, hours: Sequence[int]) -> None:
    with start(store) as result:
        result.restore()
        for hour in hours:
            result.append("metrics.jsonl", {"hour": hour})
            result.append("timing.jsonl", {"seconds": hour})
            with result.create(f"evaluation/{hour:03d}") as part:
                part.write(b"%d" % hour * 100)
            result.save({"hour": hour}, hour)


@pytest.mark.parametrize("harm", ["flip", "cut", "remove", "empty"])
def test_damaged_predictions_are_found_when_the_run_resumes(harm: str, tmp_path: Path) -> None:
    save_hours(LocalStore(tmp_path), [1, 2])
    _harm(tmp_path / "evaluation/002", harm, 50)
    with start(LocalStore(tmp_path)) as result:
        snapshot = result.restore()
        assert snapshot is not None
        assert snapshot.position == 1
        assert re.search(r"snapshot 2 is damaged: evaluation/002: .*; resuming from snapshot 1", result.notes[0])
        assert [entry.path for entry in LocalStore(tmp_path).list("evaluation")] == ["evaluation/001"]


def test_damage_that_both_snapshots_share_names_the_file_and_removes_nothing(tmp_path: Path) -> None:
    save_hours(LocalStore(tmp_path), [1, 2, 3])
    _harm(tmp_path / "logs/metrics/000001.jsonl", "flip", 3)
    before = [entry.path for entry in LocalStore(tmp_path).list()]
    with (
        pytest.raises(CorruptData, match=r"no usable snapshot: .*metrics/000001.*Without a copy, start again"),
        start(LocalStore(tmp_path)) as result,
    ):
        result.restore()
    assert [entry.path for entry in LocalStore(tmp_path).list()] == before


@pytest.mark.parametrize("harm", ["flip", "remove"])
def test_a_damaged_segment_of_the_timing_log_is_dropped_with_a_note(
    harm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("samovar.results.inventory.MAX_RECENT", 4)  # the damaged one is in a sealed list
    save_hours(LocalStore(tmp_path), [1, 2, 3])
    _harm(tmp_path / "logs/timing/000001.jsonl", harm, 3)
    for is_first in (True, False):
        with start(LocalStore(tmp_path)) as result:
            snapshot = result.restore()
            assert snapshot is not None
            assert [note for note in result.notes if "timing" in note and "its lines are lost" in note] == (
                result.notes if is_first else []
            )
            assert len(result.notes) == is_first
            result.append("timing.jsonl", {"seconds": 4})
            result.save({}, 4)
    with start(LocalStore(tmp_path)) as result:
        assert result.restore() is not None
        result.finish({}, 5)
    lines = [line["seconds"] for line in read_log(LocalStore(tmp_path), "timing.jsonl")]
    assert lines == [2, 3, 4, 4]


def test_the_manifest_of_a_long_run_stays_small_and_any_kept_snapshot_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("samovar.results.inventory.MAX_RECENT", 20)
    sizes = []
    for hour in range(1, 60):
        save_hours(LocalStore(tmp_path), [hour])
        newest = committed_snapshots(LocalStore(tmp_path))[0]
        sizes.append(newest.manifest.size)
    assert max(sizes[40:]) < 2 * max(sizes[:10])
    lists = [entry.path for entry in LocalStore(tmp_path).list("snapshot/artifacts")]
    assert 5 <= len(lists) <= 10
    for harmed in (f"snapshot/{newest.name}/state.json", None):
        if harmed:
            _harm(tmp_path / harmed, "flip", 3)
        with start(LocalStore(tmp_path)) as result:
            snapshot = result.restore()
            assert snapshot is not None
            assert len(snapshot.inventory) == 3 * snapshot.position == 3 * 58
            result.save(snapshot.tree, snapshot.position)
    _harm(tmp_path / lists[0], "flip", 30)
    with pytest.raises(CorruptData, match=f"no usable snapshot: .*{lists[0]}"), start(LocalStore(tmp_path)) as result:
        result.restore()


def test_what_a_replaced_process_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with start(store) as result:
        result.restore()
        result.finish({"w": 1}, 1)
    write_file(store, "snapshot/000001.e0/state.json", b"late")
    with start(store) as result:
        assert result.is_finished
    assert not (tmp_path / "snapshot").exists()
