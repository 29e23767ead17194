from collections.abc import Sequence

import numpy as np
import pytest
from tests.tables.making import SCHEMA, add_version, make_minibatch
from tests.tables.test_table import plain

from samovar.errors import BadInput
from samovar.store import MemoryStore
from samovar.tables import Record, Table, TableSchema
from samovar.tables.merge import Part, read_merged
from samovar.tables.schema import Minibatch

HOUR = 3600


def make(columns: Sequence[str], hours: Sequence[int], per_hour: int = 3) -> Table:
    """A table with some columns of the same events."""
    schema = TableSchema(tuple(column for column in SCHEMA.columns if column.name in columns))
    minibatches = [make_minibatch(hour * 10 + number, 5, hour * HOUR) for hour in hours for number in range(per_hour)]
    picked = [Minibatch(each.hour, 5, {name: each.values[name] for name in columns}) for each in minibatches]
    store = MemoryStore()
    store.name = f"table of {', '.join(columns)}"
    return add_version(store, picked, schema)


def without_number(record: Record) -> dict[str, object]:
    return {name: value for name, value in plain(record).items() if name != "number"}


def test_merged_tables_equal_a_joined_one_even_when_they_cover_different_hours() -> None:
    left = make(["banner", "hit", "words"], range(5))
    right = make(["banner", "hit", "price", "factors"], range(2, 9))
    joined = make(["words", "price", "hit"], range(2, 5))
    parts = [Part(left, ["words", "hit"]), Part(right, ["price"])]
    merged = list(read_merged(parts, ["banner", "hit"], 2 * HOUR, 5 * HOUR))
    assert [without_number(record) for record in merged] == [without_number(record) for record in joined.read()]
    assert len(merged) == 9
    assert list(read_merged(parts, ["banner"], 0, 0)) == []


def test_a_swapped_minibatch_is_caught_with_its_table_hour_number_and_key() -> None:
    left = make(["banner", "words"], [0, 1])
    minibatches = [
        make_minibatch(number, 5, hour * HOUR)
        for hour in (0, 1)
        for number in (hour * 10, hour * 10 + 2, hour * 10 + 1)
    ]
    schema = TableSchema(tuple(column for column in SCHEMA.columns if column.name in ("banner", "price")))
    store = MemoryStore()
    store.name = "swapped"
    right = add_version(
        store,
        [Minibatch(each.hour, 5, {name: each.values[name] for name in ("banner", "price")}) for each in minibatches],
        schema,
    )
    message = r"swapped and table of banner, words differ in minibatch 1 of hour 1970-01-01T00:00, key 'banner'"
    with pytest.raises(BadInput, match=message):
        list(read_merged([Part(left, ["words"]), Part(right, ["price"])], ["banner"], 0, 2 * HOUR))


@pytest.mark.parametrize("swap", [False, True])
def test_a_missing_minibatch_or_hour_is_caught(swap: bool) -> None:
    whole = Part(make(["banner", "words"], range(4)), ["words"])
    for other, message in [
        (make(["banner", "price"], range(4), per_hour=2), "no minibatch 2 of hour 1970-01-01T00:00"),
        (make(["banner", "price"], [0, 1, 3]), "no minibatch 0 of hour 1970-01-01T02:00"),
        (make(["banner", "price"], range(3)), "no minibatch 0 of hour 1970-01-01T03:00"),
    ]:
        parts = [whole, Part(other, ["price"])]
        with pytest.raises(
            BadInput, match=f"merge_tables: table of banner, price has {message}, but table of banner, words"
        ):
            list(read_merged(parts[::-1] if swap else parts, ["banner"], 0, 4 * HOUR))


def test_a_column_listed_for_two_tables_is_rejected() -> None:
    parts = [Part(make(["banner", "words"], [0]), ["banner"]), Part(make(["banner", "price"], [0]), ["banner"])]
    with pytest.raises(
        BadInput, match="column 'banner' is listed for table of banner, words and for table of banner, price"
    ):
        list(read_merged(parts, ["banner"], 0, HOUR))


def test_keys_are_compared_to_the_last_bit() -> None:
    left = make(["factors", "words"], [0])
    right = make(["factors", "price"], [0])
    assert len(list(read_merged([Part(left, ["words"]), Part(right, ["price"])], ["factors"], 0, HOUR))) == 3
    changed = make_minibatch(0, 5, 0)
    factors = np.array(changed.values["factors"])
    factors[4, 1] = np.nextafter(factors[4, 1], np.float32(9))
    schema = TableSchema(tuple(column for column in SCHEMA.columns if column.name in ("factors", "price")))
    other = add_version(
        MemoryStore(), [Minibatch(0, 5, {"factors": factors, "price": changed.values["price"]})], schema
    )
    with pytest.raises(BadInput, match="key 'factors'"):
        list(read_merged([Part(left, ["words"]), Part(other, ["price"])], ["factors"], 0, HOUR))
