"""Clones: names, places and parents; kills and races."""

import errno
import json
import subprocess
import sys
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runs.runs import make_run

from samovar.config import compare, read_config
from samovar.config.identity import PARENT, read_parent
from samovar.config.params import Ledger
from samovar.config.schema import Schema
from samovar.errors import BadInput, ConfigError, StoreError
from samovar.provenance.verify import run_in_child
from samovar.runs.cloning import clone, suffixes
from samovar.testing.disks import CountingDisk, FailingDisk, KillingDisk

CONFIG = {"out": "results/model", "model": {"lr": 0.1, "dim": 8}}


@pytest.fixture
def config(quick_path: Path) -> Path:
    path = quick_path / "model.json"
    path.write_text(json.dumps(CONFIG))
    return path


def make(path: Path, **change: object) -> Path:
    return clone(path, change).path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@given(st.integers(0, 20_000))
def test_suffixes_count_in_base_26(number: int) -> None:
    suffix = next(islice(suffixes(), number, None))
    value = 0
    for letter in suffix:
        value = value * 26 + ord(letter) - ord("a") + 1
    assert value == number + 1


def test_the_clone_of_a_recipe_has_a_table_of_its_own(quick_path: Path) -> None:
    (quick_path / "clicks.json").write_text('{"source": "a.csv", "result": "tables/clicks", "batch_size": 2}')
    assert read_config(make(quick_path / "clicks.json", batch_size=3))["result"] == "tables/clicksa"


def test_a_clone_is_a_sibling_with_the_next_letter_a_change_and_a_parent(config: Path) -> None:
    first, second = make(config, **{"model.lr": 0.2}), make(config, **{"model.lr": 0.3})
    assert (first.name, second.name) == ("modela.json", "modelb.json")
    tree = read_config(second)
    assert tree["model"] == {"lr": 0.3, "dim": 8}
    assert tree["out"] == "results/modelb"
    parent = read_parent(tree)
    assert parent is not None
    assert (parent.config, parent.change) == ("model.json", {"model.lr": 0.3})


def test_after_z_comes_aa(config: Path) -> None:
    for suffix in islice(suffixes(), 26):
        config.with_name(f"model{suffix}.json").write_text("{}")
    assert make(config, **{"model.lr": 1}).name == "modelaa.json"


def test_a_clone_of_a_clone_gets_the_next_letter(config: Path) -> None:
    first = make(config, **{"model.lr": 0.2})
    second = make(first, **{"model.dim": 9})
    assert second.name == "modelb.json"
    tree = read_config(second)
    assert tree["out"] == "results/modelb"
    parent = read_parent(tree)
    assert parent is not None
    assert (parent.config, parent.change) == ("modela.json", {"model.dim": 9})
    renamed = first.rename(first.with_name("best.json"))
    assert make(renamed, **{"model.dim": 10}).name == "besta.json"


def test_the_config_of_a_result_is_cloned_beside_its_directory(quick_path: Path) -> None:
    make_run(quick_path / "runs/click", {"model_dir": str(quick_path / "runs/click"), "lr": 0.1})
    before = names(quick_path / "runs/click")
    for source in (quick_path / "runs/click", quick_path / "runs/click/model_config.json"):
        made = make(source, lr=0.2)
        tree = read_config(made)
        assert made.parent == quick_path / "runs"
        assert "model_dir" not in tree
        assert tree[PARENT]["config"] == "click"
    assert names(quick_path / "runs/click") == before
    assert made.name == "clickb.json"


def test_a_name_whose_directory_is_there_is_not_taken(config: Path) -> None:
    make_run(config.parent / "modela", {})
    assert make(config, **{"model.lr": 0.2}).name == "modelb.json"


def test_no_change_is_an_error_and_a_new_key_is_reported_with_its_nearest(config: Path) -> None:
    with pytest.raises(BadInput, match=r"model.json: the changes leave the config as it is"):
        make(config, **{"model.lr": 0.1})
    assert names(config.parent) == ["model.json"]
    made = clone(config, {"model.lrr": 0.2})
    assert made.new_keys == {"model.lrr": "model.lr"}


def test_schema_ledger_and_identity_ignore_the_parent(config: Path) -> None:
    class Strict(Schema):
        out: str
        model: dict[str, float]

    tree = read_config(make(config, **{"model.lr": 0.2}))
    assert Strict.load(tree, "here").model["lr"] == 0.2
    assert PARENT not in " ".join(Ledger().unread(tree))
    bare = {key: value for key, value in tree.items() if key != PARENT}
    assert not compare(tree, bare).conflicts
    with pytest.raises(ConfigError, match=r"cloned_from must have config, family and change, .*got 3"):
        read_parent({PARENT: 3})


def test_a_clone_killed_at_any_point_is_whole_or_absent(config: Path) -> None:
    counting = CountingDisk()
    clone(config, {"model.lr": 9}, disk=counting)
    for point in range(1, counting.points + 1):
        killed = run_in_child(partial(clone, config, {"model.lr": 9}, disk=KillingDisk(point)), config.parent / "log")
        assert killed.was_killed
        for path in config.parent.glob("model*.json"):
            assert read_config(path)["model"]["lr"] in (0.1, 9)
    assert make(config, **{"model.lr": 9}).exists()


def test_a_full_disk_is_an_error_and_leaves_nothing(config: Path) -> None:
    with pytest.raises(StoreError, match="the disk is full"):
        clone(config, {"model.lr": 9}, disk=FailingDisk(1, errno.ENOSPC))
    assert names(config.parent) == ["model.json"]


def test_clones_made_at_the_same_time_get_different_names(config: Path) -> None:
    code = (
        "import sys; from samovar.runs.cloning import clone\n"
        "for number in range(5): clone(sys.argv[1], {'model.lr': int(sys.argv[2]) * 10 + number + 1})"
    )
    racing = [subprocess.Popen([sys.executable, "-c", code, config, str(number)]) for number in range(4)]
    assert [each.wait() for each in racing] == [0] * 4
    clones = [path for path in config.parent.iterdir() if path != config]
    assert [path.name for path in sorted(clones)] == [f"model{suffix}.json" for suffix in islice(suffixes(), 20)]
    assert len({read_config(path)["model"]["lr"] for path in clones}) == 20
