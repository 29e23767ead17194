"""Sampled negatives: what they are made of, how likely each is, and what they do not depend on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.toys import FIRST, HOUR, SCHEMA, make_minibatch, write_table

from samovar.errors import BadInput
from samovar.runner import Columns, MinibatchRecord, TableStream
from samovar.runner.negatives import Negatives, NegativeSampler, NegativeStream
from samovar.tables import Ids, open_table
from samovar.tables.schema import Minibatch

COLUMNS = Columns(["ad", "words", "price"], ["clicked"], ["hit"])
NEGATIVES = Negatives(["ad", "words"], 3, "clicked")


def minibatch(number: int, hour: int, ads: list[int | None]) -> Minibatch:
    """An ad has as many words as its number modulo 3, all of them its number."""
    made = make_minibatch(number, FIRST + hour * HOUR, len(ads))
    known = [ad for ad in ads if ad is not None]
    counts = [0 if ad is None else ad % 3 for ad in ads]
    words = [ad for ad in known for _ in range(ad % 3)]
    values = {
        **made.values,
        "ad": Ids(np.array(known, np.uint64), np.array([ad is not None for ad in ads], np.int32)),
        "words": Ids(np.array(words, np.uint64), np.array(counts, np.int32)),
        "clicked": np.ones(len(ads), np.float32),
    }
    return Minibatch(made.hour, made.num_examples, values)


HOURS = [
    minibatch(0, 0, [1, 1, 1, 2, 3, None]),
    minibatch(1, 0, [1, 4, 1, 2]),
    minibatch(2, 1, [5, 5, 1]),
    minibatch(3, 3, [6, 7, 7, 7]),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_table(tmp_path / "clicks", HOURS, SCHEMA)


def make_stream(path: Path, negatives: Negatives = NEGATIVES, epoch: int = 0) -> NegativeStream:
    table = open_table(path)
    stream = TableStream(table, range(table.num_minibatches), COLUMNS)
    start = FIRST if negatives.window_seconds is not None else None
    return NegativeStream(stream, table, start, NegativeSampler(negatives), epoch)


def rows_of(record: MinibatchRecord) -> list[dict[str, Any]]:
    values: dict[str, Any] = {**record.inputs, **record.targets, **record.keys}
    num_rows = len(values["group_start"])

    def split(bag: Any) -> list[list[int]]:
        return [part.tolist() for part in bag.data.split(bag.data_len.tolist())]

    columns = {
        name: split(value) if name in ("ad", "words") else value.to_pylist() if name == "hit" else value.tolist()
        for name, value in values.items()
    }
    return [{name: column[row] for name, column in columns.items()} for row in range(num_rows)]


def test_each_row_is_followed_by_other_candidates_with_the_rest_of_the_row(path: Path) -> None:
    plain = list(make_stream(path).stream.open(0))
    for record, positives in zip(make_stream(path).open(0), plain, strict=True):
        assert record.num_examples == positives.num_examples
        rows = rows_of(record)
        groups: list[list[dict[str, Any]]] = []
        for row in rows:
            groups.append([row]) if row["group_start"] else groups[-1].append(row)
        prices: Any = positives.inputs["price"]
        assert [group[0]["price"] for group in groups] == prices.tolist()
        for first, *others in groups:
            assert first["clicked"] == 1.0
            assert len(others) == (3 if first["ad"] else 0)  # a row without a candidate stays alone
            for other in others:
                assert (other["clicked"], other["price"], other["hit"]) == (0.0, first["price"], first["hit"])
                assert other["ad"] != first["ad"]
                assert other["words"] == other["ad"] * (other["ad"][0] % 3)  # the columns of one candidate
                assert other["sampling_probability"] == pytest.approx(1 / 7)
            assert first["sampling_probability"] == pytest.approx(1 / 7 if first["ad"] else 1.0)


def test_frequent_ids_are_drawn_as_often_as_their_probability_says(path: Path) -> None:
    frequent = Negatives(["ad"], 2000, "clicked", by_frequency=True)
    rows = rows_of(next(make_stream(path, frequent).open(2)))[: 1 + 2000]
    assert rows[0]["ad"] == [5]
    drawn = [row["ad"][0] for row in rows[1:]]
    counts = {1: 6, 2: 2, 3: 1, 4: 1, 6: 1, 7: 3}  # without the row's own, of 16 rows in all
    probabilities = {row["ad"][0]: row["sampling_probability"] for row in rows}
    for ad, count in counts.items():
        assert drawn.count(ad) / 2000 == pytest.approx(count / 14, abs=0.04)
        assert probabilities[ad] == pytest.approx(count / 16)
    assert probabilities[5] == pytest.approx(2 / 16)
    assert 5 not in drawn


def test_a_window_holds_its_own_hour_and_earlier_ones(path: Path) -> None:
    many = Negatives(["ad"], 50, "clicked", window_seconds=HOUR)
    stream = make_stream(path, many)
    seen = [{each for row in rows_of(record) for each in row["ad"]} for record in stream.open(0)]
    assert seen == [{1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4, 5}, {6, 7}]  # hour 3 has no hour 2 before it
    again = [rows_of(record) for record in make_stream(path, many).open(2)]
    assert again == [rows_of(record) for record in stream.open(0)][2:]  # wherever reading starts


def test_draws_depend_on_seed_epoch_and_minibatch(path: Path) -> None:
    def drawn(seed: int, epoch: int) -> list[Any]:
        many = Negatives(["ad"], 20, "clicked", seed=seed)
        return [rows_of(record) for record in make_stream(path, many, epoch).open(0)]

    assert drawn(0, 0) == drawn(0, 0)
    assert drawn(0, 0) != drawn(1, 0)
    assert drawn(0, 0) != drawn(0, 1)


def test_a_single_candidate_has_no_negatives_and_a_label_is_made(tmp_path: Path) -> None:
    path = write_table(tmp_path / "one", [minibatch(0, 0, [1, 1]), minibatch(1, 1, [None])], SCHEMA)
    record, empty = make_stream(path, Negatives(["ad"], 3, "label")).open(0)
    label = record.targets["label"]
    assert isinstance(label, torch.Tensor)
    assert label.tolist() == [1.0, 1.0]
    assert [row["label"] for row in rows_of(empty)] == [1.0]
    none = write_table(tmp_path / "none", [minibatch(0, 0, [None, None])], SCHEMA)
    assert len(rows_of(next(make_stream(none).open(0)))) == 2


def test_several_ids_per_row_are_refused(path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"'words' must have at most one id per row, minibatch 0 of .* has a row with more"
    ):
        next(make_stream(path, Negatives(["words"], 1, "clicked")).open(0))
