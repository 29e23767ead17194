"""A stand-in for a `HashEmbedding` whose outputs come from elsewhere: what tracing puts in its place."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import torch
from torch import nn

from samovar.embeddings.columns import join_columns
from samovar.embeddings.module import HashEmbedding
from samovar.errors import BadInput
from samovar.tables import Bag

Pool: TypeAlias = Callable[[str, Bag], torch.Tensor]
"""From a feature and its bag to its embeddings, `data_len.shape + (dim,)`."""


class PooledEmbedding(HashEmbedding):
    """Answers like the original, except that `pool` gives the embeddings of each feature.

    Args:
        original: What it stands for.
        pool: Gives the output of one feature.
    """

    get_extra_state = nn.Module.get_extra_state  # type: ignore[assignment]  # torch's own: it has no tables

    def __init__(self, original: HashEmbedding, pool: Pool) -> None:
        nn.Module.__init__(self)
        self.__dict__ |= original.__dict__
        self._pool = pool

    def forward(self, inputs: Mapping[str, Bag]) -> dict[str, torch.Tensor]:
        """The embeddings of each feature."""
        return {name: self._pool(name, inputs[name]) for name in self.features if name in inputs}

    def concat(self, inputs: Mapping[str, Bag], real: Sequence[torch.Tensor] = ()) -> torch.Tensor:
        """All of them side by side, with real columns behind."""
        pooled = list(self.forward(inputs).values())
        if not pooled:
            raise BadInput("concat: got no bags")
        tail = join_columns(real, tuple(pooled[0].shape[:-1]))
        return torch.cat([*pooled, *([] if tail is None else [tail])], -1)


@contextmanager
def replaced_embeddings(model: nn.Module, pool: Callable[[str], Pool]) -> Iterator[None]:
    """Put stand-ins in the place of all hash embeddings below a module, and restore them at the end.

    Args:
        model: The module.
        pool: Gives, for the path of an embedding in the model, what its stand-in calls.
    """
    paths = {id(each): path for path, each in model.named_modules() if isinstance(each, HashEmbedding)}
    made: dict[str, PooledEmbedding] = {}
    places = []
    for module in list(model.modules()):
        for name, child in module._modules.items():
            if isinstance(child, HashEmbedding):
                path = paths[id(child)]
                if path not in made:
                    made[path] = PooledEmbedding(child, pool(path))
                places.append((module._modules, name, child, made[path]))
    for modules, name, _, stand_in in places:
        modules[name] = stand_in
    try:
        yield
    finally:
        for modules, name, original, _ in places:
            modules[name] = original
