"""Real result directories with a few lines of metrics, made quickly."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.results.artifacts import METRICS_LOG
from samovar.store import LocalStore

Line = Mapping[str, Any]


def train_lines(losses: Sequence[float], **policies: float) -> list[Line]:
    return [
        {
            "kind": "train",
            "uri": number,
            "name": f"epoch {number}",
            "num_batches": 2,
            "loss": loss,
            "policies": policies,
        }
        for number, loss in enumerate(losses)
    ]


def evaluation_lines(name: str, aucs: Sequence[float], **more: Any) -> list[Line]:
    return [
        {"kind": "evaluation", "uri": number, "name": name, **more, "auc": auc, "num_examples": 32}
        for number, auc in enumerate(aucs)
    ]


def make_run(
    folder: Path,
    config: Mapping[str, Any],
    lines: Sequence[Line] = (),
    is_finished: bool = True,
    kind: str = "model",
    script: bytes = b"script",
) -> ResultDirectory:
    directory = ResultDirectory(LocalStore(folder))
    with begin(directory, ResultPlan(kind, config, script), heartbeat_seconds=None) as result:
        result.restore()
        for line in lines:
            result.append(METRICS_LOG, line)
        result.save({"weights": 1}, len(lines))
        if is_finished:
            result.finish({"weights": 1}, len(lines))
    return directory
