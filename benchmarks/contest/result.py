"""All that one run of a benchmark has told, as a JSON file: the table of all benchmarks is made from these."""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from benchmarks.contest.machine import Machine, look_at_machine
from benchmarks.contest.report import Report
from pydantic import TypeAdapter


@dataclass(frozen=True)
class Result:
    began: datetime
    is_quick: bool
    machine: Machine
    reports: Sequence[Report] = ()
    is_complete: bool = False
    """False: it has ended before its end."""

    @property
    def is_kept(self) -> bool:
        return self.is_complete and all(report.is_kept for report in self.reports)

    @classmethod
    def load(cls, path: Path) -> Self:
        return TypeAdapter(cls).validate_json(path.read_bytes())

    @classmethod
    def begin(cls, is_quick: bool) -> Self:
        return cls(datetime.now(UTC), is_quick, look_at_machine())

    def save(self, path: Path) -> None:
        path.write_bytes(TypeAdapter(type(self)).dump_json(self))


def publish(reports: Iterable[Report], is_quick: bool, path: Path | None) -> int:
    """Shows each report as it comes, and keeps all so far in the file; gives the exit code."""
    result = Result.begin(is_quick)
    for report in reports:
        report.show()
        result = dataclasses.replace(result, reports=[*result.reports, report])
        if path:
            result.save(path)
    result = dataclasses.replace(result, is_complete=True)
    if path:
        result.save(path)
    return 0 if result.is_kept else 1
