"""Writes minibatches as the files of one segment. Commits nothing: a segment counts once a manifest names it.

segments/000001.e1/0000.parquet        "PAR1" | row groups of a few minibatches, one page per column | index | footer
                   0000_0001.parquet   the next file of the first part, if one is not enough
                   0001.parquet        the first file of the second part

A segment is written in parts, each by itself and in any process; the names of their files are in the order of rows.

index   per minibatch: i64 hour, u64 number of examples
        then per cell: u64 offset, u32 size, u32 size in memory; minibatch by minibatch, columns in the schema's order
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from samovar.errors import BadInput
from samovar.native import hash_bytes
from samovar.results.checked import CheckedWriter
from samovar.store import Fence, Store
from samovar.tables.cell import Compression, decoded_bytes, encode_cell, place_cell
from samovar.tables.manifest import FileEntry, HourEntry, Segment, segment_folder
from samovar.tables.parquet import MAGIC, Chunk, Column, Footer, page_header
from samovar.tables.schema import HOUR, NUM_EXAMPLES, Ids, Minibatch, TableSchema

NO_HOUR = -(2**63)  # in the plain column of an offline table
MAX_MINIBATCH_BYTES = 100_000_000
MAX_MINIBATCH_MEMORY = 1_000_000_000  # decoded: the most that a file can make a reader allocate
MAX_MINIBATCH_EXAMPLES = 100_000_000
MINIBATCHES_PER_GROUP = 16
GROUP_BYTES = 64 << 20
FILE_BYTES = 1 << 30
CHUNKS_PER_FILE = 16_000
MINIBATCH_INDEX = np.dtype([("hour", "<i8"), ("num_examples", "<u8")])
CELL_INDEX = np.dtype([("offset", "<u8"), ("size", "<u4"), ("decoded", "<u4")])


@dataclass(frozen=True)
class EncodedMinibatch:
    hour: int | None
    num_examples: int
    cells: list[bytes]


def write_segment(
    store: Store,
    schema: TableSchema,
    minibatches: Iterable[Minibatch],
    *,
    number: int = 1,
    first_minibatch: int = 0,
    compression: Compression = Compression(),
    threads: int = 2,
    epoch: int = 0,
    fence: Fence | None = None,
    part: int = 0,
) -> Segment:
    """Write all minibatches as one segment, or as one part of it.

    Args:
        store: The table's directory.
        schema: Its columns.
        minibatches: In the order in which they will be read.
        number: The segment's number, which is the version that adds it.
        first_minibatch: The number of minibatches in earlier segments.
        compression: The codec of the cells.
        threads: How many minibatches are encoded at the same time.
        epoch: The epoch of the lease that the version will be committed under. It is in the files' names, so that
            no late writer can touch them.
        fence: Called before each file appears. It raises if the lease is lost.
        part: The number of the part, if these are not all minibatches of the segment. See `join_parts`.

    Returns:
        The segment, to be named in a manifest.

    Raises:
        BadInput: A value does not fit its column, or a minibatch is too large.

    Example:
        >>> schema = TableSchema((ColumnSchema("price", "real", 1, "double"),))
        >>> minibatches = [Minibatch(None, 2, {"price": np.array([1.5, 2.5], np.float32)})]
        >>> write_segment(MemoryStore(), schema, minibatches).num_examples
        2
    """
    tally = _Tally(first_minibatch)
    files: list[FileEntry] = []
    with ThreadPoolExecutor(threads, thread_name_prefix="encode") as pool:
        encoded = _encode_all(schema, minibatches, compression, pool, ahead=2 * threads)
        for index, groups in enumerate(_cut_files(encoded, len(schema.columns) + 2)):
            path = f"{segment_folder(number, epoch)}/{part:04d}{f'_{index:04d}' if index else ''}.parquet"
            with CheckedWriter(store, path, fence) as writer:
                placed = _write_file(writer, schema, groups, tally)
            record = writer.record
            files.append(FileEntry(path, record.size, record.checksum, *placed))
    return Segment(
        number,
        first_minibatch,
        tally.num_minibatches,
        tally.num_examples,
        tuple(files),
        tuple(tally.hours),
        dict(tally.column_bytes),
        epoch,
    )


def join_parts(parts: Sequence[Segment]) -> Segment:
    """The segment that was written in parts, in order. Each of them was written as if it were all of the segment."""
    tally = _Tally(parts[0].first_minibatch)
    for part in parts:
        tally.add_part(part)
    return replace(
        parts[0],
        num_minibatches=tally.num_minibatches,
        num_examples=tally.num_examples,
        files=tuple(file for part in parts for file in part.files),
        hours=tuple(tally.hours),
        column_bytes=dict(tally.column_bytes),
    )


@dataclass
class _Tally:
    """Counts of the minibatches written so far."""

    first_minibatch: int
    num_minibatches: int = 0
    num_examples: int = 0
    hours: list[HourEntry] = field(default_factory=list)
    column_bytes: Counter[str] = field(default_factory=Counter)

    def add(self, minibatch: EncodedMinibatch, names: list[str]) -> None:
        self._count(minibatch.hour, 1, minibatch.num_examples)
        for name, cell in zip(names, minibatch.cells, strict=True):
            self.column_bytes[name] += len(cell)

    def add_part(self, part: Segment) -> None:
        for entry in part.hours:
            self._count(entry.hour, entry.num_minibatches, entry.num_examples)
        self.column_bytes.update(part.column_bytes)

    def _count(self, hour: int | None, num_minibatches: int, num_examples: int) -> None:
        if not self.hours or self.hours[-1].hour != hour:
            self.hours.append(HourEntry(hour, self.first_minibatch + self.num_minibatches, 0, 0))
        last = self.hours[-1]
        self.hours[-1] = replace(
            last,
            num_minibatches=last.num_minibatches + num_minibatches,
            num_examples=last.num_examples + num_examples,
        )
        self.num_minibatches += num_minibatches
        self.num_examples += num_examples


def _encode_all(
    schema: TableSchema,
    minibatches: Iterable[Minibatch],
    compression: Compression,
    pool: ThreadPoolExecutor,
    ahead: int,
) -> Iterator[EncodedMinibatch]:
    """Encoded minibatches in order; the pool works on a few ahead."""
    waiting: deque[Future[EncodedMinibatch]] = deque()
    for minibatch in minibatches:
        waiting.append(pool.submit(_encode, schema, minibatch, compression))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _encode(schema: TableSchema, minibatch: Minibatch, compression: Compression) -> EncodedMinibatch:
    _check_examples(schema, minibatch)
    cells = [encode_cell(column, minibatch.values[column.name], compression) for column in schema.columns]
    _check_size(schema, minibatch, list(map(len, cells)), "bytes", MAX_MINIBATCH_BYTES)
    in_memory = list(map(decoded_bytes, cells))
    _check_size(schema, minibatch, in_memory, "bytes of memory", MAX_MINIBATCH_MEMORY)
    return EncodedMinibatch(minibatch.hour, minibatch.num_examples, cells)


def _check_examples(schema: TableSchema, minibatch: Minibatch) -> None:
    """A reader checks the same."""
    expected = minibatch.num_examples
    if expected > MAX_MINIBATCH_EXAMPLES:
        raise BadInput(
            f"a minibatch has {expected:,} examples, more than the limit of {MAX_MINIBATCH_EXAMPLES:,}. Choose a "
            "smaller batch_size"
        )
    for name in schema.names:
        value = minibatch.values[name]
        found = len(value.lengths if isinstance(value, Ids) else value)
        if found != expected:
            raise BadInput(
                f"column {name!r}: its converter must return one value per example, got {found} for {expected} examples"
            )


def _check_size(schema: TableSchema, minibatch: Minibatch, sizes: list[int], unit: str, limit: int) -> None:
    if sum(sizes) > limit:
        by_size = sorted(zip(schema.names, sizes, strict=True), key=lambda item: -item[1])
        largest = ", ".join(f"{name} {size:,}" for name, size in by_size[:5])
        raise BadInput(
            f"a minibatch of {minibatch.num_examples} examples takes {sum(sizes):,} {unit}, more than the limit of "
            f"{limit:,}. Choose a smaller batch_size. Largest columns: {largest}"
        )


def _cut_files(minibatches: Iterator[EncodedMinibatch], num_columns: int) -> Iterator[Iterator[list[EncodedMinibatch]]]:
    """The row groups of one file after the other; the caller exhausts a file before it asks for the next."""
    groups = _cut_groups(minibatches)
    first = next(groups, None)
    while first is not None:
        left: list[list[EncodedMinibatch]] = []
        yield _fill_file(first, groups, num_columns, left)
        first = left[0] if left else None


def _fill_file(
    first: list[EncodedMinibatch],
    groups: Iterator[list[EncodedMinibatch]],
    num_columns: int,
    left: list[list[EncodedMinibatch]],
) -> Iterator[list[EncodedMinibatch]]:
    """Groups until the file is full; the first that no longer fits is put into `left`."""
    num_chunks = size = 0
    group: list[EncodedMinibatch] | None = first
    while group is not None:
        group_bytes = sum(len(cell) for minibatch in group for cell in minibatch.cells)
        if num_chunks and (num_chunks + num_columns > CHUNKS_PER_FILE or size + group_bytes > FILE_BYTES):
            left.append(group)
            return
        num_chunks += num_columns
        size += group_bytes
        yield group
        group = next(groups, None)


def _cut_groups(minibatches: Iterator[EncodedMinibatch]) -> Iterator[list[EncodedMinibatch]]:
    group: list[EncodedMinibatch] = []
    size = 0
    for minibatch in minibatches:
        num_bytes = sum(map(len, minibatch.cells))
        if group and (len(group) == MINIBATCHES_PER_GROUP or size + num_bytes > GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(minibatch)
        size += num_bytes
    if group:
        yield group


def _write_file(
    writer: CheckedWriter, schema: TableSchema, groups: Iterator[list[EncodedMinibatch]], tally: _Tally
) -> tuple[int, int, str]:
    """Write one file; return its number of minibatches, and the place and checksum of its index."""
    columns = [
        Column(HOUR, "INT64"),
        Column(NUM_EXAMPLES, "INT64"),
        *(Column(name, "BYTE_ARRAY") for name in schema.names),
    ]
    footer = Footer(columns)
    hours, cells = [], []
    file = _CountingWriter(writer)
    file.write(MAGIC)
    for group in groups:
        for minibatch in group:
            tally.add(minibatch, schema.names)
            hours.append((_plain_hour(minibatch), minibatch.num_examples))
        cells.append(_write_group(file, group, columns, footer))
    index = np.array(hours, MINIBATCH_INDEX).tobytes() + np.concatenate(cells).tobytes()
    file.write(bytes(-file.position % 8))
    index_at = file.position
    file.write(index)
    file.write(footer.to_bytes())
    return footer.num_rows, index_at, f"{hash_bytes(index):016x}"


class _CountingWriter:
    """A writer that knows its position in the file."""

    def __init__(self, writer: CheckedWriter) -> None:
        self._writer = writer
        self.position = 0

    def write(self, data: bytes) -> None:
        self._writer.write(data)
        self.position += len(data)


def _write_group(
    file: _CountingWriter, group: list[EncodedMinibatch], columns: list[Column], footer: Footer
) -> NDArray[np.void]:
    """Write one row group; return the index of its cells."""
    index = np.empty((len(group), len(columns) - 2), CELL_INDEX)
    chunks = [
        _write_numbers(file, columns[0], [_plain_hour(minibatch) for minibatch in group]),
        _write_numbers(file, columns[1], [minibatch.num_examples for minibatch in group]),
    ]
    for number, column in enumerate(columns[2:]):
        cells = [minibatch.cells[number] for minibatch in group]
        chunk, offsets, sizes = _write_cells(file, column, cells)
        chunks.append(chunk)
        index["offset"][:, number] = offsets
        index["size"][:, number] = sizes
        index["decoded"][:, number] = [decoded_bytes(cell) for cell in cells]
    footer.add(len(group), chunks)
    return index.reshape(-1)


def _plain_hour(minibatch: EncodedMinibatch) -> int:
    return NO_HOUR if minibatch.hour is None else minibatch.hour


def _write_numbers(file: _CountingWriter, column: Column, values: list[int]) -> Chunk:
    page = np.array(values, np.int64).tobytes()
    start = file.position
    file.write(page_header(len(page), len(values)) + page)
    return Chunk(column, start, file.position - start, len(values))


def _write_cells(file: _CountingWriter, column: Column, cells: list[bytes]) -> tuple[Chunk, list[int], list[int]]:
    """Write a page of cells; return its chunk and the offset and size of each cell.

    The padding of the cells depends on the length of the page's header, and that length on the padding."""
    start = file.position
    header_bytes = len(page_header(sum(map(len, cells)) + 8 * len(cells) + 4 * len(cells), len(cells)))
    has_grown = False
    while True:
        position = start + header_bytes
        placed, offsets = [], []
        for cell in cells:
            placed.append(place_cell(cell, position + 4))
            offsets.append(position + 4)
            position += 4 + len(placed[-1])
        header = page_header(position - start - header_bytes, len(cells))
        if len(header) == header_bytes:
            break
        if has_grown and len(header) < header_bytes:
            # A longer header shortens the padding, which shortens the header: neither length fits. The page starts a
            # little later instead, so that its cells stay where the longer header would put them.
            file.write(bytes(header_bytes - len(header)))
            start = file.position
            break
        has_grown = len(header) > header_bytes
        header_bytes = len(header)
    file.write(header + b"".join(len(cell).to_bytes(4, "little") + cell for cell in placed))
    return Chunk(column, start, file.position - start, len(cells)), offsets, [len(cell) for cell in placed]
