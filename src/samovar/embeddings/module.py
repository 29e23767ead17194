"""`HashEmbedding`: bags of ids in, pooled rows out, with autograd. reference.py has the arithmetic, native/ does it.

`BaseEmbeddingModel`: the part of a model that turns inputs into named tensors. The dense part is the user's.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.autograd.function import once_differentiable

from samovar.config.values import nearest
from samovar.embeddings.state import load_tables, tables_state
from samovar.errors import BadInput, UnknownColumn
from samovar.native.embedding import Embedding, Gradient, Inputs, Lookup, RowStep
from samovar.seeds import derive
from samovar.tables import Bag

MAX_DIM = 512


@dataclass(frozen=True)
class Counters:
    """What a table has seen. `rows` and the bytes are those of now; the others only grow."""

    rows: int
    """In memory, expired ones too."""
    inserted: int
    reset: int
    """Found expired in training, and begun anew. `inserted + reset` does not depend on the sweeps."""
    freed: int
    missed: int
    """Distinct ids that a frozen lookup did not find."""
    skipped: int
    """Updates left out because the gradient was not finite."""
    index_bytes: int
    """Ids, row numbers and stamps."""
    row_bytes: int

    @property
    def bytes(self) -> int:
        return self.index_bytes + self.row_bytes


class HashEmbedding(nn.Module):
    """One table a feature: an id of 64 bits to a row that is made when training first meets the id.

    In training (`self.training`, gradients enabled) a lookup inserts new ids, resets expired ones and stamps all with
    the clock. Else the tables are frozen, and an id that is missing or expired reads as zeros. The optimizers of
    `samovar.embeddings` update the rows that got a gradient, and give them their `ttl`: a row expires when the clock,
    which the caller advances, has gone more than `ttl` past its last training use.

    >>> embedding = HashEmbedding({"BannerID": 4})
    >>> bag = Bag(torch.tensor([124, 456]), torch.tensor([1, 1, 0], dtype=torch.int32))
    >>> embedding({"BannerID": bag})["BannerID"].shape
    torch.Size([3, 4])
    """

    def __init__(
        self,
        features: Mapping[str, int],
        *,
        pooling: str | Mapping[str, str] = "sum",
        tables: Mapping[str, str] | None = None,
        seed: int = 0,
        init_scale: float = 0.01,
    ) -> None:
        """`features` maps names to dimensions; `pooling` is "sum" or "mean", for all or by name; features that `tables`
        maps to one name share a table. New weights are uniform in ±`init_scale`, from (seed, table, id) alone."""
        super().__init__()
        self._arguments = (dict(features), pooling, tables, seed, init_scale)
        self.clock = 0
        self.anchor = _floats(0).requires_grad_()  # what autograd and the optimizer hold in the tables' stead
        self._core = Embedding(Bag)
        self._tables: dict[str, int] = {}
        self._dims: dict[str, int] = {}
        self._optimizer: tuple[str, int | None] | None = None  # kind, ttl
        self._pending: list[tuple[int, Gradient]] = []
        self._num_lookups = 0
        shared = dict(tables or {})
        _check_names("tables", shared, features)
        if not isinstance(pooling, str):
            _check_names("pooling", pooling, features)
        self._features = dict(features)
        for name, dim in features.items():  # their order, not the inputs', is the order of all sums
            table = self._add_table(shared.get(name, name), name, dim, seed, init_scale)
            is_mean = _is_mean(name, pooling if isinstance(pooling, str) else pooling.get(name, "sum"))
            self._core.add_feature(name, table, is_mean=is_mean)

    def _add_table(self, table: str, feature: str, dim: int, seed: int, init_scale: float) -> int:
        if not hasattr(dim, "__index__") or not 1 <= dim <= MAX_DIM:
            raise BadInput(f"feature {feature!r}: dimension {dim!r}; expected 1 to {MAX_DIM}: choose another")
        if table not in self._tables:
            table_seed = derive(seed, f"hash_embedding/{table}")
            self._tables[table] = self._core.add_table(dim, table_seed, init_scale)
            self._dims[table] = dim
        elif self._dims[table] != dim:
            raise BadInput(
                f"feature {feature!r}: dimension {dim}, but its table {table!r} has {self._dims[table]}; features that "
                "share a table have one dimension: give it that, or a table of its own"
            )
        return self._tables[table]

    @property
    def features(self) -> dict[str, int]:
        return dict(self._features)

    @property
    def table_names(self) -> list[str]:
        return list(self._tables)

    def forward(self, inputs: Mapping[str, Bag]) -> dict[str, torch.Tensor]:
        """For each feature that is given a tensor of shape `data_len.shape + (dim,)`."""
        given = self._read(inputs)
        if self.training and torch.is_grad_enabled():
            return dict(zip(given.names, _Pool.apply(self.anchor, self, given), strict=True))  # type: ignore[no-untyped-call]  # torch's
        outputs, _ = self._look_up(given, is_training=False)
        return dict(zip(given.names, outputs, strict=True))

    def concat(self, inputs: Mapping[str, Bag], real: Sequence[torch.Tensor] = ()) -> torch.Tensor:
        """`torch.cat` of the outputs along the last dimension, in the order of `features`, but nothing is copied:
        each feature is pooled into its columns, and its gradient read from there. The columns of `real` come after
        them: numbers of the shape of the bags, or with one dimension more, that need no gradient."""
        given = self._read(inputs)
        if (shape := given.shape) is None:
            shapes = ", ".join(f"{name} {list(lens.shape)}" for name, lens in zip(given.names, given.lens, strict=True))
            raise BadInput(
                f"concat: bags of shapes {shapes or 'none'}; expected one or more, all of one shape: call the module "
                "itself, and join what fits"
            )
        tail = _join(real, shape)
        if self.training and torch.is_grad_enabled():
            output: torch.Tensor = _PoolColumns.apply(self.anchor, self, given, shape, tail)  # type: ignore[no-untyped-call]  # torch's
            return output
        return self._look_up_columns(given, shape, tail, is_training=False)[0]

    def prefetch(self, inputs: Mapping[str, Bag]) -> None:
        """Bring what the next lookup of these bags will read into the cache. Changes nothing, from any thread."""
        self._core.prefetch(self._read(inputs))

    def advance_clock(self) -> None:
        self.clock += 1

    def sweep(self, shard: int | None = None) -> int:
        """Free the expired rows, of all shards or of one slice of the work; how many there were."""
        return self._core.sweep(self.clock, shard)

    def counters(self) -> dict[str, Counters]:
        return {name: Counters(**self._core.counters(number)) for name, number in self._tables.items()}

    def count_live(self) -> dict[str, int]:
        """Rows that are not expired, by table."""
        return dict(zip(self._tables, self._core.count_live(self.clock), strict=True))

    def count_ages(self, table: str, num_ages: int) -> NDArray[np.uint64]:
        """How many rows were last used 0, 1, 2… ticks ago; the last number has all older ones."""
        return self._core.count_ages(self._number(table), self.clock, num_ages)

    def get(
        self, table: str, ids: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.uint32], NDArray[np.bool_]]:
        """Rows [weights | optimizer state], stamps, and whether each id is there at all. Changes nothing."""
        return self._core.get(self._number(table), ids)

    # What optimizers use.

    def set_optimizer(self, kind: str, ttl: int | None) -> None:
        """Make room for an optimizer's state in every row. Rows that exist keep their weights."""
        for number in self._tables.values():
            self._core.set_optimizer(number, kind, ttl)
        self._optimizer = (kind, ttl)
        self._pending.clear()

    def apply_gradients(self, step: RowStep) -> None:
        """One optimizer step on all rows that got a gradient since the last one."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        pending.sort(key=lambda entry: entry[0])  # sums go in the order of the lookups, not of their backward passes
        try:
            self._core.update([gradient for _, gradient in pending], step)
        except RuntimeError as error:
            raise BadInput(
                f"HashEmbedding: {error}; expected forward, backward and step of one optimizer with nothing between: "
                "sweep and load after step(), and step only the newest optimizer"
            ) from error

    def drop_gradients(self) -> None:
        self._pending.clear()

    # What nn.Module.state_dict() uses.

    def get_extra_state(self, *, is_sorted: bool = False) -> dict[str, Any]:
        return {"clock": self.clock, "tables": tables_state(self._core, self._tables, self.clock, is_sorted=is_sorted)}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        if not isinstance(state, dict) or not {"clock", "tables"} <= state.keys():
            raise BadInput(
                f"HashEmbedding: found a state of {type(state).__name__}; expected what state_dict() gave: load that"
            )
        load_tables(self._core, self._tables, state["tables"], must_match=self._optimizer is not None)
        self.clock = state["clock"]
        self._pending.clear()

    def __deepcopy__(self, memo: dict[int, Any]) -> "HashEmbedding":
        """A module with the same rows; an optimizer of the old one does not know it."""
        features, pooling, tables, seed, init_scale = self._arguments
        copy = HashEmbedding(features, pooling=pooling, tables=tables, seed=seed, init_scale=init_scale)
        memo[id(self)] = copy
        if self._optimizer is not None:
            copy.set_optimizer(*self._optimizer)
        copy.set_extra_state(self.get_extra_state())
        return copy.train(self.training)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}: {dim}" for name, dim in self._features.items())

    def _number(self, table: str) -> int:
        if table not in self._tables:
            raise UnknownColumn(
                f"HashEmbedding: no table {table!r}; it has {', '.join(self._tables)}: name one of them"
            )
        return self._tables[table]

    def _read(self, inputs: Mapping[str, Bag]) -> Inputs:
        if not inputs.keys() <= self._features.keys():
            unknown = next(name for name in inputs if name not in self._features)
            raise UnknownColumn(_no_feature(unknown, self._features))
        return self._core.read(inputs)

    def _look_up(self, given: Inputs, *, is_training: bool) -> tuple[list[torch.Tensor], Lookup]:
        features = zip(given.names, given.lens, strict=True)
        outputs = [_floats(*lens.shape, self._features[name]) for name, lens in features]
        return outputs, self._core.lookup(given, outputs, self.clock, is_training=is_training)

    def _look_up_columns(
        self, given: Inputs, shape: tuple[int, ...], tail: torch.Tensor | None, *, is_training: bool
    ) -> tuple[torch.Tensor, Lookup]:
        width = sum(self._features[name] for name in given.names)
        output = _floats(*shape, width if tail is None else width + tail.shape[-1])
        if tail is not None:
            output[..., width:] = tail
        return output, self._core.lookup_columns(given, output, self.clock, is_training=is_training)


def _join(real: Sequence[torch.Tensor], shape: tuple[int, ...]) -> torch.Tensor | None:
    """Columns side by side, if there are any."""
    if isinstance(real, torch.Tensor):
        raise BadInput(f"concat: real is a tensor of shape {list(real.shape)}; expected a list of them: write [tensor]")
    for number, values in enumerate(real):
        if not isinstance(values, torch.Tensor):
            raise BadInput(
                f"concat: real[{number}] is of type {type(values).__name__}; expected a tensor: use torch.as_tensor"
            )
        if values.shape[: len(shape)] != shape or values.dim() > len(shape) + 1:
            raise BadInput(
                f"concat: real[{number}] has the shape {list(values.shape)}, the bags have {list(shape)}; expected "
                "theirs, or one dimension more: reshape it"
            )
        if values.requires_grad and torch.is_grad_enabled():
            raise BadInput(
                f"concat: real[{number}] needs a gradient; expected numbers of the data: join it with torch.cat instead"
            )
    if not real:
        return None
    if all(values.dim() == len(shape) for values in real):
        return torch.stack(tuple(real), -1)
    return torch.cat([values if values.dim() > len(shape) else values.unsqueeze(-1) for values in real], -1)


def _floats(*shape: int) -> torch.Tensor:
    """What C++ writes, whatever torch's default type and device are."""
    return torch.empty(*shape, dtype=torch.float32, device="cpu")


