"""Online training by the day and by the quarter of an hour: URIs, shifts, dates, kills."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.places import local
from tests.training.test_train_hash_embeddings import SCRIPT
from tests.training.toys import FIRST, ONLINE, changed, make_toy, metrics, run, run_well

import samovar
from samovar.provenance.verify import verify_resume
from samovar.scoring import read_quality
from samovar.training.request import Request

DAY = 86_400
QUARTER = {"minutes": 15}


def brew(
    folder: Path, name: str, uri: Any, seconds: int, empty: tuple[int, ...] = (), first: int = FIRST, **keys: Any
) -> None:
    """Eight periods of ten rows each, some of them without rows."""
    times = [first + n * seconds + k for n in range(8) if n not in empty for k in range(10)]
    numbers = range(len(times))
    source = pd.DataFrame(
        {
            "time": times,
            "ad": [n % 7 for n in numbers],
            "words": [[n % 3, n % 5] for n in numbers],
            "price": [n % 11 / 10 for n in numbers],
            "clicked": [int(n % 3 == 0) for n in numbers],
            "hit": list(numbers),
            "user": [f"user {n % 4}" for n in numbers],
        }
    )
    roles = {"ad": "id", "words": "id", "price": "number", "clicked": "number", "hit": "key", "user": "key"}
    samovar.brew(source, folder / name, time="time", columns=roles, batch_size=4, uri=uri, progress=False, **keys)


def toy(folder: Path, change: dict[str, Any] | None = None) -> Request:
    return make_toy(folder, ONLINE, change or {}, SCRIPT)


def test_daily_data_has_one_uri_per_day(quick_path: Path) -> None:
    brew(quick_path, "clicks", "day", DAY, empty=(2,))
    lines = metrics(run_well(toy(quick_path)))
    trained = [(line["hour"], line["num_examples"]) for line in lines if line["kind"] == "train"]
    assert [hour for hour, _ in trained] == [f"2021-01-{day:02}T00:00" for day in range(1, 9)]
    assert [count for _, count in trained] == [10, 10, 0, 10, 10, 10, 10, 10]
    evaluated = {(line["model_hour"], line["shift"]): line["hour"] for line in lines if line["kind"] == "evaluation"}
    assert evaluated["2021-01-01T00:00", 1] == "2021-01-02T00:00"
    assert evaluated["2021-01-05T00:00", 2] == "2021-01-07T00:00"
    assert {line["lag"] for line in lines if line["kind"] == "evaluation"} == {"1d", "2d"}


def test_parts_of_quarters_of_an_hour_have_names_of_their_own(quick_path: Path) -> None:
    brew(quick_path, "clicks", QUARTER, 900)
    out = run_well(toy(quick_path))
    names = sorted(path.name for path in (out / "evaluation" / "log").iterdir())
    assert names[:2] == ["20210101T0015.shift1.parquet", "20210101T0030.shift1.parquet"]
    assert len(names) == 13  # seven for the first shift, six for the second
    samovar.predict(out, quick_path / "clicks", quick_path / "predicted", keys=["hit"])
    parts = sorted(path.name for path in (quick_path / "predicted/evaluation/predictions").iterdir())
    assert parts[:2] == ["20210101T0000.parquet", "20210101T0015.parquet"]
    for directory, num_examples in ((out, [70, 60]), (quick_path / "predicted", [80])):
        days = read_quality(directory, "day")
        assert [row["num_examples"] for row in days.rows] == num_examples
        assert days.is_measured == (directory == out)


def test_a_rule_names_its_metric_by_the_period(quick_path: Path) -> None:
    brew(quick_path, "clicks", "day", DAY)
    stopping = {"stopping": {"metric": "log+2d.auc", "patience": 1}}
    lines = metrics(run_well(toy(quick_path, stopping)))
    assert [line["reason"] for line in lines if line["kind"] == "end"] == ["no progress of log+2d.auc in 1 evaluations"]
    failed = run(changed(toy(quick_path), "other", {"stopping": {"metric": "log.auc"}}))
    assert "'log' is ambiguous: log+1d, log+2d. Name one of them" in failed.output


@pytest.mark.parametrize(("uri", "seconds"), [("day", DAY), (QUARTER, 900)], ids=["day", "quarter"])
def test_kills_change_no_bit(quick_path: Path, uri: Any, seconds: int) -> None:
    brew(quick_path, "clicks", uri, seconds, empty=(3,))
    window = {"train_data": {"replay": {"rows": 2, "window": "2d" if uri == "day" else "30m"}}}
    done = verify_resume(toy(quick_path, window), 6, quick_path / "verify")
    assert (done.num_kills, done.differences) == (6, [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_data.start_date": "2021-01-02T05:00"}, "train_data.start_date must be midnight UTC, because"),
        (
            {"evaluation": {"eval_confs": [{"name": "log", "table": "hourly", "shifts": [1]}]}},
            "hourly is split by the hour, but",
        ),
        ({"train_data.replay": {"window": "12h"}}, "train_data.replay.window must be whole days, because"),
    ],
)
def test_a_mistake_is_reported_and_leaves_nothing_behind(
    quick_path: Path, change: dict[str, Any], message: str
) -> None:
    brew(quick_path, "clicks", "day", DAY)
    brew(quick_path, "hourly", "hour", 3600)
    request = toy(quick_path, change)
    failed = run(request)
    assert failed.code == 2, failed.output
    assert message in failed.output
    assert not local(request.out).exists()


def test_days_of_a_time_zone_are_trained_evaluated_and_replayed(quick_path: Path) -> None:
    """Clocks change on the third day, which has 23 hours. Rows are at the start of each 24 hours."""
    friday = 1_711_666_800  # 2024-03-29T00:00 in Berlin
    brew(quick_path, "clicks", "day", DAY, first=friday, timezone="Europe/Berlin")
    dates = {"start_date": "2024-03-29", "end_date": "2024-04-05", "timezone": "Europe/Berlin"}
    request = toy(quick_path, {"train_data": {**dates, "replay": {"rows": 2, "window": "2d"}}})
    done = verify_resume(request, 4, quick_path / "verify")
    assert (done.num_kills, done.differences) == (4, [])
    out = run_well(request)
    lines = metrics(out)
    days = [f"2024-03-{day}" for day in (29, 30, 31)] + [f"2024-04-0{day}" for day in range(1, 5)]
    trained = [(line["name"], line["hour"], line["num_examples"]) for line in lines if line["kind"] == "train"]
    assert trained == [(f"{day}T00:00", f"{day}T00:00", 10) for day in days]
    evaluated = {(line["model_hour"], line["shift"]): line["hour"] for line in lines if line["kind"] == "evaluation"}
    assert evaluated["2024-03-30T00:00", 1] == "2024-03-31T00:00"
    assert evaluated["2024-03-30T00:00", 2] == "2024-04-01T00:00"
    parts = sorted(path.name for path in (out / "evaluation" / "log").glob("*.shift1.parquet"))
    assert parts == [f"{day.replace('-', '')}T00.shift1.parquet" for day in [*days[1:], "2024-04-05"]]
    assert [row["time"] for row in read_quality(out, "day").rows if row["shift"] == 1] == [*days[1:], "2024-04-05"]
    failed = run(changed(request, "other", {"train_data.timezone": "UTC"}))
    assert "start_date must be midnight in Europe/Berlin" in failed.output


def test_the_model_directory_says_which_days_it_was_trained_on(quick_path: Path) -> None:
    brew(quick_path, "clicks", "day", DAY)
    out = run_well(toy(quick_path, {"train_data.end_date": "2021-01-04"}))
    config = json.loads((out / "model_config.json").read_text())
    assert config["train_data"]["end_date"] == "2021-01-04"
    assert [line["hour"] for line in metrics(out) if line["kind"] == "train"][-1] == "2021-01-03T00:00"
