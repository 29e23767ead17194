"""`logs/timing.jsonl`: when and how fast, and what depends on when expired rows are freed. Never compared."""

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from samovar.results import OpenResult
from samovar.runner import Callback, Run

LOG = "timing.jsonl"


class TimingLog(Callback):
    def __init__(self, result: OpenResult, clock: Callable[[], float] = time.time) -> None:
        self._result = result
        self._clock = clock
        self._begun = clock()
        self._trained = self._begun

    def on_uri_begin(self, run: Run) -> None:
        self._begun = self._trained = self._clock()

    def on_batch_end(self, run: Run) -> None:
        self._trained = self._clock()

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        now = self._clock()
        examples, train_seconds = sum(run.uri_examples), self._trained - self._begun
        line: dict[str, Any] = {
            "uri": run.uri.number,
            "name": run.uri.name,
            "time": datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds"),
            "train_seconds": round(train_seconds, 6),
            "callback_seconds": round(now - self._trained, 6),
            "examples_per_second": round(examples / train_seconds, 1) if train_seconds > 0 else None,
        }
        for tables in run.hash_tables:
            for name, counters in tables.counters().items():
                sums = line.setdefault("hash_tables", {}).setdefault(name, Counter())
                sums.update(rows=counters.rows, freed=counters.freed, bytes=counters.bytes)
        self._result.append(LOG, line)
