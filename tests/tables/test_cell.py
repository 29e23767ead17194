import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from samovar.errors import BadInput, ConfigError
from samovar.native import MinibatchDecoder
from samovar.tables import Bag, ColumnSchema, Compression, Ids
from samovar.tables.cell import decoded_bytes, encode_cell, place_cell
from samovar.tables.record import RecordValue, make_minibatches
from samovar.tables.schema import Value

COMPRESSIONS = ["zstd", "zstd:1", "lz4", "none"]
LARGE = 1 << 24
BAG = ColumnSchema("c", "categorical", 1, "uint64")
REAL = ColumnSchema("c", "real", 1, "float")
KEY = ColumnSchema("c", "key", 1, "string")


def decode(*cells: bytes) -> list[RecordValue]:
    """The cells, one after another in a buffer, as a table would hold them."""
    data, places = bytearray(3), []
    for cell in cells:
        placed = place_cell(cell, len(data))
        places.append((len(data), len(placed)))
        data += placed
    decoded = MinibatchDecoder(1 << 20).decode(data, np.array(places, np.uint64).reshape(-1, 2), max_bytes=LARGE)
    names = [str(index) for index in range(len(cells))]
    (values,) = make_minibatches(names, decoded, data, 1)
    return list(values.values())


def round_trip(column: ColumnSchema, value: Value, compression: str) -> RecordValue:
    return decode(encode_cell(column, value, Compression.parse(compression)))[0]


lengths_arrays = st.integers(1, 3).flatmap(
    lambda rank: hnp.arrays(
        np.int32, hnp.array_shapes(min_dims=rank, max_dims=rank, min_side=0, max_side=6), elements=st.integers(0, 5)
    )
)


@given(lengths_arrays, st.data(), st.sampled_from(COMPRESSIONS))
def test_a_bag_comes_back_exactly(lengths: np.ndarray, data: st.DataObject, compression: str) -> None:
    pool = data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=8))
    ids = np.array(
        data.draw(st.lists(st.sampled_from(pool), min_size=int(lengths.sum()), max_size=int(lengths.sum()))), np.uint64
    )
    column = ColumnSchema("c", "categorical", lengths.ndim, "uint64")
    bag = round_trip(column, Ids(ids, lengths), compression)
    assert isinstance(bag, Bag)
    assert (bag.data.dtype, bag.data_len.dtype) == (torch.int64, torch.int32)
    assert bag.data.numpy().view(np.uint64).tolist() == ids.tolist()
    assert bag.data_len.shape == lengths.shape
    assert bag.data_len.tolist() == lengths.tolist()
    if bag.unique is not None:
        assert bag.inverse is not None
        assert bag.inverse.dtype == torch.int32
        assert bag.unique[bag.inverse.long()].tolist() == bag.data.tolist()
        assert bag.unique.numpy().view(np.uint64).tolist() == list(
            dict.fromkeys(ids.tolist())
        )  # in order of first sight


@given(
    hnp.arrays(
        np.float32, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=6), elements=st.floats(width=32)
    ),
    st.sampled_from(COMPRESSIONS),
)
def test_a_tensor_comes_back_exactly(items: np.ndarray, compression: str) -> None:
    back = round_trip(ColumnSchema("c", "real", items.ndim, "float"), items, compression)
    assert isinstance(back, torch.Tensor)
    assert back.dtype == torch.float32
    assert tuple(back.shape) == items.shape
    assert back.numpy().tobytes() == items.tobytes()


KEYS = [
    pa.array(["a", None, "", "日本"]),
    pa.array([2**64 - 1, None, 0], pa.uint64()),
    pa.array([], pa.int8()),
    pa.array([True, None]),
    pa.array([1.5, None, float("nan")]),
    pa.array([b"\x00", None]),
    pa.array([0, None], pa.timestamp("us")),
]


