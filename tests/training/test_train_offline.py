"""Offline training: epochs, kills, signals, resuming, scripts that fail or change."""

import errno
import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from tests.places import local
from tests.training.toys import (
    OFFLINE,
    SCRIPT,
    changed,
    make_hours,
    make_minibatch,
    make_toy,
    metrics,
    run,
    run_well,
    write_table,
)

from samovar.config import merge
from samovar.provenance.contract import compare, contract_of
from samovar.provenance.verify import run_in_child, verify_resume
from samovar.results import open_directory
from samovar.results.snapshot import committed_snapshots
from samovar.runner.compiled import compile_for_all_shapes
from samovar.store import LocalStore
from samovar.testing.disks import CountingDisk, FailingDisk, KillingDisk
from samovar.training.request import make_request
from samovar.training.session import run_training

EVALUATION = {"evaluation": {"eval_confs": [{"name": "valid", "keys": ["hit", "user"], "table": "valid"}]}}


@pytest.fixture
def folder(quick_path: Path) -> Path:
    write_table(quick_path / "clicks", make_hours([4, 3]))
    write_table(quick_path / "valid", make_hours([2], number=500), table_id="valid")
    return quick_path


def same(left: Path, right: Path) -> list[str]:
    return compare(contract_of(left), contract_of(right))


def test_a_model_is_trained_evaluated_and_finished(folder: Path) -> None:
    out = run_well(make_toy(folder, OFFLINE, EVALUATION))
    lines = metrics(out)
    assert [line["name"] for line in lines[:3]] == [
        f"epoch 0, minibatches {span}" for span in ("0 to 2", "3 to 5", "6 to 6")
    ]
    assert [(line["kind"], line.get("num_batches")) for line in lines] == [
        ("train", 3), ("train", 3), ("train", 1), ("evaluation", None),
        ("train", 3), ("train", 3), ("train", 1), ("evaluation", None), ("best", None),
    ]  # fmt: skip
    rows = pq.read_table(out / "evaluation" / "valid" / "predictions.parquet")
    assert rows.column_names == ["hit", "user", "clicked", "prediction"]
    assert rows.num_rows == 64
    assert rows["user"].null_count == 12
    assert open_directory(out).is_finished
    assert not (out / "snapshot").exists()
    tree = open_directory(out).load_model().tree
    assert tree["callbacks"] == {"CountHours": {"hours": 6}}
    assert tree["run"]["next_uri"] == 6


def test_a_finished_model_is_not_trained_again_even_if_its_script_changed_and_its_table_is_gone(folder: Path) -> None:
    request = make_toy(folder, OFFLINE)
    out = run_well(request)
    before = contract_of(out)
    shutil.rmtree(folder / "clicks")
    run_well(make_toy(folder, OFFLINE, script="raise SystemExit('never run')"))
    assert contract_of(out) == before
    ended = run(changed(request, "model", {"seed": 5}))
    assert ended.code == 2
    assert "seed" in ended.output


def test_the_last_uri_is_cut_at_max_iter(folder: Path) -> None:
    out = run_well(make_toy(folder, OFFLINE, {"train_data.max_iter": 8}))
    assert [line["num_batches"] for line in metrics(out)] == [3, 3, 1, 1]
    assert open_directory(out).load_model().tree["run"]["num_batches"] == 8


def test_each_epoch_is_shuffled_differently_and_a_killed_one_the_same_way(folder: Path) -> None:
    request = make_toy(folder, OFFLINE, {"train_data.shuffle": True, "train_data.uri_granularity": 2})
    out = run_well(request)
    plain = run_well(changed(request, "plain", {"train_data.shuffle": False}))
    assert any(line.startswith("model/arrays.safetensors: differs") for line in same(out, plain))
    killed = changed(request, "killed")
    assert run(killed, KillingDisk(300)).was_killed
    assert same(run_well(killed), out) == []


def test_keys_that_may_differ_change_no_bit(folder: Path) -> None:
    request = make_toy(folder, OFFLINE, EVALUATION)
    out = run_well(request)
    changes: list[dict[str, Any]] = [
        {"train_data.num_downloaders": 4, "train_data.num_parsers": 4},
        {"train_data.num_downloaders": 1, "train_data.num_parsers": 1, "train_data.max_cache_size": 1},
        {"snapshotter.frequency": 3600, "progress": False, "ttl_filter": {"frequency": 7}},
    ]
    for number, change in enumerate(changes):
        assert same(run_well(changed(request, f"other{number}", change)), out) == []


