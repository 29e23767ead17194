"""A bundle gives the bits of the model's own code without that code; what cannot be exported is refused by its line."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.training.rows import COLUMNS, SCRIPT, make_frame
from torch import nn

import samovar
from samovar.embeddings import HashAdagrad
from samovar.errors import BadInput, Conflict, CorruptData, NotAResult
from samovar.provenance.auditing import audit
from samovar.results import open_directory
from samovar.runner import Learner
from samovar.runner.scaling import scale_inputs
from samovar.scoring.frozen import FrozenModel
from samovar.scoring.samples import sample_inputs
from samovar.scoring.signature import Signature
from samovar.scoring.tiles import score
from samovar.scoring.weights import weights_tree
from samovar.tables import Bag, ColumnSchema
from samovar.training import PredictionDirectory
from samovar.training.tracing import hash_embeddings, trace

QUIET: dict[str, Any] = {"num_threads": 1, "progress": False}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, a trained model with its predictions, and its bundle."""
    folder = tmp_path_factory.mktemp("export")
    (folder / "model.py").write_text(SCRIPT)
    table = samovar.brew(make_frame(), folder / "table", time="time", columns=COLUMNS, batch_size=50, progress=False)
    run = samovar.train(folder / "model.py", table, targets=["clicked"], model_dir=folder / "model", **QUIET)
    samovar.predict(run, table, folder / "predictions", keys=["hit"])
    samovar.export(folder / "model", folder / "bundle")
    return folder


def bits(scores: Any) -> bytes:
    return np.ascontiguousarray(scores, np.float32).tobytes()


def predicted(place: Path) -> Any:
    found = PredictionDirectory.of(place / "predictions").predictions()
    return np.asarray(found.sort_values("hit")["prediction"])


def test_a_bundle_scores_as_predict_and_load_do(place: Path) -> None:
    frame = make_frame()
    bundle = samovar.load(place / "bundle")
    assert bits(bundle.predict(frame)) == bits(predicted(place)) == bits(samovar.load(place / "model").predict(frame))
    order = np.random.default_rng(0).permutation(len(frame))
    assert bits(bundle.predict(frame.iloc[order])) == bits(predicted(place)[order])
    assert bits(bundle.predict(samovar.open_table(place / "table"))) == bits(predicted(place))
    user = int(frame["user"].dropna().iloc[-1])
    assert bits(bundle.embedding("user", [user])) == bits(samovar.load(place / "model").embedding("user", [user]))


def test_a_bundle_says_what_it_predicts_and_how_it_was_checked(place: Path) -> None:
    (output,) = samovar.load(place / "bundle").signature.outputs
    assert (output.name, output.shape, output.dtype) == ("", (), "float32")
    verdict = json.loads((place / "bundle/check.json").read_text())
    assert (verdict["is_exact"], verdict["eager"]) == (True, 0.0)
    assert open_directory(place / "bundle", "bundle").lineage.sources[0].path == str(place / "model")


def test_exporting_again_does_nothing_and_never_overwrites(place: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (place / "bundle").glob("*.json")}
    samovar.export(place / "model", place / "bundle")
    assert before == {path: path.stat().st_mtime_ns for path in (place / "bundle").glob("*.json")}
    with pytest.raises(Conflict, match="weights"):
        samovar.export(place / "model", place / "bundle", weights="fp16")
    with pytest.raises(NotAResult, match="is a bundle, not a model"):
        samovar.export(place / "bundle", place / "again")


