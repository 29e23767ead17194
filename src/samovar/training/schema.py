"""The schema of a training config: every key and what it means. Opens no files and imports no torch."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from samovar.config import Schema
from samovar.config.values import describe
from samovar.errors import BadPath, ConfigError
from samovar.hours import parse_range, parse_span
from samovar.store.base import split_path

Names = tuple[str, ...]
Task = Literal["binary", "multiclass", "regression", "ranking"]


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


class NegativeOptions(Schema):
    columns: Annotated[Names, Field(min_length=1)]
    """Features that make a candidate: first the one with its id, then those that belong to the id."""
    count: PositiveInt = 4
    """Negatives per row."""
    by: Literal["uniform", "frequency"] = "uniform"
    """Whether all ids are equally likely, or as likely as they are frequent."""
    target: str | None = None
    """The target that is 0 for negatives. Default: the only one of `targets`; without any, `label`, 1 for the rows."""


class OfflineData(ReaderOptions):
    table: str
    """Path of a tensor table, relative to the config file."""
    features: Names | None = None
    """Columns that the model reads. Default: what the model's `get_required_features_list()` returns."""
    targets: Names = ()
    """Columns that are passed to the loss."""
    allow_targets_as_features: bool = False
    """Whether a column may be a feature and a target. By default it is an error: the model would read the answer."""
    epoch_count: PositiveInt = 1
    """Number of passes over the table."""
    max_iter: PositiveInt | None = None
    """Stop after this many minibatches in total."""
    uri_granularity: PositiveInt = 4000
    """Minibatches per URI. Callbacks run, and snapshots can be taken, between URIs."""
    shuffle: bool = False
    """Whether to shuffle the minibatches, in a new order for each epoch."""
    negatives: NegativeOptions | None = None
    """Rows to sample for each row of a table that has only positive ones. Default: none."""


class Windowed(Schema):
    window: str = "7d"
    """How far back rows may be, such as 12h or 7d: whole hours, or other periods that the table is split by."""

    @property
    def window_seconds(self) -> int:
        return parse_span(self.window)

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        try:
            _ = self.window_seconds
        except ConfigError as error:
            raise ValueError(f"window {error}") from None
        return self


class ReplayOptions(Windowed):
    rows: PositiveInt = 4
    """Rows of earlier hours per new row."""


class HourlyNegativeOptions(Windowed, NegativeOptions):
    """Negatives online: ids that were seen in the window."""


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
    allow_targets_as_features: bool = False
    """Whether a column may be a feature and a target. By default it is an error: the model would read the answer."""
    follow: bool = False
    """Whether to wait for hours that are not in the table yet."""
    replay: ReplayOptions | None = None
    """Rows of earlier hours that are trained on again, with each minibatch. Default: none."""
    negatives: HourlyNegativeOptions | None = None
    """Rows to sample for each row of a table that has only positive ones. Default: none."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        _require_one_source(self.table, self.merge_tables)
        if self.replay is not None and self.merge_tables is not None:
            raise ValueError("replay reads one table, so it cannot be set beside merge_tables")
        if self.negatives is not None and self.merge_tables is not None:
            raise ValueError("negatives are drawn from one table, so they cannot be set beside merge_tables")
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
    task: Task | None = None
    """What the metrics measure: binary, multiclass, regression, or ranking within groups. Default: inferred from target
    and output."""
    weights: str | None = None
    """Column of the weights of rows in metrics. Default: all count the same."""
    k: PositiveInt | None = None
    """How many rows of a group count in `ndcg@k`, and how many classes in `accuracy@k`. Default: 10 and 5."""
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
    """Hours from the model to the data that it predicts, or other periods that the table is split by. At least 1: 0
    would score rows that were trained on."""
    task: Task | None = None
    """What the metrics measure: binary, multiclass, regression, or ranking within groups. Default: inferred from target
    and output."""
    weights: str | None = None
    """Column of the weights of rows in metrics. Default: all count the same."""
    k: PositiveInt | None = None
    """How many rows of a group count in `ndcg@k`, and how many classes in `accuracy@k`. Default: 10 and 5."""
    max_memory: PositiveInt | None = None
    """Bytes to read ahead, or to keep until training reaches those hours, at most."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.shifts)) < len(self.shifts):
            raise ValueError(f"shifts must be unique, got {', '.join(map(str, self.shifts))}")
        _require_folder_name(self.name)
        _require_one_source(self.table, self.merge_tables)
        return self


class Watch(Schema):
    metric: str
    """Metric of an evaluation, such as `valid.auc`; online `next_hour+1h.auc`, if there are several shifts."""
    direction: Literal["min", "max"] | None = None
    """Whether the least or the greatest value is best. Default: it follows the metric; needed for your own."""


class StoppingOptions(Watch):
    patience: PositiveInt = 3
    """Evaluations without progress after which the run ends."""
    min_progress: NonNegativeFloat = 0.0
    """Part of the best value so far by which a new one must be better to be progress."""


class PlateauOptions(StoppingOptions):
    patience: PositiveInt = 2
    """Evaluations without progress after which the learning rate is multiplied. Then they are counted again."""
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """What the learning rate is multiplied by."""


