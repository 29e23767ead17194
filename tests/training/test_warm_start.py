"""Starting from another model, from vectors, and with frozen parts."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.places import local
from tests.training.test_train_hash_embeddings import SCRIPT
from tests.training.toys import OFFLINE, ONLINE, changed, make_hours, make_toy, metrics, run, run_well, write_table

import samovar
from samovar.embeddings import StoredTable, stored_tables
from samovar.embeddings.vectors import write_vectors
from samovar.provenance import audit, chain, replay, why
from samovar.provenance.contract import compare, contract_of
from samovar.provenance.verify import run_in_child, verify_resume
from samovar.results import open_directory
from samovar.testing.disks import KillingDisk
from samovar.training import try_batches
from samovar.training.request import Request, make_request

OTHER = """
import torch
from torch import nn

import samovar
from samovar.embeddings import HashAdagrad


class Model(samovar.BaseEmbeddingModel):
    def __init__(self, wide):
        super().__init__({"ad": wide, "text": 4})
        self.tower = nn.Sequential(nn.Linear(wide + 5, 8), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(8, 1)

    def forward(self, inputs):
        x = self.embed({**inputs, "text": inputs["words"]})
        return self.head(self.tower(torch.cat([x["ad"], x["text"], x["price"].unsqueeze(1)], 1))).squeeze(1)

    def get_required_features_list(self):
        return ["ad", "words", "price"]


def loss(output, targets):
    return nn.functional.binary_cross_entropy_with_logits(output, targets["clicked"])


def build(params):
    model = Model(params.get("wide", 4))
    optimizers = {
        "emb": HashAdagrad(model.hash_embeddings(), lr=params.lr, ttl=params.ttl),
        "net": torch.optim.Adam(model.dense_parameters()),
    }
    return samovar.Learner(model, optimizers, loss, torch.sigmoid)
"""
"""The model of `SCRIPT` with other names: words are called text, and the last layer is apart."""

MATCH = {"embedding.words": "embedding.text", "net": "tower", "net.3": "head"}


@pytest.fixture
def folder(quick_path: Path) -> Path:
    write_table(quick_path / "clicks", make_hours([2, 1, 0, 2, 1, 1, 2]))
    return quick_path


def weights_of(out: Path) -> dict[str, Any]:
    tree = open_directory(out).load_model().tree
    return {name: value for name, value in tree["model"]["weights"].items() if not name.endswith("_extra_state")}


def table_of(out: Path, name: str) -> StoredTable:
    return next(table for table in stored_tables(out) if table.name == name)


def rows_of(out: Path, name: str) -> dict[int, list[float]]:
    shards = table_of(out, name).state["shards"]
    return {int(each): row.tolist() for shard in shards for each, row in zip(shard["ids"], shard["rows"], strict=True)}


def start_from(request: Request, script: str, out: str, change: dict[str, Any]) -> Request:
    """A new run with another script, in epochs over the same table."""
    (local(request.folder) / "other.py").write_text(script)
    config = {"init_from": None, "train_data.max_iter": 1, **change}
    path = local(request.folder) / f"{out}.json"
    path.write_text(json.dumps(request.tree))
    made = make_request(path, request.folder / "other.py", out=request.folder / out)
    return changed(made, out, config)


@pytest.fixture
def origin(folder: Path) -> Request:
    request = make_toy(folder, OFFLINE, {"model.ttl": 100}, SCRIPT)
    run_well(request)
    return request


def test_renamed_parts_are_taken_with_the_state_of_their_optimizers(origin: Request) -> None:
    both = {"init_from": {"model": "model", "match": MATCH}, "model.lr": 0.0}
    request = start_from(origin, OTHER, "renamed", both)
    out = run_well(request)
    start = json.loads((out / "start.json").read_text())
    assert start["taken"]["tower.0.weight"] == "net.0.weight"
    assert start["taken"]["embedding.text"] == "embedding.words"
    assert start["taken"]["head.bias"] == "net.3.bias"
    assert (start["dropped"], start["new"], start["optimizers"]) == ([], [], ["emb", "net"])
    old, new = open_directory(origin.out).load_model().tree, open_directory(out).load_model().tree
    steps = [tree["optimizers"]["net"]["state"][0]["step"].item() for tree in (old, new)]
    assert steps == [18, 19]
    before, after = rows_of(local(origin.out), "words"), rows_of(out, "text")
    assert before.keys() <= after.keys()
    assert all(after[each][:4] == row[:4] for each, row in before.items())  # the rate is 0
    assert (table_of(local(origin.out), "words").clock, table_of(out, "text").clock) == (6, 7)
    assert audit(out).differences == []
    keys = [link.source.key for link in chain(out).links]
    assert "init_from.model" in keys


def test_what_does_not_fit_is_dropped_resized_and_new_and_kills_change_no_bit(origin: Request) -> None:
    options = {
        "model": "model", "match": {"embedding.words": "embedding.text"}, "drop": ["net"],
        "resize_embeddings": True, "optimizers": ["emb"],
    }  # fmt: skip
    change = {"init_from": options, "model.wide": 6, "train_data.max_iter": None, "frozen": ["head"]}
    request = start_from(origin, OTHER, "resized", change)
    done = verify_resume(request, 5, local(origin.folder) / "verify")
    assert (done.num_kills, done.differences) == (5, [])
    straight = local(origin.folder) / "verify" / "straight"
    start = json.loads((straight / "start.json").read_text())
    assert start["resized"] == {"embedding.ad": [4, 6]}
    assert start["dropped"] == ["net.0.weight", "net.0.bias", "net.3.weight", "net.3.bias"]
    assert start["new"] == ["tower.0.weight", "tower.0.bias", "head.weight", "head.bias"]
    assert start["position"] == {"next_uri": 6, "trained": "epoch 1, minibatches 6 to 8"}
    killed = changed(request, "killed")
    assert run(killed, KillingDisk(300)).was_killed
    shutil.rmtree(local(origin.out))  # the started run has its own copy
    assert compare(contract_of(straight), contract_of(run_well(killed))) == []


def test_a_strict_start_names_the_differences_and_the_keys_that_allow_them(origin: Request) -> None:
    request = start_from(origin, OTHER, "strict", {"init_from": "model", "model.wide": 6})
    ended = run(request)
    assert ended.code == 2, ended.output
    assert "init_from: " in ended.output
    for text in (
        "does not fit the model that the script builds",
        "hash table 'embedding.words' is saved, and the model has no 'embedding.words'",
        "hash table 'embedding.ad' has dimension 4 in the saved model and 6 here",
        '"drop": ["embedding.words", "net"], "resize_embeddings": true, "optimizers": false}',
    ):
        assert text in ended.output, ended.output
    options = {"model": "model", "match": MATCH, "drop": ["net.0"], "resize_embeddings": True, "optimizers": False}
    corrected = start_from(origin, OTHER, "strict", {"model.wide": 6, "init_from": options})
    run_well(corrected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"match": {"nets": "tower"}}, "match: no part of the saved model begins with 'nets'. Did you mean 'net'"),
        ({"drop": ["embeddin"]}, "drop: no part of the saved model begins with 'embeddin'. Did you mean"),
        ({"match": {"net.0": "net.3"}}, "match: 'net.3.weight' and 'net.0.weight' of the saved model both become"),
        ({"drop": ["net.3"]}, "the state of the optimizer 'net' cannot be taken: 'net.3.weight' is new"),
        ({"optimizers": ["embs"]}, "init_from.optimizers: no optimizer 'embs'. Did you mean 'emb'"),
    ],
)  # fmt: skip
def test_a_bad_start_is_refused_and_leaves_nothing_behind(
    origin: Request, options: dict[str, Any], message: str
) -> None:
    request = changed(origin, "next", {"init_from": {"model": "model", **options}})
    ended = run(request)
    assert (ended.code, message in ended.output) == (2, True), ended.output
    run_well(changed(origin, "next", {"init_from": "model"}))


def test_an_optimizer_of_another_kind_needs_a_fresh_state(origin: Request) -> None:
    script = SCRIPT.replace("HashAdagrad", "HashAdam")
    request = start_from(origin, script, "kinds", {"init_from": {"model": "model"}})
    ended = run(request)
    assert ended.code == 2
    assert "hash table 'embedding.ad' was trained with adagrad, and now has adam" in ended.output
    assert '"optimizers": false' in ended.output
    run_well(changed(request, "kinds", {"init_from": {"model": "model", "optimizers": False}}))
    swapped = SCRIPT.replace("model.dense_parameters()", "reversed(list(model.dense_parameters()))")
    ended = run(start_from(origin, swapped, "order", {"init_from": {"model": "model", "match": {"net": "net"}}}))
    assert (ended.code, "its parameters have another order or other shapes" in ended.output) == (2, True), ended.output


def test_a_dry_run_starts_the_same_way(origin: Request) -> None:
    described = try_batches(changed(origin, "dry", {"init_from": {"model": "model", "optimizers": False}}), 1)
    assert "1 minibatches" in described


def test_frozen_parts_do_not_change(origin: Request) -> None:
    frozen = {"init_from": "model", "frozen": ["embedding.ad", "net.0"], "model.ttl": 0, "train_data.epoch_count": 3}
    out = run_well(changed(origin, "frozen", frozen))
    before, after = weights_of(local(origin.out)), weights_of(out)
    assert [name for name in before if before[name].equal(after[name])] == ["net.0.weight", "net.0.bias"]
    old, new = table_of(local(origin.out), "ad"), table_of(out, "ad")
    assert rows_of(local(origin.out), "ad") == rows_of(out, "ad")
    assert new.ttl is None
    assert sum(old.count_ages().values()) == sum(new.count_ages().values())
    assert rows_of(local(origin.out), "words") != rows_of(out, "words")
    assert {line["new_ids"]["ad"] for line in metrics(out) if line["kind"] == "train"} == {0}


def test_a_frozen_table_scores_after_its_ttl(folder: Path) -> None:
    """Evaluation, prediction and `load` build the model again, and must freeze it again."""
    vectors = np.ones((1000, 4), np.float32)
    write_vectors(folder / "ads.parquet", iter([(np.arange(1000, dtype=np.uint64), vectors)]), 4)
    change = {"pretrained": {"embedding.ad": "ads.parquet"}, "frozen": ["embedding.ad"], "model.ttl": 1}
    request = make_toy(folder, ONLINE, change, SCRIPT)
    out = run_well(request)
    assert rows_of(out, "ad") == {each: [1.0] * 4 + [0.0] * 4 for each in range(1000)}

    def score() -> None:
        assert samovar.load(out).embedding("ad", [5, 1000]).tolist() == [[1.0] * 4, [0.0] * 4]

    ended = run_in_child(score, folder / "child.log")
    assert ended.code == 0, ended.output


@pytest.mark.parametrize(
    ("prefixes", "message"),
    [
        (["embedding.add"], "no parameter or hash table begins with 'embedding.add'. Did you mean 'embedding.ad'"),
        (["ne"], "frozen: no parameter or hash table begins with 'ne'. Did you mean 'net'?"),
        (["embedding", "net"], "frozen: embedding, net is all that the model learns"),
    ],
)  # fmt: skip
def test_a_prefix_that_cannot_be_frozen_is_refused(folder: Path, prefixes: list[str], message: str) -> None:
    ended = run(make_toy(folder, OFFLINE, {"frozen": prefixes}, SCRIPT))
    assert (ended.code, message in ended.output) == (2, True), ended.output
    assert not (folder / "model" / "model_config.json").exists()


def test_pretrained_vectors_survive_kills_and_count_by_content(folder: Path) -> None:
    file = folder / "ads.parquet"
    ids = np.array([0, 3, 6, 10**6], np.uint64)
    write_vectors(file, iter([(ids, np.full((4, 4), 0.5, np.float32))]), 4)
    request = make_toy(folder, ONLINE, {"pretrained": {"embedding.ad": "ads.parquet"}, "model.ttl": 100}, SCRIPT)
    done = verify_resume(request, 5, folder / "verify")
    assert (done.num_kills, done.differences) == (5, [])
    out = run_well(request)
    assert json.loads((out / "start.json").read_text())["pretrained"] == {"embedding.ad": 4}
    assert rows_of(out, "ad")[10**6] == [0.5] * 4 + [0.0] * 4
    assert rows_of(out, "ad")[3][:4] != [0.5] * 4  # it was trained
    assert next(line["new_ids"]["ad"] for line in metrics(out)) < len(rows_of(out, "ad"))

    def again() -> None:
        assert replay(out).differences == []

    assert run_in_child(again, folder / "replay.log").code == 0
    assert run(request).code == 0  # finished
    assert ('pretrained["embedding.ad"]', "raw files") in [(each.source.key, each.state) for each in chain(out).links]
    file.unlink()
    write_vectors(file, iter([(ids, np.full((4, 4), 0.25, np.float32))]), 4)
    assert any("ads.parquet" in line for line in why(out).raw_files)
    refused = run(request)
    assert refused.code == 2
    assert 'pretrained[""embedding.ad""]' in refused.output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"embedding.ads": "ads.parquet"}, "pretrained: no hash table 'embedding.ads'. Did you mean 'embedding.ad'"),
        ({"embedding.words": "ads.parquet"}, 'pretrained["embedding.words"]: '),
        ({"embedding.ad": "ad.parquet"}, "ad.parquet cannot be read: No such file or directory"),
    ],
)
def test_vectors_that_do_not_fit_are_refused_and_leave_nothing_behind(
    folder: Path, change: dict[str, str], message: str
) -> None:
    write_vectors(folder / "ads.parquet", iter([(np.zeros(1, np.uint64), np.ones((1, 4), np.float32))]), 4)
    script = SCRIPT.replace('"words": dim', '"words": 3').replace("2 * dim", "dim + 3")
    ended = run(make_toy(folder, OFFLINE, {"pretrained": change}, script))
    assert (ended.code, message in ended.output) == (2, True), ended.output
    assert run(make_toy(folder, OFFLINE, {"pretrained": {"embedding.ad": "ads.parquet"}}, script)).code == 0
