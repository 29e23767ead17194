"""What both callbacks send to their tracker: names and numbers. Knows neither tracker."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from samovar.results import read_log
from samovar.store import LocalStore

_QUALITIES = ("auc", "log_loss", "calibration", "mean_prediction")


def numbers_of(run: Any) -> dict[str, float]:
    """The numbers of this URI: the loss, those of other callbacks, and the quality of each evaluation."""
    numbers = {"loss": run.mean_loss, **run.metrics, **evaluations_of(run)}
    return {name: value for name, value in numbers.items() if isinstance(value, int | float)}


def evaluations_of(run: Any) -> dict[str, float]:
    """The qualities that are in `run.metrics["evaluation"]`: one dict per evaluation, with `shift` if online."""
    return dict(pair for measured in run.metrics.get("evaluation", []) for pair in _qualities(measured))


def numbers_before(model_dir: Path) -> dict[int, dict[str, float]]:
    """The numbers of the URIs that are safe in the model directory, from its own log."""
    found: dict[int, dict[str, float]] = {}
    for line in read_log(LocalStore(model_dir), "metrics.jsonl"):
        numbers = found.setdefault(line["uri"], {}) if "uri" in line else {}
        if line["kind"] == "train":
            numbers.update({"loss": line["loss"]} if line["loss"] is not None else {}, **line.get("metrics", {}))
        elif line["kind"] == "evaluation":
            numbers.update(_qualities(line))
    return found


def _qualities(measured: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    shift = f" {measured['shift']}h" if "shift" in measured else ""
    for quality in _QUALITIES:
        if measured.get(quality) is not None:
            yield f"{measured['name']}/{quality}{shift}", measured[quality]
