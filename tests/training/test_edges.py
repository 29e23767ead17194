"""Mistakes that show only at the second start, and other corners of a run."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.training.test_online import MERGED, columns
from tests.training.toys import (
    FIRST,
    HOUR,
    OFFLINE,
    ONLINE,
    SCRIPT,
    changed,
    make_hours,
    make_toy,
    metrics,
    run,
    run_well,
    start,
    write_table,
)
from tests.waiting import wait_until

from samovar.errors import BadInput
from samovar.provenance.contract import compare, contract_of
from samovar.provenance.verify import Child, run_in_child, start_child, verify_resume
from samovar.results import ResultDirectory, open_directory
from samovar.results.snapshot import committed_snapshots
from samovar.store import LocalStore, MemoryStore
from samovar.testing.disks import KillingDisk
from samovar.training.dry_run import try_batches
from samovar.training.inputs import TableOpener
from samovar.training.predict import FOLDER, PredictRequest, predict
from samovar.training.script import read_script

RATED = SCRIPT.replace("lr=1.0", "lr=params.lr").replace('"net.lr": Exponential(params.lr, 0.95), ', "")


@pytest.fixture
def folder(quick_path: Path) -> Path:
    write_table(quick_path / "clicks", make_hours([3, 2, 2, 4]))
    return quick_path


def wait_for(is_so: Callable[[], bool], child: Child) -> None:
    """While the child lives."""

    def look() -> bool:
        assert child.look() is None
        return is_so()

    wait_until(look, "the child is so far")


def learning_rate(out: Path) -> float:
    rate: float = open_directory(out).load_model().tree["optimizers"]["net"]["param_groups"][0]["lr"]
    return rate


@pytest.mark.parametrize("lacking", [FIRST + 2 * HOUR, FIRST + 3 * HOUR])
def test_a_join_that_does_not_fit_is_an_error_at_every_start(quick_path: Path, lacking: int) -> None:
    rows = make_hours([3, 2, 2, 4])
    left, schema = columns(["ad", "clicked", "hit"], [row for row in rows if row.hour != lacking])
    write_table(quick_path / "left", left, schema, table_id="left")
    right, schema = columns(["price", "hit", "user"], rows)
    write_table(quick_path / "right", right, schema, table_id="right")
    change = {"end_date": "2021-01-01T04:00"}
    request = make_toy(quick_path, {**ONLINE, "train_data": {"merge_tables": MERGED, **change}, "evaluation": {}})
    for _ in range(2):
        ended = run(request)
        assert ended.code == 2
        assert "left has no minibatch 0 of hour" in ended.output


def test_a_new_rate_is_in_force_after_init_from_and_after_an_accepted_script(folder: Path) -> None:
    request = make_toy(folder, OFFLINE, {"train_data.epoch_count": 1}, RATED)
    assert learning_rate(run_well(request)) == 0.05
    tuned = changed(request, "tuned", {"init_from": "model", "model.lr": 0.0001})
    assert learning_rate(run_well(tuned)) == 0.0001
    longer = replace(make_toy(folder, OFFLINE, {}, RATED), out=folder / "longer")
    assert run(longer, KillingDisk(300)).was_killed
    assert open_directory(longer.out).load_model().position["next_uri"] > 0
    slower = replace(make_toy(folder, OFFLINE, {}, RATED.replace("lr=params.lr", "lr=params.lr / 10")), out=longer.out)
    assert learning_rate(run_well(replace(slower, accept_script=True))) == pytest.approx(0.005)


def test_another_table_in_the_place_of_a_followed_one_is_refused(quick_path: Path) -> None:
    write_table(quick_path / "clicks", make_hours([2, 1]), complete_until=FIRST + 2 * HOUR)
    change = {"follow": True, "train_data.end_date": "2021-01-01T04:00"}
    request = make_toy(quick_path, {**ONLINE, "evaluation": {}}, change)
    child = start(request)
    wait_for(lambda: (request.out / "status.json").exists() and _next_uri(request.out) == 2, child)
    other = make_hours([1, 1, 3, 3], number=5000)
    write_table(quick_path / "other", other, table_id="other", complete_until=FIRST + 4 * HOUR)
    shutil.move(quick_path / "clicks", quick_path / "old")
    shutil.move(quick_path / "other", quick_path / "clicks")
    ended = child.wait()
    assert ended.code == 2, ended.output
    assert "is another table now" in ended.output or "is missing" in ended.output or "nothing there" in ended.output


def _next_uri(out: Path) -> int:
    names = committed_snapshots(LocalStore(out))
    return int(open_directory(out).load_model().position["next_uri"]) if names else 0


@pytest.mark.parametrize("num_batches", [2, 3, 100])
def test_a_dry_run_waits_for_no_hour(quick_path: Path, num_batches: int) -> None:
    write_table(quick_path / "clicks", make_hours([2, 1]), complete_until=FIRST + 2 * HOUR)
    request = make_toy(quick_path, ONLINE, {"follow": True, "evaluation": None})
    ended = run_in_child(lambda: print(try_batches(request, num_batches)), quick_path / "dry.log")
    assert ended.code == 0, ended.output
    assert f"{min(num_batches, 3)} minibatches" in ended.output


def test_a_killed_prediction_of_a_table_that_grew_ends_as_a_straight_one(folder: Path) -> None:
    drawing = SCRIPT.replace("torch.sigmoid, policies", "draw, policies").replace(
        "def build", "def draw(output):\n    return torch.sigmoid(output) + torch.rand(1)\n\n\ndef build"
    )
    model = run_well(make_toy(folder, ONLINE, {"evaluation": None}, drawing))
    request = PredictRequest(model, folder / "clicks", folder / "straight", ["hit"], snapshot_seconds=0)
    assert run_in_child(lambda: predict(request), folder / "log").code == 0
    killed = replace(request, out=folder / "killed")
    child = start_child(lambda: predict(killed), folder / "log")
    wait_for(lambda: _num_snapshots(killed.out) >= 2, child)
    assert child.wait(0).was_killed
    write_table(folder / "clicks", make_hours([1], FIRST + 4 * HOUR))
    ended = run_in_child(lambda: predict(killed), folder / "log")
    assert ended.code == 0, ended.output
    assert compare(contract_of(request.out), contract_of(killed.out)) == []
    assert len(list((killed.out / FOLDER).iterdir())) == 4


def _num_snapshots(out: Path) -> int:
    names = committed_snapshots(ResultDirectory(LocalStore(out)).store) if out.exists() else []
    return names[0].number if names else 0


def test_compiled_modules_beside_kept_ones_are_no_code(folder: Path) -> None:
    (folder / "layers.py").write_text("WIDTH = 8\n")
    script = SCRIPT.replace("import samovar\n", "import samovar\nimport layers\n", 1)
    out = run_well(make_toy(folder, OFFLINE, {}, script))
    cache = out / "all_files" / "__pycache__"
    cache.mkdir(exist_ok=True)
    (cache / f"layers.{sys.implementation.cache_tag}.pyc").write_bytes(b"compiled")
    assert sorted(read_script(out / "script.py").contents) == ["layers.py"]


FORGETFUL = SCRIPT.replace(
    "def loss(output, targets, smoothing):\n",
    "calls = []\n\n\ndef loss(output, targets, smoothing):\n    calls.append(1)\n    smoothing = 0.001 * len(calls)\n",
)


def test_a_kill_counts_only_where_there_is_something_to_go_on_from(folder: Path) -> None:
    request = make_toy(folder, OFFLINE, {}, FORGETFUL)

    def verify() -> None:  # one kill alone might come after the last minibatch, where nothing is left to forget
        done = verify_resume(request, 4, folder / "verified")
        print("DIFFERENT" if done.differences else "SAME")

    ended = run_in_child(verify, folder / "verify.log")
    assert "DIFFERENT" in ended.output, ended.output
    with pytest.raises(BadInput, match="is there already"):
        verify_resume(request, 4, folder / "verified")


HALVING = """
class Halving(samovar.Policy):
    def __init__(self):
        self.value, self.told = 1.0, 0

    def epoch_started(self, epoch):
        self.told += 1


