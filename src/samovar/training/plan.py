"""What a config asks the loop to do: which URIs to train on, and what to evaluate. Runs nothing.

config ─▶ open_training_data: tables, hours ─▶ build(params) ─▶ plan_loop: URIs, evaluation jobs
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from samovar.callbacks import EvaluationJob
from samovar.errors import BadInput, ConfigError
from samovar.hours import HOUR_SECONDS, show_hour
from samovar.runner import Learner, Uri, Uris
from samovar.runner.stream import TableStream
from samovar.tables.reader import ReadOptions
from samovar.training.inputs import DataSource, TableOpener, share_minibatches
from samovar.training.schema import (
    Config,
    MergeTables,
    OfflineConfig,
    OfflineData,
    OfflineEvaluation,
    OnlineConfig,
    OnlineData,
    OnlineEvaluation,
)
from samovar.training.uris import EpochUris, HourSource, HourUris


@dataclass(frozen=True)
class TrainingData:
    """The tables of a run, opened and checked as far as that is possible without the model."""

    config: Config
    train: DataSource
    evaluations: Sequence[DataSource]
    """In the order of `eval_confs`."""
    start: int | None = None
    """First hour of online training."""
    stop: int | None = None
    """End of online training, excluded. None: follow the table indefinitely."""
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class LoopPlan:
    """What the loop needs besides the learner."""

    uris: Uris
    jobs: Sequence[EvaluationJob]
    is_lagged: bool
    """Whether jobs run after each hour, on later hours, and not once at the end."""
    notes: list[str] = field(default_factory=list)


def open_training_data(config: Config, opener: TableOpener) -> TrainingData:
    """Open every table, so that mistakes show before anything is written."""
    train, evaluations = _open_sources(config, opener)
    for source in (train, *evaluations):
        source.check_columns()
    if isinstance(config, OnlineConfig):
        return _choose_hours(config, train, evaluations)
    if train.inputs[0].table.num_minibatches == 0:
        raise BadInput(f"train_data: {train.name} has no rows")
    return TrainingData(config, train, evaluations)


def plan_loop(data: TrainingData, learner: Learner, wait: Callable[[], None]) -> LoopPlan:
    """Complete the plan with the features that the model needs.

    Args:
        data: The opened tables.
        learner: What the script built.
        wait: Called while the next hour of a live table is missing; see `HourUris`.
    """
    train = _with_features(data.train, learner.required_features()).without_keys()
    evaluations = [_with_features(source, train.features) for source in data.evaluations]
    if isinstance(data.config, OfflineConfig):
        return _plan_epochs(data.config, train, evaluations)
    return _plan_hours(data, data.config, train, evaluations, wait)


def is_following(config: Config) -> bool:
    """Whether the run waits for new hours of a live table."""
    return isinstance(config, OnlineConfig) and (config.follow or config.train_data.follow)


# Tables


def _open_sources(config: Config, opener: TableOpener) -> tuple[DataSource, list[DataSource]]:
    data = config.train_data
    options = ReadOptions(data.num_downloaders, data.num_parsers, data.max_cache_size)
    train = opener.source("train_data", data.table, _merged(data), data.features, data.targets, options=options)
    evaluations = []
    confs: Sequence[OfflineEvaluation | OnlineEvaluation] = config.evaluation.eval_confs
    for number, each in enumerate(confs):
        section, options = f"evaluation.eval_confs[{number}]", ReadOptions(max_cache_size=each.max_memory)
        targets = each.targets
        if targets is None:  # entries of merged tables list their own
            targets = tuple(train.targets) if _merged(each) is None else ()
        evaluations.append(
            opener.source(section, each.table, _merged(each), each.features, targets, each.keys, options)
        )
    return train, evaluations


def _merged(section: OfflineData | OnlineData | OfflineEvaluation | OnlineEvaluation) -> MergeTables | None:
    return section.merge_tables if isinstance(section, OnlineData | OnlineEvaluation) else None


def _with_features(source: DataSource, required: Sequence[str] | None) -> DataSource:
    if source.features is not None:
        return source
    if required is None:
        raise ConfigError(
            f"{source.section}.features: missing. List the columns that the model reads, or give the model a "
            "get_required_features_list()"
        )
    complete = source.with_features(required)
    complete.check_columns()
    return complete


def _make_job(name: str, source: DataSource, find: Callable[[int | None], Uri]) -> EvaluationJob:
    columns = {column: source.column(column) for column in [*source.targets, *source.keys]}
    return EvaluationJob(name, columns, find)


# Offline


def _plan_epochs(config: OfflineConfig, train: DataSource, evaluations: Sequence[DataSource]) -> LoopPlan:
    data = config.train_data
    uris = EpochUris(
        train.inputs[0].table,
        train.columns,
        data.epoch_count,
        data.max_iter,
        data.uri_granularity,
        config.seed if data.shuffle else None,
        train.options,
    )
    confs = zip(config.evaluation.eval_confs, evaluations, strict=True)
    jobs = [_make_job(conf.name, source, _whole_table(source)) for conf, source in confs]
    return LoopPlan(uris, jobs, is_lagged=False)


def _whole_table(source: DataSource) -> Callable[[int | None], Uri]:
    table = source.inputs[0].table
    stream = TableStream(table, range(table.num_minibatches), source.columns, source.options)
    return lambda hour: Uri(0, source.name, stream, 0, table.num_minibatches, 0)


# Online


def _choose_hours(config: OnlineConfig, train: DataSource, evaluations: Sequence[DataSource]) -> TrainingData:
    start, stop = config.train_data.hours
    first, last = _hour_span(train)
    for source in evaluations:
        _hour_span(source)
    follows = is_following(config)
    start = first if start is None else start
    stop = last if stop is None and not follows else stop
    if (start >= last and not follows) or (stop is not None and stop <= first):
        raise ConfigError(
            f"train_data: start_date and end_date select {show_hour(start)} to {show_hour(stop or last)}, but "
            f"{train.name} has {show_hour(first)} to {show_hour(last)}"
        )
    if follows or stop is None:
        return TrainingData(config, train, evaluations, start, stop)
    if train.complete_until is not None and stop > train.complete_until:
        raise ConfigError(
            f"train_data.end_date: {show_hour(stop)} is too late, version {train.inputs[0].table.version} of "
            f"{train.name} is complete until {show_hour(train.complete_until)}. "
            'Set "follow": true to wait for later hours'
        )
    empty = [hour for hour in range(start, stop, HOUR_SECONDS) if hour not in train.hours]
    notes = [f"{train.name}: {len(empty)} hours have no rows, the first is {show_hour(empty[0])}"] if empty else []
    return TrainingData(config, train, evaluations, start, stop, notes)


def _hour_span(source: DataSource) -> tuple[int, int]:
    hours = [hour for hour in source.hours if hour is not None]
    if not hours:
        raise BadInput(
            f"{source.section}: {source.name} has no hours, so it cannot be used online. Brew it with time_field, or "
            'set "pipeline": "offline"'
        )
    return hours[0], hours[-1] + HOUR_SECONDS


def _plan_hours(
    data: TrainingData,
    config: OnlineConfig,
    train: DataSource,
    evaluations: Sequence[DataSource],
    wait: Callable[[], None],
) -> LoopPlan:
    assert data.start is not None
    follows = is_following(config)
    train, evaluations = share_minibatches(train, evaluations)
    hours = HourSource(train, data.start, data.stop, follows)
    jobs, job_hours, notes = [], [], list(data.notes)
    for conf, source in zip(config.evaluation.eval_confs, evaluations, strict=True):
        start, stop = conf.hours
        found = HourSource(source, None, stop, follows and source.complete_until is not None)
        job = replace(_make_job(conf.name, source, _hour_finder(found)), start=start, stop=stop, shifts=conf.shifts)
        jobs.append(job)
        job_hours.append(found)
        notes += _describe_skipped_hours(job, data)

    def is_ready(hour: int) -> bool:
        return all(
            found.is_complete(hour + shift * HOUR_SECONDS)
            for job, found in zip(jobs, job_hours, strict=True)
            for shift in job.shifts
            if job.holds(hour + shift * HOUR_SECONDS)
        )

    uris = HourUris(hours, data.start, data.stop, is_ready, wait)
    return LoopPlan(uris, jobs, is_lagged=True, notes=notes)


def _hour_finder(hours: HourSource) -> Callable[[int | None], Uri]:
    def find(hour: int | None) -> Uri:
        assert hour is not None
        return hours.uri(hour)

    return find


def _describe_skipped_hours(job: EvaluationJob, data: TrainingData) -> list[str]:
    """Notes about hours of data that no trained model is `shift` hours behind."""
    notes = []
    assert data.start is not None
    for shift in job.shifts:
        first = data.start + shift * HOUR_SECONDS
        if job.start is not None and job.start < first:
            notes.append(
                f"evaluation {job.name!r}, shift {shift}: skipping {show_hour(job.start)} to "
                f"{show_hour(min(first, job.stop or first))}, which is before the first model"
            )
        last = None if data.stop is None else data.stop + shift * HOUR_SECONDS
        if last is not None and job.stop is not None and last < job.stop:
            notes.append(
                f"evaluation {job.name!r}, shift {shift}: skipping {show_hour(max(last, job.start or last))} to "
                f"{show_hour(job.stop)}, which is after the last model"
            )
    return notes
