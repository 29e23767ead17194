"""ls, show, diff, clone, plot and tree, as a user types them."""

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import on_a_terminal, samovar
from tests.runs.runs import evaluation_lines, make_run, train_lines
from tests.training.toys import ONLINE, SCRIPT, make_hours, write_table

from samovar.results import ResultDirectory, ResultPlan, Source, begin, open_directory
from samovar.store import LocalStore


@pytest.fixture
def folder(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(quick_path)
    for name, rate in (("a", 0.1), ("b", 0.2), ("c", 0.4)):
        lines = [*train_lines([1.0, rate]), *evaluation_lines("x", [1 - rate])]
        make_run(quick_path / "runs" / name, {"model": {"lr": rate}, "seed": 0}, lines)
    (quick_path / "model.json").write_text('{"model": {"lr": 0.1}, "seed": 0}')
    return quick_path


def test_ls_is_csv_when_piped_json_when_asked_and_a_table_on_a_terminal(folder: Path) -> None:
    done = samovar("ls", "runs", "--where", "lr>0.1", "--sort", "-auc", "--columns", "state,lr,auc")
    assert done.stdout == "name,state,model.lr,x.auc\nruns/b,finished,0.2,0.8\nruns/c,finished,0.4,0.6\n", done.stderr
    found = json.loads(samovar("ls", "runs/[ab]", "--json").stdout)
    assert [run["name"] for run in found] == ["runs/a", "runs/b"]
    assert found[0]["x.auc"] == 0.9
    shown = on_a_terminal("ls")
    assert "│ runs/a │ finished │ model │" in shown
    assert samovar("ls", "--csv", "list.csv").stdout == ""
    assert len((folder / "list.csv").read_text().splitlines()) == 4
    make_run(folder / "more/d", {"loss": "mse"}, train_lines([0.5]))
    [both] = json.loads(samovar("ls", "more", "--columns", "config.loss,metric.loss", "--json").stdout)
    assert both == {"name": "more/d", "config.loss": "mse", "metric.loss": 0.5}


def make_result(folder: Path, config: dict[str, Any], *sources: Path) -> None:
    origins = [Source("source", str(source), open_directory(source).id) for source in sources]
    plan = ResultPlan("model", config, b"script", sources=origins)
    with begin(ResultDirectory(LocalStore(folder)), plan) as result:
        result.restore()
        result.finish({"w": [1, 2]}, {"hour": 3})


def test_show_prints_status_holder_config_chain_and_sizes(tmp_path: Path) -> None:
    make_result(tmp_path / "data", {"name": "data"})
    make_result(tmp_path / "model", {"lr": 0.5, "source": str(tmp_path / "data")}, tmp_path / "data")
    done = samovar("show", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    for expected in (
        "status     finished",
        '"lr": 0.5',
        "model_config.json",
        f"source = {tmp_path}/data",
        "[good]",
        "{'hour': 3}",
    ):
        assert expected in done.stdout, done.stdout


def test_show_names_the_process_that_holds_a_directory(tmp_path: Path) -> None:
    with begin(ResultDirectory(LocalStore(tmp_path)), ResultPlan("model", {})):
        assert f"running, held by process {os.getpid()} on " in samovar("show", tmp_path).stdout


def test_show_says_why_a_run_failed(tmp_path: Path) -> None:
    said = "no more tea in [/x], [bold] or [a, b] :tea:"
    with pytest.raises(RuntimeError), begin(ResultDirectory(LocalStore(tmp_path)), ResultPlan("model", {})):
        raise RuntimeError(said)
    assert f"RuntimeError: {said}" in samovar("show", tmp_path).stdout


def test_diff_is_csv_when_piped_and_a_table_on_a_terminal(tmp_path: Path) -> None:
    make_result(tmp_path / "a", {"lr": 0.5, "name": "x", "same": 1})
    (tmp_path / "b.json").write_text(json.dumps({"lr": 0.25, "name": None, "same": 1, "new": [1, 2]}))
    done = samovar("diff", tmp_path / "a", tmp_path / "b.json")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        f"key,{tmp_path}/a,{tmp_path}/b.json",
        "lr,0.5,0.25",
        "name,x,null",
        'new,,"[1, 2]"',
    ]
    (tmp_path / "c.json").write_text(json.dumps({"lr": "[red]", "layers": ["[/]", "a"]}))
    shown = on_a_terminal("diff", tmp_path / "c.json", tmp_path / "b.json")
    assert "[red]" in shown
    assert '["[/]", "a"]' in shown
    shown = on_a_terminal("diff", tmp_path / "a", tmp_path / "b.json", "--ignore", "new")
    assert "│ lr" in shown
    assert "same" not in shown
    assert "new" not in shown.replace(str(tmp_path), "")
    assert on_a_terminal("diff", tmp_path / "a", tmp_path / "a").strip() == "no difference"


def test_diff_takes_a_baseline_and_writes_csv(folder: Path) -> None:
    done = samovar("diff", "--baseline", "runs/b", "runs/*", "model.json", "--csv", "out.csv")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert (folder / "out.csv").read_text() == ("key,runs/b,runs/a,runs/c,model.json\nmodel.lr,0.2,0.1,0.4,0.1\n")
    many = on_a_terminal("diff", *["runs/a", "runs/b"] * 7)
    assert "0.1 (7), 0.2 (7)" in many
    assert "14 configs" in many


def test_clone_prints_the_change_and_the_new_file(folder: Path) -> None:
    done = samovar("clone", "model.json", "--conf", '{"model.lr": 0.3}')
    assert done.stdout == "  model.lr: 0.1 → 0.3\nmodela.json\n"
    other = samovar("clone", "runs/a", "--conf", '{"model.lrr": 0.3}')
    assert other.stdout.endswith("runs/aa.json\n")
    assert "has no key 'model.lrr'; the clone adds it. Did you mean 'model.lr'?" in other.stderr
    assert samovar("clone", "model.json", "--conf", '{"seed": 0}').returncode == 2
    assert samovar("clone", "runs", "--conf", '{"seed": 1}').returncode == 2


def test_plot_draws_on_a_terminal_gives_points_when_piped_and_pictures_when_asked(folder: Path) -> None:
    points = list(csv.reader(io.StringIO(samovar("plot", "runs").stdout)))
    assert points[:3] == [
        ["run", "metric", "step", "value"],
        ["lr=0.1", "loss", "0.0", "1.0"],
        ["lr=0.1", "loss", "1.0", "0.1"],
    ]
    shown = on_a_terminal("plot", "runs")
    assert "━━ lr=0.4  0.4" in shown
    done = samovar("plot", "runs", "--metric", "loss", "--metric", "auc", "--png", "p.png", "--svg", "p.svg")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert (folder / "p.png").stat().st_size > 1000
    assert "<svg" in (folder / "p.svg").read_text()


def test_tree_is_text_a_picture_or_a_table(folder: Path) -> None:
    done = samovar("tree", "runs", "model.json", "--metric", "auc")
    assert done.returncode == 0, done.stderr
    assert "runs/a  0.9  lr=0.1" in done.stdout
    assert samovar("tree", "runs", "--png", "t.png", "--csv", "t.csv", "--clusters", 2).returncode == 0
    assert (folder / "t.csv").read_text() == "branch,name,metric\n0,runs/a,\n0,runs/b,\n1,runs/c,\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["ls", "none"], "none: no result directory at or below this path"),
        (["ls", "runs", "--where", "lr"], "where 'lr': a condition is a column, one of"),
        (["plot", "runs", "--metric", "acu"], "no run has a metric 'acu'. Did you mean 'auc'?"),
        (["plot", "none/*"], "none/*: no result directory and no config matches this pattern"),
        (["tree", "model.json"], "tree: needs at least 2 configs, got 1"),
        (["checksum", "none"], "none: No such file or directory"),
        (["ls", "runs", "--csv", "none/list.csv"], "cannot write none/list.csv: the folder none does not exist"),
        (
            ["tree", "runs", "--svg", "none/tree.svg"],
            "cannot write none/tree.svg: the folder none does not exist",
        ),
        (
            ["chain", "runs", "--png", "none/chain.png"],
            "cannot write none/chain.png: the folder none does not exist",
        ),
        (["metrics", "runs/a", "--png", "none/a.png"], "cannot write none/a.png: the folder none does not exist"),
    ],
)
def test_a_user_error_is_one_readable_message(folder: Path, arguments: list[str], expected: str) -> None:
    done = samovar(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_a_clone_of_a_trained_config_trains_and_both_are_compared(folder: Path) -> None:
    write_table(folder / "clicks", make_hours([2, 1]))
    (folder / "online.json").write_text(json.dumps({**ONLINE, "model_yt_dir": "click"}))
    (folder / "script.py").write_text(SCRIPT)
    assert samovar("clone", "online.json", "--conf", '{"model.lr": 0.5}').stdout.endswith("onlinea.json\n")
    for name in ("online.json", "onlinea.json"):
        done = samovar("train", name, "--script", "script.py")
        assert done.returncode == 0, done.stderr
    listed = samovar("ls", "click", "clicka", "--columns", "lr,loss").stdout.splitlines()
    assert [line.split(",")[0] for line in listed] == ["name", "click", "clicka"]
    assert "cloned_from,,online.json" in samovar("diff", "click", "clicka").stdout
    assert "(clone of online.json)" in samovar("tree", "click", "clicka").stdout
    assert "lr=0.5,loss," in samovar("plot", "click", "clicka").stdout
