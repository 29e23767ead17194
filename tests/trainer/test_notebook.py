"""Training in a real kernel: a bar with ipywidgets, lines without them, and no warning."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

WIDGET = "application/vnd.jupyter.widget-view+json"
TRAIN = """
import numpy as np
from torch import nn
import samovar
x = np.zeros((64, 3), np.float32)
trainer = samovar.PytorchTrainer(nn.Linear, [3, 1], device="cpu")
trainer.fit(x, x[:, :1] + 1, name="net", n_epochs=3, patience=3, seed=1).predict(x).shape
"""
WITHOUT_WIDGETS = "import sys; sys.modules['ipywidgets'] = None  # importing it fails, as if it were not installed"
LOGGING = "import logging; logging.basicConfig(level=logging.INFO)"
SHOW = """
import samovar
from samovar.results import open_directory
open_directory("net/0")
"""


@pytest.fixture(autouse=True)
def private_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jupyter keeps connection files and a history; both belong to this test."""
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))


def execute(folder: Path, *cells: str) -> list[list[Any]]:
    """The outputs of each cell."""
    notebook: Any = new_notebook()  # type: ignore[no-untyped-call]  # nbformat gives it no types
    notebook.cells = [new_code_cell(source) for source in cells]  # type: ignore[no-untyped-call]  # nor this
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata["kernelspec"] = kernel
    NotebookClient(notebook, timeout=800, resources={"metadata": {"path": str(folder)}}).execute()
    nbformat.validate(notebook)
    return [cell.outputs for cell in notebook.cells]


def texts(outputs: list[Any], stream: str = "stderr") -> str:
    return "".join(each.text for each in outputs if each.output_type == "stream" and each.name == stream)


def test_a_notebook_shows_a_bar_lines_and_results(tmp_path: Path) -> None:
    trained, shown = execute(tmp_path, TRAIN, SHOW)
    assert any(WIDGET in each.get("data", {}) for each in trained)
    assert "epoch 2 (0 left)" in texts(trained)
    assert "best net" in texts(trained)
    assert "Warning" not in str(trained)
    assert "(64, 1)" in str(trained[-1])
    assert "<table>" in shown[-1]["data"]["text/html"]


def test_without_widgets_a_notebook_shows_lines_and_no_warning(tmp_path: Path) -> None:
    _, trained, _, logged = execute(tmp_path, WITHOUT_WIDGETS, TRAIN, LOGGING, TRAIN)
    assert not any(WIDGET in each.get("data", {}) for each in trained)
    lines = texts(trained).splitlines()
    shown = ["epoch 0 (2 left)", "epoch 1 (1 left)", "epoch 2 (0 left)", "net"]
    assert [line.partition(":")[0] for line in lines[:4]] == shown
    assert "Warning" not in str(trained)
    assert "INFO:samovar.trainer.report:epoch 0 (2 left)" in texts(logged)
