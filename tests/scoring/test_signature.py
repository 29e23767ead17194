"""Raw rows are scored exactly as they were brewed: scales, bins, crosses, times, and missing values."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

import samovar
from samovar.errors import BadInput, CorruptData, SamovarError, UnknownColumn
from samovar.scoring import Model
from samovar.scoring.signature import Signature
from samovar.store import MemoryStore, write_file

SCRIPT = """
import torch
import samovar

IDS = {"user": 4, "ad": 4, "user_x_ad": 4, "size": 4, "when_weekday": 2, "age": 3}
NUMBERS = ["price", "price_missing", "ad_missing", "weight"]


class Net(samovar.BaseEmbeddingModel):
    def __init__(self):
        super().__init__(IDS)
        self.top = torch.nn.Linear(sum(IDS.values()) + len(NUMBERS) + 2, 1)

    def forward(self, inputs):
        ids = self.embedding.concat({name: inputs[name] for name in IDS})
        numbers = torch.stack([inputs[name] for name in NUMBERS], 1)
        return self.top(torch.cat([ids, numbers, inputs["when_hour"]], 1))[:, 0]

    def get_required_features_list(self):
        return [*IDS, *NUMBERS, "when_hour"]


def build(params):
    model = Net()
    optimizers = [samovar.embeddings.HashAdagrad(model.hash_embeddings(), lr=0.1),
                  torch.optim.Adam(model.dense_parameters(), lr=0.01)]
    loss = lambda output, targets: torch.nn.functional.binary_cross_entropy_with_logits(output, targets["clicked"])
    return samovar.Learner(model, optimizers, loss, torch.sigmoid)
"""
KEYS: dict[str, Any] = {
    "columns": {
        "when": "time",
        "user": "id",
        "ad": "hash",
        "price": {"number": {"scale": "standard", "missing": "indicator"}},
        "size": {"number": {"bins": 8}},
        "age": {"number": {"bins": 4, "missing": "error"}},
        "weight": {"number": {"scale": "running", "missing": "zero"}},
        "clicked": "number",
        "hit": "key",
    },
    "missing": {"ad": "indicator", "clicked": "drop"},
    "crosses": [["user", "ad"]],
    "time_features": {"hour": "cycle", "weekday": "id"},
    "timezone": "Europe/Berlin",
    "where": "hit <> 13",
    "batch_size": 32,
}


def make_frame(num_rows: int = 400) -> pd.DataFrame:
    random = np.random.default_rng(5)
    times = pd.Timestamp("2016-03-26 12:00") + pd.to_timedelta(np.arange(num_rows) * 600, unit="s")
    price = random.lognormal(3, 1, num_rows)
    frame = pd.DataFrame(
        {
            "when": times.strftime("%m/%d/%Y %I:%M %p"),
            "user": random.integers(0, 20, num_rows),
            "ad": np.array(["tea", "cups", "pots", "£5"])[random.integers(0, 4, num_rows)],
            "price": np.where(random.random(num_rows) < 0.1, np.nan, price),
            "size": random.exponential(5, num_rows).round(2),
            "age": random.integers(18, 80, num_rows),
            "weight": np.where(random.random(num_rows) < 0.1, np.nan, price * 7),
            "clicked": random.integers(0, 2, num_rows).astype(float),
            "hit": np.arange(num_rows),
        }
    )
    frame.loc[frame.hit % 11 == 3, "ad"] = None
    frame.loc[frame.hit % 17 == 3, "size"] = None
    frame.loc[frame.hit % 50 == 7, "clicked"] = None
    return frame


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a table with everything, and its predictions."""
    place = tmp_path_factory.mktemp("signature")
    (place / "model.py").write_text(SCRIPT)
    make_frame().to_csv(place / "rows.csv", index=False, encoding="latin-1")
    table = samovar.brew(place / "rows.csv", place / "table", encoding="latin-1", progress=False, **KEYS)
    quiet: dict[str, Any] = {"num_threads": 1, "progress": False}
    run = samovar.train(place / "model.py", table, targets=["clicked"], model_dir=place / "model", **quiet)
    samovar.predict(run, table, place / "predictions", keys=["hit"])
    return place


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return samovar.load(folder / "model")


