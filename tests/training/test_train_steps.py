"""Keys that change how a step is computed: each changes the result, and no kill changes a bit of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.training.test_train_hash_embeddings import SCRIPT
from tests.training.toys import (
    OFFLINE,
    ONLINE,
    changed,
    make_hours,
    make_minibatch,
    make_toy,
    metrics,
    run,
    run_well,
    write_table,
)

from samovar.provenance.contract import compare, contract_of
from samovar.provenance.verify import verify_resume
from samovar.results import open_directory
from samovar.testing.disks import KillingDisk

SCHEDULED = SCRIPT.replace("lr=1.0", "lr=params.lr").replace(
    '    return samovar.Learner(model, optimizers, loss, torch.sigmoid, {"emb.lr": Exponential(params.lr, 0.9)})',
    """    schedulers = {
        "step": torch.optim.lr_scheduler.OneCycleLR(optimizers["net"], 0.1, total_steps=100),
        "epoch": torch.optim.lr_scheduler.ReduceLROnPlateau(optimizers["emb"], patience=0, threshold=1.0),
    }
    return samovar.Learner(model, optimizers, loss, torch.sigmoid, schedulers=schedulers)""",
)
BY_STEP = SCRIPT.replace(
    '{"emb.lr": Exponential(params.lr, 0.9)}',
    '{"emb.lr": Exponential(params.lr, 0.9, unit="step"), "net.lr_factor": Warmup(5)}',
).replace("import Exponential", "import Exponential, Warmup")


@pytest.fixture
def folder(quick_path: Path) -> Path:
    write_table(quick_path / "clicks", make_hours([2, 3, 0, 2, 1, 3]))
    return quick_path


def same(left: Path, right: Path) -> list[str]:
    return compare(contract_of(left), contract_of(right))


@pytest.mark.parametrize(
    ("change", "script"),
    [
        pytest.param({"step_minibatches": 2}, SCRIPT, id="step_minibatches"),
        pytest.param({"clip_norm": 0.01}, SCRIPT, id="clip_norm"),
        pytest.param({"precision": "bf16"}, SCRIPT, id="precision"),
        pytest.param({}, SCHEDULED, id="schedulers"),
        pytest.param({}, BY_STEP, id="policies by step"),
    ],
)
def test_a_kill_changes_no_bit(folder: Path, change: dict[str, Any], script: str) -> None:
    plain = run_well(make_toy(folder, ONLINE, {}, SCRIPT))
    request = replace(make_toy(folder, ONLINE, change, script), out=folder / "straight")
    straight = run_well(request)
    assert any(line.startswith("model/arrays.safetensors: differs") for line in same(straight, plain))
    killed = changed(request, "killed")
    assert run(killed, KillingDisk(450)).was_killed
    assert open_directory(killed.out).load_model().position["next_uri"] > 0
    assert same(run_well(killed), straight) == []


def test_all_of_them_at_once_survive_kills(folder: Path) -> None:
    change = {"step_minibatches": 2, "clip_norm": 0.5, "precision": "bf16", "num_threads": 2}
    done = verify_resume(make_toy(folder, ONLINE, change, SCHEDULED), 4, folder / "verify")
    assert (done.num_kills, done.differences) == (4, [])


def test_the_rates_of_schedulers_and_of_policies_by_step_are_logged(folder: Path) -> None:
    lines = metrics(run_well(make_toy(folder, ONLINE, {"evaluation": None}, SCHEDULED)))
    assert [line["policies"]["emb.lr"] for line in lines[:2]] == [0.05, pytest.approx(0.005)]
    rates = [line["policies"]["net.lr"] for line in lines]
    assert rates == sorted(rates)
    assert rates[0] < rates[-1] < 0.1
    lines = metrics(run_well(replace(make_toy(folder, ONLINE, {"evaluation": None}, BY_STEP), out=folder / "by_step")))
    assert [line["policies"]["net.lr_factor"] for line in lines] == [0.4, 1, 1, 1, 1, 1]
    assert [line["policies"]["emb.lr"] for line in lines] == [
        pytest.approx(0.05 * 0.9 ** (steps - 1)) for steps in (2, 5, 5, 7, 8, 11)
    ]


def test_schedulers_continue_with_a_script_that_changed(folder: Path) -> None:
    script = SCHEDULED.replace("total_steps=100", "total_steps=100, cycle_momentum=False")
    request = make_toy(folder, ONLINE, {}, script)
    straight = run_well(changed(request, "straight"))
    assert run(request, KillingDisk(450)).was_killed
    other = make_toy(folder, ONLINE, {}, script + "# another line")
    assert same(run_well(replace(other, accept_script=True)), straight) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step_minibatches": 0}, "step_minibatches must be at least 1, got 0"),
        ({"clip_norm": 0}, "clip_norm must be above 0, got 0"),
        ({"precision": "fp16"}, "precision must be 'fp32' or 'bf16', got 'fp16'"),
        ({"compile": "yes"}, "compile must be true or false, got 'yes'"),
        ({"device": "gpu"}, "device must be 'auto', 'cpu', 'cuda' or like 'cuda:1', got 'gpu'"),
        ({"device": "cuda:1"}, "device cuda:1 is not available: torch sees 0 CUDA devices"),
        ({"step_minibatch": 2}, "step_minibatch: unknown key. Did you mean 'step_minibatches'?"),
    ],
)
def test_a_wrong_value_is_one_sentence(folder: Path, change: dict[str, Any], message: str) -> None:
    ended = run(make_toy(folder, ONLINE, change))
    assert ended.code == 2
    assert message in ended.output
    assert not (folder / "model").exists()


def test_another_value_is_another_run(folder: Path) -> None:
    request = make_toy(folder, OFFLINE, {"clip_norm": 1.0})
    run_well(request)
    for change in ({"clip_norm": 2.0}, {"step_minibatches": 2}, {"precision": "bf16"}, {"compile": True}):
        ended = run(changed(request, "model", change))
        assert ended.code == 2
        assert next(iter(change)) in ended.output


def test_auto_is_resolved_once_and_kept(folder: Path) -> None:
    request = make_toy(folder, OFFLINE, {"device": "auto"})
    assert run(request, KillingDisk(300)).was_killed
    kept = open_directory(request.out).config["device"]
    assert kept == "cpu"
    assert run_well(request) == request.out
    assert same(run_well(changed(request, "plain", {"device": None})), request.out) == []
    ended = run(changed(request, "model", {"device": "cuda"}))
    assert ended.code == 2
    assert "device" in ended.output


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_compiled_run_survives_kills(folder: Path) -> None:
    sizes = [32, 17, 32, 5, 9, 31, 32, 3, 12, 32]
    write_table(folder / "sizes", [make_minibatch(number, None, size) for number, size in enumerate(sizes)])
    config = {"table": "sizes", "uri_granularity": 1, "epoch_count": 3}
    change = {"train_data": config, "compile": True, "precision": "bf16", "num_threads": 2}
    report = verify_resume(make_toy(folder, OFFLINE, change, SCRIPT), 4, folder / "runs")
    assert (report.num_kills, report.differences) == (4, [])
