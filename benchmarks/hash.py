"""Hashing bytes, columns of strings and columns of integers: the C++ core against xxhash called from Python.

All compute XXH64; that they agree is checked before anything is timed.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa
from benchmarks.contest.command_line import CommandLine, Size
from benchmarks.contest.report import Report, Section
from benchmarks.contest.result import publish
from benchmarks.contest.rounds import interleave, time_call
from numpy.typing import NDArray
from xxhash import xxh64_intdigest

from samovar.native import hash_array, hash_bytes, hash_integers
from samovar.seeds import numpy_generator

LONGEST_STRING = 40  # bytes: words, urls' hosts, ids in text
P1, P2, P3, P4, P5 = (
    np.uint64(prime)
    for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)

Act = Callable[[], object]


def measure_bytes(size_bytes: int, repeats: int, rounds: int) -> Section:
    data = numpy_generator(1, "bytes").bytes(size_bytes)
    assert hash_bytes(data) == xxh64_intdigest(data)
    acts = {
        "Samovar hash_bytes": lambda: [hash_bytes(data) for _ in range(repeats)],
        "xxhash xxh64_intdigest": lambda: [xxh64_intdigest(data) for _ in range(repeats)],
    }
    title = f"{size_bytes >> 20} MB at once"
    return contest(title, acts, size_bytes * repeats / 1e6, "MB", "xxhash xxh64_intdigest", rounds)


def measure_strings(num_elements: int, rounds: int) -> Section:
    column = make_strings(num_elements)
    ready = column.to_pylist()
    assert hash_array(column).to_pylist() == [xxh64_intdigest(text) for text in ready]
    acts = {
        "Samovar hash_array": lambda: hash_array(column),
        "xxhash a string, list ready": lambda: [xxh64_intdigest(text) for text in ready],
        "pyarrow to_pylist + xxhash a string": lambda: [xxh64_intdigest(text) for text in column.to_pylist()],
    }
    title = f"{num_elements:,} strings of 0 to {LONGEST_STRING} bytes"
    return contest(title, acts, num_elements / 1e6, "M", "xxhash a string, list ready", rounds)


def make_strings(num_elements: int) -> pa.Array:
    """Binary, because xxhash takes only bytes and encoding is not what we time."""
    generator = numpy_generator(1, "strings")
    offsets = np.zeros(num_elements + 1, np.int32)
    np.cumsum(generator.integers(0, LONGEST_STRING + 1, num_elements), out=offsets[1:])
    letters = generator.integers(ord("a"), ord("z") + 1, offsets[-1], np.uint8)
    return pa.Array.from_buffers(pa.binary(), num_elements, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])


def measure_integers(num_elements: int, rounds: int) -> Section:
    column = numpy_generator(1, "integers").integers(0, 2**64 - 1, num_elements, np.uint64, endpoint=True)
    ready = column.tolist()
    expected = hash_integers(column)
    assert np.array_equal(expected, hash_with_numpy(column))
    assert expected.tolist() == hash_each(ready)
    acts = {
        "Samovar hash_integers": lambda: hash_integers(column),
        "numpy, the same formula": lambda: hash_with_numpy(column),
        "xxhash an integer, list ready": lambda: hash_each(ready),
    }
    title = f"{num_elements:,} integers"
    return contest(title, acts, num_elements / 1e6, "M", "xxhash an integer, list ready", rounds)


def hash_each(values: list[int]) -> list[int]:
    return [xxh64_intdigest(value.to_bytes(8, "little")) for value in values]


def hash_with_numpy(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """XXH64 of eight bytes, seed 0."""
    h = (P5 + np.uint64(8)) ^ (rotate(words * P2, 31) * P1)
    h = rotate(h, 27) * P1 + P4
    h = (h ^ (h >> np.uint64(33))) * P2
    h = (h ^ (h >> np.uint64(29))) * P3
    hashes: NDArray[np.uint64] = h ^ (h >> np.uint64(32))
    return hashes


def rotate(words: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    rotated: NDArray[np.uint64] = (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
    return rotated


def contest(title: str, acts: Mapping[str, Act], amount: float, unit: str, peer: str, rounds: int) -> Section:
    seconds = interleave({name: partial(time_call, act) for name, act in acts.items()}, rounds, title)
    return Section(title, seconds, amount, unit, peer)


def run(megabytes: int, num_elements: int, rounds: int) -> Iterator[Report]:
    sections = [
        measure_bytes(1 << 20, 200, rounds),
        measure_bytes(megabytes << 20, 1, rounds),
        measure_strings(num_elements, rounds),
        measure_integers(num_elements, rounds),
    ]
    yield Report(f"XXH64 on one core, {rounds} interleaved rounds, medians", sections)


def main() -> int:
    options = CommandLine(
        __doc__,
        rounds=Size(5, 2),
        megabytes=Size(256, 8, "the larger of two blocks of bytes"),
        elements=Size(2_000_000, 20_000, "strings, and integers"),
    ).read()
    return publish(run(options.megabytes, options.elements, options.rounds), options.quick, options.json)


if __name__ == "__main__":
    sys.exit(main())