class _Pool(torch.autograd.Function):
    """A training lookup. Its backward pass only notes the gradients: the optimizer's step sums and applies them."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, embedding: HashEmbedding, given: Inputs) -> tuple[torch.Tensor, ...]:
        outputs, ctx.lookup = embedding._look_up(given, is_training=True)
        _remember(ctx, embedding)
        return tuple(outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[None, None, None]:
        if any(gradient is not None for gradient in gradients):
            ctx.embedding._pending.append((ctx.number, Gradient(ctx.lookup, gradients)))
        return None, None, None


class _PoolColumns(torch.autograd.Function):
    """The same with one output for all features."""

    @staticmethod
    def forward(
        ctx: Any,
        anchor: torch.Tensor,
        embedding: HashEmbedding,
        given: Inputs,
        shape: tuple[int, ...],
        tail: torch.Tensor | None,
    ) -> torch.Tensor:
        output, ctx.lookup = embedding._look_up_columns(given, shape, tail, is_training=True)
        _remember(ctx, embedding)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor | None) -> tuple[None, None, None, None, None]:
        if gradient is not None:
            ctx.embedding._pending.append((ctx.number, Gradient(ctx.lookup, [gradient])))
        return None, None, None, None, None


def _remember(ctx: Any, embedding: HashEmbedding) -> None:
    ctx.embedding, ctx.number = embedding, embedding._num_lookups
    embedding._num_lookups += 1
    ctx.set_materialize_grads(False)


def _is_mean(feature: str, pooling: str) -> bool:
    if pooling not in ("sum", "mean"):
        raise BadInput(f"feature {feature!r}: pooling {pooling!r}; expected 'sum' or 'mean': use one of them")
    return pooling == "mean"


def _check_names(argument: str, names: Iterable[str], features: Mapping[str, int]) -> None:
    for name in names:
        if name not in features:
            raise UnknownColumn(f"{argument}: {_no_feature(name, features)}")


def _no_feature(name: str, features: Iterable[str]) -> str:
    near = nearest(name, features)
    hint = f"did you mean {near!r}?" if near else "name it in `features`, or do not give it"
    return f"HashEmbedding: no feature {name!r}; it has {', '.join(features)}: {hint}"


class BaseEmbeddingModel(nn.Module):
    """Subclass it, call `embed` in `forward`, and do the rest with plain tensors.

    Examples:
        >>> class Clicks(BaseEmbeddingModel):
        ...     def __init__(self):
        ...         super().__init__({"BannerID": 8, "UserID": 8})
        ...         self.top = nn.Linear(16, 1)
        ...     def forward(self, inputs):
        ...         x = self.embed(inputs)
        ...         return self.top(torch.cat([x["BannerID"], x["UserID"]], 1)).squeeze(1)
    """

    def __init__(self, features: Mapping[str, int], **options: Any) -> None:
        """`options` are those of HashEmbedding: pooling, tables, seed, init_scale."""
        super().__init__()
        self.embedding = HashEmbedding(features, **options)

    def embed(self, inputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Bags of ids become [B, dim] (deeper bags [B, L, dim]); other tensors go on as they are. All of them arrive
        on the device of the dense part."""
        pooled = self.embedding({name: inputs[name] for name in self.embedding.features})
        real = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
        device = next((parameter.device for parameter in self.dense_parameters()), torch.device("cpu"))
        if device.type == "cpu":
            return {**pooled, **real}
        return {name: value.to(device, non_blocking=True) for name, value in (pooled | real).items()}

    def hash_embeddings(self) -> list[HashEmbedding]:
        """What the hash optimizers take."""
        return [module for module in self.modules() if isinstance(module, HashEmbedding)]

    def dense_parameters(self) -> Iterator[nn.Parameter]:
        """What torch's optimizers take: hash tables are not among them."""
        return self.parameters()

    def get_required_features_list(self) -> list[str]:
        """The columns that a table must have. Override it if the dense part reads real-valued ones too."""
        return list(self.embedding.features)
