"""How good what is learned is: real tasks in tiny sizes, and what the page says of their outcomes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from benchmarks.contest.machine import Machine
from benchmarks.learning import streams, tables
from benchmarks.learning.contest import Job, Plan, measure, path_of, run
from benchmarks.learning.outcome import Outcome, Standing, group, log_losses
from benchmarks.learning.page import BEGIN, END, STREAMS, TABLES, TITLES, to_markdown
from benchmarks.learning.stream_data import StreamTask

from samovar.errors import BadInput

ROOT = Path(__file__).parents[2]
MACHINE = Machine("Abacus", 2, 24.0, "Linux 6", {"python": "3.11"})


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """As the benchmark runs its contestants."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


def make_outcome(
    losses: list[float], contestant: str = tables.SAMOVAR, seed: int = 0, is_rmse: bool = False
) -> Outcome:
    rows, sums = group(np.array(losses))
    began = datetime(2026, 11, 18, tzinfo=UTC)
    return Outcome(began, MACHINE, "digits", contestant, "", seed, 500, is_rmse, rows, sums, cpu_seconds=2.0)


def make_stream() -> StreamTask:
    """Outcomes become known up to three blocks later."""
    rng = np.random.default_rng(0)
    blocks = np.sort(rng.integers(0, 20, 200))
    rows = pd.DataFrame({"user": rng.choice(["a", "b"], 200), "size": rng.normal(50, 9, 200)})
    target = (rows["user"] == "a").to_numpy(np.int64)
    return StreamTask("toy", rows, ["user"], ["size"], blocks, blocks + rng.integers(1, 4, 200), target)


@pytest.mark.parametrize("contestant", [tables.SAMOVAR_FAST, tables.HIST])
def test_a_tiny_table_is_learned(contestant: str) -> None:
    outcome = measure(Job(TABLES, "digits", contestant, "", seed=0, most_rows=500))
    assert sum(outcome.rows) == 359
    assert 0 < outcome.score < np.log(10) / 2


def test_a_tiny_stream_is_learned_and_shown_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"above\n{BEGIN}{END}\nbelow\n")
    command = [sys.executable, "-m", "benchmarks.learning", "flights", "--only", streams.SAMOVAR, streams.BASE_RATE]
    command += ["--stream-rows", "1500", "--seeds", "1", "--results", str(tmp_path), "--page", str(page)]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for expected in ("[2/2] flights", "### Streams"):  # the second time nothing is left to run
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=variables)
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout
    assert "[1/" not in done.stdout
    text = page.read_text()
    assert text.startswith(f"above\n{BEGIN}\n")
    for name in (streams.SAMOVAR, streams.BASE_RATE):
        outcome = Outcome.load(path_of(tmp_path, STREAMS, "flights", name, "", 0))
        assert f"{outcome.score:.4f}" in text
    assert sum(outcome.rows) < 1500


def test_no_row_is_learned_before_its_outcome_is_known() -> None:
    task = make_stream()
    learned: list[int] = []
    predicted: list[int] = []
    for known, rows in task.steps():
        learned += known.tolist()
        predicted += rows.tolist()
        if len(rows):
            block = task.blocks[rows[0]]
            assert sorted(learned) == np.flatnonzero(task.known < block).tolist()
            assert set(task.blocks[rows]) == {block}
    assert set(np.flatnonzero(task.is_scored)) <= set(predicted)
    assert len(predicted) == len(set(predicted))


def test_samovar_learns_only_what_the_others_learn() -> None:
    """Nothing is known of a row whose id was met only in rows that are not known yet: the model is as it was made."""
    task = make_stream()
    late = StreamTask("toy", task.rows, ["user"], [], task.blocks, np.where(task.blocks == 0, 0, 99), task.target)
    early = StreamTask("toy", task.rows, ["user"], [], task.blocks, task.blocks, task.target)
    frozen, learning = (streams.learn_with_samovar(each, 0, rates={"emb_lr": 0.5}) for each in (late, early))
    is_a = (task.rows["user"] == "a").to_numpy() & task.is_scored
    assert len(set(frozen[is_a])) == 1
    assert learning[is_a][-1] > learning[is_a][0]


