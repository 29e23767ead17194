"""Training with hash embeddings: when ids expire, and what must not change a bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.training.toys import (
    FIRST,
    HOUR,
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

from samovar.embeddings import stored_tables
from samovar.provenance.contract import compare, contract_of
from samovar.provenance.verify import verify_resume
from samovar.tables import Ids
from samovar.tables.schema import Minibatch
from samovar.testing.disks import KillingDisk

SCRIPT = """
import torch
from torch import nn

import samovar
from samovar.embeddings import HashAdagrad
from samovar.policies import Exponential


class Model(samovar.BaseEmbeddingModel):
    def __init__(self, dim):
        super().__init__({"ad": dim, "words": dim})
        self.net = nn.Sequential(nn.Linear(2 * dim + 1, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))

    def forward(self, inputs):
        x = self.embed(inputs)
        return self.net(torch.cat([x["ad"], x["words"], x["price"].unsqueeze(1)], 1)).squeeze(1)

    def get_required_features_list(self):
        return ["ad", "words", "price"]


def loss(output, targets):
    return nn.functional.binary_cross_entropy_with_logits(output, targets["clicked"])


def build(params):
    model = Model(params.get("dim", 4))
    optimizers = {
        "emb": HashAdagrad(model.hash_embeddings(), lr=1.0, ttl=params.get("ttl", 1)),
        "net": torch.optim.Adam(model.dense_parameters()),
    }
    return samovar.Learner(model, optimizers, loss, torch.sigmoid, {"emb.lr": Exponential(params.lr, 0.9)})
"""


@pytest.fixture
def folder(quick_path: Path) -> Path:
    write_table(quick_path / "clicks", make_hours([2, 1, 0, 2, 1, 1, 2]))
    return quick_path


def same(left: Path, right: Path) -> list[str]:
    return compare(contract_of(left), contract_of(right))


def test_thirty_kills_change_no_bit(folder: Path) -> None:
    done = verify_resume(make_toy(folder, ONLINE, {"ttl_filter": {"frequency": 2}}, SCRIPT), 30, folder / "verify")
    assert (done.num_kills, done.differences) == (30, [])


def test_neither_sweeps_nor_evaluation_nor_snapshots_change_a_bit(folder: Path) -> None:
    request = make_toy(folder, ONLINE, {}, SCRIPT)
    straight = run_well(request)
    assert any(line["new_ids"]["ad"] for line in metrics(straight)[5:] if line["kind"] == "train")
    for frequency in (2, 100):
        rarely = changed(request, f"rarely{frequency}", {"ttl_filter": {"frequency": frequency}})
        assert same(run_well(rarely), straight) == []
    alone = run_well(changed(request, "alone", {"evaluation": None, "snapshotter": {"frequency": 100}}))
    for name in ("state.json", "arrays.safetensors"):
        assert (alone / "model" / name).read_bytes() == (straight / "model" / name).read_bytes()


def test_offline_kills_change_no_bit_either(folder: Path) -> None:
    request = make_toy(folder, OFFLINE, {"train_data.shuffle": True}, SCRIPT)
    straight = run_well(request)
    killed = changed(request, "killed", {"ttl_filter": {"frequency": 3}})
    for point in (280, 390, 470):
        assert run(killed, KillingDisk(point)).was_killed
    assert same(run_well(killed), straight) == []


def test_neither_kills_nor_sweeps_change_a_bit_of_the_best_epoch(folder: Path) -> None:
    change = {
        "train_data.epoch_count": 4,
        "model.lr": 0.5,
        "evaluation": {"eval_confs": [{"name": "seen", "table": "clicks"}], "best": {"metric": "seen.calibration"}},
    }
    request = make_toy(folder, OFFLINE, change, SCRIPT)
    straight = run_well(request)
    assert (straight / "best" / "state.json").exists()
    killed = changed(request, "killed", {"ttl_filter": {"frequency": 5}})
    for point in (400, 500, 600):
        assert run(killed, KillingDisk(point)).was_killed
    assert same(run_well(killed), straight) == []


def hour_of(ads: list[int], number: int) -> Minibatch:
    made = make_minibatch(number, FIRST + number * HOUR, len(ads))
    values = {**made.values, "ad": Ids(np.array(ads, np.uint64), np.ones(len(ads), np.int32))}
    return Minibatch(made.hour, made.num_examples, values)


def ads_of(out: Path) -> dict[int, int]:
    """The final model's ads with the clock of their last use."""
    (table,) = [table for table in stored_tables(out) if table.name == "ad"]
    return {
        int(ad): int(stamp)
        for shard in table.state["shards"]
        for ad, stamp in zip(shard["ids"], shard["stamps"], strict=True)
    }


