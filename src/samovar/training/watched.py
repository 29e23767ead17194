"""The metrics that config keys name: `stopping`, `plateau` and `evaluation.best`. Measures nothing."""

from collections.abc import Iterator

from samovar.callbacks.watching import WatchedMetric
from samovar.config.values import did_you_mean, nearest, suggest
from samovar.errors import ConfigError
from samovar.hours import Period
from samovar.runner import Learner
from samovar.scoring.metric_names import NAMES
from samovar.training.schema import Config, OfflineConfig, OnlineEvaluation, Watch


def find_watched(config: Config, learner: Learner, period: Period) -> dict[str, WatchedMetric]:
    """By key, for the keys that are set. `period` is that of the tables.

    Raises:
        ConfigError: There is no such evaluation or metric, or its direction is not known.
    """
    given: dict[str, Watch | None] = {"stopping": config.stopping, "plateau": config.plateau}
    if isinstance(config, OfflineConfig):
        given["evaluation.best"] = config.evaluation.best
    return {key: _find(key, watch, config, learner, period) for key, watch in given.items() if watch is not None}


def _find(key: str, watch: Watch, config: Config, learner: Learner, period: Period) -> WatchedMetric:
    where = f"{key}.metric"
    evaluation, metric = _split(where, watch.metric, config, period)
    base = metric.rpartition(".")[2].partition("@")[0]
    if base not in (*NAMES, *learner.metrics):
        raise ConfigError(f"{where}: no metric {base!r}{suggest(base, (*NAMES, *learner.metrics))}")
    if base not in NAMES and watch.direction is None:
        raise ConfigError(f'{key}.direction is missing: {base!r} is your own metric. Set it to "min" or "max"')
    return WatchedMetric(f"{evaluation}.{metric}", watch.direction, where)


def _split(where: str, text: str, config: Config, period: Period) -> tuple[str, str]:
    """The evaluation, with its shift, and the metric."""
    names = dict(_evaluations(config, period))
    for name in sorted((name for name in names if text.startswith(f"{name}.")), key=len, reverse=True):
        if len(names[name]) > 1:
            raise ConfigError(f"{where}: {name!r} is ambiguous: {', '.join(names[name])}. Name one of them")
        return names[name][0], text.removeprefix(f"{name}.")
    if not names:
        raise ConfigError(f"{where}: {text!r} needs an evaluation, and evaluation.eval_confs has none")
    wrong = text.rpartition(".")[0] or text
    guess = did_you_mean(nearest(wrong, names)) or "."
    raise ConfigError(f"{where}: no evaluation {wrong!r}{guess} Expected NAME.METRIC, such as {next(iter(names))}.auc")


def _evaluations(config: Config, period: Period) -> Iterator[tuple[str, list[str]]]:
    """The names that may be given, and the evaluations that each of them means."""
    for entry in config.evaluation.eval_confs:
        if not isinstance(entry, OnlineEvaluation):
            yield entry.name, [entry.name]
            continue
        shifted = [f"{entry.name}+{period.lag(shift)}" for shift in entry.shifts]
        yield entry.name, shifted
        yield from ((name, [name]) for name in shifted)
