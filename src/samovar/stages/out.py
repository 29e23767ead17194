"""The result directory as a stage's script sees it: new files to write once, and earlier results to read.

A file that another library opens by name (`numpy.save(out / "a.npy", …)`) becomes part of the result too, but only the
methods of `OutPath` can refuse to overwrite. Does not know how a stage starts or ends.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PosixPath, PurePosixPath
from typing import IO, Any, NoReturn

from samovar.config import Params, merge
from samovar.config.identity import STAGE
from samovar.config.places import Place, as_path, as_place
from samovar.config.values import suggest
from samovar.errors import AlreadyExists, BadPath, Conflict, UnknownKey
from samovar.results import OpenResult, ResultDirectory
from samovar.results.artifacts import FILES, METRICS_LOG
from samovar.stages.inputs import NamedSource, RawFiles, find_sources


class Out:
    """The result directory of a stage: what `main(params, out)` gets.

    Args:
        result: The open directory.
        place: The directory of the result.
        sources: The earlier results that the config names.
        raw: The raw files that the config names.

    Example:
        >>> def main(params, out):
        ...     numbers = (out.source("data") / "numbers.txt").read_text().split()
        ...     (out / "total.txt").write_text(str(sum(map(int, numbers))))
        ...     out.log(count=len(numbers))
    """

    def __init__(self, result: OpenResult, place: Place, sources: Sequence[NamedSource], raw: RawFiles | None) -> None:
        self._result = result
        self._place = place
        self._sources = sources
        self._raw = raw
        self._num_lines = 0

    @property
    def path(self) -> "OutPath":
        """The folder of the result's files."""
        return OutPath(as_path(self._place, "the result of a stage") / FILES)

    def __truediv__(self, name: str) -> "OutPath":
        """The path of a new file in the result.

        Raises:
            BadPath: The name is absolute or contains `..`.
            LeaseLost: Another process has taken over the directory.
        """
        place = PurePosixPath(name)
        if place.is_absolute() or ".." in place.parts:
            raise BadPath(f"out / {name!r}: must be a relative path inside the result")
        self._result.check()
        self.path.mkdir(exist_ok=True)
        return self.path / name

    def source(self, name: str | None = None) -> "SourceResult":
        """Open an earlier result that the config names in `source` or `table`.

        Args:
            name: The key in `source`, or the last part of the path if `source` is a list. If there is only one source,
                any name will do, or none.

        Raises:
            UnknownKey: The config names no such source.
        """
        return _open_source("source", self._sources, name)

    def raw_files(self) -> "list[SourcePath]":
        """The files that match `files` of the config, sorted by path.

        Raises:
            UnknownKey: The config has no `files`.
        """
        if self._raw is None:
            raise UnknownKey("config: no key 'files'. The script reads raw files: add their path or pattern")
        return [SourcePath(path) for path in self._raw.find()]

    def log(self, **values: Any) -> None:
        """Append a line to the metrics log: `out.log(epoch=3, loss=0.1)`."""
        line = {name: _plain_number(value) for name, value in values.items()}
        self._result.append(METRICS_LOG, {"kind": "train", "uri": self._num_lines, **line})
        self._num_lines += 1


