"""Online training: hours, evaluation ahead of the model, live tables, merged tables."""

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.places import local
from tests.training.toys import (
    FIRST,
    HOUR,
    ONLINE,
    SCHEMA,
    SCRIPT,
    changed,
    make_hours,
    make_minibatch,
    make_toy,
    metrics,
    run,
    run_well,
    start,
    wait_while_running,
    write_table,
)
from tests.waiting import wait_until

from samovar.hours import show_hour
from samovar.provenance.contract import compare, contract_of
from samovar.provenance.verify import verify_resume
from samovar.results import open_directory
from samovar.results.snapshot import committed_snapshots
from samovar.store import LocalStore
from samovar.tables import TableSchema
from samovar.tables.schema import Minibatch
from samovar.testing.disks import KillingDisk

COUNTING = (
    SCRIPT.replace(
        "class CountHours(samovar.Callback):",
        """class Count(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.register_buffer("hours", torch.zeros((), dtype=torch.int64))

    def forward(self, inputs):
        return self.weight + self.hours.float() + 0 * inputs["price"]

    def get_required_features_list(self):
        return ["price"]


class Tick(samovar.Callback):
    def on_uri_begin(self, run):
        run.model.hours += 1


def build_count(params):
    params.lr
    model = Count()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    return samovar.Learner(model, optimizer, lambda output, targets: output.mean(), callbacks=[Tick()])


class CountHours(samovar.Callback):""",
    )
    .replace("def build(params)", "def build_clicks(params)")
    .replace("def build_count", "def build")
)


@pytest.fixture
def folder(quick_path: Path) -> Path:
    write_table(quick_path / "clicks", make_hours([3, 2, 0, 4, 2, 3]))
    write_table(quick_path / "flat", [make_minibatch(1, None)], table_id="flat")
    return quick_path


def same(left: Path, right: Path) -> list[str]:
    return compare(contract_of(left), contract_of(right))


def model_bytes(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((out / "model").iterdir())}


def parts(out: Path, name: str = "log") -> list[str]:
    return sorted(path.name for path in (out / "evaluation" / name).iterdir())


def test_each_hour_is_a_uri_even_without_rows_and_is_evaluated_ahead(folder: Path) -> None:
    out = run_well(make_toy(folder, ONLINE))
    lines = metrics(out)
    trained = [line for line in lines if line["kind"] == "train"]
    assert [(line["hour"], line["num_batches"]) for line in trained] == [
        (show_hour(FIRST + number * HOUR), count) for number, count in enumerate([3, 2, 0, 4, 2, 3])
    ]
    assert trained[2]["loss"] is None
    evaluated = [(line["hour"][11:13], line["shift"], line["model_hour"][11:13], line["num_examples"]) for line in lines
                 if line["kind"] == "evaluation"]  # fmt: skip
    assert evaluated[:4] == [("01", 1, "00", 64), ("02", 2, "00", 0), ("02", 1, "01", 0), ("03", 2, "01", 128)]
    assert evaluated[-2:] == [("06", 1, "05", 0), ("07", 2, "05", 0)]  # a lag past the end is reported
    assert parts(out) == [
        "20210101T01.shift1.parquet", "20210101T03.shift1.parquet", "20210101T03.shift2.parquet",
        "20210101T04.shift1.parquet", "20210101T04.shift2.parquet", "20210101T05.shift1.parquet",
        "20210101T05.shift2.parquet",
    ]  # fmt: skip
    rows = pq.read_table(out / "evaluation" / "log" / "20210101T03.shift2.parquet")
    assert rows.column_names == ["hit", "user", "clicked", "prediction", "model_hour"]
    assert rows.schema.field("hit").type == pa.int64()
    assert rows["model_hour"][0].as_py().hour == 1


def test_predictions_come_from_exactly_the_model_of_their_hour(folder: Path) -> None:
    out = run_well(make_toy(folder, ONLINE, {}, COUNTING))
    for name in parts(out):
        rows = pq.read_table(out / "evaluation" / "log" / name)
        data_hour, shift = int(name[9:11]), int(name[17])
        model_hour = data_hour - shift
        assert set(rows["prediction"].to_pylist()) == {float(model_hour + 1)}
        assert {hour.hour for hour in rows["model_hour"].to_pylist()} == {model_hour}


def test_evaluation_changes_no_bit_of_the_model(folder: Path) -> None:
    request = make_toy(folder, ONLINE)
    with_it = run_well(request)
    without = run_well(changed(request, "without", {"evaluation.eval_confs": []}))
    assert model_bytes(with_it) == model_bytes(without)


