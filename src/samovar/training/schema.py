"""The schema of a training config: every key and what it means. Opens no files and imports no torch."""

from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from samovar.config import Schema
from samovar.errors import BadPath, ConfigError
from samovar.hours import parse_range
from samovar.store.base import split_path

Names = tuple[str, ...]


# Above the sections: their defaults are checked while this module is loaded.


def _require_one_source(table: str | None, merge_tables: object | None) -> None:
    if (table is None) == (merge_tables is None):
        raise ValueError(f"expected either table or merge_tables, got {'neither' if table is None else 'both'}")


def _require_folder_name(name: str) -> None:
    try:
        parts = split_path(name)
    except BadPath as error:
        raise ValueError(f"name {name!r} must work as a folder name: {error}") from None
    if parts != (name,):
        raise ValueError(f"name {name!r} must work as a folder name, without slashes")


def _require_unique(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"names must be unique, got {name!r} twice")


class MergedTable(Schema):
    table: str
    """Path of a tensor table."""
    features: Names | None = None
    """Columns that the model reads from this table. One table may omit them: it provides all that the others don't."""
    targets: Names
    """Columns of this table that are passed to the loss."""
    keys: Names = ()
    """Single-valued columns of this table that are copied into the predictions."""


class MergeTables(Schema):
    merge_keys: Annotated[Names, Field(min_length=1)]
    """Columns that must be equal in all tables, row by row."""
    tables: Annotated[tuple[MergedTable, ...], Field(min_length=2)]
    """Tables to join, minibatch by minibatch within each hour."""

    @model_validator(mode="after")
    def _check_features(self) -> Self:
        if sum(table.features is None for table in self.tables) > 1:
            raise ValueError("only one table may omit features: list them in the others")
        return self


class ReaderOptions(Schema):
    num_downloaders: PositiveInt | None = None
    """Threads that fetch minibatches. Default: chosen for the machine."""
    num_parsers: PositiveInt | None = None
    """Threads that decode minibatches. Default: chosen for the machine."""
    max_cache_size: PositiveInt | None = None
    """Bytes to read ahead at most. Default: chosen for the machine."""


class OfflineData(ReaderOptions):
    table: str
    """Path of a tensor table, relative to the config file."""
    features: Names | None = None
    """Columns that the model reads. Default: what the model's `get_required_features_list()` returns."""
    targets: Names = ()
    """Columns that are passed to the loss."""
    epoch_count: PositiveInt = 1
    """Number of passes over the table."""
    max_iter: PositiveInt | None = None
    """Stop after this many minibatches in total."""
    uri_granularity: PositiveInt = 4000
    """Minibatches per URI. Callbacks run, and snapshots can be taken, between URIs."""
    shuffle: bool = False
    """Whether to shuffle the minibatches, in a new order for each epoch."""


class Dates(Schema):
    datetime_format: str | None = None
    """Format of `start_date` and `end_date`, as for `strptime`. Default: ISO 8601."""
    start_date: str | None = None
    """First hour, included. Default: the first hour of the table."""
    end_date: str | None = None
    """End of the range, excluded. Default: the end of the table."""
    timezone: str | None = None
    """Time zone of dates without one. Default: UTC."""

    @property
    def hours(self) -> tuple[int | None, int | None]:
        """Start (included) and end (excluded), in seconds since 1970 UTC."""
        return parse_range(self.start_date, self.end_date, self.datetime_format, self.timezone)

    @model_validator(mode="after")
    def _check_dates(self) -> Self:
        try:
            _ = self.hours
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return self


class OnlineData(ReaderOptions, Dates):
    table: str | None = None
    """Path of a tensor table with hours, relative to the config file."""
    merge_tables: MergeTables | None = None
    """Several tables to read as one, instead of `table`."""
    features: Names | None = None
    """Columns that the model reads. Default: what the model's `get_required_features_list()` returns."""
    targets: Names = ()
    """Columns that are passed to the loss."""
    follow: bool = False
    """Whether to wait for hours that are not in the table yet."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        _require_one_source(self.table, self.merge_tables)
        return self


class OfflineEvaluation(Schema):
    name: str
    """Name of the folder in `evaluation/` that gets the predictions."""
    keys: Names = ()
    """Single-valued columns that are copied into the predictions."""
    table: str
    """Path of a tensor table, relative to the config file."""
    features: Names | None = None
    """Columns that the model reads. Default: those of training."""
    targets: Names | None = None
    """Columns to compare the predictions with. Default: those of training."""
    max_memory: PositiveInt | None = None
    """Bytes to read ahead at most."""

    @model_validator(mode="after")
    def _check_name(self) -> Self:
        _require_folder_name(self.name)
        return self


class OnlineEvaluation(Dates):
    name: str
    """Name of the folder in `evaluation/` that gets the predictions."""
    keys: Names = ()
    """Single-valued columns that are copied into the predictions."""
    table: str | None = None
    """Path of a tensor table with hours, relative to the config file."""
    merge_tables: MergeTables | None = None
    """Several tables to read as one, instead of `table`."""
    features: Names | None = None
    """Columns that the model reads. Default: those of training."""
    targets: Names | None = None
    """Columns to compare the predictions with. Default: those of training."""
    shifts: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    """Hours from the model to the data that it predicts. At least 1: 0 would score rows that were trained on."""
    max_memory: PositiveInt | None = None
    """Bytes to read ahead, or to keep until training reaches those hours, at most."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.shifts)) < len(self.shifts):
            raise ValueError(f"shifts must be unique, got {', '.join(map(str, self.shifts))}")
        _require_folder_name(self.name)
        _require_one_source(self.table, self.merge_tables)
        return self


