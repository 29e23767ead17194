"""Ctrl-C and SIGTERM during every long command: real processes and signals, at a known moment."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.cli.commands import run_here
from tests.tables.making import make_table
from tests.training.toys import OFFLINE, ONLINE, SCRIPT, make_hours, write_table
from tests.waiting import wait_until

from samovar.results import open_directory
from samovar.store import LocalStore

STOPPED = 75
NAP = """
import os
from contextlib import suppress
from pathlib import Path

def nap():
    bed = Path(os.environ["BED"])
    if (bed / "nap").exists():
        (bed / "asleep").write_text(str(os.getpid()))
        with suppress(FileNotFoundError):  # woken before it fell asleep
            os.close(os.open(bed / "nap", os.O_RDONLY))  # a pipe: blocks until its other end is opened
"""
STAGE = f"""{NAP}
def main(params, out):
    (out / "half.txt").write_text("half")
    nap()
"""
NAPPING_MODEL = SCRIPT.replace("\nclass Model", f"{NAP}\nclass Model", 1).replace(
    '        bag = inputs["ad"]', '        nap()\n        bag = inputs["ad"]', 1
)


@pytest.fixture
def folder(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(quick_path)
    monkeypatch.setenv("BED", str(quick_path))
    return quick_path


@contextmanager
def started(words: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "samovar", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def interrupt(
    words: Sequence[str],
    is_there: Callable[[], object],
    code: int,
    number: signal.Signals = signal.SIGINT,
    then: Callable[[], object] = lambda: None,
) -> str:
    """Send one signal at that moment. Returns what the process printed, after checks that hold for all commands."""
    with started(words) as process:
        wait_until(lambda: is_there() or process.poll() is not None, "it is running")
        process.send_signal(number)
        then()
        out, said = process.communicate()
    assert (process.returncode, out) == (code, ""), said
    check_last_line(said, words)
    assert number.name in said
    return said


def wake() -> None:
    """The napping process continues, and no other will nap."""
    pipe = os.open("nap", os.O_RDWR)
    os.unlink("nap")
    os.close(pipe)


def press_again_and_again(process: subprocess.Popen[str]) -> str:
    """Ctrl-C until the process ends: the first counts, then the next one that comes at least a second later."""

    def has_ended() -> bool:
        process.send_signal(signal.SIGINT)
        return process.poll() is not None

    wait_until(has_ended, "the second one counts")
    return process.communicate()[1]


def check_last_line(said: str, words: Sequence[str]) -> None:
    assert "Traceback" not in said
    command = said.splitlines()[-1].partition("to continue: ")[2]
    assert command.endswith(" ".join(words)), said


def position(directory: str) -> int:
    try:
        status = open_directory(directory).status
    except ValueError:
        return 0
    return 0 if status is None or status.position is None else int(status.position["next_uri"])


def state(directory: str) -> str:
    return open_directory(directory).describe_state()


def test_an_interrupted_brew_leaves_no_table_and_no_spilled_rows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    rows = "".join(f"{1_609_459_200 + n // 100},{n % 7}\n" for n in range(200_000))
    (folder / "rows.csv").write_text("time,ad\n" + rows)
    recipe = {"source": "rows.csv", "time_field": "time", "categorical_factors": ["ad"], "batch_size": 4}
    (folder / "clicks.json").write_text(json.dumps(recipe))  # minibatches so small that writing takes a while

    def is_writing() -> bool:
        with suppress(FileNotFoundError):  # a file that was moved to its place
            return any(entry.stat().st_size > 10_000 for entry in Path("clicks/.samovar/tmp").glob("*/*"))
        return False

    interrupt(["brew", "clicks.json"], is_writing, 130)
    assert state("clicks") == "stopped"
    assert not Path("clicks/manifest").exists()
    assert not [name for name in os.listdir("tmp") if name.startswith("samovar-brew-")]


def test_an_interrupted_export_leaves_no_partial_file(folder: Path) -> None:
    make_table(LocalStore(folder / "table"), 3000)
    words = ["table", "table", "--export", "rows.parquet"]
    interrupt(words, lambda: any(Path().glob(".samovar-*")), 143, signal.SIGTERM)
    assert os.listdir() == ["table"]


def test_an_interrupted_checksum_ends_its_workers(folder: Path) -> None:
    Path("data").mkdir()
    for name in ("a", "b"):  # hours of zeros to read, no space on the disk
        with Path("data", name).open("w") as file:
            file.truncate(1 << 42)
    children: list[str] = []
    with started(["checksum", "data"]) as process:
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(lambda: len(listed.read_text().split()) == 2, "both read")
        children += listed.read_text().split()
        process.send_signal(signal.SIGINT)
        assert process.communicate()[1].count("\n") == 1
        assert process.returncode == 130
    wait_until(lambda: not any(Path("/proc", child).exists() for child in children), "they have ended")


def test_training_stops_after_its_uri(folder: Path) -> None:
    write_table(folder / "clicks", make_hours([4]))
    data = {**OFFLINE["train_data"], "epoch_count": 1_000_000, "uri_granularity": 1}
    (folder / "offline.json").write_text(json.dumps({**OFFLINE, "train_data": data}))
    (folder / "model.py").write_text(SCRIPT)
    words = ["train", "offline.json", "--script", "model.py"]
    said = interrupt(words, lambda: position("offline") > 2, STOPPED, signal.SIGTERM)
    assert "stopped after epoch " in said
    assert state("offline") == "stopped"


def test_training_that_waits_for_hours_stops_at_once(folder: Path) -> None:
    write_table(folder / "clicks", make_hours([1, 1]), complete_until=1_609_459_200 + 2 * 3600)
    data = {**ONLINE["train_data"], "end_date": "2021-01-01T05:00"}
    config = {**ONLINE, "train_data": data, "evaluation": {"eval_confs": []}, "follow": True}
    (folder / "online.json").write_text(json.dumps(config))
    (folder / "model.py").write_text(SCRIPT)
    said = interrupt(["train", "online.json", "--script", "model.py"], lambda: position("online") == 2, STOPPED)
    assert "stopped while waiting for new hours (SIGINT)" in said


def test_stuck_training_ends_with_the_second_signal_and_a_prediction_resumes(folder: Path) -> None:
    write_table(folder / "clicks", make_hours([1, 1, 1]))
    (folder / "online.json").write_text(json.dumps(ONLINE))
    (folder / "model.py").write_text(NAPPING_MODEL)
    train = ["train", "online.json", "--script", "model.py"]
    os.mkfifo("nap")
    with started(train) as process:
        wait_until(Path("asleep").exists, "it hangs")
        said = press_again_and_again(process)
    assert process.returncode == STOPPED
    assert said.startswith("stopped at once (SIGINT)"), said
    check_last_line(said, train)
    wake()
    assert run_here(train) == "online: finished\n"

    os.mkfifo("nap")
    Path("asleep").unlink()
    predict = ["predict", "online", "--table", "clicks", "--out", "predicted"]
    said = interrupt(predict, Path("asleep").exists, STOPPED, then=wake)
    assert said.startswith("SIGINT: stopping after 2021-01-01T00:00 with a snapshot; send it again to stop at once\n")
    assert (state("predicted"), position("predicted")) == ("stopped", 1)
    assert run_here(predict) == "predicted: 96 predictions\n"


def test_an_interrupted_stage_starts_over_and_an_interrupted_replay_resumes(folder: Path) -> None:
    (folder / "stage.py").write_text(STAGE)
    (folder / "stage.json").write_text("{}")
    words = ["run", "stage.py", "-c", "stage.json"]
    os.mkfifo("nap")
    interrupt(words, Path("asleep").exists, 130)
    assert state("stage") == "stopped"
    wake()
    assert run_here(words) == "stage: finished\n"

    os.mkfifo("nap")
    Path("asleep").unlink()
    replay = ["replay", "stage", "--into", "again"]
    interrupt(replay, Path("asleep").exists, 143, signal.SIGTERM)
    wake()
    assert run_here(replay).startswith("stage: equal, ")


def test_an_interrupted_experiment_ends_its_parts_and_resumes(folder: Path) -> None:
    (folder / "stage.py").write_text(STAGE)
    (folder / "stage.json").write_text("{}")
    experiment = {"base": "stage.json", "script": "stage.py", "kind": "run", "list": [{"seed": 1}]}
    (folder / "exp.json").write_text(json.dumps(experiment))
    os.mkfifo("nap")
    words = ["experiment", "exp.json"]
    interrupt(words, Path("asleep").exists, STOPPED)
    assert not Path("/proc", Path("asleep").read_text()).exists()
    wake()
    assert run_here(words).splitlines()[1].split()[:2] == ["0", "done"]


def test_an_interrupted_verify_resume_leaves_its_folder_empty(folder: Path) -> None:
    write_table(folder / "clicks", make_hours([1, 1]))
    (folder / "online.json").write_text(json.dumps(ONLINE))
    (folder / "model.py").write_text(NAPPING_MODEL)
    os.mkfifo("nap")
    words = ["verify-resume", "online.json", "--script", "model.py", "--out", "proof"]
    interrupt(words, Path("asleep").exists, 143, signal.SIGTERM)
    assert not Path("/proc", Path("asleep").read_text()).exists()
    assert os.listdir("proof") == []


def test_a_second_signal_ends_a_command_that_ignores_the_first(folder: Path) -> None:
    (folder / "stage.json").write_text("{}")
    (folder / "stage.py").write_text(STAGE.replace("    nap()", "    try:\n        nap()\n    finally:\n        nap()"))
    os.mkfifo("nap")
    words = ["run", "stage.py", "-c", "stage.json"]
    with started(words) as process:
        wait_until(Path("asleep").exists, "it is running")
        said = press_again_and_again(process)
    assert process.returncode == 130
    check_last_line(said, words)


def test_an_interrupt_while_the_command_line_loads_is_no_traceback(folder: Path) -> None:
    """The first module loaded after signals are handled reports itself, and waits."""
    code = f"""
import sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "samovar.cli.app":
            {NAP.strip().replace(chr(10), chr(10) + "            ")}
            nap()
sys.meta_path.insert(0, Finder())
sys.argv = ["samovar", "ls"]
from samovar.cli import main
main()
"""
    os.mkfifo("nap")
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as process:
        wait_until(Path("asleep").exists, "it loads")
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1]
    assert process.returncode == 130
    assert said == "interrupted (SIGINT); to continue: samovar ls\n"
