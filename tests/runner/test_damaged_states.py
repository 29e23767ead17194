"""A state whose checksums are right but whose content is not: refused by one of our errors, and before that by the
check that lets a run fall back to the snapshot before."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from samovar import Learner
from samovar.callbacks import BestNets
from samovar.errors import CorruptData, SamovarError
from samovar.policies import Exponential
from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.runner import Run
from samovar.runner.run import check_tree
from samovar.store import LocalStore

WRONG: tuple[Any, ...] = (None, 7, -5, "x", [], {}, 1.5, np.zeros(3), {"x": 1}, 10**30)


def make_run() -> Run:
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    learner = Learner(model, {"net": optimizer}, torch.nn.MSELoss(), policies={"net.lr": Exponential(0.1, 0.5)})
    return Run(learner, callbacks=[BestNets(2, lambda run: run.mean_loss)])


def damages(tree: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in [(key,) for key in tree] + [
        (key, inner) for key in ("model", "run", "callbacks", "policies") for inner in tree[key]
    ]:
        for number, value in enumerate([..., *WRONG]):
            copied = copy.deepcopy(tree)
            place = copied if len(path) == 1 else copied[path[0]]
            if value is ...:
                del place[path[-1]]
            else:
                place[path[-1]] = value
            yield f"{'.'.join(path)} {number}", copied


def test_a_damaged_state_is_loaded_or_refused_by_one_of_our_errors() -> None:
    states = dict(damages(make_run().state_dict()))
    raised = {}
    for name, tree in states.items():
        try:
            make_run().load_state_dict(tree)
        except SamovarError:
            continue
        except Exception as error:
            raised[name] = repr(error)
    assert raised == {}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", 7, "format 7 is of another Samovar"),
        ("policies", None, "policies: .* got None"),
        ("run", {"next_uri": -5}, r"run.next_uri: .* got -5"),
    ],
)
def test_a_snapshot_with_a_wrong_state_is_passed_over_for_the_one_before(
    tmp_path: Path, key: str, value: Any, message: str
) -> None:
    tree = make_run().state_dict()
    bad = {**tree, key: {**tree[key], **value} if key == "run" else value}
    with pytest.raises(CorruptData, match=message):
        check_tree(bad)
    directory, plan = ResultDirectory(LocalStore(tmp_path / "run")), ResultPlan("toy", {})
    with begin(directory, plan) as result:
        result.restore()
        result.save(tree, {"next_uri": 0})
        result.save(bad, {"next_uri": 1})
    with begin(directory, plan) as result:
        snapshot = result.restore(check_tree)
        assert snapshot is not None
        assert snapshot.position == {"next_uri": 0}
        assert any("resuming from snapshot" in note for note in result.notes)
