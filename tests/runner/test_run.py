"""What a run's state holds, and which states it refuses."""

import pytest
import torch

from samovar.errors import Conflict
from samovar.policies import Constant
from samovar.runner import Callback, Learner, Run
from samovar.testing.callback import make_learner


def test_a_state_of_another_model_is_refused() -> None:
    state = Run(make_learner()).state_dict()
    other = Run(Learner(torch.nn.Linear(5, 1), [], lambda output: output))
    with pytest.raises(Conflict, match="does not fit the model and optimizers that the script builds: Error"):
        other.load_state_dict(state)


def test_a_state_with_a_callback_that_is_missing_is_refused() -> None:
    class Counter(Callback):
        def state_dict(self) -> dict[str, int]:
            return {"count": 1}

    state = Run(make_learner(), callbacks=[Counter()]).state_dict()
    with pytest.raises(Conflict, match="the saved state has the callback 'Counter', which the script does not build"):
        Run(make_learner()).load_state_dict(state)


def test_a_state_without_a_policy_that_is_there_is_refused() -> None:
    state = Run(make_learner()).state_dict()
    with pytest.raises(Conflict, match="the script builds the policy 'lr', which the saved state does not have"):
        Run(make_learner(), {"lr": Constant(0.1)}).load_state_dict(state)


def test_the_names_of_a_users_callbacks_do_not_depend_on_ours() -> None:
    class Counter(Callback):
        def __init__(self, count: int) -> None:
            self.count = count

        def state_dict(self) -> dict[str, int]:
            return {"count": self.count}

    learner = make_learner()
    learner.callbacks = [Counter(1)]
    states = Run(learner, callbacks=[Counter(2), *learner.callbacks]).state_dict()["callbacks"]
    assert states == {"Counter": {"count": 1}, "Counter 2": {"count": 2}}


def test_the_mean_loss_is_weighted_by_examples_and_none_without_losses() -> None:
    run = Run(make_learner())
    assert run.mean_loss is None
    run.losses, run.uri_examples = [1.0, 4.0], [3, 1]
    assert run.mean_loss == 1.75
    run.uri_examples = [0, 0]
    assert run.mean_loss == 2.5


def test_an_optimizer_state_of_another_type_than_the_weights_keeps_its_type() -> None:
    def learn() -> Run:
        model = torch.nn.Linear(1, 1).bfloat16()
        return Run(Learner(model, torch.optim.NAdam(model.parameters()), lambda output: output))

    straight, resumed = learn(), learn()
    straight.model(torch.ones(1, 1, dtype=torch.bfloat16)).sum().backward()
    straight.optimizers["0"].step()
    resumed.load_state_dict(straight.state_dict())
    before, after = (run.optimizers["0"].state_dict()["state"][0] for run in (straight, resumed))
    assert {key: value.dtype for key, value in before.items()} == {key: value.dtype for key, value in after.items()}
    assert all(torch.equal(value, after[key]) for key, value in before.items())


class Boxed(torch.optim.SGD):
    """Has a state layout of its own, as wrappers of optimizers do."""

    def state_dict(self) -> dict[str, object]:
        return {"inner": super().state_dict()}

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        super().load_state_dict(state_dict["inner"])  # type: ignore[arg-type]  # torch's own


def test_an_optimizer_with_its_own_state_layout_loads_it_itself() -> None:
    def learn(momentum: float) -> Run:
        model = torch.nn.Linear(1, 1)
        return Run(Learner(model, Boxed(model.parameters(), momentum=momentum), lambda output: output))

    straight, resumed = learn(0.5), learn(0.0)
    straight.model(torch.ones(1, 1)).sum().backward()
    straight.optimizers["0"].step()
    resumed.load_state_dict(straight.state_dict())
    assert resumed.optimizers["0"].param_groups[0]["momentum"] == 0.5
