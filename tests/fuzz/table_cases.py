"""Tables whose files a stranger changed, with every checksum right: each is opened and read to the end.

    python -m tests.fuzz.table_cases --seconds 60 --seed 0    as many cases as fit into a minute
    python -m tests.fuzz.table_cases --case 1234              one case again, with the traceback

A case fails with any exception that is not one of ours, and if it takes more than the limits of time or memory. Prints
the failures and exits with 1 if there are any. The process itself must survive: the number of a case that ends it is
in the file that `--current` names.
"""

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from samovar.embeddings import HashEmbedding
from samovar.errors import SamovarError
from samovar.native import hash_bytes
from samovar.store import LocalStore, MemoryStore, Store, take_lease, write_file
from samovar.tables import Bag, ColumnSchema, Ids, TableSchema, open_table
from samovar.tables.cell import Compression
from samovar.tables.export import arrow_type, rows_of_column
from samovar.tables.keys import plain_values
from samovar.tables.manifest import Manifest
from samovar.tables.schema import Minibatch
from samovar.tables.writer import CELL_INDEX, MINIBATCH_INDEX, write_segment

CASE_SECONDS = 60
CASE_BYTES = 3 << 30
"""Of address space that a case may add: a minibatch may take 10^9 bytes, a reader twice that."""
MOST_FAILURES = 5
ODD_NUMBERS = (
    0, 1, 2, 3, 4, 7, 8, 255, 256, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**63 - 1, 2**63, 2**64 - 24,
    2**64 - 8, 2**64 - 1,
)  # fmt: skip
KEYS: dict[str, list[Any]] = {
    "string": ["a", None, "日本", ""],
    "large_binary": [b"\xff", None, b"", b"abc"],
    "bool": [True, None, False, True],
    "int64": [1, -1, 2**62, None],
    "timestamp[us, tz=Europe/Berlin]": [0, 1, None, 2],
    "time32[s]": [0, 1, None, 2],
    "decimal128(5, 2)": [Decimal("1.25"), None, Decimal("-3"), None],
    "null": [None] * 4,
}
SCHEMA = TableSchema(
    (
        ColumnSchema("single", "categorical", 1, "uint64"),
        ColumnSchema("many", "categorical", 2, "list<item: list<item: uint64>>"),
        ColumnSchema("real", "real", 1, "double"),
        ColumnSchema("deep", "real", 3, "list<item: list<item: double>>"),
        *(ColumnSchema(f"key {kind}", "key", 1, kind) for kind in KEYS),
    )
)
# Fields of a cell's header: offset and bytes.
FIELDS = [(4, 1), (5, 1), (6, 1), (7, 1), (8, 1), (9, 1), (10, 1), (11, 1), (12, 4), (16, 4), (20, 4), (24, 8), (32, 4),
          (36, 4), (40, 8)]  # fmt: skip
_EMBEDDING = HashEmbedding({"single": 2, "many": 2})


@dataclass
class Files:
    """The one segment file of a table, and its manifest, as they can be changed."""

    data: bytearray
    manifest: dict[str, Any]

    @property
    def entry(self) -> dict[str, Any]:
        entry: dict[str, Any] = self.manifest["segment"]["files"][0]
        return entry

    def place_of(self, minibatch: int, column: int) -> int:
        """Where the entry of a cell is."""
        rows, columns = int(self.entry["num_minibatches"]), len(SCHEMA.columns)
        at = rows * MINIBATCH_INDEX.itemsize + (minibatch * columns + column) * CELL_INDEX.itemsize
        return int(self.entry["index_at"]) + at

    def cell(self, at: int) -> tuple[int, int]:
        """Offset and size of the cell of an entry."""
        offset, size, _ = np.frombuffer(self.data, CELL_INDEX, 1, at)[0].tolist()
        return offset, size

    def sign_cell(self, offset: int, size: int) -> None:
        if size < 56 or offset + size > len(self.data):
            return
        head = bytearray(self.data[offset : offset + 48])
        padding, head[10] = head[10], 0
        payload = bytes(self.data[offset + 56 + padding : offset + size])
        self.data[offset + 48 : offset + 56] = hash_bytes(payload, hash_bytes(bytes(head))).to_bytes(8, "little")

    def sign_index(self) -> None:
        start, rows = self.entry["index_at"], self.entry["num_minibatches"]
        size = rows * (MINIBATCH_INDEX.itemsize + len(SCHEMA.columns) * CELL_INDEX.itemsize)
        self.entry["index_checksum"] = f"{hash_bytes(bytes(self.data[start : start + size])):016x}"
        self.entry["checksum"] = f"{hash_bytes(bytes(self.data)):016x}"