def predictions(folder: Path) -> pd.Series:
    found = pd.read_parquet(folder / "predictions" / "evaluation" / "predictions")
    return found.set_index("hit")["prediction"].sort_index()


def test_load_scores_raw_rows_with_the_bits_of_predict(model: Model, folder: Path) -> None:
    expected = predictions(folder)
    frame = make_frame().set_index("hit", drop=False)
    assert len(expected) == 400 - 8 - 1  # rows without a label, and row 13
    kept = frame.loc[expected.index].reset_index(drop=True)
    assert np.array_equal(model.predict(kept), expected)
    texts = pd.read_csv(folder / "rows.csv", encoding="latin-1", dtype=str, keep_default_na=False)
    raw = texts.iloc[expected.index].replace({"ad": {"": None}})
    assert np.array_equal(model.predict(raw), expected)
    dates = kept.assign(when=pd.to_datetime(kept["when"], format="%m/%d/%Y %I:%M %p"))
    assert np.array_equal(model.predict(dates), expected)
    names = model.signature.raw_names
    assert names == ["user", "ad", "size", "when", "age", "price", "weight"]
    rows = pa.Table.from_pandas(kept[names], preserve_index=False).to_pylist()
    sparse = [{name: value for name, value in row.items() if value is not None} for row in rows]
    assert np.array_equal(model.predict(sparse), expected)
    for number in (0, 7, 200):
        assert np.array_equal(model.predict([sparse[number]]), expected.iloc[[number]])


def test_rows_that_the_table_would_not_have_are_scored_or_named(model: Model) -> None:
    frame = make_frame(3)
    assert np.isfinite(model.predict(frame.assign(ad="never seen", user=2**40, price=-1e30, size=1e30))).all()
    with pytest.raises(BadInput, match="row 1: column 'age' has no value, and the recipe says missing: error"):
        model.predict(frame.assign(age=[20.0, None, 30.0]))
    with pytest.raises(BadInput, match="row 2: column 'when' has no value, but the model reads this time"):
        model.predict(frame.assign(when=[frame["when"][0], frame["when"][1], None]))
    with pytest.raises(
        BadInput, match=r"row 0: time_field: column 'when' has the text '31/12/2016', which does not match"
    ):
        model.predict(frame.assign(when="31/12/2016"))
    with pytest.raises(BadInput, match=r"row 0: column 'price': expected numbers, got 'cheap'"):
        model.predict(frame.assign(price="cheap"))
    with pytest.raises(UnknownColumn, match="no column 'when', which the model reads"):
        model.predict(frame.drop(columns="when"))


def test_a_table_with_scales_of_its_own_is_refused_and_one_with_the_models_is_not(model: Model, folder: Path) -> None:
    later = make_frame().iloc[20:60]
    own = samovar.brew(later, folder / "own", progress=False, **KEYS)
    with pytest.raises(BadInput, match=r"own: column '\w+' was brewed by another \w+ than the model's"):
        model.predict(own)
    with pytest.raises(BadInput, match="was brewed by another"):
        samovar.predict(folder / "model", own, folder / "refused")
    evaluate: dict[str, Any] = {"own": {"table": str(folder / "own")}}
    with pytest.raises(BadInput, match="was brewed by another"):
        samovar.train(
            folder / "model.py", folder / "table", targets=["clicked"], evaluate=evaluate,
            model_dir=folder / "unmade", num_threads=1, progress=False,
        )  # fmt: skip
    same = samovar.brew(later, folder / "same", progress=False, statistics=str(folder / "table"), **KEYS)
    found = samovar.predict(folder / "model", same, folder / "scored", keys=["hit"]).predictions()
    expected = predictions(folder)
    assert np.array_equal(found["prediction"], expected.loc[found["hit"]])
    columns = {"size": {"number": {"scale": "standard"}}}
    with pytest.raises(BadInput, match=r"statistics: .*table has learned nothing for column 'size'"):
        samovar.brew(later, folder / "none", columns=columns, statistics=str(folder / "table"), progress=False)


# Signatures of strangers

