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
from samovar.trainer import Criterion, Lookahead, PytorchTrainer, Report, criteria


@pytest.mark.parametrize("module", [examples, batches, batch_iter, layers, criteria], ids=lambda each: each.__name__)
def test_prompts_show_what_is_returned(module: ModuleType) -> None:
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize(
    "documented",
    [
        PytorchTrainer,
        PytorchTrainer.train,
        PytorchTrainer.fit,
        PytorchTrainer.predict,
        PytorchTrainer.predict_dataset,
        PytorchTrainer.predict_proba,
        PytorchTrainer.score,
        PytorchTrainer.get_params,
        PytorchTrainer.set_params,
        Report,
        Criterion,
        Lookahead,
        train_model,
        TorchModel,
        TorchModel.do_train_step,
        TorchModel.do_inf_step,
        batch_iter.BatchIter,
    ],
    ids=lambda each: each.__qualname__,
)
def test_blocks_of_code_run(documented: Any, quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one docstring share their names, as a reader expects."""
    monkeypatch.chdir(quick_path)
    blocks = re.findall(r"```python\n(.*?)```", inspect.getdoc(documented) or "", re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(inspect.cleandoc(block), documented.__name__, "exec"), names)


@pytest.mark.parametrize("function", [PytorchTrainer.train, PytorchTrainer.predict_dataset, train_model])
def test_every_argument_has_its_line(function: Any) -> None:
    text = inspect.getdoc(function) or ""
    arguments = text.partition("Args:")[2].partition("Returns:")[0].partition("Raises:")[0]
    described = re.findall(r"^    \**(\w+): \S", arguments, re.MULTILINE)
    assert described == [name for name in inspect.signature(function).parameters if name != "self"]
