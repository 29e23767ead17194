"""What each pipeline makes of its config: URIs, what the loader reads, what the model is applied to. Runs nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from samovar.callbacks import EvaluationJob
from samovar.errors import BadInput, ConfigError
from samovar.hours import HOUR_SECONDS, show_hour
from samovar.runner import Learner, Uri, Uris
from samovar.runner.stream import TableStream
from samovar.tables.reader import ReadOptions
from samovar.training.inputs import DataSource, TableOpener, share_rows
from samovar.training.schema import Config, OfflineConfig, OnlineConfig
from samovar.training.uris import EpochUris, HourSource, HourUris


@dataclass(frozen=True)
class TrainingData:
    """The data of a run, opened and checked as far as it can be without the model."""

    config: Config
    train: DataSource
    evaluations: Sequence[DataSource]
    start: int | None = None
    stop: int | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class LoopPlan:
    """All that a loop needs besides the learner."""

    uris: Uris
    jobs: Sequence[EvaluationJob]
    is_lagged: bool
    notes: list[str] = field(default_factory=list)


def open_training_data(config: Config, opener: TableOpener) -> TrainingData:
    """Open every table, and find mistakes before anything is written."""
    if isinstance(config, OnlineConfig):
        return _open_hours(config, *_open_online(config, opener))
    train, evaluations = _open_offline(config, opener)
    if train.inputs[0].table.num_minibatches == 0:
        raise BadInput(f"train_data: {train.name} has no rows; expected some: brew it again")
    return TrainingData(config, train, evaluations)


def _open_offline(config: OfflineConfig, opener: TableOpener) -> tuple[DataSource, list[DataSource]]:
    data = config.train_data
    options = ReadOptions(data.num_downloaders, data.num_parsers, data.max_cache_size)
    train = opener.source("train_data", data.table, None, data.features, data.targets, options=options)
    evaluations = []
    for number, each in enumerate(config.evaluation.eval_confs):
        section, memory = f"evaluation.eval_confs[{number}]", ReadOptions(max_cache_size=each.max_memory)
        targets = train.targets if each.targets is None else each.targets
        evaluations.append(opener.source(section, each.table, None, each.features, targets, each.keys, memory))
    return _checked(train, evaluations)


def _open_online(config: OnlineConfig, opener: TableOpener) -> tuple[DataSource, list[DataSource]]:
    data = config.train_data
    options = ReadOptions(data.num_downloaders, data.num_parsers, data.max_cache_size)
    train = opener.source("train_data", data.table, data.merge_tables, data.features, data.targets, options=options)
    evaluations = []
    for number, each in enumerate(config.evaluation.eval_confs):
        section, memory = f"evaluation.eval_confs[{number}]", ReadOptions(max_cache_size=each.max_memory)
        targets = each.targets
        if targets is None:
            targets = tuple(train.targets) if each.merge_tables is None else ()
        evaluations.append(
            opener.source(section, each.table, each.merge_tables, each.features, targets, each.keys, memory)
        )
    return _checked(train, evaluations)


def _checked(train: DataSource, evaluations: list[DataSource]) -> tuple[DataSource, list[DataSource]]:
    for source in (train, *evaluations):
        source.check_columns()
    return train, evaluations


def _open_hours(config: OnlineConfig, train: DataSource, evaluations: Sequence[DataSource]) -> TrainingData:
    start, stop = config.train_data.hours
    first, last = _span(train)
    for source in evaluations:
        _span(source)
    begin = first if start is None else start
    is_following = is_followed(config)
    end = stop if is_following else last if stop is None else stop
    if (begin >= last and not is_following) or (end is not None and end <= first):
        raise ConfigError(
            f"train_data: the dates {show_hour(begin)} to {show_hour(end or last)} are outside {train.name}, which has "
            f"{show_hour(first)} to {show_hour(last)}: mend start_date and end_date"
        )
    if not is_following and end is not None and train.complete_until is not None and end > train.complete_until:
        raise ConfigError(
            f"train_data.end_date: {show_hour(end)} is not there yet, version {train.inputs[0].table.version} of "
            f"{train.name}, which this run reads, is complete until "
            f'{show_hour(train.complete_until)}: end earlier, or wait for it with "follow": true'
        )
    notes = []
    if end is not None and not is_following:
        missing = [hour for hour in range(begin, end, HOUR_SECONDS) if hour not in train.hours]
        if missing:
            notes.append(
                f"{train.name}: {len(missing)} of the hours have no rows, the first is {show_hour(missing[0])}"
            )
    return TrainingData(config, train, evaluations, begin, end, notes)


def _span(source: DataSource) -> tuple[int, int]:
    hours = [hour for hour in source.hours if hour is not None]
    if not hours:
        raise BadInput(
            f"{source.section}: {source.name} is an offline table without hours; expected one that was brewed with "
            'time_field: brew it so, or write "pipeline": "offline"'
        )
    return hours[0], hours[-1] + HOUR_SECONDS


def is_followed(config: Config) -> bool:
    return isinstance(config, OnlineConfig) and (config.follow or config.train_data.follow)


def plan_loop(stage: TrainingData, learner: Learner, wait: Callable[[], None]) -> LoopPlan:
    """What remains to be said when the model is there: the features that it needs."""
    required = learner.required_features()
    train = _with_features(stage.train, required).without_keys()
    features = train.features or []
    sources = [_with_features(source, features) for source in stage.evaluations]
    if isinstance(stage.config, OfflineConfig):
        return _offline(stage.config, train, sources)
    return _online(stage, stage.config, train, sources, wait)


def _with_features(source: DataSource, required: Sequence[str] | None) -> DataSource:
    if source.features is not None:
        return source
    if required is None:
        raise ConfigError(
            f"{source.section}.features: missing, and the model has no get_required_features_list(); expected the "
            "columns that the model reads: list them"
        )
    complete = source.with_features(required)
    complete.check_columns()
    return complete


def _offline(config: OfflineConfig, train: DataSource, sources: Sequence[DataSource]) -> LoopPlan:
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
    confs = zip(config.evaluation.eval_confs, sources, strict=True)
    jobs = [make_job(conf.name, source, _whole(source)) for conf, source in confs]
    return LoopPlan(uris, jobs, is_lagged=False)


def _whole(source: DataSource) -> Callable[[int | None], Uri]:
    table = source.inputs[0].table
    stream = TableStream(table, range(table.num_minibatches), source.columns, source.options)
    return lambda hour: Uri(0, source.name, stream, 0, table.num_minibatches, 0)


def make_job(name: str, source: DataSource, find: Callable[[int | None], Uri]) -> EvaluationJob:
    columns = {column: source.column(column) for column in [*source.targets, *source.keys]}
    return EvaluationJob(name, columns, find)


def _online(
    stage: TrainingData,
    config: OnlineConfig,
    train: DataSource,
    sources: Sequence[DataSource],
    wait: Callable[[], None],
) -> LoopPlan:
    is_following = is_followed(config)
    assert stage.start is not None
    train, sources = share_rows(train, sources)
    hours = HourSource(train, stage.start, stage.stop, is_following)
    jobs, logs, notes = [], [], list(stage.notes)
    for conf, source in zip(config.evaluation.eval_confs, sources, strict=True):
        log = HourSource(source, None, conf.hours[1], is_following and source.complete_until is not None)
        start, stop = conf.hours
        job = replace(make_job(conf.name, source, _hour_finder(log)), start=start, stop=stop, shifts=conf.shifts)
        jobs.append(job)
        logs.append(log)
        notes += _without_model(job, stage)

    def is_ready(hour: int) -> bool:
        return all(
            log.is_complete(hour + shift * HOUR_SECONDS)
            for job, log in zip(jobs, logs, strict=True)
            for shift in job.shifts
            if job.holds(hour + shift * HOUR_SECONDS)
        )

    uris = HourUris(hours, stage.start, stage.stop, is_ready, wait)
    return LoopPlan(uris, jobs, is_lagged=True, notes=notes)


def _hour_finder(log: HourSource) -> Callable[[int | None], Uri]:
    def find(hour: int | None) -> Uri:
        assert hour is not None
        return log.uri(hour)

    return find


def _without_model(job: EvaluationJob, stage: TrainingData) -> list[str]:
    """Data hours that no model hour leads to."""
    notes = []
    assert stage.start is not None
    for shift in job.shifts:
        first = stage.start + shift * HOUR_SECONDS
        if job.start is not None and job.start < first:
            notes.append(
                f"evaluation {job.name!r}, shift {shift}: the hours {show_hour(job.start)} to "
                f"{show_hour(min(first, job.stop or first))} come before the first model, and are skipped"
            )
        last = None if stage.stop is None else stage.stop + shift * HOUR_SECONDS
        if last is not None and job.stop is not None and last < job.stop:
            notes.append(
                f"evaluation {job.name!r}, shift {shift}: the hours {show_hour(max(last, job.start or last))} to "
                f"{show_hour(job.stop)} come after the last model, and are skipped"
            )
    return notes