def make_table(compression: str) -> Files:
    minibatches = []
    for number in range(3):
        lengths = np.array([[1, 2], [0, 1], [3, 0], [1, 1]], np.int32)
        values = {
            "single": Ids(np.arange(4, dtype=np.uint64) % np.uint64(2 + number), np.ones(4, np.int32)),
            "many": Ids(np.arange(9, dtype=np.uint64) % np.uint64(3), lengths),
            "real": np.arange(4, dtype=np.float32),
            "deep": np.arange(16, dtype=np.float32).reshape(4, 2, 2),
            **{f"key {kind}": pa.array(keys, arrow_type(SCHEMA.columns[4 + at])) for at, (kind, keys) in
               enumerate(KEYS.items())},
        }  # fmt: skip
        minibatches.append(Minibatch(number * 3600, 4, values))
    store = MemoryStore()
    segment = write_segment(store, SCHEMA, minibatches, compression=Compression.parse(compression))
    manifest = Manifest(1, "fuzz", SCHEMA, compression, segment)
    return Files(bytearray(store.read(segment.files[0].path)), json.loads(manifest.to_bytes()))


def change(files: Files, chance: Random) -> None:
    """One to three changes; most leave every checksum right, and the index in agreement with the header."""
    for _ in range(chance.randint(1, 3)):
        rows = files.entry["num_minibatches"]
        at = files.place_of(chance.randrange(3), chance.randrange(len(SCHEMA.columns)))
        if rows != 3 or at + CELL_INDEX.itemsize > len(files.data):
            break
        chance.choice([_change_header, _change_header, _change_payload, _change_index, _swap, _change_hours, _cut])(
            files, chance, at
        )
    if chance.random() < 0.97:
        files.sign_index()