class EveryOptions(Schema):
    epochs: PositiveInt = 1
    """Epochs from one evaluation to the next."""
    uris: PositiveInt | None = None
    """URIs from one evaluation to the next, instead of epochs."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.uris is not None and "epochs" in self.model_fields_set:
            raise ValueError("expected epochs or uris, got both")
        return self


class OfflineEvaluations(Schema):
    eval_confs: tuple[OfflineEvaluation, ...] = ()
    """Tables to predict and measure while the model trains."""
    every: EveryOptions = EveryOptions()
    """When to evaluate, besides after the last URI."""
    best: Watch | None = None
    """What says which evaluation is best. Default: the metric of `stopping`, else the main metric of the first
    entry."""

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


class InitFrom(Schema):
    model: str
    """Model directory to start from."""
    match: dict[str, str] = Field(default_factory=dict)
    """New names of saved parts: prefixes in the saved model, and what replaces them."""
    drop: Names = ()
    """Prefixes of saved parts that are not taken: of parameters, buffers and hash tables."""
    resize_embeddings: bool = False
    """Whether a hash table whose dimension changed takes the common part of each embedding row."""
    optimizers: bool | Names = True
    """Whether the state of optimizers is taken, or the names of those whose state is."""


class _Training(Schema):
    model_dir: str | None = Field(None, validation_alias=AliasChoices("model_dir", "model_yt_dir", "out"))
    """Model directory, relative to the config file. Default: the config's file name without its suffix."""
    model: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the script: what `build(params)` gets."""
    seed: NonNegativeInt = 0
    """Seed of everything random, set before `build` runs."""
    num_threads: PositiveInt | None = None
    """Number of torch threads. Default: all cores. Fixed once the model directory exists."""
    device: str = "cpu"
    """Where the dense part computes: cpu, cuda, one like cuda:1, or auto: CUDA if there is one, when the run starts."""
    step_minibatches: PositiveInt = 1
    """Consecutive minibatches per step: each is computed alone, their gradients are averaged by their examples."""
    clip_norm: PositiveFloat | None = None
    """Scale the gradient of the dense parameters of a step down to this norm. Default: as it is."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """bf16 trains the dense part under autocast to bfloat16. Losses, weights and evaluation stay in float32."""
    compile: bool = False
    """Whether to train the dense part through `torch.compile`. Needs a C++ compiler."""
    snapshotter: SnapshotterOptions = SnapshotterOptions()
    """When to save the state of the run."""
    ttl_filter: TtlFilterOptions = TtlFilterOptions()
    """When to free expired rows of hash embeddings."""
    progress: bool = True
    """Whether to show a progress bar."""
    init_from: str | InitFrom | None = None
    """Model directory to start from: its weights, optimizer state and clock are copied. An object takes what fits."""
    pretrained: dict[str, str] = Field(default_factory=dict)
    """By hash table, such as `embedding.user`: a Parquet or npz file with the vectors that its ids start from."""
    frozen: Names = ()
    """Prefixes of parameters and hash tables that training does not change."""
    stopping: StoppingOptions | None = None
    """When to end the run because a metric makes no more progress. Default: never."""
    plateau: PlateauOptions | None = None
    """When to lower the learning rate because a metric makes no more progress. Default: never."""

    @model_validator(mode="after")
    def _check_device(self) -> Self:
        if re.fullmatch(r"cpu|auto|cuda(:\d+)?", self.device) is None:
            raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or like 'cuda:1', got {self.device!r}")
        return self


class OfflineConfig(_Training):
    pipeline: Literal["offline"] = "offline"
    """Epochs over a fixed table. Default: inferred from the keys of `train_data`."""
    train_data: OfflineData
    """What to train on, and for how many epochs."""
    evaluation: OfflineEvaluations = OfflineEvaluations()
    """What to predict while the model trains, and when."""


class OnlineConfig(_Training):
    pipeline: Literal["online"] = "online"
    """Hour by hour along a table. Default: inferred from the keys of `train_data`."""
    train_data: OnlineData
    """What to train on, and which hours."""
    evaluation: OnlineEvaluations = OnlineEvaluations()
    """What to predict after each hour."""
    follow: bool = False
    """Whether to wait for hours that are not in the table yet."""
    publish: bool = False
    """Whether to publish the model after each hour, for `samovar serve`."""


Config = OfflineConfig | OnlineConfig

# Keys of `train_data`, from which the pipeline is inferred.
_ONLINE_DATA_KEYS = {"datetime_format", "start_date", "end_date", "timezone", "merge_tables", "follow", "replay"}
_OFFLINE_DATA_KEYS = {"epoch_count", "max_iter", "uri_granularity", "shuffle"}


def load_config(tree: dict[str, Any], where: str) -> Config:
    """Check a config against the schema of its pipeline, which other keys imply if `pipeline` is absent."""
    kind = tree.get("pipeline")
    if kind is None:
        kind = _infer_pipeline(tree, where)
        tree = {key: value for key, value in tree.items() if key != "pipeline"}
    if kind not in ("offline", "online"):
        raise ConfigError(f"{where}: pipeline must be 'offline' or 'online', got {describe(kind)}")
    if kind == "offline":
        return OfflineConfig.load(tree, where, {_belongs_to("online", kind): OnlineConfig})
    return OnlineConfig.load(tree, where, {_belongs_to("offline", kind): OfflineConfig})


def _belongs_to(other: str, kind: str) -> str:
    return f'only {other} training has this key, and this config is {kind}. Remove it, or set "pipeline": "{other}"'


def _infer_pipeline(tree: dict[str, Any], where: str) -> str:
    data = tree.get("train_data")
    keys = set(data) if isinstance(data, dict) else set()
    online, offline = keys & _ONLINE_DATA_KEYS, keys & _OFFLINE_DATA_KEYS
    if online and offline:
        raise ConfigError(
            f"{where}: train_data has the online key {sorted(online)[0]!r} and the offline key {sorted(offline)[0]!r}. "
            "Remove one of them"
        )
    return "online" if online or "follow" in tree or _has_shifts(tree) else "offline"


def _has_shifts(tree: dict[str, Any]) -> bool:
    evaluation = tree.get("evaluation")
    entries = evaluation.get("eval_confs") if isinstance(evaluation, dict) else None
    return isinstance(entries, list) and any(isinstance(entry, dict) and "shifts" in entry for entry in entries)