@dataclass(frozen=True)
class SourceResult:
    """A finished earlier result.

    Args:
        directory: The directory of the result.

    Example:
        >>> def main(params, out):
        ...     earlier = out.source("data")
        ...     (out / "count.txt").write_text(str(earlier.config["count"]))
    """

    directory: ResultDirectory

    @property
    def path(self) -> "SourcePath":
        """Its directory."""
        return SourcePath(as_path(self.directory.place, "a source of a stage"))

    @property
    def config(self) -> dict[str, Any]:
        """The effective config."""
        return self.directory.config

    @property
    def params(self) -> Params:
        """The config, completed with the defaults that its own code used."""
        ledger = self.directory.ledger
        records = ledger.records.items() if ledger is not None else ()
        used = {path: record.defaults[0] for path, record in records if _has_one_default(path, record)}
        return Params(merge(self.config, used))

    def source(self, name: str | None = None) -> "SourceResult":
        """Open one of its own sources, one step up the chain. Those of a model are named by their config key, for
        example `train_data.table`.

        Args:
            name: Its config key. May be left out if there is one source.
        """
        if self._is_stage:
            return _open_source(str(self.path), find_sources(self.config, self.path), name)
        recorded = [each for each in self.directory.lineage.sources if not each.is_raw]
        named = [NamedSource(each.key, each.key, as_place(each.path)) for each in recorded]
        return _open_source(str(self.path), named, name)

    def __truediv__(self, name: str) -> "SourcePath":
        """A file: one that the script of a stage wrote, or any file in another kind of result."""
        return (self.path / FILES if self._is_stage else self.path) / name

    @property
    def _is_stage(self) -> bool:
        return self.directory.lineage.kind.startswith(STAGE)


class OutPath(PosixPath):
    """A path that creates files and reads them, but never overwrites one: every mode that writes is exclusive.

    Example:
        >>> def main(params, out):
        ...     (out / "total.txt").write_text("6")  # a file of that name must not exist yet
    """

    def open(self, mode: str = "r", *args: Any, **kwargs: Any) -> IO[Any]:  # type: ignore[override]  # fewer overloads
        is_new = any(letter in mode for letter in "wax")
        if not is_new and "+" in mode:
            _refuse(self, f"mode {mode!r} would change a file")
        if is_new:
            mode = mode.replace("w", "x").replace("a", "x")
            self.parent.mkdir(parents=True, exist_ok=True)
        try:
            return super().open(mode, *args, **kwargs)
        except FileExistsError:
            _refuse(self, "already exists")

    def write_bytes(self, data: Any) -> int:
        with self.open("xb") as file:
            return file.write(data)

    def write_text(self, data: str, *args: Any, **kwargs: Any) -> int:
        with self.open("x", -1, *args, **kwargs) as file:
            return file.write(data)

    def touch(self, mode: int = 0o666, exist_ok: bool = False) -> None:
        self.write_bytes(b"")

    def rename(self, target: Any) -> Any:
        if Path(target).exists():
            _refuse(Path(target), "already exists")
        return super().rename(target)

    replace = rename


class SourcePath(PosixPath):
    """A read-only path in an earlier result.

    Example:
        >>> def main(params, out):
        ...     numbers = (out.source("data") / "numbers.txt").read_text()
    """

    def open(self, mode: str = "r", *args: Any, **kwargs: Any) -> IO[Any]:  # type: ignore[override]  # fewer overloads
        if any(letter in mode for letter in "wax+"):
            self._refuse_change()
        return super().open(mode, *args, **kwargs)

    def _refuse_change(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: a source is only read."""
        """Refused: a source is only read."""
        raise Conflict(f"{self}: belongs to an earlier result and is read-only. Write to `out / name`")

    write_bytes = write_text = touch = rename = replace = unlink = mkdir = rmdir = chmod = _refuse_change


def _open_source(where: str, sources: Sequence[NamedSource], name: str | None) -> SourceResult:
    if len(sources) == 1 and (name is None or sources[0].is_only):
        return SourceResult(sources[0].open())
    for each in sources:
        if each.name == name:
            return SourceResult(each.open())
    names = [each.name for each in sources]
    raise UnknownKey(f"{where}: no source {name!r}{suggest(name or '', names)}")


def _refuse(path: Path, reason: str) -> NoReturn:
    raise AlreadyExists(f"{path}: {reason}. Files of a result are written once: choose another name")


def _has_one_default(path: str, record: Any) -> bool:
    return not record.is_present and len(record.defaults) == 1 and "[" not in path


def _plain_number(value: Any) -> Any:
    """An array with one number becomes that number, NaN and infinity become null."""
    plain = value.item() if hasattr(value, "item") else value
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain
