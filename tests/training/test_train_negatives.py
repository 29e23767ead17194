"""Training with sampled negatives: what must not change a bit, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from tests.training.test_train_hash_embeddings import SCRIPT
from tests.training.toys import (
    FIRST,
    HOUR,
    OFFLINE,
    ONLINE,
    changed,
    make_hours,
    make_toy,
    metrics,
    run,
    run_well,
    write_table,
)

from samovar.hours import show_hour
from samovar.provenance.verify import verify_resume

LOSS = """
def loss(output, targets):
    offsets = samovar.losses.group_offsets(targets["group_start"])
    return samovar.losses.softmax(output - targets["sampling_probability"].log(), targets["clicked"], offsets)
"""
RANKER = SCRIPT.replace("def loss(", "def plain(").replace("def build", f"{LOSS.strip()}\n\n\ndef build")
NEGATIVES = {"train_data": {"negatives": {"columns": ["ad", "words"], "by": "frequency", "count": 2, "window": "2h"}}}


@pytest.fixture
def folder(quick_path: Path) -> Path:
    write_table(quick_path / "clicks", make_hours([2, 1, 0, 2, 1, 1, 2]))
    return quick_path


def test_kills_change_no_bit_online_with_replay(folder: Path) -> None:
    request = make_toy(folder, ONLINE, NEGATIVES, RANKER)
    replayed = changed(request, "replayed", {"train_data.replay": {"rows": 1, "window": "3h"}})
    done = verify_resume(replayed, 5, folder / "verify")
    assert (done.num_kills, done.differences) == (5, [])
    plain = run_well(make_toy(folder, ONLINE, {}, SCRIPT))
    counts = [
        [line["num_examples"] for line in metrics(out) if line["kind"] == "train"]
        for out in (plain, folder / "verify" / "straight")
    ]
    assert counts[0] == counts[1]


def test_kills_change_no_bit_offline(folder: Path) -> None:
    options = {"columns": ["ad"], "target": "clicked"}
    request = make_toy(folder, OFFLINE, {"train_data": {"negatives": options, "shuffle": True}}, RANKER)
    done = verify_resume(request, 4, folder / "verify")
    assert (done.num_kills, done.differences) == (4, [])


def test_hours_that_come_later_change_no_bit(folder: Path) -> None:
    until = {"train_data": {"end_date": show_hour(FIRST + 5 * HOUR)}, "evaluation": None}
    request = changed(make_toy(folder, ONLINE, NEGATIVES, RANKER), "long", until)
    write_table(folder / "short_table", make_hours([2, 1, 0, 2, 1]))
    short = changed(request, "short", {"train_data": {"table": "short_table"}})
    models = [run_well(each) / "model" for each in (request, short)]
    for name in ("state.json", "arrays.safetensors"):
        assert (models[0] / name).read_bytes() == (models[1] / name).read_bytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"negatives": {"columns": ["ads"]}}, "columns: 'ads' is not a feature of the model. Did you mean 'ad'"),
        ({"negatives": {"columns": ["price"]}}, "negatives.columns: 'price' must be a categorical column, got real"),
        ({"negatives": {"columns": ["ad"], "window": "1m"}}, "window must be whole hours"),
        ({"negatives": {"columns": []}}, "columns"),
        (
            {"negatives": {"columns": ["ad"]}, "targets": ["clicked", "price"], "allow_targets_as_features": True},
            "Which of clicked, price is 0 for",
        ),
        ({"negatives": {"columns": ["words"]}}, "negatives.columns: 'words' must have at most one id per row"),
        ({"negatives": {"columns": ["ad"], "by": "luck"}}, "negatives.by must be 'uniform' or 'frequency'"),
    ],
)  # fmt: skip
def test_negatives_that_cannot_be_are_refused(folder: Path, data: dict[str, Any], message: str) -> None:
    ended = run(make_toy(folder, ONLINE, {"train_data": data}, RANKER))
    assert (ended.code, message in ended.output) == (2, True), ended.output
    assert not (folder / "model" / "model_config.json").exists()
