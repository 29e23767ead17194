"""XXH64 of bytes, streams, numpy and Arrow, against a short reference and the xxhash package."""

import sys
import threading
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from samovar import _native, native
from samovar.errors import BadInput

MASK = 2**64 - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def rotl(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & MASK


def mix(lane: int, word: int) -> int:
    return rotl((lane + word * P2) & MASK, 31) * P1 & MASK


def reference(data: bytes, seed: int = 0) -> int:
    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data) - 7, 8)]
    num_striped = len(data) // 32 * 4
    h = seed + P5
    if num_striped:
        lanes = [(seed + start) & MASK for start in (P1 + P2, P2, 0, -P1)]
        for i, word in enumerate(words[:num_striped]):
            lanes[i % 4] = mix(lanes[i % 4], word)
        h = sum(rotl(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            h = ((h & MASK) ^ mix(0, lane)) * P1 + P4
    h = (h + len(data)) & MASK
    for word in words[num_striped:]:
        h = (rotl(h ^ mix(0, word), 27) * P1 + P4) & MASK
    tail = data[len(words) * 8 :]
    if len(tail) >= 4:
        h = (rotl(h ^ int.from_bytes(tail[:4], "little") * P1 & MASK, 23) * P2 + P3) & MASK
        tail = tail[4:]
    for byte in tail:
        h = rotl(h ^ byte * P5 & MASK, 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


seeds = st.integers(0, MASK)


@pytest.mark.parametrize(
    ("text", "seed", "golden"),
    [
        ("", 0, 0xEF46DB3751D8E999),
        ("a", 0, 0xD24EC4F1A98C6E5B),
        ("abc", 0, 0x44BC2CF5AD770999),
        ("abc", 1, 0xBEA9CA8199328908),
        ("самовар", 0, 0x6164F77D3BEC09B4),
        ("самовар", MASK, 0x8447593960405F6D),
    ],
)
def test_hashes_never_change(text: str, seed: int, golden: int) -> None:
    assert native.hash_bytes(text.encode(), seed) == golden


@given(st.binary(max_size=200), seeds)
def test_bytes_hash_like_the_reference_and_the_xxhash_package(data: bytes, seed: int) -> None:
    assert native.hash_bytes(data, seed) == reference(data, seed) == xxhash.xxh64_intdigest(data, seed)


def test_every_length_hashes_like_the_xxhash_package() -> None:
    data = bytes(range(256)) * 2
    for size in range(len(data)):
        assert native.hash_bytes(data[:size], 5) == xxhash.xxh64_intdigest(data[:size], 5)


@pytest.mark.parametrize("wrap", [bytearray, memoryview, pa.py_buffer, lambda b: np.frombuffer(b, np.float32)])
def test_any_contiguous_buffer_is_bytes(wrap: Callable[[bytes], Any]) -> None:
    data = b"samovar!" * 9
    assert native.hash_bytes(wrap(data)) == native.hash_bytes(data)


@pytest.mark.parametrize("data", ["text", 1, None, [1], memoryview(b"abcd")[::2], np.ones((2, 2)).T])
def test_what_is_not_one_contiguous_buffer_is_rejected(data: Any) -> None:
    with pytest.raises(BadInput, match=r"hash_bytes: expected one contiguous bytes-like object, got "):
        native.hash_bytes(data)
    with pytest.raises(BadInput, match=r"Hasher\.update: expected one contiguous bytes-like object, got "):
        native.Hasher().update(data)


def test_a_negative_seed_wraps_and_a_larger_one_is_rejected() -> None:
    assert native.hash_bytes(b"a", -1) == native.hash_bytes(b"a", MASK)
    for seed in (2**64, -(2**63) - 1):
        with pytest.raises(BadInput, match="a 64-bit word must be from"):
            native.hash_bytes(b"a", seed)
    with pytest.raises(BadInput, match=r"must be an integer, got 1\.5"):
        native.hash_bytes(b"a", 1.5)  # type: ignore[arg-type]  # the mistake under test


@given(st.lists(st.binary(max_size=80), max_size=8), seeds)
def test_a_stream_hashes_as_its_pieces_joined(pieces: list[bytes], seed: int) -> None:
    hasher = native.Hasher(seed)
    for i, piece in enumerate(pieces):
        assert hasher.digest() == native.hash_bytes(b"".join(pieces[:i]), seed)
        hasher.update(piece)
    assert hasher.digest() == native.hash_bytes(b"".join(pieces), seed)


INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", INTEGERS)
def test_an_integer_hashes_as_its_64_bits_whatever_its_width(kind: str, order: str) -> None:
    dtype = np.dtype(order + kind)
    info = np.iinfo(dtype)
    values = [info.min, info.max, 0, 1, 100, *range(40)]
    expected = [reference((v % 2**64).to_bytes(8, "little"), 3) for v in values]
    hashes = native.hash_integers(np.array(values, dtype), 3)
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == expected


def test_integers_hash_to_golden_values() -> None:
    values = np.array([0, 1, 2**63, MASK], np.uint64)
    golden = [0x34C96ACDCADB1BBB, 0x9F29CB17A2A49995, 0x3F425EACF01544E0, 0x85D136ADB773C6C9]
    assert native.hash_integers(values).tolist() == golden
    assert native.hash_integers(np.array([-1])).tolist() == golden[-1:]


def test_integers_keep_their_shape_whatever_their_strides() -> None:
    grid = np.arange(24).reshape(2, 3, 4)
    flat = native.hash_integers(np.arange(24))
    assert np.array_equal(native.hash_integers(grid), flat.reshape(2, 3, 4))
    assert np.array_equal(native.hash_integers(grid.T), flat.reshape(2, 3, 4).T)
    assert np.array_equal(native.hash_integers(np.arange(24)[::-2]), flat[::-2])
    assert native.hash_integers(np.array(7)).shape == ()
    assert native.hash_integers(np.empty((0, 3), np.int16)).shape == (0, 3)


def test_integers_may_be_at_any_address() -> None:
    shifted = np.frombuffer(b"." + np.arange(9).tobytes(), np.int64, 9, 1)
    assert not shifted.flags.aligned
    assert np.array_equal(native.hash_integers(shifted), native.hash_integers(np.arange(9)))


@pytest.mark.parametrize("array", [np.ones(2), np.ones(2, bool), np.array([1, "a"], object), np.array(["a"]), [1, 2]])
def test_what_is_not_an_array_of_integers_is_rejected(array: Any) -> None:
    with pytest.raises(BadInput, match="hash_integers: expected a numpy array of integers, got"):
        native.hash_integers(array)


TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
BINARIES = [pa.binary(), pa.large_binary(), pa.binary_view()]
NUMBERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if kind in NUMBERS:
        info = np.iinfo(kind.to_pandas_dtype())
        return st.integers(int(info.min), int(info.max))
    return st.binary(max_size=70) if kind in BINARIES else st.text(max_size=40)


@st.composite
def arrays(draw: st.DrawFn) -> pa.Array:
    """Every hashable type, with nulls, sliced at both ends, as it is or dictionary-encoded."""
    kind = draw(st.sampled_from(TEXTS + BINARIES + NUMBERS))
    array = pa.array(draw(st.lists(st.none() | values_of(kind), max_size=12)), kind)
    if kind not in (pa.string_view(), pa.binary_view()) and draw(st.booleans()):
        array = array.dictionary_encode()
    start = draw(st.integers(0, len(array)))
    return array[start : draw(st.integers(start, len(array)))]


def expected_hash(value: str | bytes | int | None, seed: int) -> int | None:
    match value:
        case None:
            return None
        case str():
            return int(xxhash.xxh64_intdigest(value.encode(), seed))
        case bytes():
            return int(xxhash.xxh64_intdigest(value, seed))
        case int():
            return int(xxhash.xxh64_intdigest((value % 2**64).to_bytes(8, "little"), seed))


@given(arrays(), seeds)
def test_an_arrow_array_hashes_element_by_element(array: pa.Array, seed: int) -> None:
    hashes = native.hash_array(array, seed)
    assert isinstance(hashes, pa.UInt64Array)
    hashes.validate(full=True)
    assert hashes.to_pylist() == [expected_hash(value, seed) for value in array.to_pylist()]


@given(arrays(), st.lists(st.integers(0, 12), max_size=3))
def test_chunks_do_not_matter(array: pa.Array, cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(array)) for cut in cuts), len(array)]
    pieces = [array[a:b] for a, b in pairwise(bounds)]
    hashes = native.hash_array(pa.chunked_array(pieces, array.type))
    assert isinstance(hashes, pa.UInt64Array)
    assert hashes.equals(native.hash_array(array))


def test_chunks_may_have_dictionaries_of_their_own() -> None:
    chunks = [pa.array(texts).dictionary_encode() for texts in (["a", "b"], ["b", None, "c"])]
    hashes = native.hash_array(pa.chunked_array(chunks))
    assert hashes.equals(native.hash_array(pa.array(["a", "b", "b", None, "c"])))


def test_a_null_inside_a_dictionary_stays_null() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()), pa.array(["a", None]))
    assert native.hash_array(array).to_pylist() == [None, native.hash_bytes(b"a"), None]


