"""How far a running result is: URIs done, their rate, the time left. Reads logs and attributes, and keeps no clock."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from samovar.results import ResultDirectory
from samovar.results.artifacts import TIMING_LOG, read_tail_end

_NUM_RECENT = 20
"""The rate is that of these URIs: an earlier one may have been slower."""


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        done: How many URIs are trained, those that no snapshot has yet included.
        total: How many there are; None if the run has no last one, or does not say.
        uri: The name of the last one.
        seconds_per_uri: Lately.
        examples_per_second: Lately.
        ended_at: When the last one ended, in seconds since 1970.
    """

    done: int
    total: int | None
    uri: str
    seconds_per_uri: float | None
    examples_per_second: float | None
    ended_at: float

    @property
    def seconds_left(self) -> float | None:
        """At the present rate, counted from the end of the last URI; None if it is not known."""
        if self.total is None or self.seconds_per_uri is None:
            return None
        return max(0, self.total - self.done) * self.seconds_per_uri


def read_progress(directory: ResultDirectory) -> Progress | None:
    """How far a training is; None if it has not ended a URI yet, or is no training.

    Args:
        directory: Of a result, running or not.

    Example:
        >>> read_progress(open_directory("models/click_1")) is None
        True
    """
    lines = read_tail_end(directory.store, TIMING_LOG, _NUM_RECENT)
    if not lines or not {"uri", "time"} <= lines[-1].keys():
        return None
    last = lines[-1]
    total, rate = last.get("num_uris"), last.get("examples_per_second")
    return Progress(
        done=int(last["uri"]) + 1,
        total=total if isinstance(total, int) else None,
        uri=str(last.get("name", "")),
        seconds_per_uri=_pace(lines),
        examples_per_second=float(rate) if isinstance(rate, int | float) else None,
        ended_at=_seconds(last),
    )


def _pace(lines: list[dict[str, Any]]) -> float | None:
    """Seconds per URI, over those that followed each other without a restart between them."""
    recent = lines[-1:]
    for line in reversed(lines[:-1]):
        if line.get("uri") != recent[0]["uri"] - 1 or "time" not in line:
            break
        recent.insert(0, line)
    if len(recent) < 2:
        spent = [recent[0].get(name) for name in ("train_seconds", "callback_seconds")]
        return sum(each for each in spent if isinstance(each, int | float)) or None
    return max(0.0, _seconds(recent[-1]) - _seconds(recent[0])) / (len(recent) - 1)


def _seconds(line: dict[str, Any]) -> float:
    return datetime.fromisoformat(str(line["time"])).timestamp()