def test_a_directory_moved_mid_run_resumes_elsewhere(folder: Path) -> None:
    request = make_toy(folder, OFFLINE)
    out = run_well(changed(request, "straight"))
    assert run(request, KillingDisk(400)).was_killed
    assert (local(request.out) / "snapshot").exists()
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    for name in ("clicks", "model", "script.py", "config.json"):
        (folder / name).rename(elsewhere / name)
    moved = make_toy(elsewhere, OFFLINE)
    assert same(run_well(moved), out) == []


def test_kills_at_disk_operations_throughout_the_run_and_its_finish_change_nothing(folder: Path) -> None:
    request = make_toy(folder, OFFLINE, EVALUATION)
    straight = changed(request, "straight")
    points_file = folder / "points"

    class Reporting(CountingDisk):
        def pass_point(self) -> None:
            super().pass_point()
            points_file.write_text(str(self.points))

    assert run(straight, Reporting()).code == 0
    total = int(points_file.read_text())
    places = [*range(5, total, total // 6), *range(total - 40, total, 8)]
    for place in places:
        shutil.rmtree(local(request.out), ignore_errors=True)
        assert run(request, KillingDisk(place)).was_killed, place
        assert same(run_well(request), local(straight.out)) == [], place


def test_thirty_kills_at_random_instants_change_no_bit(folder: Path) -> None:
    request = make_toy(folder, OFFLINE, EVALUATION | {"train_data.shuffle": True, "train_data.epoch_count": 4})
    done = verify_resume(request, 30, folder / "verify")
    assert (done.num_kills, done.differences) == (30, [])


def test_after_a_damaged_newest_snapshot_the_one_before_is_used(folder: Path) -> None:
    request = make_toy(folder, OFFLINE)
    straight = run_well(changed(request, "straight"))
    assert run(request, KillingDisk(500)).was_killed
    newest = sorted((local(request.out) / "snapshot").iterdir())[-1] / "arrays.safetensors"
    data = bytearray(newest.read_bytes())
    data[-9] ^= 1
    newest.write_bytes(data)
    assert same(run_well(request), straight) == []


def test_external_stuff_is_never_touched(folder: Path) -> None:
    request = make_toy(folder, OFFLINE)
    (local(request.out) / "external_stuff").mkdir(parents=True)
    (local(request.out) / "external_stuff" / "mine.txt").write_text("mine")
    run_well(request)
    assert (local(request.out) / "external_stuff" / "mine.txt").read_text() == "mine"


def test_a_new_directory_starts_from_a_finished_model(folder: Path) -> None:
    first = make_toy(folder, OFFLINE)
    origin = run_well(first)
    second = changed(first, "second", {"init_from": "model", "train_data.epoch_count": 1})
    straight = run_well(second)
    tree = open_directory(straight).load_model().tree
    old = open_directory(origin).load_model().tree
    steps = [each["optimizers"]["net"]["state"][0]["step"].item() for each in (old, tree)]
    assert steps == [14, 21]
    assert tree["run"]["num_batches"] == 7
    chain = [(link.source.key, link.state) for link in open_directory(straight).chain()]
    assert ("init_from", "good") in chain
    killed = changed(second, "killed")
    assert run(killed, KillingDisk(300)).was_killed
    shutil.rmtree(origin)  # the started run has its own copy
    assert same(run_well(killed), straight) == []


@pytest.mark.parametrize(
    ("change", "old", "new", "message"),
    [
        ({"train_data.targets": []}, "", "", "the loss reads 'clicked', which is not in `targets`"),
        ({}, 'inputs["price"]', 'inputs["prise"]', "the model reads 'prise', which is not one of its features"),
        ({}, "    wanted = ", "    raise ValueError('boom')\n    wanted = ", "ValueError: boom"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_first_step_is_clear_and_the_corrected_config_can_run(
    folder: Path, change: dict[str, Any], old: str, new: str, message: str
) -> None:
    ended = run(make_toy(folder, OFFLINE, {**change, "model.dim": 3}, SCRIPT.replace(old, new)))
    assert message in ended.output
    assert "KeyError" not in ended.output
    assert ended.code == (1 if "boom" in message else 2)
    run_well(make_toy(folder, OFFLINE))


def script_that_acts(folder: Path, action: str) -> str:
    """A script that does something once, after its second minibatch, if there is a file `act`."""
    return SCRIPT.replace(
        "    def on_uri_end(self, run):\n",
        "    def on_batch_end(self, run):\n"
        "        import os, pathlib\n"
        f"        act = pathlib.Path({str(folder / 'act')!r})\n"
        "        if run.num_batches == 2 and act.exists():\n"
        "            act.unlink()\n"
        f"            {action}\n"
        "    def on_uri_end(self, run):\n",
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_after_the_uri_with_a_snapshot(folder: Path, number: int) -> None:
    script = script_that_acts(folder, f"os.kill(os.getpid(), {int(number)})")
    request = make_toy(folder, OFFLINE, {"snapshotter.frequency": 3600}, script)
    straight = run_well(changed(request, "straight"))
    (folder / "act").touch()
    stopped = run(request)
    assert stopped.code == 75, stopped.output
    assert "stopped after epoch 0, minibatches 0 to 2 (SIG" in stopped.output
    status = json.loads((local(request.out) / "status.json").read_text())
    assert (status["state"], status["position"]["next_uri"]) == ("stopped", 1)
    assert same(run_well(request), straight) == []


def test_a_second_signal_stops_at_once_and_the_run_can_resume(folder: Path) -> None:
    script = script_that_acts(folder, "[os.kill(os.getpid(), 15) for _ in iter(int, 1)]")  # until one counts again
    request = make_toy(folder, OFFLINE, {}, script)
    straight = run_well(changed(request, "straight"))
    (folder / "act").touch()
    ended = run(request)
    assert ended.code == 75
    assert "stopped at once (SIGTERM); to continue: " in ended.output
    assert not (local(request.out) / "snapshot").exists()
    assert same(run_well(request), straight) == []


def test_a_stop_file_stops_after_the_uri_and_is_removed(folder: Path) -> None:
    request = make_toy(folder, OFFLINE, {"snapshotter.frequency": 3600})
    straight = run_well(changed(request, "straight"))
    script = script_that_acts(folder, f"pathlib.Path({str(request.out / 'stop')!r}).touch()")
    request = make_toy(folder, OFFLINE, {"snapshotter.frequency": 3600}, script)
    (folder / "act").touch()
    stopped = run(request)
    assert stopped.code == 75, stopped.output
    assert not (local(request.out) / "stop").exists()
    assert same(run_well(request), straight) == []


def test_a_model_that_raises_is_fixed_accepted_and_resumed(folder: Path) -> None:
    straight = run_well(changed(make_toy(folder, OFFLINE), "straight"))
    broken = SCRIPT.replace(
        "        bag = inputs", "        assert len(self.seen) < 5\n        self.seen.append(0)\n        bag = inputs"
    )
    broken = broken.replace(
        "        self.buckets = buckets\n", "        self.buckets = buckets\n        self.seen = []\n"
    )
    failed = run(make_toy(folder, OFFLINE, {}, broken))
    assert failed.code == 1
    assert "AssertionError" in failed.output
    assert "in minibatch 2 of epoch 0, minibatches 3 to 5" in failed.output
    fixed = make_toy(folder, OFFLINE)
    refused = run(fixed)
    assert refused.code == 2
    assert "--accept-script" in refused.output
    assert same(run_well(replace(fixed, accept_script=True)), straight) == []
    assert (local(fixed.out) / "script.1.py").read_text() == broken
    changes = open_directory(fixed.out).store.attributes().values["script_changes"]
    assert changes[0]["position"]["next_uri"] == 1


def test_a_callback_that_ends_the_process_does_not_finish_the_run(folder: Path) -> None:
    script = SCRIPT.replace(
        "    def on_uri_end(self, run):\n", "    def on_uri_end(self, run):\n        raise SystemExit(0)\n"
    )
    ended = run(make_toy(folder, OFFLINE, script=script))
    assert ended.code == 1
    assert "code used in training called sys.exit(0). Return normally, or raise an error instead" in ended.output
    assert open_directory(folder / "model").condition == "failed"


def test_weights_that_are_not_finite_are_named_and_the_last_good_snapshot_is_kept(folder: Path) -> None:
    script = script_that_acts(folder, "run.model.net[0].weight.data[0, 0] = float('nan')")
    request = make_toy(folder, OFFLINE, {"train_data.uri_granularity": 1}, script)
    straight = run_well(changed(request, "straight"))
    (folder / "act").touch()
    failed = run(request)
    assert failed.code == 1
    assert "epoch 0, minibatches 1 to 1: the weights 'net.0.weight' are not finite" in failed.output
    assert open_directory(request.out).load_model().position["next_uri"] == 1
    assert same(run_well(request), straight) == []


def test_a_loss_that_is_not_finite_is_named(folder: Path) -> None:
    script = SCRIPT.replace("return nn.functional.binary", "return float('nan') * nn.functional.binary")
    failed = run(make_toy(folder, OFFLINE, {}, script))
    assert failed.code == 1
    assert "epoch 0, minibatches 0 to 2, minibatch 0: the loss is nan" in failed.output


def test_a_policy_can_end_the_run_normally(folder: Path) -> None:
    script = SCRIPT.replace('"smoothing": 0.01}', '"smoothing": 0.01, "stop": LossStop(1)}')
    script = script.replace("import Exponential", "import Exponential, LossStop").replace("smoothing):", "smoothing):")
    script = script.replace("Exponential(params.lr, 0.95)", "Exponential(params.lr, 100.0)")
    request = make_toy(folder, OFFLINE, {"train_data.epoch_count": 5, "model.lr": 0.3}, script)
    out = run_well(request)
    lines = metrics(out)
    assert lines[-1]["kind"] == "end"
    assert "the mean train loss" in lines[-1]["reason"]
    assert open_directory(out).is_finished
    killed = changed(request, "killed")
    assert run(killed, KillingDisk(400)).was_killed
    assert same(run_well(killed), out) == []


@pytest.mark.parametrize("operation", [60, 150, 220])
def test_a_full_disk_is_reported_and_loses_nothing(folder: Path, operation: int) -> None:
    request = make_toy(folder, OFFLINE, EVALUATION)
    straight = run_well(changed(request, "straight"))
    failed = run(request, FailingDisk(operation, errno.ENOSPC))
    assert failed.code == 1, failed.output
    assert "No space left" in failed.output or "full" in failed.output
    assert same(run_well(request), straight) == []


def test_null_drops_a_section_of_the_config(folder: Path) -> None:
    request = make_toy(folder, OFFLINE, {**EVALUATION, "snapshotter": {"frequency": 1}})
    out = run_well(replace(request, tree=merge(request.tree, {"evaluation": None})))
    assert not (out / "evaluation").exists()
    assert "evaluation" not in json.loads((out / "model_config.json").read_text())


def test_the_kept_config_and_script_can_be_run_as_they_are(folder: Path) -> None:
    out = run_well(make_toy(folder, OFFLINE, EVALUATION))
    again = make_request(out / "model_config.json", out / "script.py", out=folder / "again")
    assert same(run_well(again), out) == []


def test_a_copied_directory_resumes_with_its_own_config_and_script(folder: Path) -> None:
    request = make_toy(folder, OFFLINE)
    straight = run_well(changed(request, "straight"))
    assert run(request, KillingDisk(400)).was_killed
    shutil.copytree(local(request.out), folder / "copy")
    own = make_request(folder / "copy" / "model_config.json", folder / "copy" / "script.py")
    assert own.out.resolve() == folder / "copy"
    assert same(run_well(own), straight) == []
    assert not open_directory(request.out).is_finished


def test_a_resumed_run_uses_the_number_of_threads_it_started_with(folder: Path) -> None:
    request = make_toy(folder, OFFLINE, {"num_threads": 1})
    assert run(request, KillingDisk(300)).was_killed

    def resume() -> None:
        torch.set_num_threads(3)
        print(run_training(request).notes)

    ended = run_in_child(resume, folder / "log")
    assert ended.code == 0, ended.output
    assert "threads" not in ended.output


RATED = SCRIPT.replace("lr=1.0", "lr=params.lr").replace('"net.lr": Exponential(params.lr, 0.95), ', "")


def learning_rate(out: Path) -> float:
    rate: float = open_directory(out).load_model().tree["optimizers"]["net"]["param_groups"][0]["lr"]
    return rate


def test_a_new_learning_rate_applies_after_init_from_and_after_an_accepted_script(folder: Path) -> None:
    request = make_toy(folder, OFFLINE, {"train_data.epoch_count": 1}, RATED)
    assert learning_rate(run_well(request)) == 0.05
    tuned = changed(request, "tuned", {"init_from": "model", "model.lr": 0.0001})
    assert learning_rate(run_well(tuned)) == 0.0001
    longer = replace(make_toy(folder, OFFLINE, {}, RATED), out=folder / "longer")
    assert run(longer, KillingDisk(300)).was_killed
    assert open_directory(longer.out).load_model().position["next_uri"] > 0
    slower = replace(make_toy(folder, OFFLINE, {}, RATED.replace("lr=params.lr", "lr=params.lr / 10")), out=longer.out)
    assert learning_rate(run_well(replace(slower, accept_script=True))) == pytest.approx(0.005)


HALVING = """
class Halving(samovar.Policy):
    def __init__(self):
        self.value, self.calls = 1.0, 0

    def epoch_started(self, epoch):
        self.calls += 1


"""


@pytest.mark.parametrize("granularity", [100, 3, 1])
def test_policies_are_called_once_per_epoch_whatever_its_uris_are(folder: Path, granularity: int) -> None:
    script = SCRIPT.replace("def build", f"{HALVING}def build").replace(
        '"smoothing": 0.01}', '"smoothing": 0.01, "net.eps": halving, "net.weight_decay": halving}'
    )
    script = script.replace("    model = Model(", "    halving = Halving()\n    model = Model(")
    out = run_well(make_toy(folder, OFFLINE, {"train_data.uri_granularity": granularity}, script))
    policies = open_directory(out).load_model().tree["policies"]
    assert policies["net.eps"]["calls"] == 2


def test_a_script_cannot_change_the_threads_of_a_new_or_a_resumed_run(folder: Path) -> None:
    seen = "run.metrics['threads'] = torch.get_num_threads()"
    script = SCRIPT.replace("self.hours += 1", f"self.hours += 1\n        {seen}")
    script = script.replace("def build(params):", "def build(params):\n    torch.set_num_threads(1)")
    request = make_toy(folder, OFFLINE, {"num_threads": 2}, script)
    assert run(request, KillingDisk(400)).code < 0
    assert committed_snapshots(LocalStore(local(request.out)))
    lines = metrics(run_well(request))
    assert [line["metrics"]["threads"] for line in lines] == [2] * len(lines)


def test_a_metric_of_a_callback_is_logged_whatever_its_name(folder: Path) -> None:
    script = SCRIPT.replace("self.hours += 1", "self.hours += 1\n        run.metrics['evaluation'] = self.hours")
    lines = metrics(run_well(make_toy(folder, OFFLINE, None, script)))
    assert [line["metrics"]["evaluation"] for line in lines] == list(range(1, len(lines) + 1))


COMPILED = SCRIPT.replace(
    "    optimizers =",
    """    import warnings
    import torch._dynamo
    torch._dynamo.reset()
    warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor")  # of torch itself

    def count(graph, inputs):
        with open("compiled", "a") as file:
            file.write("x")
        return graph.forward

    model.net = torch.compile(model.net, backend=count, **params.get("options", {}))
    optimizers =""",
)


def test_a_compiled_model_expects_any_size_from_the_start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a resumed run compiles for the sizes that it meets first, and ends with other bits."""
    monkeypatch.chdir(folder)
    sizes = [32, 17, 32, 5, 9]
    write_table(folder / "clicks", [make_minibatch(number, None, size) for number, size in enumerate(sizes)])
    run_well(make_toy(folder, OFFLINE, script=COMPILED))
    assert (folder / "compiled").read_text() == "x"


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # torch's own, when it loads its compiler
def test_a_model_compiled_for_fixed_sizes_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    layers: list[Any] = [torch.compile(torch.nn.Linear(1, 1), dynamic=False), torch.compile(torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers)
    compile_for_all_shapes(model)
    assert [record.message for record in caplog.records] == [
        "0 is compiled with dynamic=False: after a kill it is compiled for other sizes, and the run may end with other "
        "weights. Leave out dynamic"
    ]


INDUCTOR = SCRIPT.replace(
    "    optimizers =",
    """    import warnings
    warnings.filterwarnings("ignore")  # of torch itself
    model.net = torch.compile(model.net)
    optimizers =""",
)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_compiled_model_survives_kills(folder: Path) -> None:
    sizes = [32, 17, 32, 5, 9, 31, 32, 3, 12, 32]
    write_table(folder / "sizes", [make_minibatch(number, None, size) for number, size in enumerate(sizes)])
    config = {"train_data": {"table": "sizes", "uri_granularity": 1, "epoch_count": 4}}
    report = verify_resume(make_toy(folder, OFFLINE, config, INDUCTOR), 4, folder / "runs")
    assert report.num_kills == 4
    assert report.differences == []
