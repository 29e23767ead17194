import torch

from samovar.trainer.lookahead import GradientClipping, Lookahead


def make(start: float = 1.0) -> tuple[torch.nn.Parameter, Lookahead]:
    weight = torch.nn.Parameter(torch.tensor([start]))
    return weight, Lookahead(torch.optim.RAdam([weight], lr=0.1), num_steps=3, part=0.5)


def step(weight: torch.nn.Parameter, optimizer: Lookahead, count: int) -> list[float]:
    values = []
    for number in range(count):
        optimizer.zero_grad()
        (weight * (number % 3 + 1)).sum().backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        optimizer.step()
        values.append(weight.item())
    return values


def test_slow_weights_move_half_of_the_way() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    optimizer = Lookahead(torch.optim.SGD([weight], lr=1.0), num_steps=2, part=0.5)
    assert step(weight, optimizer, 2) == [0.0, -0.5 + 0.0]


def test_a_restored_optimizer_continues_to_the_same_bits() -> None:
    weight, optimizer = make()
    straight = step(weight, optimizer, 12)
    first, one = make()
    step(first, one, 6)
    second, other = make(first.item())
    other.load_state_dict(one.state_dict())
    assert step(second, other, 6) == straight[6:]


def test_after_a_reset_it_is_as_new() -> None:
    weight, optimizer = make()
    step(weight, optimizer, 4)
    optimizer.reset()
    fresh, other = make(weight.item())
    assert step(weight, optimizer, 5) == step(fresh, other, 5)


def test_gradients_are_clipped_before_the_step() -> None:
    weight = torch.nn.Parameter(torch.tensor([0.0]))
    clipped = GradientClipping(Lookahead(torch.optim.SGD([weight], lr=1.0)), 0.5)
    weight.grad = torch.tensor([100.0])
    clipped.step()
    assert abs(weight.item() + 0.5) < 1e-4
