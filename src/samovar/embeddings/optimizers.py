"""Optimizers of hash tables. Their state lies in the tables' rows; here are only the numbers of a step.

They are torch optimizers over each table's `anchor`, so that schedulers and policies find `param_groups`. `step`
consumes the gradients that backward passes have left; `zero_grad` drops them. A row whose gradient is not finite
stays as it was, and is counted in `skipped`.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import torch

from samovar.embeddings.module import HashEmbedding
from samovar.errors import BadInput
from samovar.native.embedding import RowStep


class HashOptimizer(torch.optim.Optimizer):
    """What the four have in common."""

    kind: ClassVar[str]

    def __init__(
        self,
        tables: HashEmbedding | Iterable[HashEmbedding],
        lr: float,
        ttl: int | None = None,
        *,
        weight_decay: float = 0.0,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        **own: Any,  # eps and betas, of those that have them
    ) -> None:
        self.embeddings = [tables] if isinstance(tables, HashEmbedding) else list(tables)
        if not self.embeddings or not all(isinstance(table, HashEmbedding) for table in self.embeddings):
            raise BadInput(
                f"{type(self).__name__}: found {tables!r}; expected a HashEmbedding or a list of them: give "
                "model.hash_embeddings()"
            )
        numbers = {"lr": lr, "weight_decay": weight_decay, "clip_value": clip_value, "clip_norm": clip_norm, **own}
        for name, value in numbers.items():
            _check_number(type(self).__name__, name, value)
        if ttl is not None and (not isinstance(ttl, int) or isinstance(ttl, bool) or not 0 <= ttl < 2**32 - 1):
            raise BadInput(
                f"{type(self).__name__}: ttl {ttl!r}; expected a count of URIs ≥ 0, or None for ever: mend it"
            )
        super().__init__([table.anchor for table in self.embeddings], {**numbers, "ttl": ttl})
        self._ttl = ttl
        for table in self.embeddings:
            table.set_optimizer(self.kind, ttl)

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]  # torch's overloads
        """One update of each row that got a gradient since the last step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        group = self.param_groups[0]
        if group["ttl"] != self._ttl:
            raise BadInput(
                f"{type(self).__name__}: ttl became {group['ttl']!r} on the way; expected {self._ttl!r} to the end, or "
                "the rows would depend on when expired ones are freed: leave it out of the policies"
            )
        step = RowStep(
            self.kind,
            float(group["lr"]),
            group.get("eps", 0.0),
            tuple(group.get("betas", (0.0, 0.0))),
            group["weight_decay"],
            group["clip_value"] or 0.0,
            group["clip_norm"] or 0.0,
        )
        for table in self.embeddings:
            table.apply_gradients(step)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        for table in self.embeddings:
            table.drop_gradients()


class HashSGD(HashOptimizer):
    """Steps of lr times the gradient; a row has no state."""

    kind = "sgd"


class HashAdagrad(HashOptimizer):
    """A sum of squares for each weight."""

    kind = "adagrad"

    def __init__(self, tables: HashEmbedding | Iterable[HashEmbedding], lr: float, ttl: int | None = None, *,
                 eps: float = 1e-10, **common: Any) -> None:  # fmt: skip
        super().__init__(tables, lr, ttl, eps=eps, **common)


class HashRowwiseAdagrad(HashOptimizer):
    """One sum of mean squares a row: nearly no memory beside the weights."""

    kind = "rowwise_adagrad"

    def __init__(self, tables: HashEmbedding | Iterable[HashEmbedding], lr: float, ttl: int | None = None, *,
                 eps: float = 1e-10, **common: Any) -> None:  # fmt: skip
        super().__init__(tables, lr, ttl, eps=eps, **common)


class HashAdam(HashOptimizer):
    """Lazy: a row's moments decay, and are corrected, by its own steps alone."""

    kind = "adam"

    def __init__(self, tables: HashEmbedding | Iterable[HashEmbedding], lr: float, ttl: int | None = None, *,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, **common: Any) -> None:  # fmt: skip
        super().__init__(tables, lr, ttl, betas=tuple(betas), eps=eps, **common)


def _check_number(optimizer: str, name: str, value: Any) -> None:
    if value is None and name.startswith("clip"):
        return
    values = value if name == "betas" else (value,)
    top = 1.0 if name == "betas" else float("inf")
    if not all(isinstance(v, int | float) and 0 <= v < top for v in values):
        raise BadInput(f"{optimizer}: {name} {value!r}; expected a number ≥ 0{' and < 1' if name == 'betas' else ''}")
    if value == 0 and name.startswith("clip"):
        raise BadInput(f"{optimizer}: {name} 0 would stop all learning; expected a number > 0, or None for no clipping")
