"""One table of raw rows: which files it has, what is in them, and their rows in order. Knows no formats by name."""

import glob
import os
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from samovar.brewing.arrays import conform
from samovar.brewing.formats import ColumnTypes, Format, HashedFile, find_format
from samovar.brewing.formats.base import UNREADABLE
from samovar.config import resolve_path
from samovar.errors import BadInput

PathLike = str | os.PathLike[str]
Fingerprint = dict[str, str | int]
FILE = "_samovar_file"
ROW = "_samovar_row"


@dataclass(frozen=True)
class SourceFile:
    path: Path
    format: Format


@dataclass(frozen=True)
class Source:
    """One table of raw rows: its files, in the order in which their rows count."""

    name: str
    """As the user wrote it, for messages."""
    files: tuple[SourceFile, ...]
    text_columns: frozenset[str] = frozenset()
    """Columns of CSV files that are texts even where they look like numbers."""
    known_types: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The `source_type` of columns in earlier versions of a live table. A column of prices keeps its type in an hour
    whose prices are all whole numbers, or missing."""

    @property
    def size_bytes(self) -> int:
        return sum(file.path.stat().st_size for file in self.files)

    def locate(self, file: int, row: int) -> str:
        """A row, as the user finds it."""
        return f"{self.files[file].path} row {row}"


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

    @property
    def schema(self) -> pa.Schema:
        if self.known_schema is None:
            raise no_rows([self.source])
        return self.known_schema


def find_source(
    patterns: PathLike | Sequence[PathLike], folder: Path = Path(), text_columns: Iterable[str] = ()
) -> Source:
    """The files that paths or globs name, relative to `folder`, sorted by path, each once."""
    listed = [patterns] if isinstance(patterns, str | os.PathLike) else list(patterns)
    if not listed or "" in map(str, listed):
        raise BadInput("source: no file is named; give one or more paths or globs")
    paths = {path for pattern in listed for path in _expand(str(pattern), folder)}
    files = tuple(SourceFile(path, find_format(path)) for path in sorted(paths, key=lambda path: path.as_posix()))
    return Source(", ".join(map(str, listed)), files, frozenset(text_columns))


def scan(source: Source, on_read: Callable[[int], object] = lambda num_bytes: None) -> ScannedSource:
    """Find the columns of all files, and fingerprint the files in the same pass. `on_read` gets the size of each piece
    that is read."""
    types = ColumnTypes(source.text_columns, source.known_types)
    names: list[str] | None = None
    repeated: set[str] = set()
    num_rows = 0
    fingerprints: list[Fingerprint] = []
    notes: list[str] = []
    for file in source.files:
        try:
            with HashedFile(file.path, on_read) as opened:
                found = file.format.scan(opened, types)
                fingerprints.append(opened.fingerprint())
        except UNREADABLE as error:
            raise _unreadable(file, error) from None
        if found is None:
            continue
        repeated |= {name for name, count in Counter(found.names).items() if count > 1}
        names = list(dict.fromkeys(found.names)) if names is None else [name for name in names if name in found.names]
        num_rows += found.num_rows
        notes += found.notes
    if names == []:
        raise BadInput(f"{source.name}: the files have no column in common")
    listed = None if names is None else [*names, *(name for name in names if name in repeated)]
    schema = None if listed is None else pa.schema([(name, types.decide(name)) for name in listed])
    return ScannedSource(source, schema, num_rows, fingerprints, notes)


def fingerprint(path: Path, on_read: Callable[[int], object] = lambda num_bytes: None) -> Fingerprint:
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
            for batch in file.format.read(file.path, wanted):
                rows = np.arange(row, row + batch.num_rows)
                places = [pa.array(np.full(batch.num_rows, number, np.int32)), pa.array(rows)]
                yield pa.RecordBatch.from_arrays([*conform(batch, wanted).columns, *places], schema=with_places)
                row += batch.num_rows
        except UNREADABLE as error:
            raise _unreadable(file, error) from None


def no_rows(sources: Sequence[Source]) -> BadInput:
    names = ", ".join(source.name for source in sources)
    return BadInput(f"{names}: no rows, or none between start_date and end_date")


def _expand(pattern: str, folder: Path) -> list[Path]:
    whole = str(resolve_path(pattern, folder, symlinks="keep"))
    if os.path.isfile(whole):
        return [Path(whole)]
    if os.path.isdir(whole):
        raise BadInput(f"source: {pattern} is a folder; name its files, for example {os.path.join(pattern, '*.csv')}")
    found = [Path(path) for path in glob.glob(whole, recursive=True) if os.path.isfile(path)]
    if not found:
        raise BadInput(f"source: no such file: {pattern} (in {folder.absolute()})")
    return found


def _unreadable(file: SourceFile, error: Exception) -> BadInput:
    advice = ""
    if isinstance(error, UnicodeDecodeError):
        advice = "; convert it to UTF-8, for example with iconv"
    elif "straddling object" in str(error):  # a row longer than a block
        advice = "; look for a quote that is never closed"
    return BadInput(f"{file.path}: cannot be read as {file.format.name} ({error}){advice}")
