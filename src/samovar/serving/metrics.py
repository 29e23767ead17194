"""Counters of a server, as Prometheus reads them. Knows no network and no models."""

import bisect
import itertools
import threading
from collections import Counter
from collections.abc import Iterator, Mapping

BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Of the histogram of seconds."""


class Metrics:
    """What a server counts. Threads may share it.

    Example:
        >>> metrics = Metrics()
        >>> metrics.count_request(200, 20, 0.0008)
        >>> 'samovar_requests_total{status="200"} 1' in metrics.to_text({}).splitlines()
        True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[int] = Counter()
        self._rows = 0
        self._seconds = 0.0
        self._buckets = [0] * (len(BOUNDS) + 1)
        self._batches = 0
        self._reloads: Counter[str] = Counter({"good": 0, "failed": 0})

    def count_request(self, status: int, num_rows: int, seconds: float) -> None:
        """Count a request for scores, and its rows if it got them."""
        with self._lock:
            self._requests[status] += 1
            self._rows += num_rows
            self._seconds += seconds
            self._buckets[bisect.bisect_left(BOUNDS, seconds)] += 1

    def count_batch(self) -> None:
        """Count a forward of the model, for one or more requests."""
        with self._lock:
            self._batches += 1

    def count_reload(self, *, is_good: bool) -> None:
        """Count an attempt to use a newer model."""
        with self._lock:
            self._reloads["good" if is_good else "failed"] += 1

    def to_text(self, gauges: Mapping[str, float], misses: Mapping[str, int] | None = None) -> str:
        """The metrics in Prometheus' text format.

        Args:
            gauges: Further values, by name.
            misses: By hash table: distinct ids that were looked up and not found.
        """
        with self._lock:
            lines = list(self._lines(gauges, misses or {}))
        return "\n".join(lines) + "\n"

    def _lines(self, gauges: Mapping[str, float], misses: Mapping[str, int]) -> Iterator[str]:
        yield from _head("requests_total", "counter", "Requests for scores, by HTTP status.")
        for status, count in sorted(self._requests.items()):
            yield f'samovar_requests_total{{status="{status}"}} {count}'
        yield from _head("rows_total", "counter", "Rows that were scored.")
        yield f"samovar_rows_total {self._rows}"
        yield from _head("forwards_total", "counter", "Forwards of the model: requests that wait are joined.")
        yield f"samovar_forwards_total {self._batches}"
        yield from _head("request_seconds", "histogram", "Time from the request's last byte to the answer.")
        for bound, count in zip((*BOUNDS, "+Inf"), itertools.accumulate(self._buckets), strict=True):
            yield f'samovar_request_seconds_bucket{{le="{bound}"}} {count}'
        yield f"samovar_request_seconds_sum {self._seconds}"
        yield f"samovar_request_seconds_count {sum(self._requests.values())}"
        yield from _head("lookup_misses_total", "counter", "Distinct ids that a hash table did not have.")
        for table, count in sorted(misses.items()):
            name = table.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            yield f'samovar_lookup_misses_total{{table="{name}"}} {count}'
        yield from _head("reloads_total", "counter", "Newer models that were found, by outcome.")
        for outcome, count in sorted(self._reloads.items()):
            yield f'samovar_reloads_total{{outcome="{outcome}"}} {count}'
        for name, value in gauges.items():
            yield from _head(name, "gauge", _GAUGES[name])
            yield f"samovar_{name} {value}"


_GAUGES = {
    "model_age_seconds": "Seconds since this server began to use its model.",
    "model_version": "Counts the models that this server has used.",
    "waiting_requests": "Requests that wait for the model.",
}


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP samovar_{name} {text}"
    yield f"# TYPE samovar_{name} {kind}"