@pytest.mark.parametrize("kind", [*TEXTS, *BINARIES, *NUMBERS, pa.dictionary(pa.int8(), pa.string())])
def test_nothing_hashes_to_nothing(kind: pa.DataType) -> None:
    for array in (pa.array([], kind), pa.chunked_array([], kind), pa.nulls(3, kind)[3:]):
        assert native.hash_array(array).equals(pa.array([], pa.uint64()))
    assert native.hash_array(pa.nulls(3, kind)).to_pylist() == [None, None, None]


def test_arrow_buffers_may_be_at_any_address() -> None:
    offsets = pa.py_buffer(b"." + np.array([0, 1, 3], np.int32).tobytes())[1:]
    array = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abc")])
    assert native.hash_array(array).equals(native.hash_array(pa.array(["a", "bc"])))


@pytest.mark.parametrize("array", [pa.array(["x" * 1000] * 5000), pa.array(range(5000))[1:]])
def test_the_input_is_not_copied(array: pa.Array) -> None:
    native.hash_array(array)
    tracemalloc.start()
    in_arrow = pa.total_allocated_bytes()
    hashes = native.hash_array(array)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < hashes.nbytes + 10_000
    assert pa.total_allocated_bytes() == in_arrow


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1.5]),
        pa.array([True]),
        pa.array([None]),
        pa.array([["a"]]),
        pa.chunked_array([], pa.float32()),
        pa.array([1, 2], pa.timestamp("s")),
        pa.array([1.5]).dictionary_encode(),
        pa.array([b"ab"], pa.binary(2)),
    ],
    ids=lambda array: str(array.type),
)
def test_a_column_of_another_type_is_rejected_by_name(array: Any) -> None:
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    with pytest.raises(BadInput) as caught:
        native.hash_array(array)
    assert str(caught.value).endswith(f"got a column of type {kind}")


