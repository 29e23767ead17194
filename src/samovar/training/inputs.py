"""The tables that a config names: opened, pinned to their versions, checked for columns. Trains nothing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from samovar.config import resolve_path
from samovar.config.values import nearest
from samovar.errors import ConfigError, Conflict, NotAResult, UnknownColumn
from samovar.results import ResultDirectory, Source, open_directory
from samovar.runner.stream import MergedStream, SharedStream, Stream, TableStream
from samovar.scoring.predictions import check_key
from samovar.tables import Part, ReadOptions, Table, open_table
from samovar.tables.reader import SharedReader
from samovar.tables.schema import ColumnSchema
from samovar.training.schema import MergeTables


@dataclass(frozen=True)
class Input:
    """One table, and what its entry of the config asks of it."""

    key: str
    """Where the config names it."""
    path: Path
    table: Table
    features: Sequence[str] | None
    """None: those that nobody else gives."""
    targets: Sequence[str]
    keys: Sequence[str]

    def as_source(self) -> Source:
        """A link of lineage. A table that another program wrote is no result of ours, and the chain ends there."""
        try:
            return open_directory(self.path).as_source(self.key, self.table.version)
        except NotAResult:
            return Source(self.key, str(self.path), self.table.id, self.table.version)


@dataclass(frozen=True)
class DataSource:
    """One table, or several that are read as one."""

    section: str
    inputs: Sequence[Input]
    merge_keys: Sequence[str] = ()
    options: ReadOptions = ReadOptions()
    shared: SharedReader | None = None
    """Set if others read the same rows."""

    @property
    def name(self) -> str:
        return self.inputs[0].table.name

    @cached_property
    def complete_until(self) -> int | None:
        """Of live tables: all hours before this one are there; None when no table is live."""
        ends = [each.table.complete_until for each in self.inputs if each.table.complete_until is not None]
        return min(ends) if ends else None

    @cached_property
    def hours(self) -> Mapping[int | None, range]:
        return self.inputs[0].table.hours

    @property
    def targets(self) -> list[str]:
        return _unique(name for each in self.inputs for name in each.targets)

    @property
    def keys(self) -> list[str]:
        return _unique(name for each in self.inputs for name in each.keys)

    @property
    def all_columns(self) -> list[str]:
        """That are read."""
        return _unique([*(self.features or ()), *self.targets, *self.keys])

    @property
    def features(self) -> list[str] | None:
        """None when the model has to be asked."""
        if any(each.features is None for each in self.inputs):
            return None
        return _unique(name for each in self.inputs for name in each.features or ())

    def with_features(self, features: Sequence[str]) -> "DataSource":
        """Give the features that no entry names to the entry that names none."""
        named = {name for each in self.inputs for name in each.features or ()}
        rest = [name for name in features if name not in named]
        return replace(
            self,
            inputs=[replace(each, features=rest) if each.features is None else each for each in self.inputs],
        )

    def check_columns(self) -> None:
        for each in self.inputs:
            for role, names in (("features", each.features), ("targets", each.targets), ("keys", each.keys)):
                for name in names or ():
                    _require(each, role, name)
            for name in self.merge_keys:
                _require(each, "merge_keys", name)
        for name in self.keys:
            check_key(self.column(name))

    def column(self, name: str) -> ColumnSchema:
        for each in self.inputs:
            if name in (*(each.features or ()), *each.targets, *each.keys):
                return next(column for column in each.table.schema.columns if column.name == name)
        raise AssertionError(name)

    def stream(self, start: int, stop: int) -> Stream:
        """The hours [start, stop)."""
        if len(self.inputs) == 1:
            table = self.inputs[0].table
            rows = table.minibatches_between(start, stop)
            return SharedStream(table, rows, self.shared) if self.shared else TableStream(table, rows, self.options)
        parts = [Part(each.table, _unique([*(each.features or ()), *each.targets, *each.keys])) for each in self.inputs]
        return MergedStream(parts, self.merge_keys, start, stop, self.options)

    def reopened(self) -> "DataSource":
        """The same with the newest versions of its tables."""
        return replace(self, inputs=[_reopened(each) for each in self.inputs], shared=None)

    @property
    def lineage(self) -> list[Source]:
        return [each.as_source() for each in self.inputs]


def share_rows(train: DataSource, evaluations: Sequence[DataSource]) -> tuple[DataSource, list[DataSource]]:
    """Let an hour that is evaluated first and trained on next be decoded once, if both are of one table. Uncompressed
    ones have nothing to decode."""
    sharing = [source for source in evaluations if _has_table_of(train, source)]
    table = train.inputs[0].table
    if not sharing or table.compression == "none":
        return train, list(evaluations)
    kept = [source.options.max_cache_size for source in sharing]
    shared = table.share(
        _unique(name for source in (train, *sharing) for name in source.all_columns),
        train.options,
        max_kept_bytes=min((size for size in kept if size is not None), default=None),
    )
    return replace(train, shared=shared), [
        replace(source, shared=shared) if source in sharing else source for source in evaluations
    ]


def _has_table_of(one: DataSource, other: DataSource) -> bool:
    if len(one.inputs) > 1 or len(other.inputs) > 1:
        return False
    mine, others = one.inputs[0].table, other.inputs[0].table
    return (mine.id, mine.version) == (others.id, others.version)


def _reopened(each: Input) -> Input:
    first = open_table(each.path, 1)  # a look every second must not read the manifests of a year
    if first.id == each.table.id and first.versions[-1] == each.table.version:
        return each
    newest = open_table(each.path)
    if newest.id != each.table.id or newest.version < each.table.version:
        raise Conflict(
            f"{each.key}: {each.path} is another table now (id {newest.id}, version {newest.version}; it was "
            f"{each.table.id}, {each.table.version}); expected the same one with more hours: restore it"
        )
    return replace(each, table=newest)


class TableOpener:
    """Opens what a config names. A directory that exists has pinned the versions that it began with."""

    def __init__(self, folder: Path, directory: ResultDirectory, is_following: bool = False) -> None:
        self._folder = folder
        self._pinned = {source.key: source for source in directory.lineage.sources} if directory.is_created else {}
        self._is_following = is_following

    def path(self, text: str) -> Path:
        """Relative to the config file."""
        return resolve_path(text, self._folder, symlinks="follow")

    def open(self, key: str, text: str) -> tuple[Path, Table]:
        path, pinned = self.path(text), self._pinned.get(key)
        try:
            newest = open_table(path)
        except NotAResult as error:
            raise type(error)(f"{key}: {error}") from error
        if pinned is None or pinned.version is None or pinned.id != newest.id:
            return path, newest  # another id is refused later, with all other differences
        if newest.version < pinned.version:
            raise Conflict(
                f"{key}: {path} has version {newest.version}, this run began with version {pinned.version} of the same "
                "table; expected that or a later one: restore the table"
            )
        return path, newest if self._is_following else open_table(path, pinned.version)

    def source(
        self,
        section: str,
        table: str | None,
        merge_tables: MergeTables | None,
        features: Sequence[str] | None,
        targets: Sequence[str],
        keys: Sequence[str] = (),
        options: ReadOptions = ReadOptions(),
    ) -> DataSource:
        """The tables of one section of the config."""
        if merge_tables is None:
            assert table is not None
            key = f"{section}.table" if section else "table"
            path, found = self.open(key, table)
            return DataSource(section, [Input(key, path, found, features, targets, keys)], options=options)
        if features is not None or targets:
            raise ConfigError(
                f"{section}: has features or targets beside merge_tables; expected them in each table's entry: move "
                "them there"
            )
        inputs = []
        for number, entry in enumerate(merge_tables.tables):
            key = f"{section}.merge_tables.tables[{number}].table"
            path, found = self.open(key, entry.table)
            inputs.append(Input(key, path, found, entry.features, entry.targets, entry.keys))
        return _with_keys(DataSource(section, inputs, merge_tables.merge_keys, options), keys)


def _with_keys(source: DataSource, keys: Sequence[str]) -> DataSource:
    """Keys of the section itself belong to the first table that has them."""
    inputs = list(source.inputs)
    for key in keys:
        if key in source.keys:
            continue
        owner = next((number for number, each in enumerate(inputs) if key in each.table.columns), 0)
        inputs[owner] = replace(inputs[owner], keys=[*inputs[owner].keys, key])
    return replace(source, inputs=inputs)


def _require(each: Input, role: str, name: str) -> None:
    columns = each.table.columns
    if name not in columns:
        guess = nearest(name, columns)
        hint = f"did you mean {guess!r}?" if guess else f"it has {', '.join(columns)}"
        raise UnknownColumn(
            f"{each.key.removesuffix('table')}{role}: {each.path} has no column {name!r}; {hint}: mend it, or brew it"
        )


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
