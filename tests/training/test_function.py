import importlib
import linecache
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from samovar import Learner
from samovar.errors import BadInput
from samovar.training.function import script_of
from samovar.training.script import build

CELLS = (
    """
import torch
import torch.nn.functional as F
from torch import nn as layers
import samovar
WIDTH, SETTINGS = 3, {"rates": (0.1, None)}
frame = object()
m = 7
""",
    """
def twice(value):
    return 2 * value


class Base(layers.Module):
    pass


@torch.no_grad
def ignored():
    pass
""",
    """
class Net(Base):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.top = layers.Linear(1, twice(width))

    def forward(self, inputs):
        return F.relu(self.top(inputs["x"]))
""",
    """
def make(params):
    m = Net(params.get("width", WIDTH))
    optimizer = torch.optim.SGD(m.parameters(), lr=SETTINGS["rates"][0])
    return samovar.Learner(m, optimizer, lambda output, targets: output.sum())
""",
)


def run_cells(*cells: str) -> dict[str, Any]:
    """What a notebook does: each cell is compiled under a name of its own, which linecache knows."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        file = f"<cell {number} {abs(hash(cell))}>"
        linecache.cache[file] = len(cell), None, cell.splitlines(keepends=True), file
        exec(compile(cell, file, "exec"), names)
    return names


def build_alone(text: bytes, params: dict[str, Any]) -> Learner:
    names: dict[str, Any] = {"__name__": "elsewhere"}
    exec(compile(text, "script.py", "exec"), names)
    learner = names["build"](params)
    assert isinstance(learner, Learner)
    return learner


def test_a_function_of_a_notebook_brings_all_that_it_uses() -> None:
    script = script_of(run_cells(*CELLS)["make"])
    learner = build_alone(script.source, {"width": 5})
    assert [tuple(weights.shape) for weights in learner.model.parameters()] == [(10, 1), (10,)]
    text = script.source.decode()
    assert "frame" not in text
    assert "ignored" not in text
    assert "m = 7" not in text  # a local variable of the same name is not the global
    assert "Not complete" not in text
    assert text.endswith("build = make\n")


def test_the_script_depends_on_the_code_alone_and_shows_what_changed() -> None:
    one = script_of(run_cells(*CELLS)["make"])
    again = script_of(run_cells("other = 3", *CELLS)["make"])
    changed = script_of(run_cells(*CELLS[:1], CELLS[1].replace("2 * value", "3 * value"), *CELLS[2:])["make"])
    assert one.source == again.source
    assert one.source != changed.source


def test_the_function_itself_is_called_in_this_process() -> None:
    calls: list[int] = []
    traced = run_cells(*CELLS, "def build(params):\n    calls.append(1)\n    return make(params)\n")
    traced["calls"] = calls
    script = script_of(traced["build"])
    assert build(script, {}).learner.model is not None
    assert calls == [1]
    assert b"\ncalls = []\n" in script.source  # the value when it was written down


def test_values_that_cannot_be_written_are_named() -> None:
    names = run_cells(*CELLS, "def build(params):\n    print(frame)\n    return make(params)\n")
    script = script_of(names["build"])
    assert script.source.decode().startswith("# Not complete without these values of the Python session: frame\n")
    assert build(script, {}).learner is not None
    with pytest.raises(BadInput, match=r"needs frame of the Python session that it was trained in.*load\(…, build="):
        build(replace(script, function=None), {})


def make_closure() -> Callable[..., Any]:
    secret = torch.ones(3)

    def build(params: Any) -> Any:
        return secret

    return build


def test_a_closure_names_the_variables_it_needs() -> None:
    text = script_of(make_closure()).source.decode()
    assert text.startswith("# Not complete without these values of the Python session: secret\n")


def test_a_build_function_of_a_module_is_the_script_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain_model.py").write_text("import samovar\nimport my_layers\ndef build(params):\n    return 1\n")
    (tmp_path / "my_layers.py").write_text("WIDTH = 3\n")
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package/__init__.py").write_text("")
    (tmp_path / "my_package/models.py").write_text("def make_model(params):\n    return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plain = script_of(importlib.import_module("plain_model").build)
    assert plain.source == (tmp_path / "plain_model.py").read_bytes()
    assert plain.function is None
    assert list(plain.modules) == ["my_layers.py"]
    packed = script_of(importlib.import_module("my_package.models").make_model)
    assert packed.source == b"from my_package.models import make_model as build\n"
    assert sorted(packed.modules) == ["my_package/__init__.py", "my_package/models.py"]
    for name in ("plain_model", "my_layers", "my_package", "my_package.models"):
        sys.modules.pop(name)


def test_what_is_no_function_or_has_no_source_is_refused() -> None:
    with pytest.raises(BadInput, match=r"must be a path or a function build\(params\), got int"):
        script_of(3)  # type: ignore[arg-type]  # what is tested
    names: dict[str, Any] = {"__name__": "__main__"}
    exec("def build(params):\n    return 1\n", names)
    with pytest.raises(BadInput, match="the source of 'build' cannot be read"):
        script_of(names["build"])
