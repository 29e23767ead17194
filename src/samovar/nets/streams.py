"""`StreamModel`: a net for streams of ids and numbers, and how it learns. Knows no tables and no loop."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from samovar.embeddings import BaseEmbeddingModel, HashAdagrad
from samovar.errors import BadInput
from samovar.runner.learner import Learner

FIRST_SQUARES = 1e-3
"""Where Adagrad's sums of squares start in the dense part: small beside the square of a usual gradient, so that the
first minibatches move every weight by about the rate, and large enough for one odd minibatch not to."""


class StreamModel(BaseEmbeddingModel):
    """A net that predicts one number per row from ids and numbers, and needs no design: wide and deep.

    The output is a sum: a weight per id, a weight per number times the number, and a net over the vectors of all ids
    and all numbers. The first component of an id's vector is its weight. The last layer and the weights of numbers
    start at 0, those of ids close to it; so the sums learn from the first minibatch on, and the net adds what they
    cannot say.

    Numbers should be scaled: `{"number": {"scale": "running"}}` in the recipe. NaN counts as 0, which is then the mean.

    Args:
        ids: Columns of ids: the roles `id`, `hash` and `text`.
        numbers: Columns of single numbers.
        dim: The length of an id's vector.
        hidden: The widths of the hidden layers.

    Raises:
        BadInput: There is no column, one is named twice, or a width is less than 1. When called: a column of numbers
            holds ids or lists.

    Example:
        >>> import torch
        >>> from samovar import Bag
        >>> model = StreamModel(ids=["user", "ad"], numbers=["price"])
        >>> model.get_required_features_list()
        ['user', 'ad', 'price']
        >>> bag = Bag(torch.tensor([124, 456]), torch.tensor([1, 1], dtype=torch.int32))
        >>> model({"user": bag, "ad": bag, "price": torch.tensor([0.5, -1.0])}).shape
        torch.Size([2])
    """

    def __init__(
        self, ids: Sequence[str] = (), numbers: Sequence[str] = (), *, dim: int = 8, hidden: Sequence[int] = (64, 64)
    ) -> None:
        _check_columns(ids, numbers)
        if any(not hasattr(width, "__index__") or width < 1 for width in hidden):
            raise BadInput(f"StreamModel: hidden must be widths of at least 1, such as (64, 64), got {hidden!r}")
        super().__init__(dict.fromkeys(ids, dim))
        self.ids, self.numbers, self.dim = list(ids), list(numbers), dim
        widths = [len(ids) * dim + len(numbers), *hidden]
        layers = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), nn.ReLU())]
        self.deep = nn.Sequential(*layers, _make_zero(nn.Linear(widths[-1], 1)))
        self.wide = _make_zero(nn.Linear(len(numbers), 1, bias=False)) if numbers else None

    def get_required_features_list(self) -> list[str]:
        """The columns that a table must have."""
        return [*self.ids, *self.numbers]

    def forward(self, inputs: Mapping[str, Any]) -> torch.Tensor:
        """One number per row of a minibatch: the logarithm of the odds, if `stream_learner` trains the model."""
        numbers = [_join([_read_number(name, inputs[name]) for name in self.numbers])] if self.numbers else []
        joined = self.embedding.concat({name: inputs[name] for name in self.ids}, numbers) if self.ids else numbers[0]
        output: torch.Tensor = self.deep(joined).squeeze(1)
        if self.ids:
            output = output + joined[:, : len(self.ids) * self.dim : self.dim].sum(1)
        if self.wide is not None:
            output = output + self.wide(joined[:, len(self.ids) * self.dim :]).squeeze(1)
        return output


def stream_learner(
    model: StreamModel, target: str, *, ttl: int | None = None, lr: float = 0.05, emb_lr: float = 0.15
) -> Learner:
    """What `build` of a training script returns for a stream of yes or no: the model, and how it learns.

    The loss is the log-loss, predictions are probabilities. Ids learn by `HashAdagrad` (named "emb" for policies), the
    rest by torch's Adagrad ("net"): both forget their first mistakes slowly and need no schedule. The rates are for
    minibatches of about 32 rows: brew with `batch_size=32`. An hour of few large minibatches has too few steps.

    Args:
        model: A `StreamModel`.
        target: The column to predict: 0 for no, 1 for yes, or a share between them.
        ttl: How many hours with data an id is kept after its last one. None, the default: indefinitely.
        lr: Learning rate of the dense part.
        emb_lr: Learning rate of the ids.

    Returns:
        The learner. To change one part, make a `samovar.Learner` of its `model`, `optimizers`, `loss` and `predict`.

    Raises:
        BadInput: A rate or `ttl` is out of range. In training: a target is not from 0 to 1.

    Example:
        >>> def build(params):
        ...     model = StreamModel(ids=["user", "ad"], numbers=["price"])
        ...     return stream_learner(model, "clicked", ttl=params.get("ttl", 72))
        >>> learner = build({})
        >>> learner.required_features()
        ['user', 'ad', 'price']
        >>> sorted(learner.optimizers)
        ['emb', 'net']
    """
    if not lr >= 0:
        raise BadInput(f"stream_learner: lr must be 0 or more, got {lr!r}")
    dense = torch.optim.Adagrad(model.dense_parameters(), lr=lr, initial_accumulator_value=FIRST_SQUARES)
    optimizers: dict[str, torch.optim.Optimizer] = {"net": dense}
    if model.ids:
        optimizers["emb"] = HashAdagrad(model.hash_embeddings(), lr=emb_lr, ttl=ttl)

    def loss(output: torch.Tensor, targets: Mapping[str, torch.Tensor]) -> torch.Tensor:
        wanted = targets[target]
        if not ((wanted >= 0) & (wanted <= 1)).all():
            odd = wanted[~((wanted >= 0) & (wanted <= 1))][0].item()
            raise BadInput(f"stream_learner: target {target!r} must be from 0 (no) to 1 (yes), got {odd:g}")
        return nn.functional.binary_cross_entropy_with_logits(output, wanted)

    return Learner(model, optimizers, loss, predict=torch.sigmoid)


def _check_columns(ids: Sequence[str], numbers: Sequence[str]) -> None:
    for argument, names in (("ids", ids), ("numbers", numbers)):
        if isinstance(names, str):
            raise BadInput(f"StreamModel: {argument} must be a list of columns, got the text {names!r}")
    columns = [*ids, *numbers]
    if not columns:
        raise BadInput("StreamModel: ids and numbers are both empty. Name at least one column")
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"StreamModel: column {twice!r} is named twice in ids and numbers")


def _make_zero(layer: nn.Linear) -> nn.Linear:
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer


def _read_number(name: str, value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise BadInput(f"StreamModel: column {name!r} is among the numbers, but holds ids. Name it in ids")
    if value.dim() != 1:
        raise BadInput(f"StreamModel: column {name!r} must hold one number per row, got the shape {list(value.shape)}")
    return value


def _join(numbers: Sequence[torch.Tensor]) -> torch.Tensor:
    joined = torch.stack(tuple(numbers), 1)
    return joined.masked_fill(joined.isnan(), 0.0)
