"""The metrics in a line of an evaluation: their names, and which values are better. Measures nothing."""

from collections.abc import Mapping
from typing import Any, Literal

from samovar.errors import BadInput

COUNTS = ("num_examples", "num_groups")
MEANS = ("mean_target", "mean_prediction")
_HIGHER = ("auc", "average_precision", "accuracy", "macro_f1", "r2", "ndcg", "mrr", "group_auc")
_LOWER = ("log_loss", "rmse", "mae")
_TARGETS = {"calibration": 1.0, "bias": 0.0}
"""Metrics that are best at a value."""
NAMES = (*_HIGHER, *_LOWER, *_TARGETS)
"""All metrics, without the k of `ndcg@10` and `accuracy@5`."""
MAIN = {
    "binary": ("log_loss", "auc"),
    "multiclass": ("log_loss", "accuracy"),
    "regression": ("rmse",),
    "ranking": ("ndcg",),
}
"""By task: the metric that says which epoch is best, unless the config does. The first that is defined."""
FACTS = frozenset(
    {
        "kind",
        "uri",
        "name",
        "hour",
        "shift",
        "lag",
        "model_hour",
        "epoch",
        "trained",
        "output",
        "target",
        "task",
        "weights",
    }
    | {"k", "time", *COUNTS, *MEANS}
)
"""Keys of an evaluation's line that are no metrics."""


def badness(metric: str, value: float, direction: Literal["min", "max"] | None = None) -> float:
    """A number that is lower the better the value is.

    Args:
        metric: Its name, such as `auc` or `ndcg@10`.
        value: Its value.
        direction: Whether the least or the greatest value is best; None: known from the name.

    Raises:
        BadInput: No direction is given, and the metric is not one of ours.

    Example:
        >>> badness("auc", 0.75), badness("calibration", 0.75)
        (-0.75, 0.25)
    """
    name = metric.partition("@")[0]
    if direction is not None:
        return value if direction == "min" else -value
    if name in _TARGETS:
        return abs(value - _TARGETS[name])
    if name not in NAMES:
        raise BadInput(f"{metric}: whether the least or the greatest value is best is not known. Set the direction")
    return -value if name in _HIGHER else value


def metrics_of(line: Mapping[str, Any]) -> dict[str, float | None]:
    """The metrics in a line of an evaluation, without counts and means."""
    return {
        name: value
        for name, value in line.items()
        if name not in FACTS and (value is None or (isinstance(value, int | float) and not isinstance(value, bool)))
    }


def metric_prefix(line: Mapping[str, Any], has_shifts: bool = True) -> str:
    """What the names of its metrics begin with: `next_hour+1h.`, and `next_hour+1h.click.` for the output click."""
    output = f"{line['output']}." if "output" in line else ""
    lag = lag_of(line) if has_shifts else None
    return f"{line.get('name')}{'' if lag is None else f'+{lag}'}.{output}"


def lag_of(line: Mapping[str, Any]) -> str | None:
    """How much later than the model the data of an evaluation is: `1h`. A line has it if it is not in hours."""
    shift = line.get("shift")
    return line.get("lag", f"{shift}h") if shift is not None else None