@pytest.mark.parametrize("keys", KEYS, ids=lambda keys: str(keys.type))
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_keys_come_back_in_their_type_with_their_nulls(keys: pa.Array, compression: str) -> None:
    back = round_trip(KEY, keys, compression)
    assert isinstance(back, pa.Array)
    assert back.type == keys.type
    assert repr(back.to_pylist()) == repr(keys.to_pylist())


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_many_cells_are_decoded_at_once_and_do_not_mix(compression: str) -> None:
    packing = Compression.parse(compression)
    bags = [Ids(np.full(300, number, np.uint64), np.full(100, 3, np.int32)) for number in range(5)]
    reals = [np.full(7, number, np.float32) for number in range(5)]
    cells = [
        cell
        for bag, real in zip(bags, reals, strict=True)
        for cell in (encode_cell(BAG, bag, packing), encode_cell(REAL, real, packing))
    ]
    values = decode(*cells)
    for number in range(5):
        bag, real = values[2 * number : 2 * number + 2]
        assert isinstance(bag, Bag)
        assert isinstance(real, torch.Tensor)
        assert set(bag.data.tolist()) == {number}
        assert real.tolist() == [number] * 7


def test_few_distinct_ids_are_stored_as_such_and_many_are_not() -> None:
    ones = np.ones(1000, np.int32)
    few = round_trip(BAG, Ids(np.arange(1000, dtype=np.uint64) % np.uint64(10), ones), "zstd")
    many = round_trip(BAG, Ids(np.arange(1000, dtype=np.uint64), ones), "zstd")
    assert isinstance(few, Bag)
    assert isinstance(many, Bag)
    assert few.unique is not None
    assert len(few.unique) == 10
    assert many.unique is None


def test_without_compression_ids_stay_plain_so_that_nothing_is_copied() -> None:
    bag = round_trip(BAG, Ids(np.zeros(1000, np.uint64), np.ones(1000, np.int32)), "none")
    assert isinstance(bag, Bag)
    assert bag.unique is None


def test_uncompressed_cells_are_views_of_the_source() -> None:
    cell = encode_cell(REAL, np.arange(4, dtype=np.float32), Compression.parse("none"))
    source = bytearray(place_cell(cell, 0))
    decoded = MinibatchDecoder(1 << 20).decode(source, np.array([[0, len(source)]], np.uint64), max_bytes=LARGE)
    tensor = next(make_minibatches(["c"], decoded, source, 1))["c"]
    assert isinstance(tensor, torch.Tensor)
    source[-4:] = np.float32(9).tobytes()
    assert tensor.tolist() == [0, 1, 2, 9]


def test_the_size_in_memory_is_known_before_decoding() -> None:
    lengths = np.full(100, 3, np.int32)
    few = Ids(np.arange(300, dtype=np.uint64) % np.uint64(10), lengths)
    many = Ids(np.arange(300, dtype=np.uint64), lengths)
    packing = Compression()
    assert decoded_bytes(encode_cell(BAG, few, packing)) == 8 * 10 + 4 * 300 + 4 * 100
    assert decoded_bytes(encode_cell(BAG, many, packing)) == 8 * 300 + 4 * 100
    assert decoded_bytes(encode_cell(REAL, np.zeros(5, np.float32), packing)) == 20


