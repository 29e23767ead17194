"""A default that changed in the script stops a run before it starts or resumes."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.places import local
from tests.training.toys import OFFLINE, SCRIPT, changed, make_hours, make_toy, run, run_well, write_table

from samovar.config import ChangedDefault
from samovar.errors import Conflict
from samovar.results import ResultDirectory, ResultPlan, begin, open_directory
from samovar.store import LocalStore
from samovar.testing.disks import KillingDisk
from samovar.training import drift
from samovar.training.drift import find_earlier_run
from samovar.training.request import Request

NEWER = SCRIPT.replace('"dim", 4', '"dim", 5')


@pytest.fixture
def request_(quick_path: Path) -> Request:
    write_table(quick_path / "clicks", make_hours([2, 1]))
    return make_toy(quick_path, OFFLINE)


def with_script(request: Request, text: str) -> Request:
    return make_toy(local(request.folder), OFFLINE, script=text)


def test_an_earlier_run_of_the_same_config_beside_it_is_found(request_: Request) -> None:
    run_well(request_)
    again = changed(with_script(request_, NEWER), "again")
    ended = run(again)
    assert ended.code == 2
    assert "model ran the same config with other defaults" in ended.output
    assert "the default of model.dim changed: 4 → 5" in ended.output
    assert not local(again.out).exists()
    run_well(changed(again, "other", {"model": {"lr": 0.1}}))
    run_well(changed(again, "given", {"model": {"dim": 4}}))
    run_well(replace(again, accept_defaults=True))


def test_a_resumed_run_keeps_its_defaults(request_: Request) -> None:
    assert run(request_, KillingDisk(150)).was_killed
    assert open_directory(request_.out).ledger is not None
    newer = replace(with_script(request_, NEWER), accept_script=True)
    ended = run(newer)
    assert ended.code == 2
    assert "the default of model.dim changed: 4 → 5" in ended.output
    commented = replace(with_script(request_, SCRIPT + "# fixed\n"), accept_script=True)
    run_well(commented)


def test_only_the_newest_neighbours_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ResultPlan("stage:x", {"a": 1})
    for name in ("old", "new"):
        with begin(ResultDirectory(LocalStore(tmp_path / name)), plan) as result:
            result.write_params({"read": {}, "retired": []})
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/model_config.json").write_text("{")
    found = find_earlier_run(plan, tmp_path / "next")
    assert found is not None
    assert found.name == f"{tmp_path}/new"
    assert find_earlier_run(ResultPlan("stage:y", {"a": 1}), tmp_path / "next") is None
    assert find_earlier_run(ResultPlan("stage:x", {"a": 2}), tmp_path / "next") is None
    monkeypatch.setattr(drift, "MAX_NEIGHBOURS", 1)  # the newest is the broken one
    assert find_earlier_run(plan, tmp_path / "next") is None
    assert find_earlier_run(plan, tmp_path / "no/such/folder") is None
    with pytest.raises(Conflict, match="--accept-defaults"):
        drift.check_changes(found, [ChangedDefault("a", 1, 2)], is_accepted=False)