def test_dates_select_hours_and_evaluation_dates_select_data_hours(folder: Path) -> None:
    change: dict[str, Any] = {
        "train_data": {"datetime_format": "%Y%m%d%H%M", "start_date": "202101010200", "end_date": "202101010500",
                       "timezone": "Europe/Berlin"},
        "evaluation.eval_confs": [
            {"name": "a", "table": "clicks", "shifts": [1], "start_date": "2021-01-01T03:00"},
            {"name": "b", "table": "clicks", "shifts": [1], "start_date": "2021-01-01T01:00",
             "end_date": "2021-01-01T02:00", "features": ["ad", "price"], "targets": [], "max_memory": 1000},
            {"name": "early", "table": "clicks", "shifts": [3], "end_date": "2021-01-01T01:00"},
        ],
    }  # fmt: skip
    request = make_toy(folder, ONLINE, change)
    out = run_well(request)
    assert [line["hour"][11:13] for line in metrics(out) if line["kind"] == "train"] == ["01", "02", "03"]
    reported = [(line["name"], line["hour"][11:13]) for line in metrics(out) if line["kind"] == "evaluation"]
    assert reported == [("a", "03"), ("a", "04")]
    assert parts(out, "a") == ["20210101T03.shift1.parquet", "20210101T04.shift1.parquet"]


def test_logged_metrics_match_the_written_predictions(folder: Path) -> None:
    from samovar.scoring.quality import measure

    out = run_well(make_toy(folder, ONLINE))
    line = next(line for line in metrics(out) if line["kind"] == "evaluation" and line["hour"].endswith("04:00"))
    rows = pq.read_table(out / "evaluation" / "log" / f"20210101T04.shift{line['shift']}.parquet")
    found = measure(rows["clicked"].to_numpy(), rows["prediction"].to_numpy())
    assert {key: line[key] for key in found} == found
    assert 0 < line["auc"] < 1


def test_thirty_kills_at_random_instants_change_no_bit(folder: Path) -> None:
    request = make_toy(folder, ONLINE, {"train_data.max_cache_size": 20_000})
    done = verify_resume(request, 30, folder / "verify")
    assert done.num_kills == 30
    assert done.num_files == 7 + 2 + 2
    assert done.differences == []


def test_kills_in_snapshots_evaluations_and_the_finish_change_no_bit(folder: Path) -> None:
    request = make_toy(folder, ONLINE)
    straight = run_well(changed(request, "straight"))
    for point in (240, 275, 305, 345, 370, 400):  # repeatedly in one directory
        assert run(request, KillingDisk(point)).was_killed
    assert same(run_well(request), straight) == []


def test_reader_threads_and_cache_size_change_no_bit(folder: Path) -> None:
    request = make_toy(folder, ONLINE)
    straight = run_well(request)
    change = {"train_data": {"num_downloaders": 4, "num_parsers": 4, "max_cache_size": 3000}, "progress": False}
    assert same(run_well(changed(request, "other", change)), straight) == []
    assert same(run_well(changed(request, "rare", {"snapshotter.frequency": 1000})), straight) == []
    job = {**ONLINE["evaluation"]["eval_confs"][0], "max_memory": 1}  # no hour is kept until it is trained on
    assert same(run_well(changed(request, "little", {"evaluation.eval_confs": [job]})), straight) == []


COUNTING_CELLS = """
from pathlib import Path
from samovar.native import MinibatchDecoder

decode = MinibatchDecoder.decode

def count(self, source, places, *rest, **options):
    with Path(__file__).with_name("cells.txt").open("a") as file:
        file.write(f"{len(places)}\\n")
    return decode(self, source, places, *rest, **options)

MinibatchDecoder.decode = count
"""


def test_an_hour_that_is_evaluated_and_then_trained_on_is_decoded_once(quick_path: Path) -> None:
    write_table(quick_path / "clicks", make_hours([8] * 6))
    job = {**ONLINE["evaluation"]["eval_confs"][0], "keys": [], "shifts": [1]}
    request = make_toy(quick_path, ONLINE, {"evaluation.eval_confs": [job]}, SCRIPT + COUNTING_CELLS)
    counts = {}
    for name, jobs in (("with", [job]), ("without", [])):
        run_well(changed(request, name, {"evaluation.eval_confs": jobs}))
        log = quick_path / "cells.txt"
        counts[name] = sum(map(int, log.read_text().split()))
        log.unlink()
    assert counts["with"] == counts["without"]