def _number(chance: Random, size: int) -> bytes:
    number: int = chance.choice(ODD_NUMBERS) + (chance.randint(-4, 4) if chance.random() < 0.3 else 0)
    return (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _change_header(files: Files, chance: Random, at: int) -> None:
    offset, size = files.cell(at)
    where, width = chance.choice(FIELDS)
    if offset + size > len(files.data) or size < 56:
        return
    if chance.random() < 0.5:
        files.data[offset + where : offset + where + width] = _number(chance, width)
    else:
        files.data[offset + where] = chance.randrange(9)
    if chance.random() < 0.5:  # agree with a size that the header claims
        files.data[at + 12 : at + 16] = files.data[offset + 40 : offset + 44]
    files.sign_cell(offset, size)


def _change_payload(files: Files, chance: Random, at: int) -> None:
    offset, size = files.cell(at)
    if offset + size > len(files.data) or size <= 64:
        return
    width = chance.choice((1, 4, 8))
    place = offset + 56 + chance.randrange(size - 56 - 7)
    files.data[place : place + width] = _number(chance, width)[: offset + size - place]
    files.sign_cell(offset, size)


def _change_index(files: Files, chance: Random, at: int) -> None:
    where, width = chance.choice([(0, 8), (8, 4), (12, 4)])
    files.data[at + where : at + where + width] = _number(chance, width)


def _swap(files: Files, chance: Random, at: int) -> None:
    """The cell of another column or minibatch."""
    other = files.place_of(chance.randrange(3), chance.randrange(len(SCHEMA.columns)))
    files.data[at : at + 16] = files.data[other : other + 16]


def _change_hours(files: Files, chance: Random, at: int) -> None:
    where = files.entry["index_at"] + 8 * chance.randrange(6)
    files.data[where : where + 8] = _number(chance, 8)


def _cut(files: Files, chance: Random, at: int) -> None:
    what = chance.randrange(3)
    if what == 0:
        del files.data[chance.randrange(len(files.data)) :]
    elif what == 1:
        files.entry["num_minibatches"] = chance.choice((0, 1, 2, 4, 100, 2**31, 2**40))
    else:
        files.entry["index_at"] = chance.choice((0, 1, 8, len(files.data), len(files.data) - 8, 2**40))
    if chance.random() < 0.7:
        files.entry["size"] = len(files.data)


def _claim(column: int, where: int, number: int) -> Callable[[Files], None]:
    """The header of a cell of the second minibatch says this number, and the index agrees."""

    def change(files: Files) -> None:
        at = files.place_of(1, column)
        offset, size = files.cell(at)
        width = next(each for place, each in FIELDS if place == where)
        files.data[offset + where : offset + where + width] = (number & ((1 << 8 * width) - 1)).to_bytes(
            width, "little"
        )
        files.data[at + 12 : at + 16] = files.data[offset + 40 : offset + 44]
        files.sign_cell(offset, size)
        files.sign_index()

    return change


def _write_payload(column: int, where: int, data: bytes) -> Callable[[Files], None]:
    """The payload of a cell of the second minibatch has other bytes: offsets of keys, positions of distinct ids."""

    def change(files: Files) -> None:
        offset, size = files.cell(files.place_of(1, column))
        start = offset + 56 + files.data[offset + 10] + where
        if start + len(data) <= offset + size:
            files.data[start : start + len(data)] = data
        files.sign_cell(offset, size)
        files.sign_index()

    return change


def _name_type(column: int, source_type: str) -> Callable[[Files], None]:
    """The manifest gives a column another type of raw values."""

    def change(files: Files) -> None:
        files.manifest["schema"]["columns"][column]["source_type"] = source_type

    return change


SEEDS = [
    # 1: sizes that wrap the sum of an arena, in every field of every kind of cell
    *(_claim(column, where, number) for column in range(len(SCHEMA.columns)) for where, _ in FIELDS
      for number in (2**64 - 24, 2**63, 2**40)),
    # 4: offsets of keys beyond the data, and negative ones; 16: ids and positions that are not distinct
    *(_write_payload(column, where, data) for column in range(len(SCHEMA.columns)) for where in range(0, 64, 8)
      for data in (b"\xff" * 8, b"\xff\xff\xff\x7f", bytes(8))),
    # keys so wide that their bits wrap a 32-bit integer, and types deeper than Python's stack
    *(_name_type(column, kind) for column in range(len(SCHEMA.columns)) for kind in (
        *(f"fixed_size_binary[{width}]" for width in (0, 1, 2**28, 2**29 - 1, 2**29 + 1, 999_999_999)),
        "list<item: " * 3000 + "int64" + ">" * 3000,
    )),
]  # fmt: skip
"""What attacks found in cells and schemas; the first cases of every run."""


def read(store: Store) -> None:
    """Everything that a reader does with a table."""
    table = open_table(store)
    table.batch_sizes()
    for record in table.read():
        bags = {}
        for column in table.schema.columns:
            value = record[column.name]
            if isinstance(value, Bag):
                bags[column.name] = value
                value.data.sum()
            elif isinstance(value, torch.Tensor):
                value.sum()
            else:
                value.validate(full=True)
                plain_values(value)
            rows_of_column(column, value, arrow_type(column))
            record._repr_html_()
        _EMBEDDING(bags)
    list(table.read_minibatches([2, 0], ["single", "key string"]))


def write(store: Store, files: Files) -> None:
    path = files.entry["path"]
    write_file(store, path.replace("segments/000001/", "segments/000001.e1/"), bytes(files.data))
    write_file(store, "manifest/000001.e1.json", json.dumps(files.manifest).encode())
    with take_lease(store) as lease:
        lease.commit(versions=[1], id="fuzz")


def run_case(number: int, corpus: list[Files], folder: Path) -> None:
    """Raises what is not one of ours."""
    chance = Random(number)
    given = chance.choice(corpus)
    files = Files(bytearray(given.data), json.loads(json.dumps(given.manifest)))
    if number % 10**9 <= len(SEEDS):
        SEEDS[number % 10**9 - 1](files)
    else:
        change(files, chance)
    store = MemoryStore() if chance.random() < 0.5 else LocalStore(Path(tempfile.mkdtemp(dir=folder)))
    write(store, files)
    signal.alarm(CASE_SECONDS)
    try:
        read(store)
    except SamovarError:
        pass
    finally:
        signal.alarm(0)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int)
    parser.add_argument("--current", default=os.devnull)
    options = parser.parse_args()
    torch.set_num_threads(1)
    corpus = [make_table(compression) for compression in ("zstd", "lz4", "none")]
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="samovar-fuzz-", dir=place) as folder:
        for given in corpus:
            store = MemoryStore()
            write(store, given)
            read(store)  # unchanged, it is read
        if options.case is not None:
            run_case(options.case, corpus, Path(folder))
            return 0
        return fuzz(options, corpus, Path(folder))


def fuzz(options: argparse.Namespace, corpus: list[Files], folder: Path) -> int:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + CASE_BYTES, used + CASE_BYTES))
    current = os.open(options.current, os.O_WRONLY | os.O_CREAT)
    stop, number, num_failed = time.monotonic() + options.seconds, options.seed * 10**9, 0
    while time.monotonic() < stop and num_failed < MOST_FAILURES:
        number += 1
        os.pwrite(current, b"%20d" % number, 0)
        try:
            run_case(number, corpus, folder)
        except BaseException:
            num_failed += 1
            print(f"case {number}:\n{traceback.format_exc()}", flush=True)
    print(f"{number - options.seed * 10**9} cases, {num_failed} failed")
    return int(num_failed > 0)


def _too_slow(*_: object) -> None:
    raise TimeoutError(f"a case took more than {CASE_SECONDS} s")


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, _too_slow)
    sys.exit(main())
