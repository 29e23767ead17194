import pytest
import torch

from samovar.errors import BadInput
from samovar.runner import Callback, Learner


def test_a_learner_checks_what_it_is_given() -> None:
    with pytest.raises(BadInput, match=r"model must be a torch.nn.Module, got int"):
        Learner(3, [], lambda output: output)  # type: ignore[arg-type]  # that is the test
    with pytest.raises(BadInput, match="predict must be a function, got NoneType"):
        Learner(torch.nn.Linear(1, 1), [], lambda output: output, None)  # type: ignore[arg-type]  # that is the test
    with pytest.raises(BadInput, match=r"optimizer 0 must be one of torch or samovar.embeddings, got NoneType"):
        Learner(torch.nn.Linear(1, 1), None, lambda output: output)
    with pytest.raises(BadInput, match=r"must be an object of a subclass of samovar.Callback, got function"):
        Learner(torch.nn.Linear(1, 1), [], lambda output: output, callbacks=[lambda run: None])  # type: ignore[list-item]  # that is the test
    with pytest.raises(BadInput, match="got the class Callback"):
        Learner(torch.nn.Linear(1, 1), [], lambda output: output, callbacks=[Callback])  # type: ignore[list-item]  # that is the test
