"""Curves on the terminal and in pictures, and the labels of runs."""

import json
from pathlib import Path

import pytest
from tests.runs.runs import evaluation_lines, make_run, train_lines

from samovar.errors import BadInput, CorruptData
from samovar.runs.comparison import label_all
from samovar.runs.curves import Line, plot
from samovar.runs.drawing import draw_lines
from samovar.runs.find import find_targets

GOLDEN = """\
loss
1 │⠱⡀      
  │ ⠘⢄   ⢀⠤
0 │  ⠈⠢⡤⠊⠁ 
  └────────
   0      8
━━ lr=0.1  0.5
"""  # noqa: W291  # a plot's lines are as wide as the plot


@pytest.fixture
def folder(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(quick_path)
    for name, rate in (("a", 0.1), ("b", 0.2)):
        lines = [*train_lines([1.0, rate], lr=rate), *evaluation_lines("x", [rate]), *evaluation_lines("y", [0.5])]
        make_run(quick_path / name, {"model": {"lr": rate, "dim": 8}, "out": name}, lines, name == "a")
    Path("c.json").write_text(json.dumps({"model": {"lr": 3}}))
    return quick_path


def test_a_small_plot_looks_like_this() -> None:
    text = draw_lines("loss", [Line("lr=0.1", [0, 4, 8], [1.0, 0.0, 0.5])], width=8, height=3)
    assert text.plain == GOLDEN


def test_a_single_point_and_a_flat_line_are_drawn() -> None:
    assert "⠄" in draw_lines("x", [Line("one", [3], [2.0])], 4, 3).plain
    assert draw_lines("x", [Line("flat", [0, 1], [2.0, 2.0])], 4, 3).plain.count("2 │") == 2


def test_labels_show_what_differs_and_nothing_else(folder: Path) -> None:
    assert label_all(find_targets(["a", "b"])) == ["lr=0.1", "lr=0.2"]
    assert label_all(find_targets(["a", "a"])) == ["a", "a (2)"]


def test_panels_hold_one_line_per_run_and_evaluation(folder: Path) -> None:
    (panel,) = plot(["a", "b", "c.json"]).panels
    assert (panel.metric, [line.label for line in panel.lines]) == ("loss", ["lr=0.1", "lr=0.2"])
    (panel,) = plot(["a", "b"], ["auc"]).panels
    assert [line.label for line in panel.lines] == ["lr=0.1 x", "lr=0.1 y", "lr=0.2 x", "lr=0.2 y"]
    (panel,) = plot(["a", "b"], ["x.auc"]).panels
    assert [line.values for line in panel.lines] == [[0.1], [0.2]]


def test_pictures_are_the_same_bytes_each_time(folder: Path) -> None:
    curves = plot(["a", "b"], ["loss", "auc"])
    for number in range(2):
        curves.save(f"{number}.png")
        curves.save(Path(f"{number}.svg"))
    assert Path("0.png").read_bytes()[:4] == b"\x89PNG"
    assert "lr=0.2 y" in Path("0.svg").read_text() or "<svg" in Path("0.svg").read_text()
    for kind in ("png", "svg"):
        assert Path(f"0.{kind}").read_bytes() == Path(f"1.{kind}").read_bytes()


def test_what_cannot_be_plotted_is_an_error(folder: Path) -> None:
    with pytest.raises(BadInput, match=r"only result directories have curves, got only configs: c.json"):
        plot("c.json")
    with pytest.raises(BadInput, match=r"no run has a metric 'los'. Did you mean 'loss'\? Available: loss"):
        plot(["a"], ["los"])
    make_run(folder / "table", {}, kind="table")
    with pytest.raises(BadInput, match="no numbers yet in the logs of table"):
        plot(["table"])
    (folder / "a/logs/metrics.jsonl").write_bytes(b"\xff\n")
    with pytest.raises(CorruptData, match=r"a/logs/metrics.jsonl, line 1"):
        plot(["a"])


def test_runs_of_mixed_kinds_share_a_plot(folder: Path) -> None:
    make_run(folder / "walk", {"hours": 3}, [{"hour": 0, "loss": 2.0}], kind="walk")
    make_run(folder / "table", {"source": "x"}, kind="table")
    (panel,) = plot(["a", "walk", "table"]).panels
    assert [line.values for line in panel.lines] == [[1.0, 0.1], [2.0]]


def test_a_picture_of_another_format_is_refused(folder: Path) -> None:
    with pytest.raises(BadInput, match=r"curves.jpg: the name must end with .png, .svg or .pdf"):
        plot("a").save("curves.jpg")
