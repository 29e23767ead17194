"""`HashEmbedding`: bags of ids in, pooled embedding rows out, with autograd. reference.py defines the arithmetic,
native/ does it. Knows no tables on disk and no runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from samovar.config.values import suggest
from samovar.embeddings.columns import join_columns
from samovar.embeddings.gradients import PendingGradients
from samovar.embeddings.reference import make_weights, seed_of_table
from samovar.embeddings.state import load_tables, tables_state
from samovar.embeddings.vectors import as_ids, check_unique, check_vectors
from samovar.errors import BadInput, UnknownColumn
from samovar.native.embedding import Embedding, Inputs, Lookup, RowStep
from samovar.results import StreamedState
from samovar.tables import Bag

MAX_DIM = 512


class Counters(NamedTuple):  # logs make one per table and URI; a dataclass takes five times as long
    """Counters of one hash table. `rows` and the bytes are current values; the others only grow.

    Example:
        >>> tables = HashEmbedding({"user": 4})
        >>> output = tables({"user": Bag(torch.tensor([7, 8, 7]), torch.tensor([2, 1], dtype=torch.int32))})
        >>> tables.counters()["user"].rows
        2
    """

    rows: int
    """Embedding rows in memory, including expired ones."""
    inserted: int
    """New ids."""
    reset: int
    """Rows found expired in training and restarted. `inserted + reset` does not depend on sweeps."""
    freed: int
    """Expired rows that sweeps removed."""
    missed: int
    """Distinct ids that a frozen lookup did not find."""
    skipped: int
    """Updates skipped because the gradient was not finite."""
    index_bytes: int
    """Ids, row numbers and stamps."""
    row_bytes: int
    """Of the memory for rows."""

    @property
    def bytes(self) -> int:
        """The memory that the rows take."""
        return self.index_bytes + self.row_bytes


class HashEmbedding(nn.Module):
    """One hash table per feature: a 64-bit id to an embedding row, which is created when training first sees the id.

    In training (`self.training`, gradients enabled) a lookup inserts new ids, resets expired ones, and stamps all with
    the clock. Otherwise the tables are frozen, and a missing or expired id reads as zeros. An optimizer of
    `samovar.embeddings` updates the rows that got a gradient and sets their `ttl`: a row expires when the clock, which
    the caller advances, is more than `ttl` past the row's last use in training. `to(device)` moves outputs, not tables.

    Args:
        features: Feature names and their dimensions, 1 to 512.
        pooling: "sum" or "mean" of a bag's rows, for all features or by name; "sum" by default.
        tables: Features that map to one name share a table; by default each feature has its own.
        seed: New weights depend on (seed, table, id) alone.
        init_scale: New weights are uniform in ±`init_scale`.

    Raises:
        BadInput: A dimension or pooling is invalid, or features that share a table differ in dimension.
        UnknownColumn: `pooling` or `tables` names a feature that does not exist.

    Example:
        >>> embedding = HashEmbedding({"user": 4})
        >>> optimizer = HashAdagrad(embedding, lr=0.1)
        >>> bag = Bag(torch.tensor([124, 456]), torch.tensor([1, 1, 0], dtype=torch.int32))
        >>> output = embedding({"user": bag})["user"]
        >>> output.shape
        torch.Size([3, 4])
        >>> output.sum().backward()
        >>> optimizer.step()
        >>> embedding.count_live()
        {'user': 2}
    """

    _place: torch.Tensor

    def __init__(
        self,
        features: Mapping[str, int],
        *,
        pooling: str | Mapping[str, str] = "sum",
        tables: Mapping[str, str] | None = None,
        seed: int = 0,
        init_scale: float = 0.01,
    ) -> None:
        super().__init__()
        self._arguments = (dict(features), pooling, tables, seed, init_scale)
        self.clock = 0
        self.anchor = _floats(0).requires_grad_()  # stands in for the tables in autograd and in the optimizer
        self.register_buffer("_place", _floats(0), persistent=False)  # moves with the model; outputs go there
        self._core = Embedding(Bag)
        self._tables: dict[str, int] = {}
        self._dims: dict[str, int] = {}
        self._optimizer: tuple[str, int | None] | None = None  # kind, ttl
        self._gradients = PendingGradients()
        self._frozen: set[int] = set()
        shared = dict(tables or {})
        _check_names("tables", shared, features)
        if not isinstance(pooling, str):
            _check_names("pooling", pooling, features)
        self._features = dict(features)
        for name, dim in features.items():  # this order, not that of the inputs, is the order of all sums
            table = self._add_table(shared.get(name, name), name, dim, seed, init_scale)
            is_mean = _is_mean(name, pooling if isinstance(pooling, str) else pooling.get(name, "sum"))
            self._core.add_feature(name, table, is_mean=is_mean)

    def _add_table(self, table: str, feature: str, dim: int, seed: int, init_scale: float) -> int:
        if not hasattr(dim, "__index__") or not 1 <= dim <= MAX_DIM:
            raise BadInput(f"feature {feature!r}: the dimension must be an integer from 1 to {MAX_DIM}, got {dim!r}")
        if table not in self._tables:
            self._tables[table] = self._core.add_table(dim, seed_of_table(seed, table), init_scale)
            self._dims[table] = dim
        elif self._dims[table] != dim:
            raise BadInput(
                f"feature {feature!r}: dimension {dim}, but its table {table!r} has {self._dims[table]}. Features that "
                "share a table must have one dimension"
            )
        return self._tables[table]

    @property
    def features(self) -> dict[str, int]:
        """The length of each feature's embedding."""
        return dict(self._features)

    @property
    def table_names(self) -> list[str]:
        """The names of the tables."""
        return list(self._tables)

    @property
    def frozen_tables(self) -> list[str]:
        """The names of the tables that `freeze` was called for."""
        return [name for name, number in self._tables.items() if number in self._frozen]

    @property
    def tables_of_features(self) -> dict[str, str]:
        """The table that each feature is looked up in."""
        shared = dict(self._arguments[2] or {})
        return {name: shared.get(name, name) for name in self._features}

    @property
    def mean_features(self) -> list[str]:
        """The features whose bags are averaged; those of the others are added up."""
        pooling = self._arguments[1]
        return [
            name
            for name in self._features
            if _is_mean(name, pooling if isinstance(pooling, str) else pooling.get(name, "sum"))
        ]

    def dim_of(self, table: str) -> int:
        """The length of a table's embedding rows.

        Args:
            table: Its name.
        """
        return self._core.dim(self._number(table))

    def forward(self, inputs: Mapping[str, Bag]) -> dict[str, torch.Tensor]:
        """For each feature in `inputs`, a tensor of shape `data_len.shape + (dim,)`."""
        given = self._read(inputs)
        if self.training and torch.is_grad_enabled():
            pooled = self._gradients.pool(self.anchor, given.lens, partial(self._look_up, given, is_training=True))
            return dict(zip(given.names, pooled, strict=True))
        outputs, _ = self._look_up(given, is_training=False)
        return dict(zip(given.names, outputs, strict=True))

    def concat(self, inputs: Mapping[str, Bag], real: Sequence[torch.Tensor] = ()) -> torch.Tensor:
        """`torch.cat` of the outputs along the last dimension, in the order of `features`, without copies: each feature
        is pooled into its columns, and its gradient is read from there.

        Args:
            inputs: Bags of one shape.
            real: Tensors to append as further columns. They have the shape of the bags, or one dimension more, and need
                no gradient.

        Raises:
            BadInput: The shapes differ, or a real tensor needs a gradient.
        """
        given = self._read(inputs)
        if (shape := given.shape) is None:
            shapes = ", ".join(f"{name} {list(lens.shape)}" for name, lens in zip(given.names, given.lens, strict=True))
            raise BadInput(
                f"concat: all bags must have one shape, got {shapes or 'no bags'}. Call the module instead, and join "
                "its outputs"
            )
        tail = join_columns(real, shape)
        if self.training and torch.is_grad_enabled():
            look_up = partial(self._look_up_columns, given, shape, tail, is_training=True)
            return self._gradients.pool_columns(self.anchor, given.lens, look_up)
        return self._look_up_columns(given, shape, tail, is_training=False)[0]

    def prefetch(self, inputs: Mapping[str, Bag]) -> None:
        """Bring what the next lookup of these bags reads into the cache. Changes nothing; any thread may call it.

        Args:
            inputs: A bag for each feature.
        """
        self._core.prefetch(self._read(inputs))

    def advance_clock(self) -> None:
        """Move the clock of the ttl on by one; training does so once per URI with data."""
        self.clock += 1

    def sweep(self, shard: int | None = None) -> int:
        """Free the expired rows of all shards, or of one; return their number.

        Args:
            shard: The number of the only shard to sweep. Default: all.
        """
        return self._core.sweep(self.clock, shard)

    def counters(self) -> dict[str, Counters]:
        """The counters of each table."""
        return {name: Counters(**self._core.counters(number)) for name, number in self._tables.items()}

    def count_live(self) -> dict[str, int]:
        """The number of embedding rows that are not expired, by table."""
        return dict(zip(self._tables, self._core.count_live(self.clock), strict=True))

    def count_ages(self, table: str, num_ages: int) -> NDArray[np.uint64]:
        """The number of rows last used 0, 1, 2… ticks ago; the last count includes all older ones.

        Args:
            table: Its name.
            num_ages: The length of the result.
        """
        return self._core.count_ages(self._number(table), self.clock, num_ages)

    def get(
        self, table: str, ids: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.uint32], NDArray[np.bool_]]:
        """Rows [weights | optimizer state], stamps, and whether each id exists. Changes nothing.

        Args:
            table: Its name.
            ids: N ids.
        """
        return self._core.get(self._number(table), ids)

    def weights_of(self, table: str, ids: NDArray[np.uint64]) -> NDArray[np.float32]:
        """The weights [N, dim] of ids as a frozen model sees them: zeros for a missing or expired id.

        Args:
            table: Its name.
            ids: N ids.
        """
        rows, stamps, is_known = self.get(table, ids)
        ttl = self._core.ttl(self._number(table))
        if ttl is not None:
            is_known = is_known & (self.clock - stamps.astype(np.int64) <= ttl)
        return np.where(is_known[:, None], rows[:, : self._dims[table]], np.float32(0))

    def initial_weights(self, table: str, ids: NDArray[np.uint64]) -> NDArray[np.float32]:
        """The weights [N, dim] that ids start from when training first sees them.

        Args:
            table: Its name.
            ids: N ids.
        """
        _, _, _, seed, init_scale = self._arguments
        return make_weights(ids, self.dim_of(table), seed_of_table(seed, table), init_scale)

    def set_weights(self, table: str, ids: ArrayLike, vectors: ArrayLike) -> None:
        """Give ids these weights, such as pretrained ones. Their optimizer state restarts, and they count as used now.

        Args:
            table: The name of a table.
            ids: Signed or unsigned 64-bit integers, or strings of a hashed column; each once. New ones are inserted,
                also into a frozen table.
            vectors: Finite numbers, [N, dim].

        Raises:
            BadInput: The shapes do not fit, an id occurs twice, or a number is not finite.
            UnknownColumn: There is no such table.

        Example:
            >>> embedding = HashEmbedding({"user": 2})
            >>> embedding.set_weights("user", [17, 18], [[0.5, 1.0], [0.0, -1.0]])
            >>> embedding.weights_of("user", np.array([18, 99], np.uint64))
            array([[ 0., -1.],
                   [ 0.,  0.]], dtype=float32)
        """
        number, found = self._number(table), as_ids(ids)
        where = f"HashEmbedding: table {table!r}"
        check_unique(found, where)
        given = check_vectors(vectors, len(found), self._dims[table], where)
        self._core.set_weights(number, found, given, self.clock)

    def put_rows(
        self, table: str, ids: NDArray[np.uint64], stamps: NDArray[np.uint32], weights: NDArray[np.float32]
    ) -> None:
        """Give ids the weights and the clocks of their last use that training gave them elsewhere.

        Args:
            table: The name of a table.
            ids: Each once.
            stamps: [N], the clock of each id's last use.
            weights: [N, dim].
        """
        number = self._number(table)
        for stamp in np.unique(stamps).tolist():
            chosen = stamps == stamp
            self._core.set_weights(number, ids[chosen], np.ascontiguousarray(weights[chosen]), stamp)

    def freeze(self, *tables: str) -> None:
        """Make training read these tables as evaluation does: nothing is inserted, updated or stamped, an unknown id is
        zeros, and no row expires. It lasts as long as this object.

        Args:
            *tables: Names of tables. None: all of them.

        Raises:
            UnknownColumn: There is no such table.
        """
        for number in [self._number(table) for table in tables] if tables else list(self._tables.values()):
            self._core.freeze(number)
            self._frozen.add(number)

    # For the optimizers.

    def set_optimizer(self, kind: str, ttl: int | None) -> None:
        """Make room for an optimizer's state in every row. Existing rows keep their weights.

        Args:
            kind: Its name in the native core, such as "adagrad".
            ttl: Ticks without use after which a row expires. None: never.
        """
        for number in self._tables.values():
            self._core.set_optimizer(number, kind, ttl)
        self._optimizer = (kind, ttl)
        self.drop_gradients()

    def begin_slice(self, weight: float) -> None:
        """What follows belongs to the next slice of the step. Its loss is multiplied by `weight`; the step divides by
        the sum of the weights. Gradients are added up within each slice, and these sums by a fixed tree.

        Args:
            weight: What the loss of the slice is multiplied by.
        """
        self._gradients.begin_slice(weight)

    def apply_gradients(self, step: RowStep, *, is_mean: bool = False) -> None:
        """One optimizer step on all rows that got a gradient since the last step. The gradient of a mean loss is
        multiplied by the number of examples: the largest of the lookups of a slice, added up over slices.

        Args:
            step: The update of one row, with its rates.
            is_mean: Whether the loss is a mean over examples.
        """
        gradients, scale = self._gradients.take(is_mean=is_mean)
        if not gradients:
            return
        try:
            self._core.update(gradients, replace(step, scale=scale))
        except RuntimeError as error:
            raise BadInput(
                f"HashEmbedding: {error}. Sweep and load only after step(), and step only the newest optimizer"
            ) from error

    def drop_gradients(self) -> None:
        """Forget what the last backward passes left."""
        self._gradients.drop()

    # For nn.Module.state_dict().

    def get_extra_state(self, *, is_final: bool = False) -> dict[str, Any]:
        """A view of the tables: write it before the next step. `copy.deepcopy` copies the tables as they are at that
        moment, also while another thread trains them."""

        def view() -> dict[str, Any]:
            clock = self.clock
            return {"clock": clock, "tables": tables_state(self._core, self._tables, clock, is_final=is_final)}

        def copied() -> dict[str, Any]:
            with self._core.paused():
                return deepcopy(view())

        return StreamedState(view(), copied)

    def set_extra_state(self, state: dict[str, Any]) -> None:
        if not isinstance(state, dict) or not {"clock", "tables"} <= state.keys():
            raise BadInput(f"HashEmbedding: expected a state made by state_dict(), got {type(state).__name__}")
        load_tables(self._core, self._tables, state["tables"], must_match=self._optimizer is not None)
        self.clock = state["clock"]
        self.drop_gradients()

    def __deepcopy__(self, memo: dict[int, Any]) -> "HashEmbedding":
        """A module with the same rows. The optimizer of the original does not update the copy."""
        features, pooling, tables, seed, init_scale = self._arguments
        copy = HashEmbedding(features, pooling=pooling, tables=tables, seed=seed, init_scale=init_scale)
        memo[id(self)] = copy
        if self._optimizer is not None:
            copy.set_optimizer(*self._optimizer)
        if self._frozen:
            copy.freeze(*self.frozen_tables)
        with self._core.paused():
            copy.set_extra_state(self.get_extra_state())
        return copy.to(self._place.device).train(self.training)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}: {dim}" for name, dim in self._features.items())

    def _number(self, table: str) -> int:
        if table not in self._tables:
            raise UnknownColumn(_unknown("table", table, self._tables))
        return self._tables[table]

    def _read(self, inputs: Mapping[str, Bag]) -> Inputs:
        if not inputs.keys() <= self._features.keys():
            unknown = next(name for name in inputs if name not in self._features)
            is_number = isinstance(inputs[unknown], torch.Tensor)
            hint = ". Numbers are the argument `real` of `concat`" if is_number else ""
            raise UnknownColumn(_unknown("feature", unknown, self._features) + hint)
        return self._core.read(inputs)

    def _look_up(self, given: Inputs, *, is_training: bool) -> tuple[list[torch.Tensor], Lookup]:
        features = zip(given.names, given.lens, strict=True)
        pinned = self._place.is_cuda  # a copy from pinned memory keeps nobody waiting
        outputs = [_floats(*lens.shape, self._features[name], pinned=pinned) for name, lens in features]
        lookup = self._core.lookup(given, outputs, self.clock, is_training=is_training)
        return [self._send(output) for output in outputs], lookup

    def _look_up_columns(
        self, given: Inputs, shape: tuple[int, ...], tail: torch.Tensor | None, *, is_training: bool
    ) -> tuple[torch.Tensor, Lookup]:
        width = sum(self._features[name] for name in given.names)
        if tail is not None and not self._place.is_cpu:
            output, lookup = self._look_up_columns(given, shape, None, is_training=is_training)
            return torch.cat([output, tail.to(output.device)], -1), lookup
        output = _floats(*shape, width if tail is None else width + tail.shape[-1], pinned=self._place.is_cuda)
        if tail is not None:
            output[..., width:] = tail
        lookup = self._core.lookup_columns(given, output, self.clock, is_training=is_training)
        return self._send(output), lookup

    def _send(self, output: torch.Tensor) -> torch.Tensor:
        return output if self._place.is_cpu else output.to(self._place.device, non_blocking=True)


def _floats(*shape: int, pinned: bool = False) -> torch.Tensor:
    """A tensor for C++ to write, whatever torch's default dtype and device are."""
    return torch.empty(*shape, dtype=torch.float32, device="cpu", pin_memory=pinned)


def _is_mean(feature: str, pooling: str) -> bool:
    if pooling not in ("sum", "mean"):
        raise BadInput(f"feature {feature!r}: pooling must be 'sum' or 'mean', got {pooling!r}")
    return pooling == "mean"


def _check_names(argument: str, names: Iterable[str], features: Mapping[str, int]) -> None:
    for name in names:
        if name not in features:
            raise UnknownColumn(f"{argument}: {_unknown('feature', name, features)}")


def _unknown(noun: str, name: str, known: Iterable[str]) -> str:
    return f"HashEmbedding: no {noun} {name!r}{suggest(name, known)}"
