"""Optimizers of hash tables. Their state is in the embedding rows; here are only the numbers of a step.

They are torch optimizers over the `anchor` of each HashEmbedding, so that schedulers and policies find `param_groups`.
`step` applies and consumes the gradients of earlier backward passes; `zero_grad` drops them. A row whose gradient is
not finite stays unchanged and is counted in `skipped`.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import torch

from samovar.embeddings.module import HashEmbedding
from samovar.errors import BadInput
from samovar.native.embedding import RowStep


class HashOptimizer(torch.optim.Optimizer):
    """The base class of the four optimizers.

    Args:
        tables: A `HashEmbedding`, or what `hash_embeddings()` returns.
        lr: Learning rate.
        ttl: A row expires when it was not used in training for more than `ttl` ticks of the clock, which counts URIs.
            None, the default, keeps rows indefinitely.
        weight_decay: Times the weights, added to the gradient of the rows in use.
        clip_value: Clips each component of a row's gradient to ±`clip_value`.
        clip_norm: Scales a row's gradient down to this norm.
        loss_reduction: What the loss does with the losses of a minibatch's examples. The gradients of a "mean" are
            multiplied by the number of examples, so that they do not shrink with the minibatch; those of a "sum" are
            taken as they are. The default is "mean" for both Adagrads, "sum" for SGD and Adam.

    Raises:
        BadInput: An argument is out of range.

    Example:
        >>> optimizer = HashSGD(HashEmbedding({"user": 4}), lr=0.1)
        >>> isinstance(optimizer, HashOptimizer)
        True
    """

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
        loss_reduction: str = "sum",
        **own: Any,  # eps, betas and initial_accumulator, if the optimizer has them
    ) -> None:
        self.embeddings = [tables] if isinstance(tables, HashEmbedding) else list(tables)
        if not self.embeddings or not all(isinstance(table, HashEmbedding) for table in self.embeddings):
            raise BadInput(
                f"{type(self).__name__}: expected a HashEmbedding or a list of them, such as model.hash_embeddings(), "
                f"got {tables!r}"
            )
        numbers = {"lr": lr, "weight_decay": weight_decay, "clip_value": clip_value, "clip_norm": clip_norm, **own}
        for name, value in numbers.items():
            _check_number(type(self).__name__, name, value)
        if ttl is not None and (not isinstance(ttl, int) or isinstance(ttl, bool) or not 0 <= ttl < 2**32 - 1):
            raise BadInput(
                f"{type(self).__name__}: ttl must be a number of URIs from 0 on, or None for no expiry, got {ttl!r}"
            )
        if loss_reduction not in ("mean", "sum"):
            raise BadInput(f"{type(self).__name__}: loss_reduction must be 'mean' or 'sum', got {loss_reduction!r}")
        settings = {**numbers, "ttl": ttl, "loss_reduction": loss_reduction}
        super().__init__([table.anchor for table in self.embeddings], settings)
        self._ttl = ttl
        for table in self.embeddings:
            table.set_optimizer(self.kind, ttl)

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]  # torch's overloads
        """Update each row that got a gradient since the last step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        group = self.param_groups[0]
        if group["ttl"] != self._ttl:
            raise BadInput(
                f"{type(self).__name__}: ttl cannot change during training, it was {self._ttl!r} and became "
                f"{group['ttl']!r}. Results would depend on the times of the sweeps"
            )
        step = RowStep(
            self.kind,
            float(group["lr"]),
            group.get("eps", 0.0),
            group.get("initial_accumulator", 0.0),  # only Adagrad has one
            tuple(group.get("betas", (0.0, 0.0))),
            group["weight_decay"],
            group["clip_value"] or 0.0,
            group["clip_norm"] or 0.0,
        )
        is_mean = group.get("loss_reduction") == "mean"
        for table in self.embeddings:
            table.apply_gradients(step, is_mean=is_mean)
        return loss

    def begin_slice(self, weight: float) -> None:
        """What follows belongs to the next slice of the step: see `HashEmbedding.begin_slice`.

        Args:
            weight: What the loss of the slice is multiplied by.
        """
        for table in self.embeddings:
            table.begin_slice(weight)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for table in self.embeddings:
            table.drop_gradients()


class HashSGD(HashOptimizer):
    """SGD: a step of lr times the gradient. An embedding row has no state.

    Args:
        tables: A `HashEmbedding`, or what `hash_embeddings()` returns.
        lr: Learning rate.
        ttl: A row expires when it was not used in training for more than `ttl` ticks of the clock, which counts URIs.
            None, the default, keeps rows indefinitely.
        weight_decay: See `HashOptimizer`.
        clip_value: See `HashOptimizer`.
        clip_norm: See `HashOptimizer`.
        loss_reduction: See `HashOptimizer`.

    Example:
        >>> embedding = HashEmbedding({"user": 4})
        >>> optimizer = HashSGD(embedding, lr=0.1, ttl=24)
        >>> bag = Bag(torch.tensor([124, 456]), torch.tensor([1, 1], dtype=torch.int32))
        >>> embedding({"user": bag})["user"].sum().backward()
        >>> optimizer.step()
    """

    kind = "sgd"


