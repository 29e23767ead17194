"""Files of nets that a stranger may have written: whatever is wrong with them is one clear error, before any memory."""

import math
import re
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from samovar import PytorchTrainer
from samovar.errors import BadInput, CorruptData, NotAResult, SamovarError
from samovar.nets import TablePreprocessor
from samovar.results.state import load_tree, save_tree

QUIET: dict[str, Any] = {"n_epochs": 1, "verbose": False}
ROWS = pd.DataFrame(
    {
        "age": [31.0, 45.0, None, 28.0] * 6,
        "city": ["Oslo", "Rome", "Rome", None] * 6,
        "day": pd.to_datetime(["2024-01-01", "2024-02-03", "2024-05-06", "2024-07-08"] * 6).tz_localize("UTC"),
    }
)
LABELS = ["a", "b", "c"] * 8
NUMBERS = np.arange(24.0)
WRONG: tuple[Any, ...] = (
    None, 7, -1, 10**400, math.nan, True, "x", [], {}, [None], [{}], {"x": 7}, torch.zeros(2, 2), np.zeros(3, "<c8"),
)  # fmt: skip


class OwnCriterion:
    """A criterion of the user's own, with state that it trusts."""

    def __init__(self) -> None:
        self.power = 2.0

    def __call__(self, output: Any, target: Any, weights: Any = None, unscaled: bool = False) -> torch.Tensor:
        loss: torch.Tensor = ((output.reshape(-1) - target.reshape(-1)).abs() ** self.power).mean()
        return loss

    def postproc(self, pred: Any) -> Any:
        return pred

    def state_dict(self) -> dict[str, Any]:
        return {"power": self.power}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.power = float(state["power"])


class TwoInputs(torch.nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(3, dim)
        self.last = torch.nn.Linear(2 + dim, 1)

    def forward(self, numbers: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        return self.last(torch.cat([numbers, self.embedding(codes[:, 0])], 1))  # type: ignore[no-any-return]  # torch


def make_trees(folder: Path) -> dict[str, Any]:
    """Valid files of each kind."""
    PytorchTrainer(device="cpu", fast=True).fit(ROWS, LABELS, name="table", **QUIET)
    PytorchTrainer(TwoInputs, [2], device="cpu").fit(ROWS, NUMBERS, name="frame", **QUIET)
    own = OwnCriterion()
    PytorchTrainer(TwoInputs, {"dim": 2}, device="cpu").fit(ROWS, NUMBERS, name="own", criterion=own, **QUIET)
    return {name: load_tree(folder / f"{name}.pt") for name in ("table", "frame", "own")}


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every key of a tree; of weights, lists and what follows one rule only the first."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for number, (key, value) in enumerate(items):
        if number < (2 if path == ("weights",) or isinstance(node, list) else 100):
            yield (*path, key)
            yield from places(value, (*path, key))


def changed(tree: Any, path: tuple[Any, ...], **new: Any) -> Any:
    """A copy of a tree without one key, or with another value for it."""
    *before, last = path
    copied = dict(tree) if isinstance(tree, dict) else list(tree)
    if before:
        copied[path[0]] = changed(tree[path[0]], path[1:], **new)
    elif new:
        copied[last] = new["value"]
    else:
        del copied[last]
    return copied


def load(name: str) -> PytorchTrainer:
    own = OwnCriterion() if name == "own" else None
    trainer: PytorchTrainer = PytorchTrainer.load("changed", net_builder=TwoInputs, criterion=own, device="cpu")
    return trainer


def test_whatever_is_wrong_in_a_file_is_an_error_of_ours(folder: Path) -> None:
    num_refused = 0
    for name, tree in make_trees(folder).items():
        for place in places(tree):
            for new in ({}, *({"value": value} for value in WRONG)):
                save_tree(folder / "changed.pt", changed(tree, place, **new))
                try:
                    trainer = load(name)
                    if name == "table":
                        trainer.predict(ROWS)
                except SamovarError:
                    num_refused += 1
                except Exception as error:
                    raise AssertionError(f"{name}: {place} {new}") from error
    assert num_refused > 1500


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (("weights",), r"^changed\.pt is damaged \(weights: Field required\)\. Restore it from a copy$"),
        (
            ("criterion", "state", "mean"),
            r"^changed\.pt: the state of the TabularTask is damaged \(mean: Field required",
        ),
        (
            ("rows", "state", "numbers", 0, "knots"),
            r"^changed\.pt: .*TablePreprocessor.*numbers\[0\]\.knots: Field requ",
        ),
    ],
)
def test_an_error_names_the_file_and_the_key(folder: Path, place: Any, message: str) -> None:
    save_tree(folder / "changed.pt", changed(make_trees(folder)["table"], place))
    with pytest.raises(CorruptData, match=message):
        load("table")


def test_a_net_larger_than_its_file_is_never_built(folder: Path) -> None:
    table = make_trees(folder)["table"]
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), hard))
    try:
        save_tree(folder / "changed.pt", changed(table, ("build_args", "num_members"), value=10**6))
        with pytest.raises(BadInput, match=r"it needs [\d,]{13} bytes, and the file has [\d,]+$"):
            load("table")
        PytorchTrainer(torch.nn.Linear, [2, 1], device="cpu").fit(np.eye(2), np.ones(2), name="linear", **QUIET)
        linear = load_tree(folder / "linear.pt")
        for args, message in {
            (10**9, 10**9): "it needs 4,000,000,004,000,000,000 bytes",
            (10**12, 10**12): "the builder failed with the arguments in the file",
            ("x",): "the builder failed with the arguments in the file, ['x'] (TypeError: ",
        }.items():
            save_tree(folder / "changed.pt", {**linear, "build_args": list(args)})
            with pytest.raises(BadInput, match=re.escape(message)):
                PytorchTrainer.load("changed", net_builder=torch.nn.Linear, device="cpu")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_padding_of_bins_counts_as_size(folder: Path) -> None:
    tree = make_trees(folder)["table"]
    numbers = tree["rows"]["state"]["numbers"]
    wide = {**numbers[0], "edges": np.linspace(-1, 1, 10**6, dtype=np.float32)}
    save_tree(folder / "changed.pt", changed(tree, ("rows", "state", "numbers"), value=[wide, *[numbers[0]] * 3000]))
    with pytest.raises(BadInput, match="the weights do not fit the net"):
        load("table")


def test_a_preprocessor_is_read_as_carefully(folder: Path) -> None:
    TablePreprocessor().fit(ROWS).save("columns")
    tree = load_tree(folder / "columns")
    for place in places(tree):
        for new in ({}, *({"value": value} for value in WRONG)):
            save_tree(folder / "changed", changed(tree, place, **new))
            try:
                TablePreprocessor.load("changed").transform(ROWS)
            except SamovarError:
                pass
            except Exception as error:
                raise AssertionError(f"{place} {new}") from error
    with pytest.raises(BadInput, match="path must be that of a file, got"):
        TablePreprocessor.load(5)  # type: ignore[arg-type]  # what the test is about


def test_a_name_that_is_none_says_what_was_looked_for(folder: Path) -> None:
    with pytest.raises(BadInput, match="name must be the name or path of a net, got"):
        PytorchTrainer.load(5)
    ROWS.to_csv("rows.csv")
    with pytest.raises(NotAResult, match=r"^rows\.csv\.pt: no such file\. load\('rows\.csv'\) looks only there"):
        PytorchTrainer.load("rows.csv")
