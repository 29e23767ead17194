"""Policies and torch's schedulers: which settings they write, and that their state is restored exactly."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

from samovar.callbacks import PolicyClock
from samovar.errors import BadInput, Conflict
from samovar.policies import Constant, Exponential, LossStop, Policy, Warmup
from samovar.results.state import decode_tree, encode_tree
from samovar.runner import Learner, Loader, MinibatchWorkerPool, Run, Runner, UriList
from samovar.runner.schedules import PolicySettings
from samovar.seeds import set_seed
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


def test_a_policy_by_step_moves_before_each_step_and_one_under_two_names_once() -> None:
    net = optimizer(1.0)
    rate = Exponential(8, 0.5, unit="step")
    settings = PolicySettings({"lr": rate, "lr_factor": Warmup(4), "weight_decay": rate}, {"0": net})
    found = []
    for _ in range(5):
        settings.begin_step()
        found.append((net.param_groups[0]["lr"], net.param_groups[0]["weight_decay"]))
    assert found == [(2, 8), (2, 4), (1.5, 2), (1, 1), (0.5, 0.5)]


SCHEDULERS: list[Callable[[torch.optim.Optimizer], Any]] = [
    lambda net: lr_scheduler.OneCycleLR(net, max_lr=0.2, total_steps=20),
    lambda net: lr_scheduler.MultiStepLR(net, [2, 2, 5], 0.5),
    lambda net: lr_scheduler.LambdaLR(net, lambda step: 1 / (1 + step)),
    lambda net: lr_scheduler.CosineAnnealingWarmRestarts(net, 3),
    lambda net: lr_scheduler.CyclicLR(net, 0.01, 0.1, step_size_up=2, cycle_momentum=False),
    lambda net: lr_scheduler.ReduceLROnPlateau(net, patience=0, threshold=0.5),
    lambda net: lr_scheduler.SequentialLR(
        net, [lr_scheduler.LinearLR(net, 0.1, total_iters=3), lr_scheduler.ExponentialLR(net, 0.9)], [3]
    ),
    lambda net: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(net, 0.1, 4), lr_scheduler.ExponentialLR(net, 0.9)], net
    ),
]


def train(
    make: Callable[[torch.optim.Optimizer], Any], unit: str, stop: int, state: Any = None
) -> tuple[Run, list[float]]:
    set_seed(1)
    plain = make_learner()
    net = torch.optim.SGD(plain.model.parameters(), lr=0.1, momentum=0.5)
    seen: list[float] = []

    def loss(output: torch.Tensor, targets: Any) -> torch.Tensor:
        seen.append(net.param_groups[0]["lr"])
        return plain.loss(output, targets)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SequentialLR warns of its own calls
        learner = Learner(plain.model, net, loss, schedulers={unit: make(net)})
    pool = MinibatchWorkerPool(learner)
    run = Run(learner, pool.settings.policies)
    if state is not None:
        run.load_state_dict(state)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The epoch parameter in")  # of SequentialLR too
        Runner(pool, Loader(), [PolicyClock()]).run(run, UriList(make_uris().uris[:stop]))
    return run, seen


@pytest.mark.parametrize("unit", ["step", "epoch"])
@pytest.mark.parametrize("make", SCHEDULERS)
def test_a_scheduler_of_torch_continues_exactly(make: Callable[[torch.optim.Optimizer], Any], unit: str) -> None:
    straight, rates = train(make, unit, 5)
    assert len(set(rates)) > 1
    for num_done in (1, 3):
        first, before = train(make, unit, num_done)
        node, arrays = encode_tree(first.state_dict())
        stored = decode_tree(node, lambda entry, arrays=arrays: arrays[entry["$array"]].value)  # type: ignore[misc]
        second, after = train(make, unit, 5, stored)
        assert before + after == rates
        for name, weights in straight.model.state_dict().items():
            assert torch.equal(weights, second.model.state_dict()[name])


def test_a_scheduler_by_step_moves_after_each_minibatch_and_one_by_epoch_after_each_hour_with_rows() -> None:
    halve: Callable[[torch.optim.Optimizer], Any] = lambda net: lr_scheduler.ExponentialLR(net, 0.5)  # noqa: E731  # as in the list above
    counts = [uri.num_batches for uri in make_uris().uris[:4]]
    by_step = train(halve, "step", 4)[1]
    assert by_step == [0.1 * 0.5**step for step in range(sum(counts))]
    by_epoch = train(halve, "epoch", 4)[1]
    epochs = [number for number, count in enumerate(filter(None, counts)) for _ in range(count)]
    assert all(math.isclose(rate, 0.1 * 0.5**epoch) for rate, epoch in zip(by_epoch, epochs, strict=True))


def test_a_rate_has_one_master() -> None:
    net = optimizer(1.0)
    schedulers = {"step": lr_scheduler.ExponentialLR(net, 0.5)}
    for name in ("lr", "lr_factor", "0.lr"):
        learner = Learner(torch.nn.Linear(1, 1), net, torch.nn.MSELoss(), policies={name: 1.0}, schedulers=schedulers)
        with pytest.raises(BadInput, match=f"lr of the optimizer '0' is set by the policy '{name}' and by a scheduler"):
            MinibatchWorkerPool(learner)
    learner = Learner(torch.nn.Linear(1, 1), net, torch.nn.MSELoss(), policies={"margin": 1}, schedulers=schedulers)
    MinibatchWorkerPool(learner)


def test_schedulers_must_say_what_moves_them_on() -> None:
    net, other = optimizer(1.0), optimizer(1.0)
    wrong: list[tuple[Any, str]] = [
        (lr_scheduler.ExponentialLR(net, 0.5), r'say what moves them on, .*"epoch": …}, got ExponentialLR'),
        ({"batch": lr_scheduler.ExponentialLR(net, 0.5)}, "got the keys 'batch'"),
        ({"step": [0.1]}, "each scheduler must be one of torch.optim.lr_scheduler, got float"),
        ({"step": lr_scheduler.ExponentialLR(other, 0.5)}, "ExponentialLR is a scheduler of an optimizer that is not"),
    ]
    for schedulers, message in wrong:
        with pytest.raises(BadInput, match=message):
            Learner(torch.nn.Linear(1, 1), net, torch.nn.MSELoss(), schedulers=schedulers)


def test_a_state_with_other_schedulers_is_refused() -> None:
    state = train(SCHEDULERS[0], "step", 2)[0].state_dict()
    for unit, make in (("epoch", SCHEDULERS[0]),):
        with pytest.raises(
            Conflict, match=r"has schedulers \(1 by step\), but the script builds schedulers \(1 by epoch\)"
        ):
            train(make, unit, 3, state)