class OfflineEvaluations(Schema):
    eval_confs: tuple[OfflineEvaluation, ...] = ()
    """Tables to predict with the finished model."""

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        _require_unique([each.name for each in self.eval_confs])
        return self


class OnlineEvaluations(Schema):
    eval_confs: tuple[OnlineEvaluation, ...] = ()
    """Later hours to predict with the model of each hour."""

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        _require_unique([each.name for each in self.eval_confs])
        return self


class SnapshotterOptions(Schema):
    frequency: NonNegativeFloat = 600.0
    """Seconds between snapshots. 0 takes one after every URI."""


class TtlFilterOptions(Schema):
    frequency: PositiveInt = 1
    """URIs between two sweeps that free expired embedding rows."""


class _Training(Schema):
    model_dir: str | None = Field(None, validation_alias=AliasChoices("model_dir", "model_yt_dir", "out"))
    """Model directory, relative to the config file. Default: the config's file name without its suffix."""
    model: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the script: what `build(params)` gets."""
    seed: NonNegativeInt = 0
    """Seed of everything random, set before `build` runs."""
    num_threads: PositiveInt | None = None
    """Number of torch threads. Default: all cores. Fixed once the model directory exists."""
    snapshotter: SnapshotterOptions = SnapshotterOptions()
    """When to save the state of the run."""
    ttl_filter: TtlFilterOptions = TtlFilterOptions()
    """When to free expired rows of hash embeddings."""
    progress: bool = True
    """Whether to show a progress bar."""
    init_from: str | None = None
    """Model directory to start from: its weights, optimizer state and clock are copied."""


class OfflineConfig(_Training):
    pipeline: Literal["offline"] = "offline"
    """Epochs over a fixed table. Default: inferred from the keys of `train_data`."""
    train_data: OfflineData
    """What to train on, and for how many epochs."""
    evaluation: OfflineEvaluations = OfflineEvaluations()
    """What to predict when training ends."""


class OnlineConfig(_Training):
    pipeline: Literal["online"] = "online"
    """Hour by hour along a table. Default: inferred from the keys of `train_data`."""
    train_data: OnlineData
    """What to train on, and which hours."""
    evaluation: OnlineEvaluations = OnlineEvaluations()
    """What to predict after each hour."""
    follow: bool = False
    """Whether to wait for hours that are not in the table yet."""


Config = OfflineConfig | OnlineConfig

_ONLINE_KEYS = {"datetime_format", "start_date", "end_date", "timezone", "merge_tables", "follow"}
_OFFLINE_KEYS = {"epoch_count", "max_iter", "uri_granularity", "shuffle"}


def load_config(tree: dict[str, Any], where: str) -> Config:
    """Check a config against the schema of its pipeline, which other keys imply if `pipeline` is absent."""
    kind = tree.get("pipeline") or _infer_pipeline(tree, where)
    if kind not in ("offline", "online"):
        raise ConfigError(f"{where}: pipeline must be 'offline' or 'online', got {kind!r}")
    return OfflineConfig.load(tree, where) if kind == "offline" else OnlineConfig.load(tree, where)


def _infer_pipeline(tree: dict[str, Any], where: str) -> str:
    data = tree.get("train_data")
    keys = set(data) if isinstance(data, dict) else set()
    online, offline = keys & _ONLINE_KEYS, keys & _OFFLINE_KEYS
    if online and offline:
        raise ConfigError(
            f"{where}: train_data has the online key {sorted(online)[0]!r} and the offline key {sorted(offline)[0]!r}. "
            "Remove one of them"
        )
    return "online" if online or "follow" in tree else "offline"