def position(out: Path) -> int | None:
    try:
        found = json.loads((out / "status.json").read_text())["position"]
    except (OSError, ValueError):
        return None
    return None if found is None else int(found["next_uri"])


def test_a_run_that_follows_a_live_table_ends_like_one_that_had_all_hours(quick_path: Path) -> None:
    hours = [2, 1, 0, 2, 1, 1]
    rows = make_hours(hours)
    write_table(quick_path / "clicks", rows[:3], complete_until=FIRST + 2 * HOUR)
    dates = {"train_data.end_date": "2021-01-01T04:00"}
    request = make_toy(quick_path, ONLINE, {**dates, "follow": True, "snapshotter.frequency": 1000})
    request = replace(request, tree={**request.tree, "evaluation": {"eval_confs": [
        {"name": "log", "table": "clicks", "shifts": [1], "keys": ["hit"]}]}})  # fmt: skip
    refused = run(changed(request, "never", {"follow": False}))
    assert refused.code == 2
    assert 'is complete until 2021-01-01T02:00. Set "follow": true to wait for later hours' in refused.output
    child = start(request)
    wait_until(
        lambda: position(local(request.out)) == 1, "an hour is saved"
    )  # hour 1 waits for hour 2, which it is evaluated on
    os.kill(child.pid, signal.SIGTERM)
    stopped = child.wait()
    assert stopped.code == 75
    assert "stopped while waiting for new hours (SIGTERM)" in stopped.output
    child = start(request)
    for first, stop in ((2, 3), (3, 4), (4, 5)):  # the first one has no rows
        span = range(FIRST + first * HOUR, FIRST + stop * HOUR)
        write_table(quick_path / "clicks", [row for row in rows if row.hour in span], complete_until=span.stop)
    ended = child.wait()
    assert ended.code == 0, ended.output
    straight = changed(request, "straight", {"follow": False})
    assert same(run_well(straight), local(request.out)) == []
    assert {link.state for link in open_directory(request.out).chain()} == {"live"}  # a live table is never finished


def test_a_table_that_grew_is_the_same_table_and_another_one_is_refused(folder: Path) -> None:
    request = make_toy(folder, ONLINE)
    straight = run_well(changed(request, "straight"))
    assert run(request, KillingDisk(400)).was_killed
    write_table(folder / "clicks", make_hours([2], FIRST + 6 * HOUR, 900))
    assert same(run_well(request), straight) == []
    again = changed(request, "again")
    assert run(again, KillingDisk(400)).was_killed
    write_table(folder / "other", make_hours([3, 2, 0, 4, 2, 3]), table_id="other")
    refused = run(changed(again, "again", {"train_data.table": "other"}))
    assert refused.code == 2
    assert "train_data.table" in refused.output
    assert "(id other)" in refused.output


MERGED: dict[str, Any] = {
    "merge_keys": ["hit"],
    "tables": [
        {"table": "left", "targets": ["clicked"]},
        {"table": "right", "targets": [], "features": ["price"], "keys": ["user"]},
    ],
}


def columns(names: list[str], rows: list[Minibatch]) -> tuple[list[Minibatch], TableSchema]:
    schema = TableSchema(tuple(column for column in SCHEMA.columns if column.name in names), SCHEMA.sort_key)
    return [replace(row, values={name: row.values[name] for name in names}) for row in rows], schema


def test_merged_tables_give_the_bits_of_a_joined_one_even_with_other_dates(folder: Path) -> None:
    rows = make_hours([3, 2, 0, 4, 2, 3])
    early = make_hours([1, 1], FIRST - 2 * HOUR, 700)
    left, schema = columns(["ad", "clicked", "hit"], [*early, *rows])
    write_table(folder / "left", left, schema, table_id="left")
    right, schema = columns(["price", "hit", "user"], [*rows, *make_hours([2], FIRST + 6 * HOUR, 800)])
    write_table(folder / "right", right, schema, table_id="right")
    dates = {"train_data.start_date": "2021-01-01T00:00", "train_data.end_date": "2021-01-01T06:00"}
    confs = [{"name": "log", "keys": ["hit"], "shifts": [1], "end_date": "2021-01-01T06:00"}]
    joined = run_well(
        make_toy(
            folder,
            ONLINE,
            {**dates, "evaluation.eval_confs": [{**confs[0], "table": "clicks", "keys": ["user", "hit"]}]},
        )
    )
    tree = json.loads((folder / "config.json").read_text())
    without_keys = {**MERGED, "tables": [MERGED["tables"][0], {**MERGED["tables"][1], "keys": []}]}
    tree["train_data"] = {"merge_tables": without_keys, **{key.partition(".")[2]: each for key, each in dates.items()}}
    tree["evaluation"] = {"eval_confs": [{**confs[0], "merge_tables": MERGED}]}
    request = replace(make_toy(folder, tree), out=folder / "merged")
    merged = run_well(request)
    assert model_bytes(merged) == model_bytes(joined)
    for name in parts(joined):
        one, other = (pq.read_table(out / "evaluation" / "log" / name) for out in (joined, merged))
        assert one.select(other.column_names).equals(other)
    killed = replace(request, out=folder / "killed")
    assert run(killed, KillingDisk(400)).was_killed
    assert same(run_well(killed), merged) == []


