"""`--dry-run`: waits for nothing and writes nothing."""

from pathlib import Path

import pytest
from tests.training.toys import FIRST, HOUR, OFFLINE, ONLINE, changed, make_hours, make_toy, run_well, write_table

from samovar.provenance.verify import run_in_child
from samovar.training.dry_run import try_batches


@pytest.mark.parametrize("num_batches", [2, 3, 100])
def test_a_dry_run_does_not_wait_for_new_hours(quick_path: Path, num_batches: int) -> None:
    write_table(quick_path / "clicks", make_hours([2, 1]), complete_until=FIRST + 2 * HOUR)
    request = make_toy(quick_path, ONLINE, {"follow": True, "evaluation": None})
    ended = run_in_child(lambda: print(try_batches(request, num_batches)), quick_path / "dry.log")
    assert ended.code == 0, ended.output
    assert f"{min(num_batches, 3)} minibatches" in ended.output


def test_a_dry_run_starts_from_init_from(quick_path: Path) -> None:
    write_table(quick_path / "clicks", make_hours([3, 2, 2, 4]))
    request = make_toy(quick_path, OFFLINE)
    fresh = try_batches(request, 1)
    run_well(request)
    initialized = try_batches(changed(request, "next", {"init_from": "model"}), 1)
    assert fresh.splitlines()[-1] != initialized.splitlines()[-1]
    assert try_batches(request, 1).splitlines()[-1] == fresh.splitlines()[-1]
