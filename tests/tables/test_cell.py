from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from typing_extensions import Buffer

from samovar import native
from samovar.errors import BadInput, ConfigError
from samovar.native import DecodedMinibatches, MinibatchDecoder, hash_bytes
from samovar.tables import Bag, ColumnSchema, Ids
from samovar.tables.cell import DISTINCT_IDS, CellColumns, Compression, decoded_bytes, encode_cell, place_cell
from samovar.tables.keys import FIXED, key_type, plain_values
from samovar.tables.record import RecordValue, make_minibatches
from samovar.tables.schema import Value, parse_type

COMPRESSIONS = ["zstd", "zstd:1", "lz4", "none"]
BAG = ColumnSchema("c", "categorical", 1, "uint64")
REAL = ColumnSchema("c", "real", 1, "float")
KEY = ColumnSchema("c", "key", 1, "string")


def read(source: Buffer, columns: CellColumns, places: list[list[int]], num_examples: int) -> DecodedMinibatches:
    """One minibatch of cells at [offset, size, size in memory]."""
    return MinibatchDecoder(1 << 20).decode(
        source, np.array(places, np.uint64).reshape(-1, 3), np.array([num_examples], np.uint64), columns.specs
    )


def decode(*cells: tuple[ColumnSchema, bytes]) -> list[RecordValue]:
    """The cells of one minibatch, one after another in a buffer, as a table would hold them."""
    data, places = bytearray(3), []
    for _, cell in cells:
        placed = place_cell(cell, len(data))
        places.append([len(data), len(placed), decoded_bytes(cell)])
        data += placed
    columns = CellColumns([replace(column, name=str(number)) for number, (column, _) in enumerate(cells)])
    num_examples = int.from_bytes(cells[0][1][12:16], "little")
    decoded = read(data, columns, places, num_examples)
    (values,) = make_minibatches(columns, decoded, data, [num_examples])
    return list(values.values())


def read_one(cell: Buffer, column: ColumnSchema, num_examples: int, decoded: int) -> DecodedMinibatches:
    return read(cell, CellColumns([column]), [[0, len(bytes(cell)), decoded]], num_examples)


