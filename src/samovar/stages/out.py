"""The result directory as a stage's script sees it: files that are written once, and earlier results to read.

Knows nothing of how a stage is begun or ended. What a script writes through a library that opens files by name itself
(`numpy.save(out / "a.npy", …)`) is counted too, but only `open` and its kin can refuse to overwrite.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PosixPath, PurePosixPath
from typing import IO, Any, NoReturn

from samovar.config import Params, merge
from samovar.config.identity import STAGE
from samovar.config.values import nearest
from samovar.errors import AlreadyExists, BadPath, Conflict, UnknownKey
from samovar.results import OpenResult, ResultDirectory
from samovar.results.artifacts import FILES, METRICS_LOG
from samovar.stages.inputs import Named, RawFiles, find_named


class OutPath(PosixPath):
    """A path that makes new files and reads old ones, and overwrites none: every mode that writes is exclusive."""

    def open(self, mode: str = "r", *args: Any, **kwargs: Any) -> IO[Any]:  # type: ignore[override]  # fewer overloads
        is_new = any(letter in mode for letter in "wax")
        if not is_new and "+" in mode:
            _refuse(self, f"was opened with mode {mode!r}, which changes a file")
        if is_new:
            mode = mode.replace("w", "x").replace("a", "x")
            self.parent.mkdir(parents=True, exist_ok=True)
        try:
            return super().open(mode, *args, **kwargs)
        except FileExistsError:
            _refuse(self, "is there already")

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
            _refuse(Path(target), "is there already")
        return super().rename(target)

    replace = rename


def _refuse(path: Path, found: str) -> NoReturn:
    raise AlreadyExists(
        f"{path}: {found}; the files of a result are written once and never changed: choose another name "
        "(modes 'x' and 'r'), or start a new directory"
    )


class SourcePath(PosixPath):
    """A path in an earlier result: only for reading."""

    def open(self, mode: str = "r", *args: Any, **kwargs: Any) -> IO[Any]:  # type: ignore[override]  # fewer overloads
        if any(letter in mode for letter in "wax+"):
            self._keep()
        return super().open(mode, *args, **kwargs)

    def _keep(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise Conflict(
            f"{self}: belongs to an earlier result, found code that would change it; expected only reading: "
            "write to `out / name`"
        )

    write_bytes = write_text = touch = rename = replace = unlink = mkdir = rmdir = chmod = _keep


@dataclass(frozen=True)
class SourceResult:
    """An earlier result, finished."""

    directory: ResultDirectory

    @property
    def path(self) -> SourcePath:
        """Its directory."""
        return SourcePath(self.directory.name)

    @property
    def config(self) -> dict[str, Any]:
        """As it was effective."""
        return self.directory.config

    @property
    def params(self) -> Params:
        """The config, with the defaults that its own code used where the config was silent."""
        ledger = self.directory.ledger
        records = ledger.records.items() if ledger is not None else ()
        used = {path: record.defaults[0] for path, record in records if _is_one_default(path, record)}
        return Params(merge(self.config, used))

    def source(self, name: str | None = None) -> "SourceResult":
        """A source of its own: one step further up the chain. That of a model is named by its whole key, for example
        `train_data.table`."""
        if self._is_stage:
            return _choose(str(self.path), find_named(self.config, self.path), name)
        recorded = [each for each in self.directory.lineage.sources if not each.is_raw]
        return _choose(str(self.path), [Named(each.key, each.key, Path(each.path)) for each in recorded], name)

    def __truediv__(self, name: str) -> SourcePath:
        """A file of it: of a stage one that its script wrote, else any in the directory."""
        return (self.path / FILES if self._is_stage else self.path) / name

    @property
    def _is_stage(self) -> bool:
        return self.directory.lineage.kind.startswith(STAGE)


def _is_one_default(path: str, record: Any) -> bool:
    return not record.is_present and len(record.defaults) == 1 and "[" not in path


class Out:
    """What `main(params, out)` gets."""

    def __init__(self, result: OpenResult, folder: Path, sources: Sequence[Named], raw: RawFiles | None) -> None:
        self._result = result
        self._folder = folder
        self._sources = sources
        self._raw = raw
        self._num_lines = 0

    @property
    def path(self) -> OutPath:
        """Where the files go."""
        return OutPath(self._folder / FILES)

    def __truediv__(self, name: str) -> OutPath:
        """A file of the result, to be."""
        place = PurePosixPath(name)
        if place.is_absolute() or ".." in place.parts:
            raise BadPath(f"out / {name!r}: leads out of the result; expected a name in it: leave '/' and '..' out")
        self._result.check()  # a process that was replaced writes no more
        self.path.mkdir(exist_ok=True)
        return self.path / name

    def source(self, name: str | None = None) -> SourceResult:
        """The earlier result that the config names in `source` (or `table`): by its key there, by the last part of its
        path, or, if it is the only one, by any name."""
        return _choose("source", self._sources, name)

    def raw_files(self) -> list[SourcePath]:
        """The files that the config's `files` names, sorted by path."""
        if self._raw is None:
            raise UnknownKey("config: no key `files`; the script asks for raw files: add a path or pattern of them")
        return [SourcePath(path) for path in self._raw.find()]

    def log(self, **values: Any) -> None:
        """A line of the metrics log, in the order of the calls: `out.log(epoch=3, loss=0.1)`."""
        line = {name: _number(value) for name, value in values.items()}
        self._result.append(METRICS_LOG, {"kind": "train", "uri": self._num_lines, **line})
        self._num_lines += 1


def _number(value: Any) -> Any:
    """Arrays of one number as that number; null for what JSON cannot hold."""
    plain = value.item() if hasattr(value, "item") else value
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


def _choose(where: str, sources: Sequence[Named], name: str | None) -> SourceResult:
    if len(sources) == 1 and (name is None or sources[0].is_only):
        return SourceResult(sources[0].open())
    for each in sources:
        if each.name == name:
            return SourceResult(each.open())
    names = [each.name for each in sources]
    best = nearest(name, names) if name is not None else None
    guess = f"did you mean {best!r}?" if best else f"it has {', '.join(names) or 'none'}"
    raise UnknownKey(f"{where}: the script asks for the source {name!r}; {guess}: mend the script or the key `source`")
