"""One table of raw rows: which files it has, what is in them, and their rows in order. Knows no formats by name.

source: "clicks/*/*.parquet"      clicks/day=2024-01-01/part.parquet
└ a column `day` of each row of the file, if the recipe names it
"""

import glob
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from samovar.brewing.arrays import conform
from samovar.brewing.formats import ColumnTypes, FileScan, Format, HashedFile, find_format
from samovar.brewing.formats.base import UNREADABLE, UTF8, open_utf8
from samovar.brewing.formats.column_types import has_words, without_words
from samovar.config import resolve_path
from samovar.config.places import Place, Url, suggest_path
from samovar.errors import BadInput
from samovar.results.lineage import is_in_memory
from samovar.store import match_files, open_store, size_of

PathLike = str | os.PathLike[str]
Fingerprint = dict[str, str | int]
_GLOB = re.compile(r"[*?[]")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # what Hive and Spark write for null
FILE = "_samovar_file"
ROW = "_samovar_row"


@dataclass(frozen=True)
class SourceFile:
    path: Place
    format: Format
    name: str = ""
    """What messages call it; empty: its path."""
    known_fingerprint: Fingerprint | None = field(default=None, hash=False)
    """Of rows that were in memory. None: that of the file's bytes."""
    partition: tuple[tuple[str, str | None], ...] = ()
    """Columns that the names of its folders give, and their value as a text."""

    def __str__(self) -> str:
        return self.name or str(self.path)

    def fingerprint(self, opened: HashedFile | None = None) -> Fingerprint:
        """Name, size and XXH64 of its bytes, which may be open already, and what its folders add to them."""
        if self.known_fingerprint is not None:
            return self.known_fingerprint
        found = fingerprint(self.path) if opened is None else opened.fingerprint()
        folders = {"folders": "/".join(f"{key}={value}" for key, value in self.partition)} if self.partition else {}
        return {**found, **folders}


