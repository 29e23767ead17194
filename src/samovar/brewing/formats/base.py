"""The interface of raw file formats. A format scans one file for its columns and reads its rows; it does not know
the other formats.

A file must be self-describing, without sidecars (a schema, an index or a header beside it): what a result depends on is
the fingerprint of that one file, and a file beside it could change unnoticed.

To add a format, write a module with one subclass of `Format`, and list its suffixes in FORMATS and in `ROW_SUFFIXES` of
config/document.py. A format that stores types declares them in `ColumnTypes`; a text format lets `ColumnTypes` learn
them from the values.
"""

import codecs
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

import pyarrow as pa

from samovar.brewing.formats.column_types import ColumnTypes
from samovar.config.places import Place, Url
from samovar.errors import BadInput, UnknownColumn
from samovar.native import Hasher
from samovar.store import open_file, size_of

# The class of each suffix.
FORMATS = {
    ".parquet": "samovar.brewing.formats.parquet:ParquetFormat",
    ".pq": "samovar.brewing.formats.parquet:ParquetFormat",
    ".csv": "samovar.brewing.formats.csv:CsvFormat",
    ".tsv": "samovar.brewing.formats.csv:CsvFormat",
    ".jsonl": "samovar.brewing.formats.json:JsonFormat",
    ".ndjson": "samovar.brewing.formats.json:JsonFormat",
    ".json": "samovar.brewing.formats.json:JsonFormat",
    ".arrow": "samovar.brewing.formats.arrow:ArrowFormat",
    ".feather": "samovar.brewing.formats.arrow:ArrowFormat",
    ".ipc": "samovar.brewing.formats.arrow:ArrowFormat",
}
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
ROWS_PER_BATCH = 8192  # what readers and engines hand over at a time
UNREADABLE = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, UnicodeError)
UTF8 = "utf-8"
_PIECE_BYTES = 1 << 22


@dataclass(frozen=True)
class FileScan:
    """What one file says about itself."""

    names: Sequence[str]
    """Its columns in order; a name that occurs twice is listed twice."""
    num_rows: int
    notes: Sequence[str] = ()
    """What the user should look at."""


class HashedFile:
    """A file that is hashed while it is read in order, so that its fingerprint needs no pass of its own."""

    def __init__(self, path: Place, on_read: Callable[[int], object] = lambda num_bytes: None) -> None:
        self.path = path
        self._file = open_file(path)
        self._hasher = Hasher()
        self._on_read = on_read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self._hasher.update(piece)
        self._on_read(len(piece))
        return piece

    def fingerprint(self) -> dict[str, str | int]:
        """Name, size and XXH64 of the content: the same wherever the file is. Reads the bytes not read so far."""
        while self.read(_PIECE_BYTES):
            pass
        size_bytes = size_of(self.path)
        return {"name": self.path.name, "size_bytes": size_bytes, "xxh64": f"{self._hasher.digest():016x}"}

    def close(self) -> None:
        """Arrow closes what it has read, but the fingerprint may need more bytes: only `with` closes the file."""

    @property
    def closed(self) -> bool:
        return self._file.closed


class Format(ABC):
    """How one kind of file is read. Subclass it, and test it with `samovar.testing.format.FormatContract`.

    A format gets no options but the encoding. Another one goes the same way: `RecipeTable` (recipe.py), plan.py,
    `find_source` (sources.py), `find_format`, which caches formats by their options. A format must preserve line breaks
    in strings, nulls, 64-bit integers and non-ASCII text; the contract checks all four.

    Errors in `UNREADABLE` that `scan` and `read` raise become one sentence for the user, with the file and `name`;
    raise `BadInput` for anything else that is wrong with a file.
    """

    name: ClassVar[str]
    """One word, used in messages."""
    is_text: ClassVar[bool] = False
    """Text files may be compressed, and have an encoding."""

    def __init__(self, encoding: str = UTF8) -> None:
        self.encoding = encoding
        """Of a text file; other files have none."""

    @abstractmethod
    def scan(self, file: HashedFile, types: ColumnTypes) -> FileScan | None:
        """Add the types of a file's columns to `types`. Read all of `file` in order, or only look at `file.path`.
        None means that the file has no lines and says nothing about its columns."""

    @abstractmethod
    def read(self, path: Place, schema: pa.Schema) -> Iterable[pa.RecordBatch]:
        """All rows in order, with at least the columns of `schema`, in any layout that casts to its types. In a column
        that `has_words` marks, the words for missing values are null (see `without_words`)."""


def check_encoding(name: str) -> str:
    """The name of a text encoding.

    Raises:
        ValueError: There is no such encoding.
    """
    try:
        b"".decode(name)  # refuses those that do not encode text, such as base64
        codecs.getincrementaldecoder(name)
    except (LookupError, ValueError):
        raise ValueError(f"unknown encoding {name!r}. Use a name such as latin-1, cp1252 or utf-16") from None
    return name


def find_format(path: Place, encoding: str = UTF8) -> Format:
    """The format that a file's suffix names."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    is_compressed = bool(suffixes) and suffixes[-1] in CODECS
    suffix = suffixes[-2] if is_compressed and len(suffixes) > 1 else (suffixes or [""])[-1]
    found = _load_format(FORMATS[suffix], encoding) if suffix in FORMATS else None
    if found is None or (is_compressed and not found.is_text):
        raise BadInput(
            f"source: {path}: unknown file format. Known suffixes: {', '.join(FORMATS)}; text files may be compressed "
            f"({', '.join(CODECS)})"
        )
    return found


@cache
def _load_format(address: str, encoding: str) -> Format:
    module, _, attribute = address.partition(":")
    found: Format = getattr(importlib.import_module(module), attribute)(encoding)
    return found


def open_utf8(path: Place, encoding: str, file: HashedFile | None = None) -> pa.NativeFile:
    """The decompressed bytes of a text file in UTF-8, read through `file` if it is given."""
    if file is None and not isinstance(path, Url):
        raw: Any = str(path)
    else:
        raw = pa.PythonFile(open_file(path) if file is None else file, mode="r")
    stream = pa.input_stream(raw, compression=CODECS.get(path.suffix.lower()))
    return stream if encoding == UTF8 else pa.transcoding_input_stream(stream, encoding, UTF8)


def require_columns(path: Place, schema: pa.Schema, names: Sequence[str]) -> None:
    for name in schema.names:
        if name not in names:
            raise UnknownColumn(f"{path}: no column {name!r}. Available: {', '.join(names)}")
