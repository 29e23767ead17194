"""The configs of training, strict: every key that there is, and what it means. Opens no files."""

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AliasChoices, Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from samovar.config import Schema
from samovar.errors import BadPath, ConfigError
from samovar.hours import parse_range
from samovar.store.base import split_path

Names = tuple[str, ...]
_Section = TypeVar("_Section")


def check_source(section: _Section, table: str | None, merge_tables: object | None) -> _Section:
    if (table is None) == (merge_tables is None):
        raise ValueError("expected either table or merge_tables: give one of them")
    return section


def check_name(section: _Section, name: str) -> _Section:
    try:
        parts = split_path(name)
    except BadPath as error:
        raise ValueError(f"name {name!r} cannot be a folder's name: {error}") from None
    if parts != (name,):
        raise ValueError(f"name {name!r} cannot be a folder's name, expected a plain word: rename it")
    return section


def check_names(section: _Section, names: list[str]) -> _Section:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the name {name!r} is given twice, expected each once: rename one")
    return section


class MergedTable(Schema):
    table: str
    """A tensor table."""
    features: Names | None = None
    """What to take of it; one table may leave this out and gives all features that the others do not name."""
    targets: Names
    """Tensors of it that the loss gets."""
    keys: Names = ()
    """Single-valued columns of it that go into the predictions."""


class MergeTables(Schema):
    merge_keys: Annotated[Names, Field(min_length=1)]
    """Columns that must be equal, example by example."""
    tables: Annotated[tuple[MergedTable, ...], Field(min_length=2)]
    """Joined row by row, within each hour."""

    @model_validator(mode="after")
    def _leave_features_out_once(self) -> Self:
        if sum(table.features is None for table in self.tables) > 1:
            raise ValueError("features are missing in several tables, expected in one at most: list them in the others")
        return self


class Reading(Schema):
    num_downloaders: PositiveInt | None = None
    """Threads that fetch; chosen from the machine when absent."""
    num_parsers: PositiveInt | None = None
    """Threads that parse; chosen from the machine when absent."""
    max_cache_size: PositiveInt | None = None
    """Bytes that may be read ahead; chosen from the machine when absent."""


class OfflineData(Reading):
    table: str
    """A tensor table; relative paths begin at the config file."""
    features: Names | None = None
    """Tensors that the model gets; asked of the model when absent."""
    targets: Names = ()
    """Tensors that the loss gets."""
    epoch_count: PositiveInt = 1
    """How often the table is gone through."""
    max_iter: PositiveInt | None = None
    """Most minibatches in all."""
    uri_granularity: PositiveInt = 4000
    """Minibatches of a URI: how often callbacks run."""
    shuffle: bool = False
    """Whether each epoch draws its own order of minibatches."""


class Dates(Schema):
    datetime_format: str | None = None
    """Of start_date and end_date; ISO when absent."""
    start_date: str | None = None
    """The first hour."""
    end_date: str | None = None
    """The first hour that is not taken any more."""
    timezone: str | None = None
    """Of dates that name none; UTC when absent."""

    @property
    def hours(self) -> tuple[int | None, int | None]:
        """Half-open, in seconds since 1970 UTC."""
        return parse_range(self.start_date, self.end_date, self.datetime_format, self.timezone)

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        try:
            _ = self.hours
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return self


class OnlineData(Reading, Dates):
    table: str | None = None
    """A tensor table of hours; relative paths begin at the config file."""
    merge_tables: MergeTables | None = None
    """Several tables read as one, instead of `table`."""
    features: Names | None = None
    """Tensors that the model gets; asked of the model when absent."""
    targets: Names = ()
    """Tensors that the loss gets."""
    follow: bool = False
    """Whether to wait for hours that are not there yet."""

    @model_validator(mode="after")
    def _name_one_source(self) -> Self:
        return check_source(self, self.table, self.merge_tables)


class OfflineEvaluation(Schema):
    name: str
    """Of its folder in evaluation/."""
    keys: Names = ()
    """Single-valued columns that go into the predictions."""
    table: str
    """A tensor table; relative paths begin at the config file."""
    features: Names | None = None
    """Those of training when absent."""
    targets: Names | None = None
    """Those of training when absent."""
    max_memory: PositiveInt | None = None
    """Bytes that may be read ahead."""

    @model_validator(mode="after")
    def _can_be_a_folder(self) -> Self:
        return check_name(self, self.name)


