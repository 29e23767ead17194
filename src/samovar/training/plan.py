"""What a config asks the loop to do: which URIs to train on, and what to evaluate. Runs nothing.

config ─▶ open_training_data: tables, hours ─▶ build(params) ─▶ plan_loop: URIs, evaluation jobs
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from samovar.callbacks.evaluation import EvaluationJob
from samovar.callbacks.watching import WatchedMetric
from samovar.config.values import suggest
from samovar.errors import BadInput, ConfigError
from samovar.runner import Learner, Uri, Uris
from samovar.runner.negatives import SAMPLING_PROBABILITY, Negatives, NegativeSampler
from samovar.runner.replay import Replay
from samovar.runner.stream import TableStream
from samovar.scoring.measuring import Measuring
from samovar.scoring.signature import Signature
from samovar.tables.reader import ReadOptions
from samovar.tables.schema import GROUP_START
from samovar.training.inputs import DataSource, TableOpener, share_minibatches
from samovar.training.schema import (
    Config,
    HourlyNegativeOptions,
    MergeTables,
    OfflineConfig,
    OfflineData,
    OfflineEvaluation,
    OnlineConfig,
    OnlineData,
    OnlineEvaluation,
    Windowed,
)
from samovar.training.uris import EpochUris, HourSource, HourUris
from samovar.training.watched import find_watched


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
    signature: Signature
    is_lagged: bool
    """Whether jobs run after each hour, on later hours, and not after epochs."""
    notes: list[str] = field(default_factory=list)
    watched: Mapping[str, WatchedMetric] = field(default_factory=dict)
    """The metrics of `stopping`, `plateau` and `evaluation.best`, by these keys, if they are set."""


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
    if not data.config.train_data.allow_targets_as_features:
        _refuse_leaks(train)
        confs: Sequence[OfflineEvaluation | OnlineEvaluation] = data.config.evaluation.eval_confs
        for conf, source in zip(confs, evaluations, strict=True):
            _refuse_leaks(source, conf.weights)
    for each in evaluations:
        train.signature.refuse_other_scales([each.column(name) for name in each.features or ()], each.name)
    if isinstance(data.config, OfflineConfig):
        plan = _plan_epochs(data.config, train, evaluations, learner)
    else:
        plan = _plan_hours(data, data.config, train, evaluations, learner, wait)
    notes = [*plan.notes, *_note_missing_targets(train)]
    return replace(plan, notes=notes, watched=find_watched(data.config, learner, data.train.period))


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
        source = opener.source(section, each.table, _merged(each), each.features, targets, each.keys, options)
        evaluations.append(_with_measured(source, each))
    return train, evaluations


def _with_measured(source: DataSource, conf: OfflineEvaluation | OnlineEvaluation) -> DataSource:
    """Read what the metrics need too: groups and weights. A table without groups measures none, unless it has to."""
    if conf.task != "ranking" and conf.targets is None:
        source = source.without_absent(GROUP_START)
    needed = [*([GROUP_START] if conf.task == "ranking" else []), *([] if conf.weights is None else [conf.weights])]
    return source.with_targets([name for name in needed if name not in (*source.targets, *source.keys)])


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


def _refuse_leaks(source: DataSource, weights: str | None = None) -> None:
    """A model that reads its target looks perfect and predicts nothing. Groups and weights are no answers."""
    answers = [name for name in source.targets if name not in (GROUP_START, weights)]
    leaks = [name for name in answers if name in (source.features or ())]
    if leaks:
        raise ConfigError(
            f"{source.section}: {leaks[0]!r} is a target and a feature, so the model would read the answer. Remove it "
            "from the features, or set train_data.allow_targets_as_features to true"
        )


def _note_missing_targets(train: DataSource) -> Iterator[str]:
    for name in train.targets:
        if (train.column(name).converter or {}).get("missing") == "indicator":
            yield (
                f"rows without the target {name!r} are trained as 0, because {train.name} has an indicator for it. To "
                f'leave them out, brew with "missing": {{"{name}": "drop"}}'
            )


def _make_job(
    conf: OfflineEvaluation | OnlineEvaluation,
    source: DataSource,
    learner: Learner,
    find: Callable[[int | None], Uri],
) -> EvaluationJob:
    columns = {column: source.column(column) for column in [*source.targets, *source.keys]}
    return EvaluationJob(conf.name, columns, find, how=Measuring(conf.task, conf.weights, conf.k, learner.metrics))


def _make_sampler(config: Config, train: DataSource) -> NegativeSampler | None:
    """Check what negatives are made of, against the columns that training reads."""
    options = config.train_data.negatives
    if options is None:
        return None
    for name in options.columns:
        if name not in (train.features or ()):
            raise ConfigError(
                f"train_data.negatives.columns: {name!r} is not a feature of the model"
                f"{suggest(name, train.features or ())}"
            )
    for name in (GROUP_START, SAMPLING_PROBABILITY):
        if name in train.targets:
            raise ConfigError(f"train_data.targets: {name!r} is added by negatives. Remove it from targets")
    if options.target is None and len(train.targets) > 1:
        raise ConfigError(
            f"train_data.negatives.target: missing. Which of {', '.join(train.targets)} is 0 for negatives?"
        )
    target = options.target or next(iter(train.targets), "label")
    for role, name, kind in (("columns", options.columns[0], "categorical"), ("target", target, "real")):
        if name in (*options.columns, *train.targets) and train.column(name).kind != kind:
            raise ConfigError(
                f"train_data.negatives.{role}: {name!r} must be a {kind} column, got {train.column(name).kind}"
            )
    window = options.window_seconds if isinstance(options, HourlyNegativeOptions) else None
    by_frequency = options.by == "frequency"
    negatives = Negatives(options.columns, options.count, target, by_frequency, window, config.seed)
    return NegativeSampler(negatives, train.options)


# Offline


def _plan_epochs(
    config: OfflineConfig, train: DataSource, evaluations: Sequence[DataSource], learner: Learner
) -> LoopPlan:
    data = config.train_data
    uris = EpochUris(
        train.inputs[0].table,
        train.columns,
        data.epoch_count,
        data.max_iter,
        data.uri_granularity,
        config.seed if data.shuffle else None,
        train.options,
        _make_sampler(config, train),
    )
    confs = zip(config.evaluation.eval_confs, evaluations, strict=True)
    jobs = [_make_job(conf, source, learner, _whole_table(source)) for conf, source in confs]
    return LoopPlan(uris, jobs, train.signature, is_lagged=False)


def _whole_table(source: DataSource) -> Callable[[int | None], Uri]:
    table = source.inputs[0].table
    stream = TableStream(table, range(table.num_minibatches), source.columns, source.options)
    return lambda hour: Uri(0, source.name, stream, 0, table.num_minibatches, 0)


# Online


def _choose_hours(config: OnlineConfig, train: DataSource, evaluations: Sequence[DataSource]) -> TrainingData:
    start, stop = config.train_data.hours
    first, last = _hour_span(train)
    show = train.period.show
    for source in evaluations:
        _hour_span(source)
    _check_periods(config, train, evaluations)
    follows = is_following(config)
    start = first if start is None else start
    stop = last if stop is None and not follows else stop
    if start >= last and not follows:
        raise ConfigError(
            f"train_data.start_date must be before {show(last)}, the end of {train.name}, got {show(start)}"
        )
    if stop is not None and stop <= first:
        raise ConfigError(
            f"train_data.end_date must be after {show(first)}, the start of {train.name}, got {show(stop)}"
        )
    if follows or stop is None:
        return TrainingData(config, train, evaluations, start, stop)
    if train.complete_until is not None and stop > train.complete_until:
        raise ConfigError(
            f"train_data.end_date: {show(stop)} is too late: version {train.inputs[0].table.version} of "
            f"{train.name} is complete until {show(train.complete_until)}. "
            'Set "follow": true to wait for later hours'
        )
    empty = [hour for hour in train.period.starts(start, stop) if hour not in train.hours]
    return TrainingData(config, train, evaluations, start, stop, _describe_gaps(train, empty))


def _describe_gaps(train: DataSource, empty: Sequence[int]) -> list[str]:
    if not empty:
        return []
    first = train.period.show(empty[0])
    others = "" if len(empty) == 1 else f", and {len(empty) - 1} more"
    return [f"{train.name}: no rows for {first}{others} within the time to train on"]


def _hour_span(source: DataSource) -> tuple[int, int]:
    hours = [hour for hour in source.hours if hour is not None]
    if not hours:
        raise BadInput(
            f"{source.section}: {source.name} has no hours, so it cannot be used online. Brew it with time_field, or "
            'set "pipeline": "offline"'
        )
    return hours[0], source.period.shift(hours[-1], 1)


def _check_periods(config: OnlineConfig, train: DataSource, evaluations: Sequence[DataSource]) -> None:
    """All tables are split by the same period, and all dates are starts of one."""
    period = train.period
    for source in (train, *evaluations):
        source.require_period(period, train.name)
    for dates, source in zip((config.train_data, *config.evaluation.eval_confs), (train, *evaluations), strict=True):
        for key, hour in zip(("start_date", "end_date"), dates.hours, strict=True):
            period.require_start(f"{source.section}.{key}", hour, source.name)
    for key in ("replay", "negatives"):
        options: Windowed | None = getattr(config.train_data, key)
        if options is not None and options.window_seconds % period.seconds:
            raise ConfigError(
                f"train_data.{key}.window must be whole {period.plural}, because {train.name} is split by the "
                f"{period.name}, got {options.window!r}"
            )


def _plan_hours(
    data: TrainingData,
    config: OnlineConfig,
    train: DataSource,
    evaluations: Sequence[DataSource],
    learner: Learner,
    wait: Callable[[], None],
) -> LoopPlan:
    assert data.start is not None
    follows = is_following(config)
    train, evaluations = share_minibatches(train, evaluations)
    replay = config.train_data.replay
    if replay is not None:
        train = replace(train, replay=Replay(replay.rows, replay.window_seconds, config.seed))
    train = replace(train, negatives=_make_sampler(config, train))
    hours = HourSource(train, data.start, data.stop, follows)
    jobs, job_hours, notes = [], [], list(data.notes)
    for conf, source in zip(config.evaluation.eval_confs, evaluations, strict=True):
        start, stop = conf.hours
        found = HourSource(source, None, stop, follows and source.complete_until is not None)
        job = _make_job(conf, source, learner, _hour_finder(found))
        job = replace(job, start=start, stop=stop, shifts=conf.shifts, period=source.period)
        jobs.append(job)
        job_hours.append(found)
        notes += _describe_skipped_hours(job, data)

    def is_ready(hour: int) -> bool:
        return all(
            found.is_complete(job.shifted(hour, shift))
            for job, found in zip(jobs, job_hours, strict=True)
            for shift in job.shifts
            if job.holds(job.shifted(hour, shift))
        )

    uris = HourUris(hours, data.start, data.stop, is_ready, wait)
    return LoopPlan(uris, jobs, train.signature, is_lagged=True, notes=notes)


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
        first = job.shifted(data.start, shift)
        if job.start is not None and job.start < first:
            notes.append(
                f"evaluation {job.name!r}, shift {shift}: skipping {job.period.show(job.start)} to "
                f"{job.period.show(min(first, job.stop or first))}, which is before the first model"
            )
        last = None if data.stop is None else job.shifted(data.stop, shift)
        if last is not None and job.stop is not None and last < job.stop:
            notes.append(
                f"evaluation {job.name!r}, shift {shift}: skipping {job.period.show(max(last, job.start or last))} to "
                f"{job.period.show(job.stop)}, which is after the last model"
            )
    return notes