COLUMNS: dict[str, dict[str, Any]] = {
    "id": {"kind": "categorical", "rank": 1, "source_type": "int64", "converter": {"role": "id"}},
    "hash": {"kind": "categorical", "rank": 1, "source_type": "string", "converter": {"role": "hash"}},
    "text": {
        "kind": "categorical", "rank": 1, "source_type": "string",
        "converter": {"role": "text", "words": 1, "ngrams": None, "lower": True},
    },
    "number": {"kind": "real", "rank": 1, "source_type": "double", "converter": {"role": "number", "shape": None}},
    "list": {
        "kind": "real", "rank": 2, "source_type": "list<item: double>", "converter": {"role": "number", "shape": [2]}
    },
    "standard": {
        "kind": "real", "rank": 1, "source_type": "double",
        "converter": {"role": "standard", "mean": 1.0, "deviation": 2.0},
    },
    "bins": {
        "kind": "categorical", "rank": 1, "source_type": "double",
        "converter": {"role": "bins", "bins": 3, "edges": [1.0, 2.0]},
    },
    "missing": {
        "kind": "real", "rank": 1, "source_type": "double",
        "converter": {"role": "missing", "of": "number", "taken_as": "numbers"},
    },
    "cross": {
        "kind": "categorical", "rank": 1, "source_type": "uint64",
        "converter": {"role": "cross", "of": ["id", "hash"], "types": ["int64", "string"]},
    },
    "hour": {
        "kind": "categorical", "rank": 1, "source_type": "int64",
        "converter": {"role": "time_id", "time": "t", "feature": "hour", "unit": None, "timezone": None,
                      "format": None},
    },
}  # fmt: skip
ODD: list[Any] = [
    None, True, 0, -1, 1, 2**31, 2**63, 10**400, 1.5, math.nan, math.inf, "", "x", "hour", "numbers", "times", "Mars/X",
    "%Y", [], [0], [1], [2, 1], [[1]], ["a"], ["id", "hash"], [2**40], [5000, 5001], {}, {"a": 1},
    "list<item: " * 3000 + "int64" + ">" * 3000, "list<item: double>", ["int64", "list<item: " * 3000],
]  # fmt: skip
ROW: dict[str, Any] = {
    "id": 1, "hash": "a", "text": "green tea", "number": 1.0, "list": [1.0, 2.0], "standard": 1.0, "bins": 1.5,
    "missing": 1.0, "t": 3600,
}  # fmt: skip


def read_signature(columns: dict[str, dict[str, Any]]) -> Signature:
    store = MemoryStore()
    inputs = [{"name": name, **column} for name, column in columns.items()]
    write_file(store, "signature.json", json.dumps({"format": 1, "inputs": inputs, "others": []}).encode())
    return Signature.read(store)


def test_a_signature_of_every_role_reads_rows() -> None:
    ((inputs, num_rows),) = read_signature(COLUMNS).read_rows([ROW, ROW])
    assert (list(inputs), num_rows) == (list(COLUMNS), 2)


@pytest.mark.parametrize(
    ("column", "damage"),
    [
        ("standard", {"mean": "x"}), ("standard", {"mean": 10**400}), ("standard", {"mean": None}),
        ("standard", {"deviation": 0}), ("bins", {"edges": "abc"}), ("bins", {"edges": None}), ("bins", {"edges": {}}),
        ("bins", {"edges": [2.0, 1.0]}), ("id", {"role": ["id"]}), ("id", {"role": "number"}), ("id", {"words": 1}),
        ("list", {"shape": [2, 3]}), ("list", {"shape": [2**40]}), ("number", {"shape": [1]}),
        ("missing", {"of": ["number"]}), ("cross", {"types": ["int64"]}),
    ],
)  # fmt: skip
def test_a_converter_that_cannot_be_is_refused_when_the_model_is_opened(column: str, damage: dict[str, Any]) -> None:
    whole = COLUMNS[column]
    with pytest.raises(CorruptData, match="damaged"):
        read_signature({column: {**whole, "converter": {**whole["converter"], **damage}}})


@pytest.mark.parametrize("column", COLUMNS)
def test_no_change_of_a_signature_gives_another_error_than_ours(column: str) -> None:
    whole = COLUMNS[column]
    changed = [{**whole, key: value} for key in whole for value in ODD]
    changed += [
        {**whole, "converter": {**whole["converter"], key: value}} for key in whole["converter"] for value in ODD
    ]
    for each in changed:
        try:
            signature = read_signature({column: each})
            list(signature.read_rows([{**ROW, **{name: None for name in signature.raw_names if name not in ROW}}]))
        except SamovarError:
            continue