class OnlineEvaluation(Dates):
    name: str
    """Of its folder in evaluation/."""
    keys: Names = ()
    """Single-valued columns that go into the predictions."""
    table: str | None = None
    """A tensor table of hours; relative paths begin at the config file."""
    merge_tables: MergeTables | None = None
    """Several tables read as one, instead of `table`."""
    features: Names | None = None
    """Those of training when absent."""
    targets: Names | None = None
    """Those of training when absent."""
    shifts: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    """Hours that the data lies ahead of the model; 0 would score rows that were trained on."""
    max_memory: PositiveInt | None = None
    """Bytes that may be read ahead, or kept until the hours are trained on."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.shifts)) < len(self.shifts):
            raise ValueError("a shift is given twice, expected each once: keep one of the two")
        return check_source(check_name(self, self.name), self.table, self.merge_tables)


class OfflineEvaluations(Schema):
    eval_confs: tuple[OfflineEvaluation, ...] = ()
    """Tables that the finished model is applied to."""

    @model_validator(mode="after")
    def _name_each_once(self) -> Self:
        return check_names(self, [each.name for each in self.eval_confs])


class OnlineEvaluations(Schema):
    eval_confs: tuple[OnlineEvaluation, ...] = ()
    """Later hours that the model of each hour is applied to."""

    @model_validator(mode="after")
    def _name_each_once(self) -> Self:
        return check_names(self, [each.name for each in self.eval_confs])


class SnapshotterOptions(Schema):
    frequency: NonNegativeFloat = 600.0
    """Seconds between snapshots; 0 takes one after every URI."""


class TtlFilterOptions(Schema):
    frequency: PositiveInt = 1
    """URIs between the moments when expired rows are freed."""


class _Training(Schema):
    model_dir: str | None = Field(None, validation_alias=AliasChoices("model_dir", "model_yt_dir", "out"))
    """Directory of the model, relative to the config; the config's name without its ending when absent."""
    model: dict[str, Any] = Field(default_factory=dict)
    """The script's own parameters."""
    seed: NonNegativeInt = 0
    """Of everything random; set before `build`."""
    num_threads: PositiveInt | None = None
    """Threads of torch; the machine's when absent, and fixed from then on."""
    snapshotter: SnapshotterOptions = SnapshotterOptions()
    """When the state is saved."""
    ttl_filter: TtlFilterOptions = TtlFilterOptions()
    """When expired rows of hash tables are freed."""
    progress: bool = True
    """Whether to show where the run is."""
    init_from: str | None = None
    """Directory of a model to start from: its weights, optimizer state and clock."""


class OfflineConfig(_Training):
    pipeline: Literal["offline"] = "offline"
    """Epochs over a fixed table; inferred from the keys of `train_data` when absent."""
    train_data: OfflineData
    """What to learn from, and how often."""
    evaluation: OfflineEvaluations = OfflineEvaluations()
    """What to predict when the training has ended."""


class OnlineConfig(_Training):
    pipeline: Literal["online"] = "online"
    """Hour by hour along a table; inferred from the keys of `train_data` when absent."""
    train_data: OnlineData
    """What to learn from, and from which hour to which."""
    evaluation: OnlineEvaluations = OnlineEvaluations()
    """What to predict after each hour."""
    follow: bool = False
    """Whether to wait for hours that are not there yet."""


Config = OfflineConfig | OnlineConfig

_ONLINE_KEYS = {"datetime_format", "start_date", "end_date", "timezone", "merge_tables", "follow"}
_OFFLINE_KEYS = {"epoch_count", "max_iter", "uri_granularity", "shuffle"}


def load_config(tree: dict[str, Any], where: str) -> Config:
    """The config as its pipeline's schema; without the key `pipeline` other keys tell which one it is."""
    kind = tree.get("pipeline") or _infer(tree, where)
    if kind not in ("offline", "online"):
        raise ConfigError(f"{where}: pipeline is {kind!r}; expected 'offline' or 'online': write one of them")
    return OfflineConfig.load(tree, where) if kind == "offline" else OnlineConfig.load(tree, where)


def _infer(tree: dict[str, Any], where: str) -> str:
    data = tree.get("train_data")
    keys = set(data) if isinstance(data, dict) else set()
    online, offline = keys & _ONLINE_KEYS, keys & _OFFLINE_KEYS
    if online and offline:
        raise ConfigError(
            f"{where}: train_data has {sorted(online)[0]!r}, which is online, and {sorted(offline)[0]!r}, which is "
            'offline; expected one kind: remove one of them, or write "pipeline": "online" or "offline"'
        )
    return "online" if online or "follow" in tree else "offline"