def test_an_id_lives_for_ttl_hours_with_data_and_counts_as_new_when_it_returns(folder: Path) -> None:
    hours = {0: [1, 2, 3], 1: [1], 3: [1, 2], 4: [1], 5: [1], 6: [1, 3]}  # hour 2 has no rows and does not count
    write_table(folder / "lives", [hour_of(ads, number) for number, ads in hours.items()], table_id="lives")
    config: dict[str, Any] = {**ONLINE, "evaluation": {}}
    request = make_toy(folder, config, {"train_data.table": "lives", "model.ttl": 2}, SCRIPT)
    out = run_well(request)
    lines = [line for line in metrics(out) if line["kind"] == "train"]
    # 2 is used at clock 1 and 3, so it lives until clock 5; 3 is used at clock 1 and expires at clock 4 = 1 + ttl + 1.
    assert [line["live_ids"]["ad"] for line in lines] == [3, 3, 3, 3, 2, 2, 2]
    assert [line["new_ids"]["ad"] for line in lines] == [3, 0, 0, 0, 0, 0, 1]
    assert ads_of(out) == {1: 6, 3: 6}
    rarely = changed(request, "rarely", {"ttl_filter": {"frequency": 100}})
    assert same(run_well(rarely), out) == []


def test_init_from_continues_with_tables_and_clock(folder: Path) -> None:
    first = make_toy(folder, ONLINE, {"train_data.end_date": "2021-01-01T04:00"}, SCRIPT)
    origin = run_well(first)
    later = {"start_date": "2021-01-01T04:00", "end_date": "2021-01-01T07:00"}
    second = run_well(changed(first, "second", {"init_from": "model", "train_data": later}))
    clocks = [stored_tables(out)[0].clock for out in (origin, second)]
    assert clocks == [3, 6]


def test_an_embedding_with_two_names_is_swept_as_one(folder: Path) -> None:
    script = SCRIPT.replace("        self.net = nn", "        self.tower = self.embedding\n        self.net = nn")
    often = make_toy(folder, ONLINE, {"model.ttl": 1}, script)
    rarely = changed(often, "rarely", {"ttl_filter": {"frequency": 100}})
    assert same(run_well(often), run_well(rarely)) == []


def test_tables_of_one_name_in_two_embeddings_are_counted_together(folder: Path) -> None:
    script = SCRIPT.replace(
        "        self.net = nn", '        self.wide = samovar.HashEmbedding({"ad": 1})\n        self.net = nn'
    ).replace("x = self.embed(inputs)", 'x = self.embed(inputs)\n        self.wide({"ad": inputs["ad"]})')
    new = [line["new_ids"] for line in metrics(run_well(make_toy(folder, ONLINE, None, SCRIPT))) if "new_ids" in line]
    out = run_well(changed(make_toy(folder, ONLINE, None, script), "wide"))
    both = [line["new_ids"] for line in metrics(out) if "new_ids" in line]
    assert [line["ad"] for line in both] == [2 * line["ad"] for line in new]


def test_a_policy_cannot_change_the_ttl(folder: Path) -> None:
    script = SCRIPT.replace('{"emb.lr": Exponential(params.lr, 0.9)}', '{"emb.ttl": Exponential(params.lr, 0.9)}')
    ended = run(make_toy(folder, ONLINE, None, script))
    assert ended.code == 2
    assert "ttl cannot change during training, it was 1 and became 0.05" in ended.output
