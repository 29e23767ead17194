"""Tables of a config: versions and columns."""

from pathlib import Path

from tests.training.toys import FIRST, HOUR, make_hours, write_table

from samovar.results import ResultDirectory
from samovar.store import MemoryStore
from samovar.training.inputs import TableOpener


def test_polling_for_new_hours_reads_no_old_manifests(tmp_path: Path) -> None:
    for number in range(1, 4):
        write_table(
            tmp_path / "live", make_hours([1], FIRST + number * HOUR), complete_until=FIRST + (number + 1) * HOUR
        )
    data = TableOpener(tmp_path, ResultDirectory(MemoryStore())).source("", "live", None, None, (), ())
    for version in (2, 3):
        (old,) = (tmp_path / "live" / "manifest").glob(f"{version:06d}.e*.json")
        old.unlink()
    assert data.reopened().inputs[0].table is data.inputs[0].table