def test_numbers_are_scaled_by_what_was_learned() -> None:
    task = make_stream()
    scale = streams.RunningScale(task)
    first, rest = np.arange(100), np.arange(100, 200)
    scale.count(first)
    sizes = task.rows["size"].to_numpy()
    expected = (sizes[rest] - sizes[first].mean()) / sizes[first].std()
    np.testing.assert_allclose(scale.scale(rest)[:, 0], np.clip(expected, -10, 10), rtol=1e-6)


def test_sure_and_wrong_is_not_infinitely_bad() -> None:
    losses = log_losses(np.array([0, 1]), np.array([[0.0, 1.0], [0.2, 0.8]]))
    np.testing.assert_allclose(losses, [-np.log(1e-4), -np.log(0.8)], rtol=1e-6)


def test_a_difference_is_clear_only_outside_the_noise_of_rows_and_seeds() -> None:
    losses = np.random.default_rng(0).normal(1, 0.5, 4000)
    own = Standing([make_outcome(losses.tolist())])
    worse = Standing([make_outcome((losses + 0.1).tolist())])
    seeds = Standing(
        [make_outcome((losses + shift).tolist(), seed=seed) for seed, shift in enumerate((-0.2, 0.1, 0.3))]
    )
    difference = own.compare(worse)
    assert difference.middle == pytest.approx(0.1)
    assert difference.low == pytest.approx(0.1)  # rows are paired
    assert difference.is_clear
    assert not own.compare(seeds).is_clear
    assert seeds.deviation == pytest.approx(np.std([-0.2, 0.1, 0.3], ddof=1))


def test_other_rows_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="did not predict the same rows"):
        Standing([make_outcome([1.0, 2.0])]).compare(Standing([make_outcome([1.0, 2.0, 3.0])]))


def test_outcomes_of_other_sizes_are_not_mixed(tmp_path: Path) -> None:
    path = path_of(tmp_path, TABLES, "digits", tables.SAMOVAR, "", 0)
    path.parent.mkdir()
    make_outcome([1.0]).save(path)
    with pytest.raises(BadInput, match="is of 500 rows, not 600"):
        run(Plan(TABLES, ["digits"], [tables.SAMOVAR], most_rows=600, most_seeds=1), tmp_path, num_processes=1)


def test_the_page_says_where_samovar_is_ahead_and_behind(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    squared = {tables.SAMOVAR: 4.0, tables.HIST: 9.0, tables.CATBOOST: 1.0}
    for name, loss in squared.items():
        make_outcome([loss] * 50, name, is_rmse=True).save(path_of(tmp_path, TABLES, "digits", name, "", 0))
    text = to_markdown(tmp_path)
    assert "| **digits**, RMSE | Samovar | 2.0000 | 1 |  |  | 1x |" in text
    assert f"|  | {tables.HIST} | 3.0000 | 1 | +1.0000 [+1.0000, +1.0000] | ahead | 1x |" in text
    assert f"|  | {tables.CATBOOST} | **1.0000** | 1 | -1.0000 [-1.0000, -1.0000] | behind | 1x |" in text
    assert f"| {tables.HIST} | digits |  |  |" in text
    assert f"| {tables.CATBOOST} |  |  | digits |" in text
    assert text.startswith("### Tables")
    assert "- 2026-11-18: 2 cores Abacus, 24 GiB, Linux 6; python 3.11" in text


def test_a_page_keeps_what_was_not_measured_again(tmp_path: Path) -> None:
    path = path_of(tmp_path, TABLES, "digits", tables.SAMOVAR, "", 0)
    path.parent.mkdir()
    make_outcome([1.0]).save(path)
    titles = [f"### {TITLES[module]}\n" for module in (STREAMS, TABLES)]
    text = to_markdown(tmp_path, f"\n{titles[0]}\nold streams\n\n{titles[1]}\nold tables\n")
    assert text.startswith(f"{titles[0]}\nold streams\n\n{titles[1]}\n- 2026-11-18")
    assert "old tables" not in text