@dataclass(frozen=True)
class Source:
    """One table of raw rows: its files, in the order in which their rows count."""

    name: str
    """As the user wrote it, for messages."""
    files: tuple[SourceFile, ...]
    text_columns: Container[str] = frozenset()
    """Columns of CSV files that are texts even where they look like numbers."""
    other_columns: tuple[str, ...] = ()
    """Columns of rows in memory that the recipe does not name, and that the file does not have."""
    notes: tuple[str, ...] = ()
    """What the user should look at."""
    hint_for_floats: str = ""
    """Why ids may have become floats before brewing saw them."""
    known_types: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The `source_type` of columns in earlier versions of a live table. A column of prices keeps its type in an hour
    whose prices are all whole numbers, or missing."""

    @property
    def size_bytes(self) -> int:
        return sum(size_of(file.path) for file in self.files if file.known_fingerprint is None)

    def locate(self, file: int, row: int) -> str:
        """A row, as the user finds it."""
        return f"{self.files[file]} row {row}"


@dataclass(frozen=True)
class ScannedSource:
    """A source whose files were looked at."""

    source: Source
    known_schema: pa.Schema | None
    """The columns that every file has, each with one type for all files; a column that a file has twice is listed
    twice. None if no file has a line."""
    num_rows: int
    fingerprints: Sequence[Fingerprint]
    notes: Sequence[str]
    """What the user should look at."""
    odd_texts: Mapping[str, str] = field(default_factory=dict)
    """By column of numbers: where its first text is, and which."""

    @property
    def schema(self) -> pa.Schema:
        if self.known_schema is None:
            raise no_rows([self.source])
        return self.known_schema


def find_source(
    patterns: PathLike | Sequence[PathLike],
    folder: Place = Path(),
    text_columns: Container[str] = (),
    encoding: str = UTF8,
    folder_columns: Container[str] = (),
) -> Source:
    """The files that paths or globs name, relative to `folder`, sorted by path, each once. `folder_columns` are those
    that may come from folders such as day=2024-01-01."""
    listed = [patterns] if isinstance(patterns, str | os.PathLike) else list(patterns)
    if not listed or "" in map(str, listed):
        raise BadInput("source: no file is named; give one or more paths or globs")
    if is_in_memory(listed[0]):
        raise BadInput(f"source: {listed[0]} are not stored; call samovar.brew with the same rows again")
    found: dict[Place, tuple[tuple[str, str | None], ...]] = {}
    for pattern in listed:
        for path, partition in _expand(str(pattern), folder, folder_columns).items():
            found[path] = max(found.get(path, ()), partition, key=len)
    ordered = sorted(found, key=lambda path: path.as_posix())
    files = tuple(SourceFile(path, find_format(path, encoding), partition=found[path]) for path in ordered)
    if encoding != UTF8 and not any(file.format.is_text for file in files):
        raise BadInput(f"encoding {encoding!r} is for text files, but {files[0]} is a {files[0].format.name} file")
    return Source(", ".join(map(str, listed)), files, text_columns)


@dataclass(frozen=True)
class ScannedFile:
    """What was found in one file."""

    found: FileScan | None
    """None if the file has no lines."""
    types: ColumnTypes
    fingerprint: Fingerprint


@dataclass(frozen=True)
class ScanFile:
    """Looks at one file of a source, and fingerprints it in the same pass."""

    source: Source

    def __call__(self, number: int, on_read: Callable[[int], object]) -> ScannedFile:
        file = self.source.files[number]
        types = ColumnTypes(self.source.text_columns, self.source.known_types)
        try:
            with HashedFile(file.path, on_read) as opened:
                found = file.format.scan(opened, types)
                return ScannedFile(found, types, file.fingerprint(opened))
        except UNREADABLE as error:
            raise _unreadable(file, error) from None


@dataclass(frozen=True)
class FingerprintFile:
    """Fingerprints one file of a source."""

    source: Source

    def __call__(self, number: int, on_read: Callable[[int], object]) -> Fingerprint:
        file = self.source.files[number]
        if file.known_fingerprint is not None:
            return file.known_fingerprint
        with HashedFile(file.path, on_read) as opened:
            return file.fingerprint(opened)


def scan(source: Source, on_read: Callable[[int], object] = lambda num_bytes: None) -> ScannedSource:
    """Find the columns of all files, and fingerprint the files in the same pass. `on_read` gets the size of each piece
    that is read."""
    scan_file = ScanFile(source)
    return join_scans(source, (scan_file(number, on_read) for number in range(len(source.files))))


def join_scans(source: Source, scans: Iterable[ScannedFile]) -> ScannedSource:
    """What the files of a source have in common."""
    types = ColumnTypes(source.text_columns, source.known_types)
    names: list[str] | None = None
    repeated: set[str] = set()
    num_rows = 0
    fingerprints: list[Fingerprint] = []
    notes = list(source.notes)
    files: list[SourceFile] = []
    for file, scanned in zip(source.files, scans, strict=True):
        found = scanned.found
        types.add(scanned.types)
        fingerprints.append(scanned.fingerprint)
        partition = tuple((key, value) for key, value in file.partition if found is None or key not in found.names)
        files.append(replace(file, partition=partition))
        if found is None:
            continue
        for key, value in partition:
            types.learn_texts(key, pa.array([value], pa.string()), file.path)
        all_names = [*found.names, *dict(partition)]
        repeated |= {name for name, count in Counter(all_names).items() if count > 1}
        names = list(dict.fromkeys(all_names)) if names is None else [name for name in names if name in all_names]
        num_rows += found.num_rows
        notes += found.notes
    if names == []:
        raise BadInput(f"{source.name}: the files have no column in common")
    listed = None if names is None else [*names, *(name for name in names if name in repeated)]
    schema = None if listed is None else pa.schema([types.field(name) for name in listed])
    return ScannedSource(replace(source, files=tuple(files)), schema, num_rows, fingerprints, notes, types.odd_texts)


def fingerprint(path: Place, on_read: Callable[[int], object] = lambda num_bytes: None) -> Fingerprint:
    """Name, size and XXH64 of a file."""
    with HashedFile(path, on_read) as file:
        return file.fingerprint()


def read_in_order(
    source: Source, schema: pa.Schema, columns: Sequence[str], files: Collection[int] | None = None
) -> Generator[pa.RecordBatch]:
    """All rows, file by file: `columns`, the number of the file and the number of the row in it. `files` chooses files
    by number."""
    wanted = pa.schema([schema.field(column) for column in columns])
    with_places = wanted.append(pa.field(FILE, pa.int32())).append(pa.field(ROW, pa.int64()))
    for number, file in enumerate(source.files):
        if files is not None and number not in files:
            continue
        row = 0
        try:
            for batch in file.format.read(file.path, _own_columns(file, schema, wanted)):
                rows = np.arange(row, row + batch.num_rows)
                places = [pa.array(np.full(batch.num_rows, number, np.int32)), pa.array(rows)]
                whole = _add_partition(batch, file, wanted) if file.partition else batch
                yield pa.RecordBatch.from_arrays([*conform(whole, wanted).columns, *places], schema=with_places)
                row += batch.num_rows
        except UNREADABLE as error:
            raise _unreadable(file, error) from None


def _own_columns(file: SourceFile, schema: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    """The columns to read from the file itself: at least one, which says how many rows there are."""
    given = dict(file.partition)
    own = [column for column in wanted if column.name not in given]
    return pa.schema(own or [column for column in schema if column.name not in given][:1])


def _add_partition(batch: pa.RecordBatch, file: SourceFile, wanted: pa.Schema) -> pa.RecordBatch:
    for key, value in file.partition:
        if key in wanted.names:
            column = wanted.field(key)
            text = pa.array([value], pa.string())
            text = without_words(text) if has_words(column) else text
            constant = pa.nulls(1) if pa.types.is_null(column.type) else text.cast(column.type)
            batch = batch.append_column(column, constant.take(pa.array(np.zeros(batch.num_rows, np.int64))))
    return batch


def no_rows(sources: Sequence[Source]) -> BadInput:
    names = ", ".join(source.name for source in sources)
    return BadInput(f"{names}: no rows, or none are left after start_date, end_date, where and missing: drop")


def _expand(
    pattern: str, folder: Place, folder_columns: Container[str]
) -> Mapping[Place, tuple[tuple[str, str | None], ...]]:
    """The files that a pattern names, each with the columns that the folders below its fixed part give."""
    place = resolve_path(pattern, folder, symlinks="keep")
    if isinstance(place, Url):
        return _expand_url(place, folder_columns)
    whole = str(place)
    if os.path.isfile(whole):
        return {Path(whole): ()}
    if os.path.isdir(whole):
        if not glob.glob(os.path.join(glob.escape(whole), "?*=*", "")):
            example = os.path.join(pattern, "*.csv")
            raise BadInput(f"source: {pattern} is a folder; name its files, for example {example}")
        base, whole = whole, os.path.join(glob.escape(whole), "**", "[!._]*")
    else:
        base = os.path.dirname(_GLOB.split(whole)[0])
    found = [Path(path) for path in glob.glob(whole, recursive=True) if os.path.isfile(path)]
    if not found and os.path.exists(whole):
        raise BadInput(f"source: {pattern} is a device or a pipe, and cannot be read twice. Copy it to a file")
    if not found:
        raise BadInput(f"source: no such file: {pattern} (in {folder.absolute()}){suggest_path(Path(whole))}")
    return {path: _partition(path.relative_to(base).parts[:-1], folder_columns) for path in found}


def _expand_url(pattern: Url, folder_columns: Container[str]) -> Mapping[Place, tuple[tuple[str, str | None], ...]]:
    found, base = match_files(pattern), pattern
    if not found and not glob.has_magic(pattern.key):  # a folder, as Hive and Spark write it
        found = [each for each in match_files(pattern / "**" / "*=*" / "**" / "*") if each.name[0] not in "._"]
        if not found and open_store(pattern).exists():
            raise BadInput(f"source: {pattern} is a folder; name its files, for example {pattern / '*.parquet'}")
    if not found:
        raise BadInput(f"source: no such file: {pattern}")
    while glob.has_magic(base.key):
        base = base.parent
    folders = {each: each.key[len(base.key) :].strip("/").split("/")[:-1] for each in found}
    return {each: _partition(names, folder_columns) for each, names in folders.items()}


def _partition(folders: Sequence[str], wanted: Container[str]) -> tuple[tuple[str, str | None], ...]:
    pairs = (map(unquote, name.partition("=")[::2]) for name in folders if "=" in name.strip("="))
    return tuple((key, None if value == _NO_VALUE else value) for key, value in pairs if key in wanted)


class WrongEncoding(BadInput):
    """A file that is in another encoding."""


def _unreadable(file: SourceFile, error: Exception) -> BadInput:
    advice = ""
    if isinstance(error, UnicodeError) or "UTF8" in str(error):
        line = _undecodable_line(file)
        problem = str(error) if line is None else f"line {line} is not {file.format.encoding}"
        return WrongEncoding(
            f'{file}: cannot be read as {file.format.name} ({problem}); set encoding, for example "latin-1" or "cp1252"'
        )
    if "straddling object" in str(error):  # a row longer than a block
        advice = "; look for a quote that is never closed"
    return BadInput(f"{file}: cannot be read as {file.format.name} ({error}){advice}")


def _undecodable_line(file: SourceFile) -> int | None:
    """The first line, counted from 1, that its encoding cannot read. None for encodings whose lines are not those of
    the bytes."""
    if b"\n".decode(file.format.encoding, "replace") != "\n":
        return None
    with io.BufferedReader(open_utf8(file.path, UTF8)) as lines:
        for number, line in enumerate(lines, 1):
            try:
                line.decode(file.format.encoding)
            except UnicodeError:
                return number
    return None
