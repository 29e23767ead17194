"""The notebook runs from its first cell to its last, as a reader would run it, and is kept without outputs."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


def read() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]  # nbformat has none


def run(folder: Path) -> Any:
    notebook = read()
    NotebookClient(notebook, timeout=800, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def outputs_of(notebook: Any, beginning: str) -> list[Any]:
    (cell,) = (cell for cell in notebook.cells if cell.cell_type == "code" and beginning in cell.source)
    return list(cell.outputs)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("notebook")
    return folder, run(folder)


def test_the_notebook_goes_from_a_frame_to_predictions_and_plots(done: tuple[Path, Any]) -> None:
    folder, notebook = done
    kinds = {kind for cell in notebook.cells for each in cell.get("outputs", []) for kind in each.get("data", {})}
    assert {"text/html", "image/png"} <= kinds
    assert (folder / "clicks_model" / "model").is_dir()
    assert "log_loss" in outputs_of(notebook, "run.metrics()")[-1]["data"]["text/html"]


def test_the_notebook_prints_no_warning(done: tuple[Path, Any]) -> None:
    _, notebook = done
    printed = [each for cell in notebook.cells for each in cell.get("outputs", []) if each.get("name") == "stderr"]
    assert not [each.text for each in printed if "Warning" in each.text]


def test_a_second_run_finds_everything_finished(done: tuple[Path, Any]) -> None:
    folder, notebook = done
    model = sorted((folder / "clicks_model" / "model").rglob("*"))
    before = {path: path.stat().st_mtime_ns for path in model}
    again = run(folder)
    assert {path: path.stat().st_mtime_ns for path in model} == before
    assert outputs_of(again, "model.predict")[-1] == outputs_of(notebook, "model.predict")[-1]


def test_the_notebook_is_kept_without_outputs() -> None:
    for cell in read().cells:
        assert cell.cell_type == "markdown" or (not cell.outputs and cell.execution_count is None)
