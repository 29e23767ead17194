from typing import Any

import pytest
import torch

from samovar.errors import BadInput
from samovar.policies import Constant, Exponential, LossStop, Policy
from samovar.runner import Learner, MinibatchWorkerPool
from samovar.runner.step import PolicySettings
from samovar.testing.callback import make_learner, make_uris


def optimizer(*rates: float) -> torch.optim.Optimizer:
    groups: list[dict[str, Any]] = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": rate} for rate in rates]
    return torch.optim.SGD(groups)


def rates(*optimizers: torch.optim.Optimizer) -> list[float]:
    return [group["lr"] for each in optimizers for group in each.param_groups]


def test_a_plain_name_sets_all_optimizers_and_a_prefixed_name_wins() -> None:
    net, emb = optimizer(1.0, 2.0), optimizer(3.0)
    policies: dict[str, Policy] = {"lr": Constant(0.5), "emb.lr": Constant(0.25)}
    assert PolicySettings(policies, {"net": net, "emb": emb}).apply() == {}
    assert rates(net, emb) == [0.5, 0.5, 0.25]


def test_a_factor_multiplies_the_value_of_the_policy_or_of_the_constructor() -> None:
    net, emb = optimizer(1.0, 2.0), optimizer(3.0)
    factor = Constant(0.5)
    settings = PolicySettings({"lr_factor": factor, "emb.lr": Constant(8)}, {"net": net, "emb": emb})
    for _ in range(3):  # each time from the same base
        settings.apply()
    assert rates(net, emb) == [0.5, 1.0, 4.0]


def test_other_policies_are_arguments_of_the_loss_unless_they_have_no_value() -> None:
    policies: dict[str, Policy] = {"margin": Exponential(1, 0.5), "stop": LossStop(2)}
    settings = PolicySettings(policies, {"0": optimizer(1.0)})
    assert settings.apply() == {"margin": 1.0}
    settings.policies["margin"].epoch_started(2)
    assert settings.apply() == {"margin": 0.25}


def test_an_unknown_setting_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(
        BadInput, match=r"policy 'net.lrr': no optimizer has this setting. Did you mean 'net.lr'\? .*net.lr, "
    ):
        PolicySettings({"net.lrr": Constant(1)}, {"net": optimizer(1.0)})


def test_a_loss_must_be_one_number() -> None:
    learner = make_learner()
    pool = MinibatchWorkerPool(Learner(learner.model, learner.optimizers, lambda output, targets: output))
    with pytest.raises(BadInput, match=r"loss must return a tensor with one number, got a tensor of shape \[4\]"):
        pool.run(next(make_uris().uris[0].stream.open(0)))
