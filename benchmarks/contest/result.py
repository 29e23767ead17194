"""Everything that one run of a benchmark reported, as a JSON file; the summary table is made from these files."""

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
    """False if the benchmark ended early."""

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
    """Show each report as it arrives and save all so far to the file; returns the exit code."""
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