"""


@pytest.mark.parametrize("granularity", [100, 3, 1])
def test_policies_are_told_once_an_epoch_whatever_its_uris_are(folder: Path, granularity: int) -> None:
    script = SCRIPT.replace("def build", f"{HALVING}def build").replace(
        '"smoothing": 0.01}', '"smoothing": 0.01, "net.eps": halving, "net.weight_decay": halving}'
    )
    script = script.replace("    model = Model(", "    halving = Halving()\n    model = Model(")
    out = run_well(make_toy(folder, OFFLINE, {"train_data.uri_granularity": granularity}, script))
    policies = open_directory(out).load_model().tree["policies"]
    assert policies["net.eps"]["told"] == 2


def test_plateau_and_restarts_work_online_and_survive_kills(quick_path: Path) -> None:
    write_table(quick_path / "clicks", make_hours([2] * 12))
    script = SCRIPT.replace(
        "def build", "from samovar.callbacks import Countdown, Plateau, RateFactor, Restarts\n\n\ndef build"
    )
    script = script.replace(
        'policies = {"net.lr": Exponential(params.lr, 0.95), ', 'policies = {"net.lr_factor": factor, '
    )
    script = script.replace("    model = Model(", "    factor = RateFactor()\n    model = Model(")
    script = script.replace("lr=1.0", "lr=params.lr").replace(
        "    return samovar.Learner(",
        "    plateau = Plateau(Countdown(9), factor, lambda run: 1.0)\n    return samovar.Learner(",
    )
    script = script.replace("[CountHours()]", "[CountHours(), plateau, Restarts(plateau)]")
    request = make_toy(quick_path, {**ONLINE, "evaluation": {}}, {}, script)
    straight = run_well(request)
    rate = open_directory(straight).load_model().tree["policies"]["net.lr_factor"]["value"]
    assert rate == pytest.approx(0.618**2)  # after hours 3 and 6 without progress; after hour 2 there was a restart
    killed = changed(request, "killed")
    for point in (300, 500):
        run(killed, KillingDisk(point))
    assert compare(contract_of(straight), contract_of(run_well(killed))) == []


def test_a_child_of_a_process_that_used_torchs_threads_can_use_them_too(quick_path: Path) -> None:
    def multiply() -> float:
        torch.set_num_threads(2)
        square = torch.ones(512, 512)
        return float((square @ square).sum() + torch.ones(1 << 20).exp().sum())

    expected = multiply()
    ended = run_in_child(lambda: print(multiply()), quick_path / "log", kill_after_seconds=60)
    assert (ended.code, float(ended.output)) == (0, expected)
    assert multiply() == expected


def test_a_script_changes_the_threads_neither_of_a_new_run_nor_of_one_that_goes_on(folder: Path) -> None:
    seen = "run.metrics['threads'] = torch.get_num_threads()"
    script = SCRIPT.replace("self.hours += 1", f"self.hours += 1\n        {seen}")
    script = script.replace("def build(params):", "def build(params):\n    torch.set_num_threads(1)")
    request = make_toy(folder, OFFLINE, {"num_threads": 2}, script)
    assert run(request, KillingDisk(400)).code < 0
    assert committed_snapshots(LocalStore(request.out))
    lines = metrics(run_well(request))
    assert [line["metrics"]["threads"] for line in lines] == [2] * len(lines)


def test_a_number_that_a_callback_leaves_is_logged_whatever_its_name(folder: Path) -> None:
    script = SCRIPT.replace("self.hours += 1", "self.hours += 1\n        run.metrics['evaluation'] = self.hours")
    lines = metrics(run_well(make_toy(folder, OFFLINE, None, script)))
    assert [line["metrics"]["evaluation"] for line in lines] == list(range(1, len(lines) + 1))


def test_a_dry_run_starts_from_the_model_that_is_named(folder: Path) -> None:
    request = make_toy(folder, OFFLINE, None, RATED)
    fresh = try_batches(request, 1)
    run_well(request)
    begun = try_batches(changed(request, "next", {"init_from": "model"}), 1)
    assert fresh.splitlines()[-1] != begun.splitlines()[-1]
    assert try_batches(request, 1).splitlines()[-1] == fresh.splitlines()[-1]


def test_a_look_for_new_hours_reads_no_old_manifests(folder: Path) -> None:
    for number in range(1, 4):
        write_table(folder / "live", make_hours([1], FIRST + number * HOUR), complete_until=FIRST + (number + 1) * HOUR)
    data = TableOpener(folder, ResultDirectory(MemoryStore())).source("", "live", None, None, (), ())
    for version in (2, 3):
        (folder / "live" / "manifest" / f"{version:06d}.json").unlink()
    assert data.reopened().inputs[0].table is data.inputs[0].table
