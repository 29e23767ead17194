"""The gallery on made-up samples of its data, and in `make long` on the data itself."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from examples.gallery import run as gallery
from examples.gallery.datasets import DATA, draw_parts
from examples.gallery.peers import Rows
from tests.examples.gallery_samples import MAKERS

import samovar
from samovar.brewing import brew_recipe

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "build" / "learning"


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


def prepare_sample(name: str, folder: Path) -> Path:
    """The files of an example with made-up rows, written as those of the package would be."""
    source = folder / Path(DATA[name].path).name
    MAKERS[name](np.random.default_rng(0), source)
    place = Path(shutil.copytree(gallery.HERE / name, folder / name))
    DATA[name].write(source, place)
    config = json.loads((place / "train.json").read_text())
    if "epoch_count" in config["train_data"]:  # rows of a few hundred need not take long
        config["train_data"]["epoch_count"] = 12
        config["model"]["members"] = 1
    (place / "train.json").write_text(json.dumps(config))
    return place


@pytest.mark.parametrize("name", gallery.EXAMPLES)
def test_an_example_learns_a_sample_of_its_data(name: str, quick_path: Path) -> None:
    place = prepare_sample(name, quick_path)
    found = gallery.run(name, place)
    scores = found["scores"]
    assert list(scores) == [gallery.SAMOVAR, "HistGradientBoosting", "linear", "constant"]
    assert scores[gallery.SAMOVAR] < 0.9 * scores["constant"]
    assert found == gallery.run(name, place)  # kept, not made again
    line = gallery.to_markdown({name: found}).splitlines()[-1]
    assert line.startswith(f"| {name} | {found['learned']:,} | {found['scored']:,} | ")
    assert line.count("**") == 2


def test_quirks_of_the_files_are_read_as_they_are_meant(quick_path: Path) -> None:
    cancelled = len(range(7, 500, 20))
    for name, num_rows in (("retail", 500 - cancelled), ("runway", 490), ("sales", 26 * 25)):
        place = prepare_sample(name, quick_path)
        table = samovar.open_table(brew_recipe(place / "recipe.json", progress=False).directory)
        assert table.num_examples == num_rows
        unit = {"retail": "day", "runway": "week", "sales": "day"}[name]
        starts: Any = [np.datetime64(int(hour or 0), "s") for hour in table.hours]
        assert all(np.diff(starts) >= np.timedelta64(7 if unit == "week" else 1, "D"))
    assert b"POSTAGE \xa35 \xdcBER" in (quick_path / "retail" / "rows.csv").read_bytes()


def test_a_block_is_predicted_by_a_model_of_the_rows_before_it() -> None:
    """The constant model predicts the mean of all that it has learned."""
    periods = np.repeat(np.arange(40), np.arange(40) % 4)
    rows = Rows(np.zeros((len(periods), 0)), {}, np.arange(len(periods), dtype=np.float64), periods)
    first = int(np.searchsorted(periods, 10))
    example = gallery.Example("number", "rmse", num_blocks=4)
    predicted = gallery._predict_blocks(example, "constant", rows, first)
    assert len(predicted) == len(periods) - first
    starts = [first, *(first + 1 + np.flatnonzero(np.diff(predicted)))]
    assert len(starts) == 4
    for start in starts:
        assert predicted[start - first] == rows.target[:start].mean()
        assert periods[start] > periods[start - 1]  # whole periods


def test_a_table_is_cut_into_parts_that_do_not_overlap() -> None:
    parts = draw_parts(1001, "adult")
    assert list(parts) == ["train", "valid", "test"]
    assert sorted(np.concatenate(list(parts.values()))) == list(range(1001))
    assert [len(places) for places in parts.values()] == [601, 200, 200]
    assert (parts["test"] != draw_parts(1001, "weather")["test"]).any()


def test_an_example_whose_package_is_not_installed_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run", "runway", "--folder", str(tmp_path)])
    assert gallery.main() == 2
    assert "the package rating_model is not installed: `make build/learning/installed`" in capsys.readouterr().err
    assert not (tmp_path / "runway").exists()


@pytest.mark.long
@pytest.mark.timeout(3 * 3600)
def test_the_gallery_learns_the_data_itself(tmp_path: Path) -> None:
    assert (PACKAGES / "installed").exists(), "the data is not installed: run `make build/learning/installed`"
    page = tmp_path / "page.md"
    page.write_text("\n".join(gallery.MARKERS))
    command = [sys.executable, "-m", "examples.gallery.run", "--folder", str(tmp_path), "--page", str(page)]
    variables = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=variables, check=False)
    assert done.returncode == 0, done.stderr
    for name in gallery.EXAMPLES:
        scores = json.loads((tmp_path / name / "scores.json").read_text())["scores"]
        assert f"| {name} | " in page.read_text()
        assert scores[gallery.SAMOVAR] < 1.05 * min(scores["constant"], scores["linear"]), name
