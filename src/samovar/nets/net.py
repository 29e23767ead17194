"""`TabularNet`: a net for numbers and categories whose members share their matrices. Knows no rows, losses and loops.

    number n     a·x + a0 + PLE(x)·W        ┐
    category c   a row of its embedding     ┴─▶ features [B, F]
    member i     s ∘ (matrixᵀ (r ∘ h)) + b, ReLU, dropout, as often as there are layers; then a head of its own
    output       [B, members, outputs]

PLE is the piecewise-linear encoding: one number per bin, 0 below it, 1 above it, linear inside.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from samovar.errors import BadInput
from samovar.nets.inputs import TabularInputs


class TabularNet(nn.Module):
    """A net for tables: an embedding per column, and a few members that share most of their weights.

    Each number has a linear and a piecewise-linear embedding, each category an embedding per code. Two layers follow,
    in which all members share one matrix and each has its own factors of inputs and outputs, and its own biases and
    head. The mean of the members predicts (see `TabularTask`); each is trained on its own loss.

    Weights are drawn from torch's global generator: `samovar.set_seed` makes them reproducible.

    Args:
        inputs: What the net gets, from `TablePreprocessor.inputs`.
        num_outputs: Outputs per member, from `TabularTask.num_outputs`.
        num_members: How many members; 1 is about five times as fast, and predicts a little worse.
        dim: Numbers in the embedding of a number; by default 12, or 8 if no number has more than 32 bins.
        widths: The width of each layer.
        dropout: The share of a layer's outputs that is dropped in training.
        bfloat16: Compute the layers in bfloat16 while training, which is almost twice as fast on processors that have
            instructions for it. By default it is used on those. Predictions are always computed in float32.

    Raises:
        BadInput: An argument is out of range, or there are no inputs.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> inputs = TabularInputs(edges=[np.array([-1.0, 0.0, 1.0])] * 3, category_sizes=[12])
        >>> net = TabularNet(inputs, num_outputs=1, num_members=8)
        >>> numbers, categories = torch.randn(32, 3), torch.randint(12, (32, 1))
        >>> net(numbers, categories).shape
        torch.Size([32, 8, 1])
    """

    def __init__(
        self,
        inputs: TabularInputs,
        num_outputs: int,
        num_members: int = 8,
        *,
        dim: int | None = None,
        widths: Sequence[int] = (256, 256),
        dropout: float = 0.1,
        bfloat16: bool | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("num_outputs", num_outputs), ("num_members", num_members), ("dim", dim)):
            if value is not None and value < 1:
                raise BadInput(f"{name} must be at least 1, got {value}")
        if not 0 <= dropout < 1:
            raise BadInput(f"dropout must be at least 0 and below 1, got {dropout}")
        if not widths or min(widths) < 1:
            raise BadInput(f"widths must be numbers of at least 1, got {list(widths)}")
        if not inputs.edges and not inputs.category_sizes:
            raise BadInput("the net has no inputs")
        self.dropout = dropout
        self.uses_bfloat16 = has_bfloat16() if bfloat16 is None else bfloat16
        self.numbers = NumberEmbedding(inputs.edges, dim or choose_dim(inputs))
        self.categories = CategoryEmbedding(inputs.category_sizes)
        sizes = [*self.numbers.sizes, *self.categories.sizes]
        ends = (sum(sizes), *widths)
        layers = [MemberLinear(first, second, num_members) for first, second in pairwise(ends)]
        if num_members > 1:
            layers[0].draw_factors(sizes)
        self.layers = nn.ModuleList(layers)
        self.head = MemberHead(widths[-1], num_outputs, num_members)

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor | None = None) -> torch.Tensor:
        """Return the outputs of all members.

        Args:
            numbers: Floats [B, numbers].
            categories: Codes [B, categories]; may be left out if the net has none.

        Returns:
            Outputs [B, members, outputs].
        """
        embedded = [self.numbers(numbers)]
        if self.categories.sizes:
            if categories is None:
                raise BadInput(f"the net needs codes of {len(self.categories.sizes)} categories, got none")
            embedded.append(self.categories(categories))
        hidden = torch.cat(embedded, 1).unsqueeze(0)
        if self.uses_bfloat16 and self.training:
            hidden = hidden.bfloat16()
        for layer in self.layers:
            hidden = functional.relu(layer(hidden))
            if self.training and self.dropout > 0:
                hidden = hidden * draw_dropout(hidden, self.dropout)
        return self.head(hidden.float()).transpose(0, 1)  # type: ignore[no-any-return]  # torch types modules as Any

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """The parameters by how they are trained: `embeddings`, `matrices` (shared ones and heads) and `others`."""
        embeddings = [*self.numbers.parameters(), *self.categories.parameters()]
        matrices = [*(layer.weight for layer in self.layers), self.head.weight]
        taken = {id(each) for each in (*embeddings, *matrices)}
        others = [each for each in self.parameters() if id(each) not in taken]
        return {"embeddings": embeddings, "matrices": matrices, "others": others}  # type: ignore[dict-item]  # as above


def has_bfloat16() -> bool:
    """Whether the processor has instructions for products of bfloat16. Without them they are slower than float32."""
    known = torch.cpu.get_capabilities()
    return any(known.get(name, False) for name in ("amx_bf16", "avx512_bf16"))


def draw_dropout(like: torch.Tensor, share: float) -> torch.Tensor:
    """Factors that drop a share of values, rounded to 1/256, and scale up the others. One random byte per value takes a
    third of the time of torch's dropout, which was a quarter of a step."""
    least = min(round(share * 256), 255)
    words = torch.empty(-(-like.numel() // 8), dtype=torch.int64, device=like.device).random_(-(2**63), None)
    drawn = words.view(torch.uint8)[: like.numel()].view(like.shape)
    return (drawn >= least).to(like.dtype).mul_(256 / (256 - least))


def choose_dim(inputs: TabularInputs) -> int:
    return 12 if max((len(edges) - 1 for edges in inputs.edges), default=0) > 32 else 8


class NumberEmbedding(nn.Module):
    """Numbers [B, N] as [B, N · dim]: a·x + a0 + PLE(x)·W, with a, a0 and W of each number."""

    starts: torch.Tensor
    slopes: torch.Tensor

    def __init__(self, edges: Sequence[np.ndarray], dim: int) -> None:
        super().__init__()
        self.sizes = [dim] * len(edges)
        num_bins = max((len(each) - 1 for each in edges), default=0)
        # Of torch, so that the meta device takes no memory for them.
        starts = torch.zeros(len(edges), 1, num_bins)
        slopes = torch.zeros(len(edges), 1, num_bins)  # a bin that a number does not have is always 0
        for place, each in enumerate(edges):
            values = np.ascontiguousarray(each, np.float64)
            widths = np.diff(values)
            if len(each) < 2 or not (widths > 0).all():
                raise BadInput(f"the edges of number {place} must be at least two, ascending")
            starts[place, 0, : len(widths)] = torch.tensor(values[:-1])
            slopes[place, 0, : len(widths)] = torch.tensor(1 / widths)
        self.register_buffer("starts", starts)
        self.register_buffer("slopes", slopes)
        self.scale = nn.Parameter(torch.empty(len(edges), 1, dim).uniform_(-1, 1))
        self.shift = nn.Parameter(torch.empty(len(edges), 1, dim).uniform_(-1, 1))
        self.weight = nn.Parameter(torch.zeros(len(edges), num_bins, dim))

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        if numbers.dim() != 2 or numbers.shape[1] != len(self.sizes):
            raise BadInput(f"the net needs {len(self.sizes)} numbers per row, got the shape {list(numbers.shape)}")
        by_number = numbers.t().unsqueeze(2)  # [N, B, 1]
        bins = ((by_number - self.starts) * self.slopes).clamp(0, 1)
        embedded = torch.baddbmm(self.shift + by_number * self.scale, bins, self.weight)
        return embedded.transpose(0, 1).flatten(1)


class CategoryEmbedding(nn.Module):
    """Codes [B, C] as the embeddings of all categories, side by side."""

    def __init__(self, num_codes: Sequence[int]) -> None:
        super().__init__()
        self.sizes = [min(16, each // 2 + 1) for each in num_codes]
        self.weights = nn.ParameterList(
            torch.randn(num, dim) / 2 for num, dim in zip(num_codes, self.sizes, strict=True)
        )
        with torch.no_grad():
            for weight in self.weights:
                weight[0] = 0  # unknown is between all others, even if the training part has no such row

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        if codes.dim() != 2 or codes.shape[1] != len(self.sizes):
            raise BadInput(f"the net needs {len(self.sizes)} codes per row, got the shape {list(codes.shape)}")
        return torch.cat([functional.embedding(codes[:, place], each) for place, each in enumerate(self.weights)], 1)


class MemberLinear(nn.Module):
    """A linear layer whose members share a matrix. Member i computes s ∘ (matrixᵀ (r ∘ x)) + b, with r, s and b of its
    own. One member needs no factors."""

    def __init__(self, num_inputs: int, num_outputs: int, num_members: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(num_inputs)
        self.weight = nn.Parameter(torch.empty(num_inputs, num_outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(num_members, 1, num_outputs).uniform_(-bound, bound))
        self.r: nn.Parameter | None = None
        self.s: nn.Parameter | None = None
        if num_members > 1:
            self.r = nn.Parameter(torch.ones(num_members, 1, num_inputs))
            self.s = nn.Parameter(torch.ones(num_members, 1, num_outputs))

    def draw_factors(self, sizes: Sequence[int]) -> None:
        """Let members differ in the columns that they look at: one normal draw per member and column."""
        assert self.r is not None
        draws = torch.randn(len(self.r), 1, len(sizes))
        with torch.no_grad():
            self.r.copy_(draws.repeat_interleave(torch.tensor(sizes), 2, output_size=sum(sizes)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From [members or 1, B, inputs] to [members, B, outputs]."""
        weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
        if self.r is None or self.s is None:
            return torch.matmul(x, weight) + bias
        # One product for all members. A matrix per member, r · weight · s, takes as long for large minibatches and
        # longer for small ones.
        shared = torch.matmul(x * self.r.to(x.dtype), weight)
        return torch.addcmul(bias, shared, self.s.to(x.dtype))


class MemberHead(nn.Module):
    """The last layer: a matrix and biases for each member."""

    def __init__(self, num_inputs: int, num_outputs: int, num_members: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(num_inputs)
        self.weight = nn.Parameter(torch.empty(num_members, num_inputs, num_outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(num_members, 1, num_outputs).uniform_(-bound, bound))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.baddbmm(self.bias, x, self.weight)