class HashAdagrad(HashOptimizer):
    """Adagrad: one sum of squared gradients per weight, so an embedding row takes twice its weights.

    Args:
        tables: A `HashEmbedding`, or what `hash_embeddings()` returns.
        lr: Learning rate.
        ttl: A row expires when it was not used in training for more than `ttl` ticks of the clock, which counts URIs.
            None, the default, keeps rows indefinitely.
        initial_accumulator: Where the sum of squares starts. At 1, the first gradients of an id move it by `lr` times
            themselves: a first click counts more than a first non-click. At 0 both move it by `lr`.
        loss_reduction: "mean" or "sum": what the loss does with its examples, see `HashOptimizer`.
        eps: Added to the square root before the division.
        **common: weight_decay, clip_value and clip_norm, see `HashOptimizer`.

    Example:
        >>> embedding = HashEmbedding({"user": 4})
        >>> optimizer = HashAdagrad(embedding, lr=0.1, ttl=24)
        >>> bag = Bag(torch.tensor([124, 456]), torch.tensor([1, 1], dtype=torch.int32))
        >>> embedding({"user": bag})["user"].sum().backward()
        >>> optimizer.step()
    """

    kind = "adagrad"

    def __init__(self, tables: HashEmbedding | Iterable[HashEmbedding], lr: float, ttl: int | None = None, *,
                 initial_accumulator: float = 1.0, loss_reduction: str = "mean", eps: float = 1e-10,
                 **common: Any) -> None:  # fmt: skip
        own = {"initial_accumulator": initial_accumulator, "eps": eps}
        super().__init__(tables, lr, ttl, loss_reduction=loss_reduction, **own, **common)


class HashRowwiseAdagrad(HashOptimizer):
    """Row-wise Adagrad: one sum of mean squared gradients per embedding row, almost no memory beside the weights.

    Args:
        tables: A `HashEmbedding`, or what `hash_embeddings()` returns.
        lr: Learning rate.
        ttl: A row expires when it was not used in training for more than `ttl` ticks of the clock, which counts URIs.
            None, the default, keeps rows indefinitely.
        initial_accumulator: Where the sum of squares starts. At 1, the first gradients of an id move it by `lr` times
            themselves: a first click counts more than a first non-click. At 0 both move it by `lr`.
        loss_reduction: "mean" or "sum": what the loss does with its examples, see `HashOptimizer`.
        eps: Added to the square root before the division.
        **common: weight_decay, clip_value and clip_norm, see `HashOptimizer`.

    Example:
        >>> embedding = HashEmbedding({"user": 4})
        >>> optimizer = HashRowwiseAdagrad(embedding, lr=0.1, ttl=24)
        >>> bag = Bag(torch.tensor([124, 456]), torch.tensor([1, 1], dtype=torch.int32))
        >>> embedding({"user": bag})["user"].sum().backward()
        >>> optimizer.step()
    """

    kind = "rowwise_adagrad"

    def __init__(self, tables: HashEmbedding | Iterable[HashEmbedding], lr: float, ttl: int | None = None, *,
                 initial_accumulator: float = 1.0, loss_reduction: str = "mean", eps: float = 1e-10,
                 **common: Any) -> None:  # fmt: skip
        own = {"initial_accumulator": initial_accumulator, "eps": eps}
        super().__init__(tables, lr, ttl, loss_reduction=loss_reduction, **own, **common)


class HashAdam(HashOptimizer):
    """Lazy Adam: the moments of an embedding row decay, and are corrected, by the row's own steps alone.

    Args:
        tables: A `HashEmbedding`, or what `hash_embeddings()` returns.
        lr: Learning rate.
        ttl: A row expires when it was not used in training for more than `ttl` ticks of the clock, which counts URIs.
            None, the default, keeps rows indefinitely.
        betas: Decay rates of the two moments.
        eps: Added to the square root before the division.
        **common: weight_decay, clip_value, clip_norm and loss_reduction, see `HashOptimizer`.

    Example:
        >>> embedding = HashEmbedding({"user": 4})
        >>> optimizer = HashAdam(embedding, lr=0.1, ttl=24)
        >>> bag = Bag(torch.tensor([124, 456]), torch.tensor([1, 1], dtype=torch.int32))
        >>> embedding({"user": bag})["user"].sum().backward()
        >>> optimizer.step()
    """

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
        limits = "in [0, 1)" if name == "betas" else "0 or more"
        raise BadInput(f"{optimizer}: {name} must be {limits}, got {value!r}")
    if value == 0 and name.startswith("clip"):
        raise BadInput(f"{optimizer}: {name} must be more than 0, or None for no clipping, got 0")