def round_trip(column: ColumnSchema, value: Value, compression: str) -> RecordValue:
    return decode((column, encode_cell(column, value, Compression.parse(compression))))[0]


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
    pa.array(["a", None, "", "日本", "\U0001f375"]),
    pa.array(["a", None], pa.large_string()),
    pa.array(["a", None, "long enough to be outside of the view"], pa.string_view()),
    pa.array([b"\x00", None, b"\xff\xfe"]),
    pa.array([b"\xff", None], pa.large_binary()),
    pa.array([b"\xff", None], pa.binary_view()),
    pa.array([b"0123456789abcdef", None], pa.binary(16)),
    pa.array([True, None, False] * 5),
    pa.array([False] * 8),
    pa.array([None, None], pa.null()),
    *(pa.array([0, None, 1], kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *(pa.array([2**bits - 1, None], getattr(pa, f"uint{bits}")()) for bits in (8, 16, 32, 64)),
    pa.array([1.5, None, float("nan")]),
    pa.array([1.5, None, float("-inf")], pa.float32()),
    pa.array([np.float16(1.5), None], pa.float16()),
    pa.array([Decimal("-1.25"), None], pa.decimal128(5, 2)),
    pa.array([Decimal("123456789012345678901234567890123456789012345.5"), None], pa.decimal256(60, 3)),
    *(pa.array([Decimal("1.2"), None], kind) for kind in (pa.decimal32(4, 1), pa.decimal64(12, 1))),
    pa.array([0, None, 19000], pa.date32()),
    pa.array([0, None, 86_400_000], pa.date64()),
    *(pa.array([1, None], pa.time32(unit)) for unit in ("s", "ms")),
    *(pa.array([1, None], pa.time64(unit)) for unit in ("us", "ns")),
    *(pa.array([-1, None, 2**40], kind(unit)) for unit in ("s", "ms", "us") for kind in (pa.timestamp, pa.duration)),
    pa.array([0, None], pa.timestamp("us", "Europe/Berlin")),
    pa.array([0, None], pa.timestamp("s", "+02:00")),
    pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
]
KEYS += [keys[:0] for keys in KEYS] + [keys[1:] for keys in KEYS]


@pytest.mark.parametrize("keys", KEYS, ids=lambda keys: f"{keys.type} {len(keys)}")
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_keys_come_back_in_their_type_with_their_nulls(keys: pa.Array, compression: str) -> None:
    back = round_trip(ColumnSchema("c", "key", 1, str(keys.type)), keys, compression)
    assert isinstance(back, pa.Array)
    back.validate(full=True)
    assert back.type == keys.type
    assert repr(plain_values(back)) == repr(plain_values(keys))


def test_equal_keys_give_equal_cells_whatever_is_under_their_nulls() -> None:
    texts = pa.array(["hidden", "b"])
    masked = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\x02"), *texts.buffers()[1:]])
    assert masked.to_pylist() == [None, "b"]
    assert encode_cell(KEY, masked, Compression()) == encode_cell(KEY, pa.array([None, "b"]), Compression())


def test_a_text_that_is_not_utf_8_is_not_written() -> None:
    bad = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")])
    with pytest.raises(BadInput, match="column 'c' has texts that are not UTF-8"):
        encode_cell(KEY, bad, Compression())


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_many_cells_are_decoded_at_once_and_do_not_mix(compression: str) -> None:
    packing = Compression.parse(compression)
    bags = [Ids(np.full(300, number, np.uint64), np.full(100, 3, np.int32)) for number in range(5)]
    reals = [np.full(100, number, np.float32) for number in range(5)]
    cells = [
        cell
        for bag, real in zip(bags, reals, strict=True)
        for cell in ((BAG, encode_cell(BAG, bag, packing)), (REAL, encode_cell(REAL, real, packing)))
    ]
    values = decode(*cells)
    for number in range(5):
        bag, real = values[2 * number : 2 * number + 2]
        assert isinstance(bag, Bag)
        assert isinstance(real, torch.Tensor)
        assert set(bag.data.tolist()) == {number}
        assert real.tolist() == [number] * 100


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
    tensor = next(make_minibatches(CellColumns([REAL]), read_one(source, REAL, 4, 16), source, [4]))["c"]
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
        "534d5643020100000401000002000000000000000000000003000000000000000000000000000000 2000000000000000"
        "4479aed6a676b85e"
        "0700000000000000 0700000000000000 ffffffffffffffff 02000000 01000000",
    ),
    "distinct ids": (
        BAG, Ids(np.array([7] * 9, np.uint64), np.array([4, 5], np.int32)), "zstd",
        "534d5643020200010101000002000000000000000000000009000000000000000100000000000000 1300000000000000"
        "b639793f4b195aa1 07000000000000000000000000000000000405",
    ),
    "narrow positions, lengths that are all one": (
        BAG, Ids(np.array([7] * 9, np.uint64), np.ones(9, np.int32)), "zstd",
        "534d5643020200010001000009000000000000000000000009000000000000000100000000000000 1100000000000000"
        "8d00ba7b0814fd3d"
        "0700000000000000 000000000000000000",
    ),
    "dense": (
        REAL, np.array([1.5, -2.0], np.float32), "zstd",
        "534d5643020000010001000002000000000000000000000000000000000000000000000000000000 0800000000000000"
        "e99b0062df53a52e"
        "0000c03f 000000c0",
    ),
    "keys that are texts": (
        KEY, pa.array(["a", None, "日"]), "none",
        "534d5643020300040401000103000000000000000000000004000000000000000000000000000000 1500000000000000"
        "8f1e3da418531708"
        "000000000100000001000000040000000561e697a5",
    ),
    "keys that are numbers": (
        replace(KEY, source_type="int16"), pa.array([-2, 513], pa.int16()), "none",
        "534d5643020300020001000002000000000000000000000000000000000000000200000000000000 0400000000000000"
        "0bd07ac97fe6750e"
        "feff0102",
    ),
    "keys that are bits": (
        replace(KEY, source_type="bool"), pa.array([True, None, True]), "none",
        "534d5643020300010001000103000000000000000000000000000000000000000000000000000000 0200000000000000"
        "b1e43b728ee7ecee"
        "0505",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes_of_cell_format_2(name: str) -> None:
    column, value, compression, expected = GOLDEN[name]
    assert encode_cell(column, value, Compression.parse(compression)) == bytes.fromhex(expected)


def test_a_golden_zstd_cell_is_read() -> None:
    cell = bytes.fromhex(
        "534d5643020001010001000028000000000000000000000000000000000000000000000000000000 a000000000000000"
        "46eae0e5b1ef8df8"
        "28b52ffd20a0450000080001001c282704"
    )
    zeros = decode((REAL, cell))[0]
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
                read_one(bad, BAG, 20, decoded_bytes(cell))


def test_a_cell_that_is_cut_or_outside_its_file_is_found() -> None:
    cell = encode_cell(BAG, Ids(np.arange(60, dtype=np.uint64), np.full(20, 3, np.int32)), Compression())
    decoded = decoded_bytes(cell)
    for size in range(len(cell)):
        with pytest.raises(ValueError, match=r", 0\)$"):
            read(cell, CellColumns([BAG]), [[0, size, decoded]], 20)
    for offset, size in ([0, len(cell) + 1], [1, len(cell)], [2**64 - 1, 2], [len(cell) + 1, 0]):
        with pytest.raises(ValueError, match="beyond the end of its file"):
            read(cell, CellColumns([BAG]), [[offset, size, decoded]], 20)


def with_checksum(cell: bytes | bytearray) -> bytes:
    """A cell that was changed on purpose, without padding."""
    seed = hash_bytes(bytes(cell[:48]))
    return bytes(cell[:48]) + hash_bytes(bytes(cell[56:]), seed).to_bytes(8, "little") + bytes(cell[56:])


@pytest.mark.parametrize("size", [2**64 - 24, 2**64 - 1, 2**63, 1 << 40, 1, 0])
def test_a_cell_whose_size_differs_from_the_index_is_refused_before_memory_is_taken(size: int) -> None:
    """2**64 - 24 after another cell once wrapped the sum of sizes to a few bytes, and zstd wrote megabytes there."""
    keys = ColumnSchema("k", "key", 1, "string")
    first = encode_cell(REAL, np.zeros(8, np.float32), Compression())
    bad = bytearray(encode_cell(keys, pa.array(["x" * 1000] * 8), Compression()))
    decoded = decoded_bytes(bad)
    bad[40:48] = size.to_bytes(8, "little")
    data = first + with_checksum(bad)
    for told in (decoded, size % 2**32):
        places = [[0, len(first), decoded_bytes(first)], [len(first), len(bad), told]]
        with pytest.raises(ValueError, match=r", 1\)$"):
            read(data, CellColumns([REAL, keys]), places, 8)


def test_the_index_may_not_say_less_or_more_memory_than_the_header() -> None:
    cell = encode_cell(REAL, np.zeros(8, np.float32), Compression())
    for told in (0, 31, 33, 2**64 - 1):
        with pytest.raises(ValueError, match=f"takes 32 bytes of memory, the index of its file says {told}"):
            read_one(cell, REAL, 8, told)


@pytest.mark.parametrize(
    ("column", "num_examples", "message"),
    [
        (BAG, 8, "holds values of another kind than its column"),
        (replace(REAL, rank=2), 8, "has rank 1, its column has rank 2"),
        (REAL, 9, "has 8 examples, its minibatch has 9"),
    ],
)
def test_a_cell_must_be_one_of_its_column_and_minibatch(column: ColumnSchema, num_examples: int, message: str) -> None:
    cell = encode_cell(REAL, np.zeros(8, np.float32), Compression())
    with pytest.raises(ValueError, match=message):
        read_one(cell, column, num_examples, 32)


def test_a_tensor_without_dimensions_is_refused() -> None:
    bad = bytearray(encode_cell(REAL, np.zeros(1, np.float32), Compression()))
    bad[9] = 0
    with pytest.raises(ValueError, match="has rank 0"):
        read_one(with_checksum(bad), REAL, 1, 4)


@pytest.mark.parametrize("kind", ["large_string", "binary", "int64", "bool", "null", "fixed_size_binary[4]"])
def test_keys_of_another_type_than_their_column_are_refused(kind: str) -> None:
    cell = encode_cell(KEY, pa.array(["a", "b"]), Compression())
    with pytest.raises(ValueError, match="holds keys of another type than its column"):
        read_one(cell, replace(KEY, source_type=kind), 2, decoded_bytes(cell))


@pytest.mark.parametrize(
    ("offsets", "data", "message"),
    [
        ([0, 9, 4], b"abcd", "offsets decrease"),
        ([0, -1, 4], b"abcd", "offsets decrease"),
        ([0, 2**31 - 1, 4], b"abcd", "offsets decrease"),
        ([-5, 2, 4], b"abcd", "offsets do not span their bytes"),
        ([1, 2, 4], b"abcd", "offsets do not span their bytes"),
        ([0, 2, 5], b"abcd", "offsets do not span their bytes"),
        ([0, 2, 4], b"ab\xff\xff", "not UTF-8"),
        ([0, 1, 2], "é".encode(), "not UTF-8"),
        ([0, 2, 3], b"ab\xc3", "not UTF-8"),
        ([0, 2, 5], b"ab\xed\xa0\x80", "not UTF-8"),
        ([0, 2, 6], b"ab\xf4\x90\x80\x80", "not UTF-8"),
    ],
)
@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_keys_with_offsets_or_texts_that_cannot_be_are_refused(
    offsets: list[int], data: bytes, message: str, compression: str
) -> None:
    good = bytearray(encode_cell(KEY, pa.array(["a" * 2, "b" * (len(data) - 2)]), Compression.parse(compression)))
    assert good[6] == 0, "too short to be compressed"
    good[56:68] = np.array(offsets, np.int32).tobytes()
    good[68:] = data
    with pytest.raises(ValueError, match=message):
        read_one(with_checksum(good), KEY, 2, 12 + len(data))


@pytest.mark.parametrize("kind", ["time32[s]", "time64[us]", "decimal128(3, 1)"])
def test_a_number_that_is_no_time_or_decimal_is_refused(kind: str) -> None:
    column = ColumnSchema("c", "key", 1, kind)
    stored = key_type(kind)
    cell = native.encode_keys(np.full(stored.width, 127, np.uint8), FIXED, stored.width, False, 1, 0, "none", 0)
    decoded = read_one(cell, column, 1, stored.width)
    with pytest.raises(ValueError, match="has an invalid key"):
        next(make_minibatches(CellColumns([column]), decoded, cell, [1]))


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_distinct_ids_that_are_not_distinct_are_refused(compression: str) -> None:
    ids = np.arange(400, dtype=np.uint64) % np.uint64(40) * np.uint64(0x9E3779B97F4A7C15)
    cell = bytearray(encode_cell(BAG, Ids(ids, np.ones(400, np.int32)), Compression.parse(compression)))
    assert (cell[5], int.from_bytes(cell[32:36], "little")) == (DISTINCT_IDS, 40)
    read_one(cell, BAG, 400, decoded_bytes(cell))
    raw = bytearray(ids[:40].tobytes() + bytes(range(40)) * 10)
    raw[8:16] = raw[16:24]
    bad = bytearray(cell[:56]) + raw
    bad[6] = 0
    with pytest.raises(ValueError, match="has distinct ids that are not distinct"):
        read_one(with_checksum(bad), BAG, 400, decoded_bytes(cell))


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (BAG, Ids(np.zeros(3, np.uint64), np.array([1, 1], np.int32)), "the lengths add up to 2, but there are 3 ids"),
        (BAG, Ids(np.zeros(0, np.uint64), np.array([1, -1], np.int32)), "a length is negative"),
        (BAG, Ids(np.zeros(1, np.uint64), np.ones((1, 1), np.int32)), "Ids with lengths of rank 1"),
        (REAL, np.zeros(3), "a float32 array of rank 1"),
        (REAL, np.zeros((3, 1), np.float32), "a float32 array of rank 1"),
        (KEY, [1], "an Arrow array of string"),
        (KEY, pa.array([1]), "an Arrow array of string, got Int64Array int64"),
    ],
)
def test_a_value_that_does_not_fit_its_column_is_rejected(column: ColumnSchema, value: Value, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        encode_cell(column, value, Compression())


@pytest.mark.parametrize("text", ["gzip", "zstd:0", "zstd:99", "zstd:", "lz4:3", "none:1", ""])
def test_an_unknown_compression_is_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="compression must be 'zstd'"):
        Compression.parse(text)


@pytest.mark.parametrize(
    "kind",
    [
        *(f"fixed_size_binary[{width}]" for width in (2**28, 2**29 - 1, 2**29 + 1, 999_999_999)),
        "list<item: " * 3000 + "int64" + ">" * 3000,
        "list<item: " * 20_000,
    ],
)
def test_types_too_wide_deep_or_long_for_any_key_are_refused(kind: str) -> None:
    assert parse_type(kind) == pa.string()
    with pytest.raises(BadInput, match="keys cannot be") as caught:
        key_type(kind)
    assert len(str(caught.value)) < 150


def test_a_wide_key_has_its_width() -> None:
    assert key_type("fixed_size_binary[100000000]").width == 100_000_000
