"""Clocks, sweeps and counts of hash tables, with a table that records its calls."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from samovar.callbacks import MetricsLog, TtlFilter
from samovar.results import OpenResult, ResultDirectory, ResultPlan, begin
from samovar.runner import (
    Callback,
    Learner,
    ListStream,
    Loader,
    MinibatchRecord,
    MinibatchWorkerPool,
    Run,
    Runner,
    Uri,
    UriList,
)
from samovar.runner.learner import find_hash_tables
from samovar.store import MemoryStore
from samovar.tables import Bag

TTL = 1


@dataclass
class Counters:
    rows: int = 0
    inserted: int = 0
    reset: int = 0
    freed: int = 0
    bytes: int = 0


class Tables(torch.nn.Module):
    """The methods of HashEmbedding over a dict: id to the clock of its last use in training."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = 0
        self.seen: dict[int, int] = {}
        self.sweeps: list[int] = []
        self.tally = Counters()

    def forward(self, bag: Bag) -> None:
        for number in bag.data.tolist():
            if number not in self.seen:
                self.tally.inserted += 1
            elif self.clock - self.seen[number] > TTL:
                self.tally.reset += 1
            self.seen[number] = self.clock

    def advance_clock(self) -> None:
        self.clock += 1

    def sweep(self) -> int:
        self.sweeps.append(self.clock)
        expired = [number for number, clock in self.seen.items() if self.clock - clock > TTL]
        for number in expired:
            del self.seen[number]
        self.tally.freed += len(expired)
        return len(expired)

    def counters(self) -> dict[str, Counters]:
        return {"ads": self.tally}

    def count_live(self) -> dict[str, int]:
        return {"ads": sum(self.clock - clock <= TTL for clock in self.seen.values())}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables = Tables()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Any) -> torch.Tensor:
        self.tables(inputs["ad"])
        return self.weight.sum()


def train(hours: list[list[int]], every_uris: int) -> tuple[Tables, list[dict[str, Any]]]:
    """Train on the ids of each hour; an empty list is an hour without data."""
    minibatches: list[MinibatchRecord] = []
    uris = []
    for number, ids in enumerate(hours):
        uris.append((number, len(minibatches), int(bool(ids))))
        if ids:
            bag = Bag(torch.tensor(ids), torch.ones(len(ids), dtype=torch.int32))
            minibatches.append(MinibatchRecord({"ad": bag}, {}, {}, len(ids), len(minibatches), number * 3600))
    stream = ListStream(minibatches)
    learner = Learner(model := Model(), [], lambda output, targets: output)
    result = open_result()
    callbacks: list[Callback] = [TtlFilter(every_uris), MetricsLog(result)]
    run = Run(learner, {}, callbacks)
    listed = UriList([Uri(n, f"hour {n}", stream, first, count, n, hour=n * 3600) for n, first, count in uris])
    Runner(MinibatchWorkerPool(learner), Loader(), callbacks).run(run, listed)
    result.finish(None, None)
    lines = result.directory.store.read("logs/metrics.jsonl").splitlines()
    return model.tables, [json.loads(line) for line in lines]


def open_result() -> OpenResult:
    result = begin(ResultDirectory(MemoryStore()), ResultPlan("model", {}), heartbeat_seconds=None)
    result.restore()
    return result


HOURS = [[1, 2], [2], [], [2], [1, 2, 3], [3], [3]]


def test_the_clock_counts_hours_with_data_and_an_embedding_row_expires_after_its_ttl() -> None:
    tables, lines = train(HOURS, 1)
    assert tables.clock == 6
    assert tables.sweeps == [1, 2, 2, 3, 4, 5, 6, 6]  # at the end of each URI and of the run
    assert [line["live_ids"]["ads"] for line in lines] == [2, 2, 2, 1, 3, 3, 1]
    assert [line["new_ids"]["ads"] for line in lines] == [2, 0, 0, 0, 2, 0, 0]
    assert sorted(tables.seen) == [3]


@pytest.mark.parametrize("every_uris", [2, 3, 100])
def test_how_often_embedding_rows_are_freed_changes_no_line_of_the_log(every_uris: int) -> None:
    often, expected = train(HOURS, 1)
    rarely, lines = train(HOURS, every_uris)
    assert lines == expected
    assert rarely.seen == often.seen
    assert rarely.tally.freed <= often.tally.freed


def test_hash_tables_are_found_anywhere_in_a_model() -> None:
    model = torch.nn.ModuleList([torch.nn.Linear(1, 1), torch.nn.Sequential(Tables()), Model()])
    assert len(find_hash_tables(model)) == 2
    assert find_hash_tables(torch.nn.Linear(1, 1)) == []
