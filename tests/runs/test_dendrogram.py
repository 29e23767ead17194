"""Distances between configs, and the trees made from them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runs.runs import evaluation_lines, make_run

from samovar.errors import BadInput
from samovar.runs.cloning import clone
from samovar.runs.dendrogram import distances, tree

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(-1e3, 1e3), st.text(max_size=2), st.lists(st.integers(0, 2))
)
CONFIGS = st.lists(st.dictionaries(st.sampled_from("abcd"), VALUES), min_size=3, max_size=6)

GOLDEN = """\
                   ┌──────────┬─────────╴ r0  0.5  arch=base lr=0.1
┌──────────────────┤          └─────────╴ r1  0.6  arch=base lr=0.2
│                  └────────────────────╴ r2  0.7  arch=base lr=1
└───────────────────────────────────────╴ r3  0.8  arch=wide lr=0.1
distances: 0.461 at the left, 0 at the right (share of the keys that differ)
"""


def square(configs: list[dict[str, Any]]) -> Any:
    found = np.zeros((len(configs), len(configs)))
    found[np.triu_indices(len(configs), 1)] = distances(configs)
    return found + found.T


@given(CONFIGS)
def test_the_distance_is_a_metric(configs: list[dict[str, Any]]) -> None:
    found = square(configs)
    assert (found >= 0).all()
    assert (found <= 1).all()
    through = (found[:, :, None] + found[None, :, :]).min(axis=1)
    assert (found <= through + 1e-12).all()
    for i, one in enumerate(configs):
        for j, other in enumerate(configs):
            assert (found[i, j] == 0) == (_plain(one) == _plain(other))


def _plain(config: dict[str, Any]) -> str:
    """1 and 1.0 are the same number; True is not a number."""
    kept = {key: float(value) + 0.0 if type(value) in (int, float) else value for key, value in config.items()}
    return json.dumps(kept, sort_keys=True)


def test_numbers_count_by_their_relative_size_and_keys_by_their_share() -> None:
    base = {"lr": 0.1, "dim": 8, "arch": "base", "seed": 0}
    assert distances([base, {**base, "lr": 0.3}]) == pytest.approx([0.5 / 4])
    assert distances([base, {**base, "arch": "wide"}]) == pytest.approx([1 / 4])
    assert distances([base, {**base, "seed": True}]) == pytest.approx([1 / 4])
    assert distances([base, {"lr": 0.1, "dim": 8, "arch": "base"}]) == pytest.approx([1 / 4])


@pytest.fixture
def runs(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(quick_path)
    pairs = [(0.1, "base"), (0.2, "base"), (1.0, "base"), (0.1, "wide")]
    for number, (rate, arch) in enumerate(pairs):
        config = {"lr": rate, "arch": arch, "dim": 8, "out": f"r{number}"}
        make_run(quick_path / f"r{number}", config, evaluation_lines("x", [0.5 + number / 10]))
    return [f"r{number}" for number in range(4)]


def test_a_small_tree_looks_like_this_whatever_the_order(runs: list[str]) -> None:
    for order in (runs, runs[::-1], [runs[2], runs[0], runs[3], runs[1]]):
        drawn = tree(order, metric="auc").to_text().plain
        assert drawn == GOLDEN


def test_a_tree_is_cut_into_groups_that_say_what_they_share(runs: list[str]) -> None:
    found = tree(runs, metric="auc", max_leaves=2)
    assert [leaf.names for leaf in found.leaves] == [["r0", "r1", "r2"], ["r3"]]
    assert [leaf.shared for leaf in found.leaves] == ["arch=base", "arch=wide lr=0.1"]
    assert found.leaves[0].value == pytest.approx(0.6)
    assert len(found.merges) == 1


def test_equal_configs_join_at_height_0_and_clones_name_their_parents(runs: list[str]) -> None:
    Path("m.json").write_text(json.dumps({"lr": 0.1}))
    made = clone("m.json", {"lr": 0.2}).path.name
    found = tree(["m.json", made, "m.json"])
    assert [leaf.parent for leaf in found.leaves] == [None, None, "m.json"]
    assert min(merge.height for merge in found.merges) == 0
    assert "(clone of m.json)" in found.to_text().plain
    assert tree(["r0", "r0"]).to_text().plain.count("r0") == 2


def test_a_picture_is_the_same_bytes_each_time(runs: list[str]) -> None:
    for number in range(2):
        tree(runs, metric="auc").save(f"{number}.svg")
    assert Path("0.svg").read_bytes() == Path("1.svg").read_bytes()


def test_too_few_configs_and_an_unknown_metric_are_errors(runs: list[str]) -> None:
    with pytest.raises(BadInput, match="tree: needs at least 2 configs, got 1"):
        tree("r0")
    with pytest.raises(BadInput, match=r"no run has a metric 'acu'. Did you mean 'auc'\? Available: x.auc"):
        tree(runs, metric="acu")
