"""Rules, the moving average and the optimizer: groups, warm-up, clipping, and a state that continues to the bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from samovar.errors import BadInput
from samovar.nets import AveragedNet, TabularInputs, TabularNet, TabularOptimizer, TabularTask, TrainingRules
from samovar.nets.learning import choose_batch_size
from samovar.results.state import load_tree, save_tree
from samovar.seeds import set_seed, torch_generator

RULES = TrainingRules()


def make_model(num_members: int = 3) -> AveragedNet:
    set_seed(0)
    inputs = TabularInputs([np.array([-1.0, 0.0, 1.0])] * 2, [6])
    return AveragedNet(TabularNet(inputs, 1, num_members, widths=(16, 16)))


def make_optimizer(model: AveragedNet, rules: TrainingRules = RULES, steps_per_epoch: int = 8) -> TabularOptimizer:
    return TabularOptimizer(model, rules, steps_per_epoch)


def batch(number: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch_generator(0, "batch", number)
    numbers = torch.randn(32, 2, generator=generator)
    codes = torch.randint(6, (32, 1), generator=generator)
    return numbers, codes, numbers[:, 0].abs() + (codes[:, 0] == 2)


def train(model: AveragedNet, optimizer: TabularOptimizer, steps: range) -> None:
    task = TabularTask()
    for number in steps:
        torch.manual_seed(number)  # of dropout
        numbers, codes, target = batch(number)
        optimizer.zero_grad()
        task(model(numbers, codes), target).backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        optimizer.step()


def state_of(model: AveragedNet, optimizer: TabularOptimizer) -> dict[str, Any]:
    return {"model": dict(model.state_dict()), "optimizer": optimizer.state_dict()}


def test_training_lowers_the_loss_of_the_average() -> None:
    model, task = make_model(), TabularTask()
    numbers, codes, target = batch(1000)
    before = task(model.eval()(numbers, codes), target, unscaled=True)
    train(model.train(), make_optimizer(model), range(300))
    after = task(model.eval()(numbers, codes), target, unscaled=True)
    assert after < before / 5


def test_a_training_that_was_saved_continues_with_the_same_bits(tmp_path: Path) -> None:
    model = make_model()
    optimizer = make_optimizer(model)
    train(model, optimizer, range(3))  # inside the warm-up
    save_tree(tmp_path / "state", state_of(model, optimizer))
    train(model, optimizer, range(3, 12))
    save_tree(tmp_path / "straight", state_of(model, optimizer))

    resumed = make_model(num_members=3)
    other = make_optimizer(resumed)
    state = load_tree(tmp_path / "state")
    resumed.load_state_dict(state["model"])
    other.load_state_dict(state["optimizer"])
    train(resumed, other, range(3, 12))
    save_tree(tmp_path / "resumed", state_of(resumed, other))
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "straight").read_bytes()


def test_the_rate_rises_for_half_an_epoch_and_then_stays() -> None:
    model = make_model()
    optimizer = make_optimizer(model, steps_per_epoch=8)
    seen: list[list[float]] = []
    optimizer.optimizer.register_step_pre_hook(
        lambda inner, *_: seen.append([each["lr"] for each in inner.param_groups])
    )
    train(model, optimizer, range(6))
    np.testing.assert_allclose([each[1] for each in seen], 3e-3 * np.array([0.25, 0.5, 0.75, 1, 1, 1]))
    np.testing.assert_allclose([each[0] for each in seen], 6 * np.array([each[1] for each in seen]))
    assert [group["lr"] for group in optimizer.param_groups] == [6 * 3e-3, 3e-3, 3e-3]


def test_only_matrices_decay() -> None:
    optimizer = make_optimizer(make_model())
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0, 0.03, 0]


def test_gradients_are_clipped_before_a_step() -> None:
    model = make_model()
    optimizer = make_optimizer(model)
    norms: list[float] = []
    optimizer.optimizer.register_step_pre_hook(
        lambda *_: norms.append(
            float(torch.stack([each.grad.norm() for each in model.net.parameters() if each.grad is not None]).norm())
        )
    )
    (1e6 * model(*batch(0)[:2]).square().mean()).backward()
    optimizer.step()
    assert norms == [pytest.approx(1, rel=1e-3)]


def test_the_average_follows_the_net_and_evaluation_uses_it() -> None:
    model = AveragedNet(torch.nn.Linear(1, 1, bias=False), max_decay=0.5)
    with torch.no_grad():
        model.average.weight.zero_()  # type: ignore[operator]  # torch types modules as Any
        model.net.weight.fill_(1.0)  # type: ignore[operator]  # as above
    expected = 0.0
    for count in range(20):
        model.update()
        decay = min(0.5, (1 + count) / (10 + count))
        expected = decay * expected + (1 - decay)
        assert model.eval()(torch.ones(1, 1)).item() == pytest.approx(expected)
    assert model.train()(torch.ones(1, 1)).item() == 1
    assert int(model.num_updates) == 20


def test_the_average_is_not_trained() -> None:
    model = make_model()
    names = [name for name, each in model.named_parameters() if each.requires_grad]
    assert names
    assert all(name.startswith("net.") for name in names)


def test_reset_starts_the_warm_up_again_and_keeps_the_average() -> None:
    model = make_model()
    optimizer = make_optimizer(model)
    train(model, optimizer, range(5))
    average = {name: each.clone() for name, each in model.average.state_dict().items()}
    optimizer.reset()
    assert optimizer.state_dict()["count"] == 0
    assert not optimizer.optimizer.state
    assert all(torch.equal(average[name], each) for name, each in model.average.state_dict().items())


def test_the_moments_of_a_category_that_is_gone_become_zero() -> None:
    model = make_model(num_members=1)
    optimizer = make_optimizer(model)
    assert isinstance(model.net, TabularNet)
    weight = model.net.categories.weights[0]
    for step in range(768):
        for each in model.net.parameters():
            each.grad = torch.zeros_like(each)
        if step == 0:
            weight.grad = torch.zeros_like(weight)
            weight.grad[2] = 1e-3
        optimizer.step()
    assert (optimizer.optimizer.state[weight]["exp_avg"] == 0).all()
    assert (optimizer.optimizer.state[weight]["exp_avg_sq"][2] > 0).all()


@pytest.mark.parametrize(
    ("num_rows", "batch_size"),
    [(1, 32), (1000, 32), (2100, 128), (4096, 256), (50_000, 256), (10**5, 512), (10**6, 1024)],
)
def test_the_batch_size_grows_with_the_table(num_rows: int, batch_size: int) -> None:
    assert choose_batch_size(num_rows) == batch_size
    assert TrainingRules.for_rows(num_rows).batch_size == batch_size


def test_arguments_out_of_range_are_refused() -> None:
    with pytest.raises(BadInput, match="steps_per_epoch must be at least 1, got 0"):
        TabularOptimizer(make_model(), RULES, 0)
    with pytest.raises(BadInput, match="model must average a TabularNet, got Linear"):
        TabularOptimizer(AveragedNet(torch.nn.Linear(1, 1)), RULES, 1)
    with pytest.raises(BadInput, match="max_decay must be at least 0 and below 1, got 1"):
        AveragedNet(torch.nn.Linear(1, 1), max_decay=1)
