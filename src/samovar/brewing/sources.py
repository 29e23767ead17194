"""Which files are brewed, and what tells them apart from other files. Reads no rows."""

import glob
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from samovar.config import resolve_path
from samovar.errors import BadInput
from samovar.native import Hasher

Format = Literal["parquet", "csv", "json", "arrow"]

_SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
ROWS_PER_BATCH = 8192  # of a stream of rows: what readers and engines hand on at a time
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
_PIECE_BYTES = 1 << 22


@dataclass(frozen=True)
class SourceFile:
    path: Path
    format: Format


@dataclass(frozen=True)
class Source:
    """One table of raw rows: its files, in the order in which their rows count."""

    name: str
    """For messages: as the user wrote it."""
    files: tuple[SourceFile, ...]
    text_columns: frozenset[str] = frozenset()
    """Columns of CSV files that are texts even where they look like numbers."""
    known_types: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What columns were in the earlier versions of a table that grows, as `source_type` of its schema says. An hour of
    whole prices, or of none, does not make another column of them."""

    def locate(self, file: int, row: int) -> str:
        """A row, as the user finds it."""
        return f"{self.files[file].path} row {row}"


def find_source(
    patterns: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    folder: Path = Path(),
    text_columns: Iterable[str] = (),
) -> Source:
    """The files that paths or globs name, relative to `folder`, sorted by path, each once."""
    listed = [patterns] if isinstance(patterns, str | os.PathLike) else list(patterns)
    if not listed or "" in map(str, listed):
        raise BadInput("source: names no file, expected one or more paths or globs: fill it")
    paths = {path for pattern in listed for path in _expand(str(pattern), folder)}
    files = tuple(SourceFile(path, _format_of(path)) for path in sorted(paths, key=lambda path: path.as_posix()))
    return Source(", ".join(map(str, listed)), files, frozenset(text_columns))


def no_rows(sources: Sequence[Source]) -> BadInput:
    names = ", ".join(source.name for source in sources)
    return BadInput(f"{names}: no rows, or none between start_date and end_date; expected some: check the source")


def fingerprint(path: Path, watch: Callable[[int], None] = lambda num_bytes: None) -> dict[str, str | int]:
    """What a file is, wherever it lies: its name, its size, and the XXH64 of its content. `watch` hears of each
    piece."""
    hasher = Hasher()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            hasher.update(piece)
            watch(len(piece))
    return {"name": path.name, "size_bytes": path.stat().st_size, "xxh64": f"{hasher.digest():016x}"}


def _expand(pattern: str, folder: Path) -> list[Path]:
    whole = str(resolve_path(pattern, folder, symlinks="keep"))
    if os.path.isfile(whole):
        return [Path(whole)]
    if os.path.isdir(whole):
        cure = f"name its files, for example {os.path.join(pattern, '*.parquet')}"
        raise BadInput(f"source: {pattern}: is a folder, expected a file or a glob: {cure}")
    found = [Path(path) for path in glob.glob(whole, recursive=True) if os.path.isfile(path)]
    if not found:
        raise BadInput(f"source: {pattern}: no such file in {folder.absolute()}: check the path or the glob")
    return found


def _format_of(path: Path) -> Format:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    is_compressed = suffixes[-1:] and suffixes[-1] in _COMPRESSED
    suffix = suffixes[-2] if is_compressed and len(suffixes) > 1 else (suffixes or [""])[-1]
    found = _SUFFIXES.get(suffix)
    if found is None or (is_compressed and found not in ("csv", "json")):
        cure = "rename or convert it (.csv and .jsonl may also end in .gz, .bz2, .zst, .lz4)"
        raise BadInput(f"source: {path}: unknown kind of file, expected one of {', '.join(_SUFFIXES)}: {cure}")
    return found


PathLike = str | os.PathLike[str]
