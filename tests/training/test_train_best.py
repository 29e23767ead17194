"""Evaluation after epochs: the best one is kept, and rules follow from its metrics, however often the run is killed."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.places import local
from tests.training.toys import (
    OFFLINE,
    ONLINE,
    SCRIPT,
    changed,
    make_hours,
    make_toy,
    metrics,
    run,
    run_well,
    write_table,
)

import samovar
from samovar.errors import BadInput, NotAResult
from samovar.provenance.contract import compare, contract_of
from samovar.provenance.verify import verify_resume
from samovar.results import ResultDirectory, open_directory
from samovar.results.snapshot import committed_snapshots
from samovar.scoring import read_quality
from samovar.store import LocalStore
from samovar.testing.disks import KillingDisk
from samovar.training import ModelDirectory

ENTRY = {"name": "valid", "keys": ["hit"], "table": "valid"}
EPOCHS: dict[str, Any] = {"train_data.epoch_count": 5, "evaluation.eval_confs": [ENTRY]}
WORSE = {"model.lr": 0.9}
"""A rate at which later epochs are worse."""


@pytest.fixture
def folder(quick_path: Path) -> Path:
    write_table(quick_path / "clicks", make_hours([4, 3]))
    write_table(quick_path / "valid", make_hours([2], number=500), table_id="valid")
    return quick_path


def lines_of(out: Path, kind: str = "evaluation") -> list[dict[str, Any]]:
    return [line for line in metrics(out) if line["kind"] == kind]


def files_of(out: Path, part: str) -> list[str]:
    return sorted(str(path.relative_to(out / part)) for path in (out / part).rglob("*") if path.is_file())


def test_each_epoch_is_evaluated_and_the_best_is_kept_beside_the_last(folder: Path) -> None:
    out = run_well(make_toy(folder, OFFLINE, EPOCHS | WORSE))
    lines = lines_of(out)
    assert [(line["uri"], line["epoch"]) for line in lines] == [(2, 0), (5, 1), (8, 2), (11, 3), (14, 4)]
    least = min(lines, key=lambda line: float(line["log_loss"]))
    assert least["epoch"] < 4
    (best,) = lines_of(out, "best")
    assert (best["uri"], best["epoch"], best["value"]) == (least["uri"], least["epoch"], least["log_loss"])
    assert best["metric"] == "valid.log_loss"
    assert files_of(out, "best") == ["arrays.safetensors", "state.json"]
    assert files_of(out, "evaluation") == ["valid/best.parquet", "valid/predictions.parquet"]

    found = ModelDirectory.of(out)
    assert found.best == {key: value for key, value in best.items() if key != "kind"}
    assert read_quality(out).best == found.best
    assert found.load_model("best").position == {"next_uri": best["uri"] + 1, "trained": least["trained"]}
    assert found.metrics()["time"].tolist() == [line["trained"] for line in lines]
    assert found.metrics("day").equals(found.metrics())
    table = samovar.open_table(folder / "valid")
    for epoch, name in (("best", "best"), ("last", "predictions")):
        expected = pq.read_table(out / f"evaluation/valid/{name}.parquet").to_pandas()
        assert found.predictions(epoch=epoch).equals(expected)  # type: ignore[arg-type]
        done = samovar.predict(out, table, folder / epoch, keys=["hit"], epoch=epoch)  # type: ignore[arg-type]
        assert np.allclose(done.predictions()["prediction"], expected["prediction"], atol=1e-6)
    first, second = (samovar.load(out, epoch=epoch).predict(table) for epoch in ("best", "last"))
    assert not np.array_equal(first, second)
    assert np.array_equal(found.load(epoch="best").predict(table), first)
    with pytest.raises(BadInput, match="epoch must be 'last' or 'best', got 'first'"):
        samovar.load(out, epoch="first")  # type: ignore[arg-type]


def test_evaluation_changes_no_bit_of_the_model(folder: Path) -> None:
    request = make_toy(folder, OFFLINE, EPOCHS)
    out, plain = run_well(request), run_well(changed(request, "plain", {"evaluation": {"eval_confs": []}}))
    differences = compare(contract_of(plain), contract_of(out))
    assert [line for line in differences if line.startswith("model/")] == []
    assert lines_of(plain, "train") == lines_of(out, "train")


def test_a_run_that_is_evaluated_once_has_no_best(folder: Path) -> None:
    out = run_well(make_toy(folder, OFFLINE, EPOCHS | {"train_data.epoch_count": 1}))
    assert lines_of(out, "best") == []
    assert not (out / "best").exists()
    assert files_of(out, "evaluation") == ["valid/predictions.parquet"]
    with pytest.raises(NotAResult, match="has no best epoch, because it was evaluated less than twice"):
        open_directory(out).load_model("best")
    with pytest.raises(NotAResult, match="has no predictions of a best epoch"):
        ModelDirectory.of(out).predictions(epoch="best")


@pytest.mark.parametrize(
    ("every", "uris"),
    [({"epochs": 2}, [5, 11, 14]), ({"uris": 4}, [3, 7, 11, 14]), ({"epochs": 9}, [14])],
)
def test_every_counts_epochs_or_uris_and_the_last_is_always_evaluated(
    folder: Path, every: dict[str, int], uris: list[int]
) -> None:
    out = run_well(make_toy(folder, OFFLINE, EPOCHS | {"evaluation.every": every}))
    assert [line["uri"] for line in lines_of(out)] == uris
    assert [line["epoch"] for line in lines_of(out)] == [uri // 3 for uri in uris]


def test_a_metric_without_progress_ends_the_run_and_says_which_epoch_is_best(folder: Path) -> None:
    stopping = {"metric": "valid.auc", "patience": 2}
    out = run_well(make_toy(folder, OFFLINE, EPOCHS | WORSE | {"train_data.epoch_count": 30, "stopping": stopping}))
    values = [line["auc"] for line in lines_of(out)]
    assert len(values) < 30
    assert max(values[:-2]) >= max(values[-2:])
    (end,), (best,) = lines_of(out, "end"), lines_of(out, "best")
    assert end["reason"] == "no progress of valid.auc in 2 evaluations"
    assert (best["metric"], best["value"]) == ("valid.auc", max(values))


def test_a_metric_without_progress_lowers_the_rate(folder: Path) -> None:
    plateau = {"metric": "valid.calibration", "patience": 1, "factor": 0.1, "min_progress": 10}
    out = run_well(make_toy(folder, OFFLINE, EPOCHS | {"plateau": plateau}))
    factors = [line["policies"]["lr_factor"] for line in lines_of(out, "train")]
    assert factors[::3] == pytest.approx([1, 1, 0.1, 0.01, 0.001])


def test_kills_change_no_bit_of_the_best_the_rules_and_the_rates(folder: Path) -> None:
    change = {
        **EPOCHS,
        **WORSE,
        "evaluation.every": {"uris": 2},
        "evaluation.best": {"metric": "valid.average_precision"},
        "stopping": {"metric": "valid.log_loss", "patience": 6},
        "plateau": {"metric": "valid.log_loss", "patience": 1, "min_progress": 0.01},
    }
    done = verify_resume(make_toy(folder, OFFLINE, change), 12, folder / "verify")
    assert (done.num_kills, done.differences) == (12, [])
    assert files_of(folder / "verify" / "straight", "best") == ["arrays.safetensors", "state.json"]


def test_after_a_damaged_newest_snapshot_the_best_of_the_one_before_is_there(folder: Path) -> None:
    request = make_toy(folder, OFFLINE, EPOCHS | {"evaluation.every": {"uris": 1}})
    straight = run_well(changed(request, "straight"))
    for place in (900, 1100):
        killed = changed(request, f"killed{place}")
        assert run(killed, KillingDisk(place)).was_killed
        newest, _ = committed_snapshots(LocalStore(local(killed.out)))
        path = local(killed.out) / "snapshot" / newest.name / "arrays.safetensors"
        path.write_bytes(path.read_bytes()[:-9])
        assert open_directory(killed.out).load_model("best").tree["run"]["next_uri"] > 0
        assert compare(contract_of(run_well(killed)), contract_of(straight)) == []


def test_a_metric_ends_an_online_run_too(folder: Path) -> None:
    entry = {"name": "log", "table": "long", "shifts": [1]}
    write_table(folder / "long", make_hours([1] * 12), table_id="long")
    change = {
        "train_data.table": "long",
        "evaluation.eval_confs": [entry],
        "stopping": {"metric": "log.log_loss", "patience": 2, "min_progress": 0.5},
    }
    request = make_toy(folder, ONLINE, change)
    done = verify_resume(request, 3, folder / "verify")
    assert done.differences == []
    out = folder / "verify" / "straight"
    (end,) = lines_of(out, "end")
    assert end["reason"] == "no progress of log+1h.log_loss in 2 evaluations"
    assert len(lines_of(out, "train")) < 12
    assert not (out / "best").exists()
    assert len(read_quality(out).rows) == len(lines_of(out))


OWN = SCRIPT.replace(
    "[CountHours()])", "[CountHours()], metrics={'profit': lambda p, y, keys: (p * y['clicked']).sum()})"
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stopping": {"metric": "valid.acu"}}, "stopping.metric: no metric 'acu'. Did you mean 'auc'?"),
        ({"stopping": {"metric": "vaild.auc"}}, "stopping.metric: no evaluation 'vaild'. Did you mean 'valid'?"),
        ({"stopping": {"metric": "auc"}}, "stopping.metric: no evaluation 'auc'"),
        ({"plateau": {"metric": "valid.profit"}}, "plateau.direction is missing: 'profit' is your own metric"),
        (
            {"stopping": {"metric": "valid.rmse"}},
            "stopping.metric: 'valid.rmse' is not measured. Available: valid.auc,",
        ),
        ({"evaluation.every": {"uris": 2, "epochs": 1}}, "expected epochs or uris, got both"),
        ({"evaluation.eval_confs": [], "stopping": {"metric": "valid.auc"}}, "'valid.auc' needs an evaluation"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_one_sentence(folder: Path, change: dict[str, Any], message: str) -> None:
    ended = run(make_toy(folder, OFFLINE, EPOCHS | change, script=OWN))
    assert ended.code == 2
    assert message in ended.output


def test_a_metric_that_the_task_does_not_have_is_found_before_training(folder: Path) -> None:
    request = make_toy(folder, OFFLINE, EPOCHS | {"evaluation.best": {"metric": "valid.ndcg@10"}})
    assert "evaluation.best.metric: 'valid.ndcg@10' is not measured" in run(request).output
    assert not ResultDirectory(LocalStore(local(request.out))).is_created  # another config can have it


def test_a_metric_may_need_targets_that_come_later(folder: Path) -> None:
    """The first minibatch has only 0 and 1, so it looks like yes or no."""
    hours = make_hours([2], number=500)
    *_, last = hours
    clicked = last.values["clicked"]
    assert isinstance(clicked, np.ndarray)
    clicked[0] = 7.0
    write_table(folder / "counts", hours, table_id="counts")
    change = {"evaluation.eval_confs": [{**ENTRY, "table": "counts"}], "stopping": {"metric": "valid.rmse"}}
    out = run_well(make_toy(folder, OFFLINE, EPOCHS | change))
    assert all("rmse" in line and "auc" not in line for line in lines_of(out))


def test_an_own_metric_can_say_which_epoch_is_best(folder: Path) -> None:
    change = EPOCHS | {"evaluation.best": {"metric": "valid.profit", "direction": "min"}}
    out = run_well(make_toy(folder, OFFLINE, change, script=OWN))
    (best,) = lines_of(out, "best")
    assert best["value"] == min(line["profit"] for line in lines_of(out))


def test_several_shifts_are_ambiguous(folder: Path) -> None:
    ended = run(make_toy(folder, ONLINE, {"stopping": {"metric": "log.auc"}}))
    assert ended.code == 2
    assert "stopping.metric: 'log' is ambiguous: log+1h, log+2h. Name one of them" in ended.output


def test_a_script_with_a_factor_of_its_own_cannot_have_a_plateau(folder: Path) -> None:
    script = SCRIPT.replace('"smoothing": 0.01}', '"smoothing": 0.01, "lr_factor": 0.5}')
    ended = run(make_toy(folder, OFFLINE, EPOCHS | {"plateau": {"metric": "valid.auc"}}, script=script))
    assert ended.code == 2
    assert "plateau: the script has its own policy 'lr_factor'" in ended.output