def test_a_swapped_row_of_a_merged_table_is_caught(folder: Path) -> None:
    rows = make_hours([3, 2])
    left, schema = columns(["ad", "clicked", "hit"], rows)
    write_table(folder / "left", left, schema, table_id="left")
    right, schema = columns(["price", "hit", "user"], [rows[0], rows[1], rows[2], rows[4], rows[3]])
    right[3], right[4] = replace(right[3], hour=FIRST + HOUR), replace(right[4], hour=FIRST + HOUR)
    write_table(folder / "right", right, schema, table_id="right")
    tree = {**ONLINE, "train_data": {"merge_tables": MERGED}, "evaluation": {}}
    failed = run(make_toy(folder, tree))
    assert failed.code == 2
    assert "differ in minibatch 0 of hour 2021-01-01T01:00, key 'hit'" in failed.output


def evaluation(**options: Any) -> dict[str, Any]:
    return {"evaluation.eval_confs": [{"name": "a", "table": "clicks", "shifts": [1], **options}]}


MISTAKES: list[tuple[dict[str, Any], str]] = [
    (
        {"train_data.features": ["prize"]},
        "train_data.features: no column 'prize' in {clicks}. Did you mean 'price'? Available: ad, ",
    ),
    ({"train_data.targets": ["click"]}, "train_data.targets: no column 'click' in {clicks}. Did you mean 'clicked'?"),
    (
        {"train_data.start_date": "2022-01-01T00:00"},
        "start_date must be before 2021-01-01T06:00, the end of {clicks}, got 2022-01-01T00:00",
    ),
    (
        {"train_data.end_date": "2020-01-01T00:00"},
        "end_date must be after 2021-01-01T00:00, the start of {clicks}, got 2020-01-01T00:00",
    ),
    (
        {"train_data.start_date": "2021-01-01T00:30"},
        "train_data.start_date must be a whole hour, because {clicks} is split by the hour, got 2021-01-01T00:30",
    ),
    ({"train_data.start_date": "2021-01-01T00:00:01"}, "start_date must be a whole minute, got '2021-01-01T00:00:01'"),
    (
        {"train_data.replay": {"window": "90m"}},
        "train_data.replay.window must be whole hours, because {clicks} is split by the hour, got '90m'",
    ),
    ({"train_data.start_date": "soon"}, "start_date must be ISO, such as 2021-01-20T17:00, got 'soon'"),
    ({"train_data.table": "clacks"}, "train_data.table: {clacks} does not exist; expected a table"),
    ({"train_data.tabel": "clicks"}, "Did you mean 'train_data.table'"),
    ({"model.lrr": 1}, "config: the script does not read model.lrr."),
    ({"follow": True}, "is finished and never grows, so it cannot be followed"),
    (evaluation(shifts=[0]), "shifts[0]"),
    (evaluation(name="a/b"), "name 'a/b' must work as a folder name"),
    (evaluation(keys=["words"]), "key 'words'"),
    (evaluation(table="flat"), "evaluation.eval_confs[0]: {flat} has no hours, so it cannot be used online"),
    ({"init_from": "nothing"}, "/nothing does not exist"),
    ({"train_data.epoch_count": 3}, "epoch_count"),
]


@pytest.mark.parametrize(("change", "message"), MISTAKES)
def test_a_mistake_is_reported_and_leaves_nothing_behind(folder: Path, change: dict[str, Any], message: str) -> None:
    request = make_toy(folder, ONLINE, change)
    failed = run(request)
    assert failed.code == 2, failed.output
    assert message.format(clicks=folder / "clicks", clacks=folder / "clacks", flat=folder / "flat") in failed.output, (
        failed.output
    )
    assert not local(request.out).exists()