def test_a_bundle_runs_without_the_script_and_the_model(place: Path, tmp_path: Path) -> None:
    (place / "bundle").rename(tmp_path / "bundle")
    make_frame().to_parquet(tmp_path / "rows.parquet")
    code = """
import pickle, sys
import numpy, pandas, torch, samovar

def refuse(*_, **__):
    raise AssertionError("code was loaded")

frame = pandas.read_parquet("rows.parquet")
samovar.load("bundle").predict(frame)  # what Python itself imports on first use
opened, foreign = [], []
def watch(event, arguments):
    if event in ("exec", "compile"):
        name = arguments[0].co_filename if event == "exec" else str(arguments[1])
        if not name.startswith((sys.prefix, sys.base_prefix, "<frozen")) and "samovar" not in name:
            foreign.append((event, name))
    if event == "open":
        opened.append(str(arguments[0]))
torch.load = pickle.load = pickle.loads = pickle.Unpickler = refuse
sys.addaudithook(watch)
scores = samovar.load("bundle").predict(frame)
assert not foreign, foreign
assert any("program.json" in name for name in opened)
numpy.save("scores.npy", scores)
"""
    try:
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert bits(np.load(tmp_path / "scores.npy")) == bits(predicted(place))
        assert [line for line in audit(tmp_path / "bundle").differences if "bundle" in line] == []

    finally:
        (tmp_path / "bundle").rename(place / "bundle")


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_fewer_bytes_are_reported_with_what_they_change(place: Path, tmp_path: Path, precision: Any) -> None:
    table = samovar.open_table(place / "table")
    model = samovar.export(place / "model", tmp_path / "small", weights=precision, check=table)
    verdict = json.loads((tmp_path / "small/check.json").read_text())
    change = np.abs(model.predict(make_frame()) - predicted(place)).max()
    assert 0 < verdict["precision_change"] < 0.05
    assert change == pytest.approx(verdict["precision_change"])
    assert verdict["auc"] != verdict["auc_of_bundle"]
    assert verdict["auc"] == pytest.approx(verdict["auc_of_bundle"], abs=0.05)
    sizes = [num_bytes(folder) for folder in (place / "bundle", tmp_path / "small")]
    assert sizes[1] < sizes[0]


def num_bytes(bundle: Path) -> int:
    """Of the numbers, without the header of their file."""
    data = (bundle / "weights/arrays.safetensors").read_bytes()
    return len(data) - int.from_bytes(data[:8], "little")


def test_an_unfinished_model_is_exported_from_its_snapshot(place: Path, tmp_path: Path) -> None:
    class Stop(samovar.Callback):
        def on_uri_end(self, run: Any) -> None:
            if run.next_uri == 3:
                raise samovar.errors.Stopped("enough")

    arguments: dict[str, Any] = {"targets": ["clicked"], "snapshotter": {"frequency": 0}, "pipeline": "online", **QUIET}
    with pytest.raises(samovar.errors.Stopped):
        samovar.train(place / "model.py", place / "table", model_dir=tmp_path / "part", callbacks=[Stop()], **arguments)
    with pytest.raises(NotAResult, match="snapshot=True"):
        samovar.export(tmp_path / "part", tmp_path / "bundle")
    model = samovar.export(tmp_path / "part", tmp_path / "bundle", snapshot=True)
    expected = samovar.load(tmp_path / "part", snapshot=True).predict(make_frame())
    assert bits(model.predict(make_frame())) == bits(expected)


# Nets of many kinds

SIGNATURE = Signature(
    (
        ColumnSchema("user", "categorical", 1, "uint64", {"role": "id"}),
        ColumnSchema("words", "categorical", 1, "list<item: uint64>", {"role": "id"}),
        ColumnSchema("seen", "categorical", 2, "list<item: uint64>", {"role": "id_sequence"}),
        ColumnSchema("price", "real", 1, "double", {"role": "number"}),
        ColumnSchema("vector", "real", 2, "list<item: double>", {"role": "number", "shape": [3]}),
        ColumnSchema("weight", "real", 1, "double", {"role": "number", "scale": "running"}),
    )
)
Forward = Callable[["Net", dict[str, torch.Tensor], Mapping[str, Any]], Any]


class Net(samovar.BaseEmbeddingModel):
    def __init__(self, forward: Forward) -> None:
        super().__init__({"user": 4, "words": 4, "seen": 8}, pooling={"words": "mean"})
        self.linear = nn.Linear(16, 8)
        self.norm = nn.BatchNorm1d(16)
        self.layer = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.gru = nn.GRU(8, 5, batch_first=True)
        self.convolution = nn.Conv1d(8, 4, 3, padding=1)
        self.dropout = nn.Dropout(0.5)
        self._function = forward

    def forward(self, inputs: Mapping[str, Any]) -> Any:
        return self._function(self, self.embed(inputs), inputs)


