"""The examples in the docstrings of the facades and their data sets run."""

import doctest
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from samovar.data import batches, examples
from samovar.functional import TorchModel, batch_iter, layers, train_model
from samovar.trainer import Lookahead, PytorchTrainer, Report, criteria


@pytest.mark.parametrize("module", [examples, batches, batch_iter, layers, criteria], ids=lambda each: each.__name__)
def test_prompts_show_what_is_returned(module: ModuleType) -> None:
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize(
    "documented", [PytorchTrainer, Report, Lookahead, train_model, TorchModel, batch_iter.BatchIter]
)
def test_blocks_of_code_run(documented: Any, quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(quick_path)
    blocks = re.findall(r"```python\n(.*?)```", inspect.getdoc(documented) or "", re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(inspect.cleandoc(block), documented.__name__, "exec"), {})