def test_a_missing_column_that_the_model_asks_for_is_reported_before_anything_is_written(folder: Path) -> None:
    request = make_toy(folder, ONLINE, {}, SCRIPT.replace('return ["ad", "price"]', 'return ["ad", "prices"]'))
    failed = run(request)
    assert failed.code == 2
    assert f"no column 'prices' in {folder}/clicks. Did you mean 'price'?" in failed.output
    assert not local(request.out).exists()


def test_another_config_is_refused_with_the_difference_but_free_keys_may_differ(folder: Path) -> None:
    request = make_toy(folder, ONLINE)
    assert run(request, KillingDisk(300)).was_killed
    refused = run(changed(request, "model", {"model.lr": 0.1}))
    assert refused.code == 2
    assert "model.lr,0.05,0.1" in refused.output
    without = {key: value for key, value in request.tree.items() if key != "num_threads"}
    straight = run_well(changed(request, "straight"))
    assert same(run_well(replace(request, tree={**without, "ttl_filter": {"frequency": 3}})), straight) == []


def test_points_since_the_last_snapshot_are_visible_at_once_and_gone_after_resuming(folder: Path) -> None:
    from samovar.results.event_file import read_scalars

    dying = SCRIPT.replace("        self.hours += 1\n", "        self.hours += 1\n        assert self.hours < 4\n")
    request = make_toy(folder, ONLINE, {"snapshotter.frequency": 1000}, dying)
    assert run(request).code == 1
    tail = local(request.out) / ".samovar" / "open" / "tensorboard--events.tfevents"
    assert {step for tag, step, _ in read_scalars(tail.read_bytes()) if tag == "policies/net.lr"} == {0, 1, 2}
    fixed = make_toy(folder, ONLINE, {"snapshotter.frequency": 1000})
    events = LocalStore(run_well(replace(fixed, accept_script=True))).read("logs/tensorboard/events.tfevents")
    assert [step for tag, step, _ in read_scalars(events) if tag == "policies/net.lr"] == list(range(6))
    assert not tail.exists()


def test_tensorboard_and_timing_logs_are_written(folder: Path) -> None:
    from samovar.results.event_file import read_scalars

    out = run_well(make_toy(folder, ONLINE))
    tags = {tag for tag, _, _ in read_scalars(LocalStore(out).read("logs/tensorboard/events.tfevents"))}
    assert tags == {"train/loss", "policies/net.lr", "policies/smoothing"} | {
        f"{kind}/log +{shift}h"
        for kind in ("auc", "log_loss", "calibration", "accuracy", "average_precision")
        for shift in (1, 2)
    }
    timing = [json.loads(line) for line in (out / "logs" / "timing.jsonl").read_text().splitlines()]
    assert len(timing) == 6
    assert open_directory(out).describe_state() == "finished"


@pytest.mark.parametrize("lacking", [FIRST + 2 * HOUR, FIRST + 3 * HOUR])
def test_a_join_with_a_missing_hour_is_an_error_at_every_start(quick_path: Path, lacking: int) -> None:
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


def test_another_table_in_place_of_a_followed_one_is_refused(quick_path: Path) -> None:
    write_table(quick_path / "clicks", make_hours([2, 1]), complete_until=FIRST + 2 * HOUR)
    change = {"follow": True, "train_data.end_date": "2021-01-01T04:00"}
    request = make_toy(quick_path, {**ONLINE, "evaluation": {}}, change)
    child = start(request)
    wait_while_running(
        child, lambda: (local(request.out) / "status.json").exists() and _next_uri(local(request.out)) == 2
    )
    other = make_hours([1, 1, 3, 3], number=5000)
    write_table(quick_path / "other", other, table_id="other", complete_until=FIRST + 4 * HOUR)
    shutil.move(quick_path / "clicks", quick_path / "old")
    shutil.move(quick_path / "other", quick_path / "clicks")
    ended = child.wait()
    assert ended.code == 2, ended.output
    assert (
        "was replaced by another table" in ended.output or "vanished" in ended.output or "nothing there" in ended.output
    )


def _next_uri(out: Path) -> int:
    names = committed_snapshots(LocalStore(out))
    return int(open_directory(out).load_model().position["next_uri"]) if names else 0


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