def test_what_is_not_an_arrow_array_is_rejected() -> None:
    with pytest.raises(BadInput, match="expected an Arrow array, got list"):
        native.hash_array(["a"])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("offsets", [[0, 4], [-1, 2], [-2, -1], [0, 2, 1], [0, 2**31 - 1, 3]])
def test_wrong_offsets_raise_instead_of_reading_out_of_bounds(offsets: list[int], dtype: Any) -> None:
    with pytest.raises(ValueError, match="offsets: string"):
        _native.hash_strings(np.array(offsets, dtype), b"abc", 0, np.zeros(len(offsets) - 1, np.uint64))


def test_a_broken_arrow_array_is_bad_input() -> None:
    buffers = [None, pa.py_buffer(np.array([0, 2**30, 3], np.int32)), pa.py_buffer(b"abc")]
    with pytest.raises(BadInput, match=r"breaks Arrow's layout .*string 1 starts at 1073741824 and ends at 3"):
        native.hash_array(pa.Array.from_buffers(pa.string(), 2, buffers))


def test_the_border_takes_exactly_one_dtype_rank_and_layout() -> None:
    words = np.zeros(4, np.uint64)
    for wrong in (
        np.zeros(4, np.int64),
        np.zeros((2, 2), np.uint64),
        np.zeros(8, np.uint64)[::2],
        [1, 2, 3, 4],
    ):
        with pytest.raises(TypeError):
            _native.hash_integers(wrong, 0, words)  # type: ignore[arg-type]  # the mistake under test
    for wrong_out in (np.zeros(4), np.zeros(8, np.uint64)[::2], np.frombuffer(bytes(32), np.uint64)):
        with pytest.raises(TypeError):
            _native.hash_integers(words, 0, wrong_out)  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(ValueError, match="out: has room for 4 hashes, the input has 3"):
        _native.hash_integers(words[:3], 0, words)
    with pytest.raises(ValueError, match="n strings have n \\+ 1 offsets"):
        _native.hash_strings(np.zeros(0, np.int32), b"", 0, words[:0])
    with pytest.raises(ValueError, match="values: not aligned"):
        _native.hash_integers(np.frombuffer(bytes(33), np.uint64, 4, 1), 0, words)


BIG = bytes(16_000_000)
WORDS = np.zeros(1_000_000, np.uint64)
OFFSETS = np.arange(1_000_001, dtype=np.int32)


@pytest.mark.parametrize(
    "work",
    [
        lambda: _native.hash_bytes(BIG, 0),
        lambda: _native.Hasher(0).update(BIG),
        lambda: _native.hash_integers(WORDS, 0, np.empty_like(WORDS)),
        lambda: _native.hash_strings(OFFSETS, BIG, 0, np.empty_like(WORDS)),
        lambda: _native.tokenize(OFFSETS, BIG, np.zeros(1_000_000, bool), 1, 0, True, np.empty(1_000_001, np.int64)),
    ],
    ids=["hash_bytes", "Hasher", "hash_integers", "hash_strings", "tokenize"],
)
def test_other_threads_run_while_a_hash_is_computed(work: Callable[[], Any]) -> None:
    gate = threading.Lock()
    gate.acquire()
    has_run: list[bool] = []
    seen: list[bool] = []

    def hash_until_the_other_thread_has_run() -> None:
        gate.release()  # from here on, this thread releases the GIL only inside `work`
        for _ in range(500):
            work()
            if has_run:
                seen.append(True)
                return

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # no thread is forced to release the GIL
    try:
        hashing = threading.Thread(target=hash_until_the_other_thread_has_run)
        hashing.start()
        gate.acquire()
        has_run.append(True)
        hashing.join()
    finally:
        sys.setswitchinterval(interval)
    assert seen


def test_two_threads_may_feed_one_hasher() -> None:
    hasher = native.Hasher()
    piece = b"x" * 1001

    def feed() -> None:
        for _ in range(200):
            hasher.update(piece)

    threads = [threading.Thread(target=feed) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert hasher.digest() == native.hash_bytes(piece * 400)
