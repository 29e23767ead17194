"""The tables that a config names: opened, pinned to a version, their columns checked. Trains nothing.

TableOpener.source(section) ─▶ DataSource ─▶ stream(start, stop) ─▶ minibatches
                               └─ one Input per table
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from samovar.config import resolve_path
from samovar.config.places import Place
from samovar.config.values import suggest
from samovar.errors import ConfigError, Conflict, NotAResult, UnknownColumn
from samovar.hours import Period
from samovar.results import ResultDirectory, Source, open_directory
from samovar.runner.negatives import NegativeSampler, NegativeStream
from samovar.runner.replay import Replay, ReplayStream
from samovar.runner.stream import Columns, MergedStream, SharedStream, Stream, TableStream
from samovar.scoring.predictions import check_key
from samovar.scoring.signature import Signature
from samovar.tables import ReadOptions, Table, open_table
from samovar.tables.merge import Part
from samovar.tables.reader import SharedReader
from samovar.tables.schema import ColumnSchema
from samovar.training.schema import MergeTables


@dataclass(frozen=True)
class Input:
    """One table and the columns that its config entry asks for."""

    key: str
    """The config path of the table, for example `train_data.table`."""
    path: Place
    table: Table
    features: Sequence[str] | None
    """None: the features that no other input lists."""
    targets: Sequence[str]
    keys: Sequence[str]

    @property
    def columns(self) -> list[str]:
        return _unique([*(self.features or ()), *self.targets, *self.keys])

    def as_source(self) -> Source:
        """The link for the lineage. A table written by another program is not a result: the chain ends there."""
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
    """Set when another source reads the same minibatches."""
    replay: Replay | None = None
    """Rows of earlier hours that join the new ones."""
    negatives: NegativeSampler | None = None
    """Rows that are sampled for each row."""

    @property
    def name(self) -> str:
        return self.inputs[0].table.name

    @cached_property
    def complete_until(self) -> int | None:
        """Live tables have every hour before this one. None: no table is live."""
        ends = [each.table.complete_until for each in self.inputs if each.table.complete_until is not None]
        return min(ends) if ends else None

    @property
    def period(self) -> Period:
        """What its tables are split by."""
        return self.inputs[0].table.period

    def require_period(self, period: Period, other: str) -> None:
        """Refuse tables that are split by another period than the table `other`."""
        for each in self.inputs:
            if each.table.period != period:
                raise ConfigError(
                    f"{each.key}: {each.path} is split by the {each.table.period.full_name}, but {other} by the "
                    f"{period.full_name}. Brew both with the same uri and timezone"
                )

    @cached_property
    def hours(self) -> Mapping[int | None, range]:
        return self.inputs[0].table.hours

    @property
    def features(self) -> list[str] | None:
        """None: the model has to say."""
        if any(each.features is None for each in self.inputs):
            return None
        return _unique(name for each in self.inputs for name in each.features or ())

    @property
    def targets(self) -> list[str]:
        return _unique(name for each in self.inputs for name in each.targets)

    @property
    def keys(self) -> list[str]:
        return _unique(name for each in self.inputs for name in each.keys)

    @property
    def columns(self) -> Columns:
        return Columns(self.features or (), self.targets, self.keys)

    @property
    def lineage(self) -> list[Source]:
        return [each.as_source() for each in self.inputs]

    def with_features(self, features: Sequence[str]) -> "DataSource":
        """Assign the features that no input lists to the input that lists none."""
        listed = {name for each in self.inputs for name in each.features or ()}
        rest = [name for name in features if name not in listed]
        return replace(
            self,
            inputs=[replace(each, features=rest) if each.features is None else each for each in self.inputs],
        )

    def with_targets(self, targets: Sequence[str]) -> "DataSource":
        """Read more targets, each from the first table that has it."""
        inputs = list(self.inputs)
        for name in targets:
            owner = next((number for number, each in enumerate(inputs) if name in each.table.columns), 0)
            inputs[owner] = replace(inputs[owner], targets=[*inputs[owner].targets, name])
        return replace(self, inputs=inputs)

    def without_absent(self, target: str) -> "DataSource":
        """Without a target, where a table does not have it."""
        return replace(
            self,
            inputs=[
                replace(each, targets=[name for name in each.targets if name != target or name in each.table.columns])
                for each in self.inputs
            ],
        )

    def without_keys(self) -> "DataSource":
        """For training, which does not read them."""
        return replace(self, inputs=[replace(each, keys=()) for each in self.inputs])

    def check_columns(self) -> None:
        """Raise `UnknownColumn` for a column that its table does not have."""
        for each in self.inputs:
            for role, names in (("features", each.features), ("targets", each.targets), ("keys", each.keys)):
                for name in names or ():
                    _check_column(each, role, name)
            for name in self.merge_keys:
                _check_column(each, "merge_keys", name)
        for name in self.keys:
            check_key(self.column(name))

    def column(self, name: str) -> ColumnSchema:
        for each in self.inputs:
            if name in each.columns:
                return next(column for column in each.table.schema.columns if column.name == name)
        raise AssertionError(name)

    @property
    def signature(self) -> Signature:
        """What turns raw rows into the features."""
        names = self.features or []
        others = _unique(name for each in self.inputs for name in each.table.columns if name not in names)
        return Signature(tuple(map(self.column, names)), tuple(others))

    def stream(self, start: int, stop: int) -> Stream:
        """The minibatches of the hours [start, stop)."""
        if len(self.inputs) == 1:
            table = self.inputs[0].table
            numbers = table.minibatches_between(start, stop)
            stream: Stream = TableStream(table, numbers, self.columns, self.options)
            if self.shared is not None:
                stream = SharedStream(table, numbers, self.columns, self.shared)
            if self.replay is not None:
                stream = ReplayStream(stream, table, numbers.start, start, self.columns, self.replay, self.options)
            if self.negatives is not None:
                stream = NegativeStream(stream, table, start, self.negatives)
            return stream
        parts = [Part(each.table, each.columns) for each in self.inputs]
        return MergedStream(parts, self.merge_keys, start, stop, self.columns, self.options)

    def reopened(self) -> "DataSource":
        """The same source at the newest version of each table."""
        return replace(self, inputs=[_reopened(each) for each in self.inputs], shared=None)


class TableOpener:
    """Opens the tables of a config, at the versions that an existing result directory has pinned."""

    def __init__(self, folder: Place, directory: ResultDirectory, is_following: bool = False) -> None:
        self._folder = folder
        self._pinned = {source.key: source for source in directory.lineage.sources} if directory.is_created else {}
        self._is_following = is_following

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
        """Open the tables of one config section."""
        if merge_tables is None:
            assert table is not None
            key = f"{section}.table" if section else "table"
            path, opened = self._open(key, table)
            return DataSource(section, [Input(key, path, opened, features, targets, keys)], options=options)
        if features is not None or targets:
            raise ConfigError(
                f"{section}: features and targets cannot be set beside merge_tables: move them into the tables' entries"
            )
        inputs = []
        for number, entry in enumerate(merge_tables.tables):
            key = f"{section}.merge_tables.tables[{number}].table"
            path, opened = self._open(key, entry.table)
            inputs.append(Input(key, path, opened, entry.features, entry.targets, entry.keys))
        return DataSource(section, _with_keys(inputs, keys), merge_tables.merge_keys, options)

    def _open(self, key: str, text: str) -> tuple[Place, Table]:
        path, pinned = resolve_path(text, self._folder, symlinks="follow"), self._pinned.get(key)
        try:
            newest = open_table(path)
        except NotAResult as error:
            raise type(error)(f"{key}: {error}") from error
        if pinned is None or pinned.version is None or pinned.id != newest.id:
            return path, newest  # another id is refused later, together with all other differences
        if newest.version < pinned.version:
            raise Conflict(
                f"{key}: this run started with version {pinned.version} of {path}, which is now at version "
                f"{newest.version}: restore the table"
            )
        return path, newest if self._is_following else open_table(path, pinned.version)


def share_minibatches(train: DataSource, evaluations: Sequence[DataSource]) -> tuple[DataSource, list[DataSource]]:
    """Decode an hour once if it is evaluated first and trained on next, from one table. Uncompressed tables have
    nothing to decode."""
    sharing = [source for source in evaluations if _is_same_table(train, source)]
    table = train.inputs[0].table
    if not sharing or table.compression == "none":
        return train, list(evaluations)
    limits = [source.options.max_cache_size for source in sharing]
    shared = table.share(
        _unique(name for source in (train, *sharing) for name in source.columns.names),
        train.options,
        max_kept_bytes=min((size for size in limits if size is not None), default=None),
    )
    return replace(train, shared=shared), [
        replace(source, shared=shared) if source in sharing else source for source in evaluations
    ]


def _is_same_table(one: DataSource, other: DataSource) -> bool:
    if len(one.inputs) > 1 or len(other.inputs) > 1:
        return False
    left, right = one.inputs[0].table, other.inputs[0].table
    return (left.id, left.version) == (right.id, right.version)


def _reopened(each: Input) -> Input:
    first = open_table(each.path, 1)  # polled every second: must not read the manifests of a whole year
    if first.id == each.table.id and first.versions[-1] == each.table.version:
        return each
    newest = open_table(each.path)
    if newest.id != each.table.id or newest.version < each.table.version:
        raise Conflict(
            f"{each.key}: {each.path} was replaced by another table: expected id {each.table.id} at version "
            f"{each.table.version} or later, got id {newest.id} at version {newest.version}. Put the old table back, "
            "or train in a new directory"
        )
    return replace(each, table=newest)


def _with_keys(inputs: list[Input], keys: Sequence[str]) -> list[Input]:
    """Assign each key of the section itself to the first table that has it."""
    for key in keys:
        if any(key in each.keys for each in inputs):
            continue
        owner = next((number for number, each in enumerate(inputs) if key in each.table.columns), 0)
        inputs[owner] = replace(inputs[owner], keys=[*inputs[owner].keys, key])
    return inputs


def _check_column(each: Input, role: str, name: str) -> None:
    columns = each.table.columns
    if name not in columns:
        where = f"{each.key.removesuffix('table')}{role}"
        raise UnknownColumn(f"{where}: no column {name!r} in {each.path}{suggest(name, columns)}")


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
