"""What commands say about a path that is not what they need: missing, a file, or a result of another kind."""

import json
from pathlib import Path

import pytest
from tests.cli.commands import run_here
from tests.runs.runs import make_run
from tests.training.toys import ONLINE, SCRIPT, make_hours, write_table

from samovar.errors import UserError

STAGE = "def main(params, out):\n    pass\n"


@pytest.fixture
def folder(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One result of each kind, with configs and scripts."""
    monkeypatch.chdir(quick_path)
    write_table(quick_path / "clicks", make_hours([2, 1]))
    make_run(quick_path / "model", {"seed": 1})
    make_run(quick_path / "prediction", {"seed": 1}, kind="prediction")
    make_run(quick_path / "stage", {"seed": 1}, kind="stage:augment")
    make_run(quick_path / "sweep" / "0", {"seed": 1})
    texts = {
        "sweep/configs/0.json": "{}",
        "online.json": json.dumps(ONLINE),
        "script.py": SCRIPT,
        "stage.py": STAGE,
        "stage.json": "{}",
        "rows.csv": "user,hit\n1,0\n",
        "recipe.json": json.dumps(
            {"source": "rows.csv", "categorical_factors": ["user"], "realvalue_factors": ["hit"]}
        ),
        "experiment.json": json.dumps({"base": "online.json", "script": "script.py", "grid": {"seed": [1]}}),
        "file": "",
    }
    for name, text in texts.items():
        (quick_path / name).parent.mkdir(exist_ok=True)
        (quick_path / name).write_text(text)
    return quick_path


def error_of(line: str) -> str:
    """The message of a user error."""
    with pytest.raises(UserError) as caught:
        run_here(line.split())
    return str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "brew recipe.json --out file",
        "train online.json --script script.py --out file",
        "train online.json --script script.py --out file/below",
        "run stage.py -c stage.json --out file",
        "experiment experiment.json --out file",
        "queue add online.json --script script.py --out file",
        "verify-resume online.json --script script.py --out file",
        "table clicks --export file/rows.parquet",
    ],
)
def test_a_result_cannot_replace_a_file(folder: Path, line: str) -> None:
    assert error_of(line).removeprefix(f"{folder}/") == "file is a file; expected a directory"
    assert (folder / "file").read_text() == ""


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("predict clicks --table clicks", "clicks is a table, not a model"),
        ("predict prediction --table clicks", "prediction is a prediction, not a model"),
        ("predict stage --table clicks", "stage is a stage, not a model"),
        ("predict file --table clicks", "file is a file; expected a model"),
        ("predict sweep --table clicks", "sweep is an experiment's folder, not a model. Name one of its parts, "),
        ("embeddings clicks", "clicks is a table, not a model"),
        ("embeddings stage", "stage is a stage, not a model"),
        ("metrics clicks", "clicks is a table, not a model or prediction"),
        ("metrics stage", "stage is a stage, not a model or prediction"),
        ("table model", "model is a model, not a table"),
        ("table stage", "stage is a stage, not a table"),
        ("table file", "file is a file; expected a table"),
        ("table sweep", "sweep is an experiment's folder, not a table. Name one of its parts, for example sweep/0"),
        ("show sweep", "sweep is an experiment's folder, not a result directory. Name one of its parts"),
        ("replay sweep", "sweep is an experiment's folder, not a result directory. Name one of its parts"),
    ],
)
def test_a_result_of_another_kind_is_named(folder: Path, line: str, problem: str) -> None:
    assert error_of(line).startswith(problem)


def test_a_config_that_names_a_result_of_another_kind_is_refused(folder: Path) -> None:
    change = json.dumps({"train_data.table": "model"})
    with pytest.raises(UserError, match=r"^train_data.table: .*/model is a model, not a table$"):
        run_here(["train", "online.json", "--script", "script.py", "--conf", change])


@pytest.mark.parametrize(
    ("line", "guess"),
    [
        ("train onlin.json --script script.py", "online.json"),
        ("train online.json --script scrpt.py", "script.py"),
        ("train online.json --script script.py --file a=row.csv", "rows.csv"),
        ("queue add online.json --script scrpt.py", "script.py"),
        ("run stag.py -c stage.json", "stage.py"),
        ("brew recip.json", "recipe.json"),
        ("table click", "clicks"),
        ("show modl", "model"),
        ("diff modl clicks", "model"),
        ("ls modl", "model"),
        ("checksum clack", "clicks"),
    ],
)
def test_the_nearest_file_or_folder_is_suggested(folder: Path, line: str, guess: str) -> None:
    assert error_of(line).endswith(f"Did you mean '{guess}'?")


def test_the_nearest_raw_file_is_suggested(folder: Path) -> None:
    with pytest.raises(UserError) as caught:
        run_here(["brew", "recipe.json", "--conf", '{"source": "row.csv"}'])
    assert str(caught.value).endswith(f"Did you mean '{folder}/rows.csv'?")
