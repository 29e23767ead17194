"""Prediction files: every shape of output, keys in their types, targets of any kind."""

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tests.callbacks.test_callbacks import open_result

from samovar.errors import BadInput
from samovar.runner import MinibatchRecord
from samovar.scoring.predictions import PredictionFile, check_key
from samovar.tables import Bag, ColumnSchema

COLUMNS = {
    "hit": ColumnSchema("hit", "categorical", 1, "int64"),
    "big": ColumnSchema("big", "categorical", 1, "uint64"),
    "name": ColumnSchema("name", "key", 1, "string"),
    "clicked": ColumnSchema("clicked", "real", 1, "int64"),
    "costs": ColumnSchema("costs", "real", 2, "list<item: double>"),
    "words": ColumnSchema("words", "categorical", 1, "list<item: uint64>"),
}


def bag(ids: list[int], lengths: list[int]) -> Bag:
    return Bag(torch.tensor(ids, dtype=torch.int64), torch.tensor(lengths, dtype=torch.int32))


RECORD = MinibatchRecord(
    {},
    {
        "words": bag([5, 6, 7], [2, 0, 1]),
        "costs": torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        "clicked": torch.tensor([1.0, 0.0, 1.0]),
    },
    {"hit": bag([-5, 7], [1, 0, 1]), "big": bag([-1, 1, 2], [1, 1, 1]), "name": pa.array(["a", None, "c"])},
    3,
)


def write(prediction: Any, record: MinibatchRecord = RECORD) -> tuple[pa.Table, list[dict[str, Any]]]:
    result = open_result()
    with PredictionFile(result, "evaluation/log/part.parquet", COLUMNS, 3600) as file:
        file.add(record, prediction)
    result.save({}, None)  # waits for the file
    data = result.directory.store.read("evaluation/log/part.parquet")
    return pq.read_table(io.BytesIO(data)), file.qualities()


def test_keys_come_out_in_their_types_and_targets_as_rows() -> None:
    rows, (quality,) = write(torch.tensor([0.9, 0.5, 0.25], dtype=torch.float64))
    assert rows.column_names == ["hit", "big", "name", "words", "costs", "clicked", "prediction", "model_hour"]
    assert rows.schema.field("hit").type == pa.int64()
    found = rows.to_pydict()
    assert found["hit"] == [-5, None, 7]
    assert found["big"] == [2**64 - 1, 1, 2]
    assert found["name"] == ["a", None, "c"]
    assert found["words"] == [[5, 6], [], [7]]
    assert found["costs"] == [[1, 2], [3, 4], [5, 6]]
    assert found["prediction"] == [0.9, 0.5, 0.25]
    assert {hour.hour for hour in found["model_hour"]} == {1}
    assert rows.schema.field("model_hour").type == pa.timestamp("ms")  # DuckDB and others need pytz for a zone
    assert (quality["target"], quality["auc"]) == ("clicked", 0.5)


def test_a_matrix_is_a_list_and_a_dict_is_columns() -> None:
    rows, qualities = write(torch.arange(6, dtype=torch.float32).reshape(3, 2))
    assert rows["prediction"].to_pylist() == [[0, 1], [2, 3], [4, 5]]
    assert [(each["task"], each["target"], each["accuracy"]) for each in qualities] == [
        ("multiclass", "clicked", 2 / 3)
    ]
    rows, _ = write({"click": torch.ones(3, dtype=torch.bfloat16), "pair": np.zeros((3, 2))})
    assert rows["click"].to_pylist() == [1, 1, 1]
    assert rows["pair"].to_pylist() == [[0, 0]] * 3


def test_outputs_are_measured_against_the_targets_in_their_order_or_all_against_the_first() -> None:
    first, second = torch.tensor([1.0, 0.0, 1.0]), torch.tensor([0.0, 0.0, 1.0])
    outputs = {"click": torch.tensor([0.9, 0.5, 0.25]), "buy": torch.tensor([0.1, 0.2, 0.3]), "pair": torch.zeros(3, 2)}
    columns = {name: ColumnSchema(name, "real", 1, "float") for name in ("clicked", "bought")}
    result = open_result()
    pairs = PredictionFile(result, "evaluation/log/pairs.parquet", columns)
    pairs.add(MinibatchRecord({}, {"clicked": first, "bought": second}, {}, 3), outputs)
    found = [(each["output"], each["target"], each["auc"]) for each in pairs.qualities()]
    assert found == [("click", "clicked", 0.5), ("buy", "bought", 1.0)]
    alone = PredictionFile(result, "evaluation/log/alone.parquet", columns)
    alone.add(MinibatchRecord({}, {"clicked": first}, {}, 3), outputs)
    assert [(each["output"], each["target"]) for each in alone.qualities()] == [
        ("click", "clicked"),
        ("buy", "clicked"),
    ]


@pytest.mark.parametrize(
    ("prediction", "message"),
    [
        (torch.zeros(2), r"predict: 'prediction' must have the shape \[3\] or \[3, K\], got \[2\]"),
        (torch.zeros(3, 1, 1), r"got \[3, 1, 1\]"),
        ({"clicked": torch.zeros(3)}, "the output 'clicked' of `predict` has the name of another column"),
    ],
)
def test_an_output_of_a_wrong_shape_or_name_is_refused(prediction: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        write(prediction)


def test_nothing_is_written_without_rows_or_after_an_error() -> None:
    result = open_result()
    with PredictionFile(result, "evaluation/log/part.parquet", COLUMNS) as file:
        pass
    assert file.qualities() == [{"num_examples": 0}]
    file = PredictionFile(result, "evaluation/log/part.parquet", COLUMNS)
    file.add(RECORD, torch.zeros(3))
    with pytest.raises(ZeroDivisionError), file:
        raise ZeroDivisionError
    assert result.directory.store.list("evaluation") == []


@pytest.mark.parametrize("name", ["words", "clicked"])
def test_a_column_without_one_value_per_example_is_no_key(name: str) -> None:
    with pytest.raises(BadInput, match="must have one value per example, got a"):
        check_key(COLUMNS[name])


def test_no_key_may_be_named_model_hour() -> None:
    record = MinibatchRecord({}, {}, {"model_hour": bag([1, 2, 3], [1, 1, 1])}, 3)
    columns = {"model_hour": ColumnSchema("model_hour", "categorical", 1, "int64")}
    file = PredictionFile(open_result(), "evaluation/log/part.parquet", columns, 3600)
    with pytest.raises(BadInput, match="no key or target may be named 'model_hour'"):
        file.add(record, torch.zeros(3))