GOLDEN: dict[str, tuple[ColumnSchema, Value, str, str]] = {
    "ids": (
        BAG, Ids(np.array([7, 7, 2**64 - 1], np.uint64), np.array([2, 1], np.int32)), "none",
        "534d5643010100000401000002000000000000000000000003000000000000000000000000000000 2000000000000000"
        "e43b0b3faa4be8df"
        "0700000000000000 0700000000000000 ffffffffffffffff 02000000 01000000",
    ),
    "distinct ids": (
        BAG, Ids(np.array([7] * 9, np.uint64), np.array([4, 5], np.int32)), "zstd",
        "534d5643010200010101000002000000000000000000000009000000000000000100000000000000 1300000000000000"
        "8dea32dc40eddb3c 07000000000000000000000000000000000405",
    ),
    "narrow positions, lengths that are all one": (
        BAG, Ids(np.array([7] * 9, np.uint64), np.ones(9, np.int32)), "zstd",
        "534d5643010200010001000009000000000000000000000009000000000000000100000000000000 1100000000000000"
        "9a34ad68709a78f4"
        "0700000000000000 000000000000000000",
    ),
    "dense": (
        REAL, np.array([1.5, -2.0], np.float32), "zstd",
        "534d5643010000010001000002000000000000000000000000000000000000000000000000000000 0800000000000000"
        "eb45237cf413d2ce"
        "0000c03f 000000c0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes_of_cell_format_1(name: str) -> None:
    column, value, compression, expected = GOLDEN[name]
    assert encode_cell(column, value, Compression.parse(compression)) == bytes.fromhex(expected)


def test_a_golden_zstd_cell_is_read() -> None:
    cell = bytes.fromhex(
        "534d5643010001010001000028000000000000000000000000000000000000000000000000000000 a000000000000000"
        "5c37ef679b0d1dbd"
        "28b52ffd20a0450000080001001c282704"
    )
    zeros = decode(cell)[0]
    assert isinstance(zeros, torch.Tensor)
    assert zeros.tolist() == [0.0] * 40


@pytest.mark.parametrize("flip", range(8))
def test_every_flipped_bit_is_found(flip: int) -> None:
    cells = [
        encode_cell(
            BAG, Ids(np.arange(60, dtype=np.uint64) % np.uint64(7), np.full(20, 3, np.int32)), Compression.parse(name)
        )
        for name in ("zstd", "none")
    ]
    for cell in cells:
        for place in range(len(cell)):
            if place == 10:
                continue  # the padding: the cell then counts as cut
            bad = bytearray(cell)
            bad[place] ^= 1 << flip
            with pytest.raises(ValueError, match=r"^\(.*, 0\)$"):
                MinibatchDecoder(1 << 20).decode(bad, np.array([[0, len(bad)]], np.uint64), max_bytes=LARGE)


def test_a_cell_that_is_cut_or_outside_its_file_is_found() -> None:
    cell = encode_cell(BAG, Ids(np.arange(60, dtype=np.uint64), np.full(20, 3, np.int32)), Compression())
    for size in range(len(cell)):
        with pytest.raises(ValueError, match=r", 0\)$"):
            MinibatchDecoder(0).decode(cell, np.array([[0, size]], np.uint64), max_bytes=LARGE)
    for place in ([0, len(cell) + 1], [1, len(cell)], [2**64 - 1, 2], [len(cell) + 1, 0]):
        with pytest.raises(ValueError, match="beyond the end of its file"):
            MinibatchDecoder(0).decode(cell, np.array([place], np.uint64), max_bytes=LARGE)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (BAG, Ids(np.zeros(3, np.uint64), np.array([1, 1], np.int32)), "the lengths add up to 2, but there are 3 ids"),
        (BAG, Ids(np.zeros(0, np.uint64), np.array([1, -1], np.int32)), "a length is negative"),
        (BAG, Ids(np.zeros(1, np.uint64), np.ones((1, 1), np.int32)), "Ids with lengths of rank 1"),
        (REAL, np.zeros(3), "a float32 array of rank 1"),
        (REAL, np.zeros((3, 1), np.float32), "a float32 array of rank 1"),
        (KEY, [1], "an Arrow array"),
    ],
)
def test_a_value_that_does_not_fit_its_column_is_rejected(column: ColumnSchema, value: Value, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        encode_cell(column, value, Compression())


@pytest.mark.parametrize("text", ["gzip", "zstd:0", "zstd:99", "zstd:", "lz4:3", "none:1", ""])
def test_an_unknown_compression_is_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="compression must be 'zstd'"):
        Compression.parse(text)
