"""The net against short formulas: encodings, members, groups, precision."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from samovar.errors import BadInput
from samovar.nets import TabularInputs, TabularNet
from samovar.nets.net import MemberLinear, NumberEmbedding
from samovar.seeds import set_seed, torch_generator

EDGES = [np.array([-2.0, -1.0, 0.5, 3.0]), np.array([0.0, 1.0])]


def make_net(num_members: int = 4, **options: Any) -> TabularNet:
    set_seed(0)
    return TabularNet(TabularInputs(EDGES, [5, 40]), 2, num_members, **options)


def draw_inputs(num_rows: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch_generator(0, "inputs")
    numbers = torch.randn(num_rows, 2, generator=generator)
    codes = [torch.randint(size, (num_rows,), generator=generator) for size in (5, 40)]
    return numbers, torch.stack(codes, 1)


def encode(x: float, edges: np.ndarray[Any, Any]) -> list[float]:
    """The piecewise-linear encoding, by its definition."""
    return [min(max((x - low) / (high - low), 0), 1) for low, high in pairwise(edges)]


def test_a_number_is_embedded_linearly_and_by_its_bins() -> None:
    set_seed(0)
    embedding = NumberEmbedding(EDGES, 3)
    with torch.no_grad():
        embedding.weight.normal_()
    numbers = torch.tensor([[-5.0, 0.25], [-1.5, 2.0], [0.5, 1.0], [2.0, -1.0]])
    got = embedding(numbers).detach().numpy().reshape(4, 2, 3)
    for row in range(4):
        for column, edges in enumerate(EDGES):
            x = float(numbers[row, column])
            bins = np.array([*encode(x, edges), *[0.0] * (4 - len(edges))])
            scale, shift, weight = (each[column].detach().numpy() for each in embedding.parameters())
            np.testing.assert_allclose(got[row, column], (scale * x + shift + bins @ weight)[0], rtol=1e-5, atol=1e-6)


def test_the_bins_do_nothing_at_first() -> None:
    net = make_net()
    assert (net.numbers.weight == 0).all()
    assert (net.numbers.scale.abs() <= 1).all()


def test_members_share_a_matrix_and_have_factors_of_their_own() -> None:
    set_seed(0)
    layer = MemberLinear(6, 5, 3)
    assert layer.r is not None
    assert layer.s is not None
    with torch.no_grad():
        layer.r.normal_()
        layer.s.normal_()
    x = torch.randn(3, 7, 6, generator=torch_generator(0, "x"))
    expected = [((x[i] * layer.r[i, 0]) @ layer.weight) * layer.s[i, 0] + layer.bias[i, 0] for i in range(3)]
    torch.testing.assert_close(layer(x), torch.stack(expected))


def test_each_member_looks_at_the_columns_in_its_own_way_at_first() -> None:
    net = make_net(num_members=8)
    first, second = (layer for layer in net.layers if isinstance(layer, MemberLinear))
    assert first.r is not None
    assert first.s is not None
    assert second.r is not None
    factors = first.r.squeeze(1)
    sizes = [8, 8, 3, 16]
    assert factors.shape == (8, sum(sizes))
    for part in torch.split(factors, sizes, 1):
        assert (part == part[:, :1]).all()  # one draw per column
        assert len(set(part[:, 0].tolist())) == 8
    assert (second.r == 1).all()
    assert (first.s == 1).all()


def test_one_member_has_no_factors() -> None:
    net = make_net(num_members=1)
    assert not any(name.endswith((".r", ".s")) for name, _ in net.named_parameters())
    assert net(*draw_inputs()).shape == (16, 1, 2)


def test_an_unknown_category_starts_between_all_others() -> None:
    net = make_net()
    assert [tuple(each.shape) for each in net.categories.weights] == [(5, 3), (40, 16)]
    assert all((each[0] == 0).all() for each in net.categories.weights)


@pytest.mark.parametrize(("num_bins", "dim"), [(32, 8), (33, 12)])
def test_many_bins_get_larger_embeddings(num_bins: int, dim: int) -> None:
    net = TabularNet(TabularInputs([np.arange(num_bins + 1.0)]), 1)
    assert net.numbers.sizes == [dim]


def test_every_parameter_is_in_one_group() -> None:
    net = make_net()
    groups = net.parameter_groups()
    names = {id(each): name for name, each in net.named_parameters()}
    by_group = {group: {names[id(each)] for each in found} for group, found in groups.items()}
    assert sorted(names.values()) == sorted(name for found in by_group.values() for name in found)
    assert by_group["matrices"] == {"layers.0.weight", "layers.1.weight", "head.weight"}
    assert by_group["embeddings"] == {
        "numbers.scale", "numbers.shift", "numbers.weight", "categories.weights.0", "categories.weights.1",
    }  # fmt: skip


def test_a_net_of_numbers_or_of_categories_only() -> None:
    numbers, codes = draw_inputs()
    assert TabularNet(TabularInputs(EDGES), 1)(numbers).shape == (16, 8, 1)
    assert TabularNet(TabularInputs((), [5, 40]), 1)(numbers[:, :0], codes).shape == (16, 8, 1)


def test_bfloat16_is_used_in_training_only_and_is_close() -> None:
    inputs = draw_inputs(256)
    exact, fast = make_net(dropout=0.0, bfloat16=False), make_net(dropout=0.0, bfloat16=True)
    assert torch.equal(exact.eval()(*inputs), fast.eval()(*inputs))
    difference = exact.train()(*inputs) - fast.train()(*inputs)
    assert 0 < difference.abs().max() < 0.02
    assert fast(*inputs).dtype == torch.float32


def test_the_same_seed_gives_the_same_net() -> None:
    one, other = make_net().state_dict(), make_net().state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_members": 0}, "num_members must be at least 1, got 0"),
        ({"num_outputs": 0}, "num_outputs must be at least 1, got 0"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"widths": ()}, r"widths must be numbers of at least 1, got \[\]"),
        ({"inputs": TabularInputs()}, "the net has no inputs"),
        ({"inputs": TabularInputs([np.array([1.0, 1.0])])}, "edges of number 0 must be at least two, ascending"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        TabularNet(**{"inputs": TabularInputs(EDGES), "num_outputs": 1, **arguments})


def test_inputs_of_another_shape_are_refused() -> None:
    net = make_net()
    numbers, codes = draw_inputs()
    with pytest.raises(BadInput, match=r"needs 2 numbers per row, got the shape \[16, 1\]"):
        net(numbers[:, :1], codes)
    with pytest.raises(BadInput, match=r"needs 2 codes per row, got the shape \[16, 1\]"):
        net(numbers, codes[:, :1])
    with pytest.raises(BadInput, match="needs codes of 2 categories, got none"):
        net(numbers)
