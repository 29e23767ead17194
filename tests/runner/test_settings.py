from typing import Any

import pytest
import torch

from samovar.errors import BadInput
from samovar.policies import Constant, Exponential, LossStop, Policy
from samovar.runner.step import PolicySettings


def optimizer(*rates: float) -> torch.optim.Optimizer:
    groups: list[dict[str, Any]] = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": rate} for rate in rates]
    return torch.optim.SGD(groups)


def rates(*optimizers: torch.optim.Optimizer) -> list[float]:
    return [group["lr"] for each in optimizers for group in each.param_groups]


def test_a_plain_name_goes_to_all_and_a_prefixed_one_wins() -> None:
    net, emb = optimizer(1.0, 2.0), optimizer(3.0)
    policies: dict[str, Policy] = {"lr": Constant(0.5), "emb.lr": Constant(0.25)}
    assert PolicySettings(policies, {"net": net, "emb": emb}).apply() == {}
    assert rates(net, emb) == [0.5, 0.5, 0.25]


def test_a_factor_multiplies_what_was_built_or_what_the_policy_says() -> None:
    net, emb = optimizer(1.0, 2.0), optimizer(3.0)
    factor = Constant(0.5)
    settings = PolicySettings({"lr_factor": factor, "emb.lr": Constant(8)}, {"net": net, "emb": emb})
    for _ in range(3):  # again and again, and yet multiplied once
        settings.apply()
    assert rates(net, emb) == [0.5, 1.0, 4.0]


def test_the_rest_goes_to_the_loss_and_a_rule_without_value_nowhere() -> None:
    policies: dict[str, Policy] = {"margin": Exponential(1, 0.5), "stop": LossStop(2)}
    settings = PolicySettings(policies, {"0": optimizer(1.0)})
    assert settings.apply() == {"margin": 1.0}
    settings.policies["margin"].epoch_started(2)
    assert settings.apply() == {"margin": 0.25}
    assert settings.values() == {"margin": 0.25}


def test_a_path_to_nothing_is_refused_with_what_there_is() -> None:
    with pytest.raises(BadInput, match=r"policy 'net.rate': no optimizer has such a value; expected one of .*net.lr"):
        PolicySettings({"net.rate": Constant(1)}, {"net": optimizer(1.0)})