def flat(x: Mapping[str, torch.Tensor]) -> torch.Tensor:
    numbers = [x["price"][:, None], x["weight"][:, None], x["vector"]]
    return torch.cat([x["user"], x["words"], *numbers, x["price"][:, None].expand(-1, 3)], 1)


def wide(net: Net, x: dict[str, torch.Tensor], inputs: Mapping[str, Any]) -> Any:
    return net.dropout(torch.relu_(net.norm(flat(x)))).sum(1)


def mask_of(inputs: Mapping[str, Any]) -> Any:
    return inputs["seen"].data_len > 0


def attend(net: Net, x: dict[str, torch.Tensor], inputs: Mapping[str, Any]) -> Any:
    mask = mask_of(inputs)
    mask[:, 0] = True
    found = net.attention(x["seen"], x["seen"], x["seen"], key_padding_mask=~mask)[0]
    return (found * mask[..., None]).sum((1, 2))


def encode(net: Net, x: dict[str, torch.Tensor], inputs: Mapping[str, Any]) -> Any:
    return net.encoder(x["seen"]).mean(1).sum(1)


def several(net: Net, x: dict[str, torch.Tensor], inputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    h = flat(x)
    h += 1
    return {"logits": net.linear(h), "price": x["price"] * 2, "top": h.topk(2, 1).values}


def convolve(net: Net, x: dict[str, torch.Tensor], inputs: Mapping[str, Any]) -> Any:
    found = net.convolution(x["seen"].transpose(1, 2)).amax(2).sum(1)
    places = torch.arange(x["seen"].shape[1])
    last = (mask_of(inputs) * places).argmax(1)
    rows = x["seen"].gather(1, last[:, None, None].expand(-1, 1, 8)).squeeze(1)
    return found + net.layer(rows).square().mean(1) + torch.where(x["price"] > 0, x["price"], 0.5)


def use_concat(net: Net, x: dict[str, torch.Tensor], inputs: Mapping[str, Any]) -> Any:
    pair = {name: inputs[name] for name in ("words", "user")}
    return net.linear(net.embedding.concat(pair, [inputs["vector"], inputs["price"], *[inputs["weight"]] * 4])).sum(1)


def decide(net: Net, x: dict[str, torch.Tensor], inputs: Mapping[str, Any]) -> Any:
    if x["price"].sum() > 0:
        return x["price"]
    return x["weight"]


def make_bag(net: Net, x: dict[str, torch.Tensor], inputs: Mapping[str, Any]) -> Any:
    seen = inputs["seen"]
    bag = Bag(seen.data, seen.data_len.sum(1, dtype=torch.int32))
    return net.embedding({"seen": bag})["seen"].sum(1)


def draw(net: Net, x: dict[str, torch.Tensor], inputs: Mapping[str, Any]) -> Any:
    return x["price"] + torch.rand_like(x["price"])


def leave_torch(net: Net, x: dict[str, torch.Tensor], inputs: Mapping[str, Any]) -> torch.Tensor:
    return torch.from_numpy(np.exp(x["price"].numpy()))


def keep_long(net: Net, x: dict[str, torch.Tensor], inputs: Mapping[str, Any]) -> torch.Tensor:
    return x["seen"].sum((1, 2)) if x["seen"].shape[1] > 3 else x["price"]


def drop_always(net: Net, x: dict[str, torch.Tensor], inputs: Mapping[str, Any]) -> torch.Tensor:
    return nn.functional.dropout(x["price"], 0.5)


def count_calls(net: Net, x: dict[str, torch.Tensor], inputs: Mapping[str, Any]) -> torch.Tensor:
    assert net.norm.num_batches_tracked is not None
    net.norm.num_batches_tracked += 1
    return x["price"]


def learner_of(forward: Forward, **options: Any) -> Learner:
    """A model that has seen some rows."""
    torch.manual_seed(3)
    net = Net(forward)
    scale_inputs(net, SIGNATURE.inputs)
    optimizer = HashAdagrad(net.hash_embeddings(), lr=1.0, ttl=5)
    for seed in range(3):
        net.train()
        output = net(sample_inputs(SIGNATURE, 64, {}, seed=seed))
        found = output["logits"] if isinstance(output, dict) else output
        found.sum().backward() if found.requires_grad else None
        optimizer.step()
        optimizer.zero_grad()
    return Learner(net, [optimizer], lambda output, targets: output.sum(), **options)


@pytest.mark.parametrize(
    ("forward", "tolerance"),
    [
        (wide, 0.0),
        (several, 0.0),
        (convolve, 0.0),
        (use_concat, 0.0),
        (attend, 1e-6),  # torch's own code takes a faster way that tracing cannot see
        pytest.param(encode, 1e-6, marks=pytest.mark.long),
    ],
)
def test_a_program_gives_the_bits_of_eager_code(forward: Forward, tolerance: float) -> None:
    learner = learner_of(forward)
    traced = trace(learner, SIGNATURE, 1, 0, "net")
    embeddings = {path: hash_embeddings(learner.model)[path] for path in traced.program.embeddings}
    tree = weights_tree(traced.dense(learner.model), embeddings)
    tree["embeddings"] = {
        path: {**each, "tables": {name: [dict(shard, rows=np.asarray(shard["rows"])) for shard in shards]
                                  for name, shards in each["tables"].items()}}
        for path, each in tree["embeddings"].items()
    }  # fmt: skip
    frozen = FrozenModel(traced.program, traced.signature, tree, "net")
    known = frozen.known_ids()
    for length in (1, 2, 7, 33):
        inputs = sample_inputs(SIGNATURE, 70, known, max_length=length, seed=length)
        ours = frozen.apply(inputs, 70)
        learner.model.eval()
        with torch.no_grad():
            eager = score(lambda tile: learner.predict(learner.model(tile)), inputs, 70)
        for name in ours if isinstance(ours, dict) else [None]:
            one, two = (each if name is None else each[name] for each in (ours, eager))
            torch.testing.assert_close(one, two, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("forward", "options", "message"),
    [
        (
            decide,
            {},
            r"which way `forward` takes depends on values.*test_exporting.py:\d+: if x\[\"price\"\].sum\(\) > 0",
        ),
        (
            make_bag,
            {},
            r"'seen' is looked up in a bag that `forward` makes itself \(.*test_exporting.py:\d+: return net",
        ),
        (draw, {}, r"cannot do 'aten.rand_like.default' \(.*test_exporting.py:\d+: return self._function"),
        (leave_torch, {}, r"numpy.*test_exporting.py:\d+: return torch.from_numpy"),
        (keep_long, {}, r"column 'seen': `forward` works only if the length of its sequences is 4 or more"),
        (drop_always, {}, r"draws random numbers, .*test_exporting.py:\d+: return self._function"),
        (count_calls, {}, r"`forward` changes 'norm.num_batches_tracked'"),
        (wide, {"mixes_rows": True}, r"Learner\(mixes_rows=True\)"),
        (wide, {"predict": lambda output: output.tolist()}, r"`predict` is list, no tensor"),
    ],
)
def test_what_cannot_be_exported_is_refused_with_its_line(
    forward: Forward, options: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        trace(learner_of(forward, **options), SIGNATURE, 1, 0, "net")


def test_a_flipped_byte_is_found(place: Path, tmp_path: Path) -> None:
    subprocess.run(["cp", "-r", str(place / "bundle"), str(tmp_path / "bundle")], check=True)
    for name in ("program.json", "signature.json", "weights/state.json", "weights/arrays.safetensors"):
        path = tmp_path / "bundle" / name
        good = path.read_bytes()
        path.write_bytes(good[:-9] + bytes([good[-9] ^ 4]) + good[-8:])
        with pytest.raises(CorruptData, match=name):
            samovar.load(tmp_path / "bundle")
        path.write_bytes(good)
    samovar.load(tmp_path / "bundle")


def test_raw_rows_are_checked_as_for_a_model(place: Path) -> None:
    bundle = samovar.load(place / "bundle")
    with pytest.raises(BadInput, match="row 1: column 'user'"):
        bundle.predict([{"user": 1}, {"user": "x"}])
    assert bundle.predict(pd.DataFrame(make_frame()[:0])).shape == (0,)
