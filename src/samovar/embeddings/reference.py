"""Hash embeddings in numpy: the definition of their bits, which tests compare the C++ core with.

Knows no torch, no threads and no files, and is slow on purpose. Everything is float32, with one rounding per operation,
in the order written here. "Row" means embedding row, one line of an array: [weights | optimizer state].

    sgd      [w]    adagrad  [w | s]    rowwise_adagrad  [w | one s]    adam  [w | m | v | number of steps]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from samovar.seeds import derive

Ids = NDArray[np.uint64]
Rows = NDArray[np.float32]
Inputs = Mapping[str, tuple[Ids, NDArray[np.int32]]]
"""The bags of each feature: ids end to end, and how many belong to each bag."""
Kind = Literal["sgd", "adagrad", "rowwise_adagrad", "adam"]
f32 = np.float32


@dataclass
class ReferenceOptimizer:
    kind: Kind
    lr: float
    weight_decay: float = 0.0
    clip_value: float | None = None
    clip_norm: float | None = None
    eps: float = 1e-10
    betas: tuple[float, float] = (0.9, 0.999)
    initial_accumulator: float = 0.0
    """Added to the sums of squares, which start from 0."""
    loss_reduction: Literal["mean", "sum"] = "sum"
    """With "mean", gradients are multiplied by the number of examples."""

    def width(self, dim: int) -> int:
        return {"sgd": dim, "adagrad": 2 * dim, "rowwise_adagrad": dim + 1, "adam": 3 * dim + 1}[self.kind]


@dataclass
class ReferenceCounters:
    rows: int = 0
    inserted: int = 0
    reset: int = 0
    freed: int = 0
    missed: int = 0
    skipped: int = 0


def mix(words: Ids) -> Ids:
    """MurmurHash3's fmix64."""
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return words ^ (words >> np.uint64(33))


def seed_of_table(seed: int, name: str) -> int:
    return derive(seed, f"hash_embedding/{name}")


def make_weights(ids: Ids, dim: int, table_seed: int, init_scale: float) -> Rows:
    """Uniform in [-init_scale, init_scale), from (seed, table, id) alone."""
    base = mix(ids ^ np.uint64(table_seed))
    steps = np.arange(1, dim + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    bits = mix(base[:, None] + steps) >> np.uint64(40)
    return (bits.astype(f32) * f32(2**-23) - f32(1)) * f32(init_scale)


def pool(rows: Rows, lengths: NDArray[np.int32], pooling: str) -> Rows:
    """One row per bag: the sum of its rows in order, or that sum divided by their number. An empty bag is zeros."""
    pooled = np.zeros((lengths.size, rows.shape[1]), f32)
    with np.errstate(all="ignore"):
        start = 0
        for bag, length in enumerate(lengths.ravel().tolist()):
            for row in rows[start : start + length]:
                pooled[bag] = pooled[bag] + row
            if pooling == "mean" and length > 0:
                pooled[bag] = pooled[bag] / f32(length)
            start += length
    return pooled.reshape(*lengths.shape, rows.shape[1])


def spread(gradient: Rows, lengths: NDArray[np.int32], pooling: str) -> Rows:
    """The transpose of `pool`: the gradient of each occurrence of an id."""
    gradient = gradient.reshape(lengths.size, gradient.shape[-1])
    if pooling == "mean":
        gradient = np.divide(gradient, np.maximum(lengths.reshape(-1, 1), 1).astype(f32))
    return np.repeat(gradient, lengths.ravel(), axis=0)


def reduce_gradients(ids: Ids, gradients: Rows) -> tuple[Ids, Rows]:
    """Distinct ids in order of first occurrence, and the sum of each id's gradients in order, from +0.0."""
    places = {number: place for place, number in enumerate(dict.fromkeys(ids.tolist()))}
    sums = np.zeros((len(places), gradients.shape[1]), f32)
    with np.errstate(all="ignore"):
        for number, gradient in zip(ids.tolist(), gradients, strict=True):
            sums[places[number]] = sums[places[number]] + gradient
    return np.fromiter(places, np.uint64, len(places)), sums


def sum_tree(slices: Sequence[Rows]) -> Rows:
    """The sum over the slices of a step by one binary tree: ((0 + 1) + (2 + 3)) + …, where the last may be absent."""
    sums = list(slices)
    with np.errstate(all="ignore"):
        while len(sums) > 1:
            pairs = [sums[i] + sums[i + 1] for i in range(0, len(sums) - 1, 2)]
            sums = pairs + sums[2 * len(pairs) :]
    return sums[0]


def sum8(values: Rows) -> Rows:
    """The sum of each line by eight accumulators, so that no vector width changes it."""
    acc = np.zeros((8, len(values)), f32)
    for j in range(values.shape[1]):
        acc[j % 8] = acc[j % 8] + values[:, j]
    total: Rows = ((acc[0] + acc[4]) + (acc[2] + acc[6])) + ((acc[1] + acc[5]) + (acc[3] + acc[7]))
    return total


def power(base: float, exponent: int) -> float:
    """By squaring in float64: `pow` differs between C libraries."""
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


def bias_correction(beta: float, steps: Rows) -> Rows:
    distinct, places = np.unique(steps, return_inverse=True)
    return np.array([1 - power(beta, int(step)) for step in distinct]).astype(f32)[places].reshape(-1, 1)


def update_rows(
    rows: Rows, gradients: Rows, optimizer: ReferenceOptimizer, scale: float = 1
) -> tuple[Rows, NDArray[np.bool_]]:
    """The rows after one step, and which of them were skipped: NaN or Inf in a gradient leaves the row unchanged."""
    with np.errstate(all="ignore"):
        gradients = gradients * f32(scale)
    skipped: NDArray[np.bool_] = np.logical_not(np.isfinite(gradients).all(axis=1))
    with np.errstate(all="ignore"):
        stepped = _step(rows, _clip(gradients, optimizer), optimizer)
    return np.where(skipped[:, None], rows, stepped), skipped


def _clip(g: Rows, optimizer: ReferenceOptimizer) -> Rows:
    if optimizer.clip_value is not None:
        g = np.minimum(np.maximum(g, -f32(optimizer.clip_value)), f32(optimizer.clip_value))
    if optimizer.clip_norm is not None:
        limit = f32(optimizer.clip_norm)
        norm2 = sum8(g * g)[:, None]
        g = np.where(norm2 > limit * limit, g * (limit / np.sqrt(norm2)), g)
    return g


def _step(rows: Rows, g: Rows, optimizer: ReferenceOptimizer) -> Rows:
    dim = g.shape[1]
    lr, eps, initial = f32(optimizer.lr), f32(optimizer.eps), f32(optimizer.initial_accumulator)
    w, state = rows[:, :dim], rows[:, dim:]
    if optimizer.weight_decay != 0:
        g = g + f32(optimizer.weight_decay) * w
    if optimizer.kind == "sgd":
        return w - lr * g
    if optimizer.kind == "adagrad":
        s = state + g * g
        return np.hstack([w - (lr * g) / (np.sqrt(s + initial) + eps), s])
    if optimizer.kind == "rowwise_adagrad":
        s = state + (sum8(g * g) / f32(dim))[:, None]
        return np.hstack([w - (lr / (np.sqrt(s + initial) + eps)) * g, s])
    b1, b2 = optimizer.betas
    m = f32(b1) * state[:, :dim] + f32(1 - b1) * g
    v = f32(b2) * state[:, dim : 2 * dim] + f32(1 - b2) * (g * g)
    steps = state[:, 2 * dim :] + f32(1)
    c1, c2 = bias_correction(b1, steps[:, 0]), bias_correction(b2, steps[:, 0])
    return np.hstack([w - (lr * (m / c1)) / (np.sqrt(v / c2) + eps), m, v, steps])


class ReferenceTable:
    """id -> row, and the clock of its last use in training. Expired: clock - stamp > ttl."""

    def __init__(
        self, dim: int, optimizer: ReferenceOptimizer, seed_of_table: int, init_scale: float, ttl: int | None = None
    ) -> None:
        self.dim, self.optimizer, self.seed, self.init_scale, self.ttl = dim, optimizer, seed_of_table, init_scale, ttl
        self.rows: dict[int, Rows] = {}
        self.stamps: dict[int, int] = {}
        self.clock = 0
        self.counters = ReferenceCounters()

    def is_expired(self, number: int) -> bool:
        return self.ttl is not None and self.clock - self.stamps[number] > self.ttl

    def read_training(self, ids: Ids) -> Rows:
        """Insert missing ids, reset expired ones, stamp all."""
        distinct = dict.fromkeys(ids.tolist())
        missing = [number for number in distinct if number not in self.rows]
        expired = [number for number in distinct if number in self.rows and self.is_expired(number)]
        for number, weights in zip(missing + expired, self._make_weights(missing + expired), strict=True):
            self.rows[number] = np.zeros(self.optimizer.width(self.dim), f32)
            self.rows[number][: self.dim] = weights
        self.stamps.update(dict.fromkeys(distinct, self.clock))
        self.counters.inserted += len(missing)
        self.counters.reset += len(expired)
        self.counters.rows = len(self.rows)
        return self._stack([self.rows[number] for number in ids.tolist()])

    def read_frozen(self, ids: Ids) -> Rows:
        """Change nothing; a missing or expired id is zeros."""
        zeros = np.zeros(self.optimizer.width(self.dim), f32)
        missing = {number for number in ids.tolist() if number not in self.rows or self.is_expired(number)}
        self.counters.missed += len(missing)
        return self._stack([zeros if number in missing else self.rows[number] for number in ids.tolist()])

    def update(self, slices: Sequence[tuple[Ids, Rows]], scale: float = 1) -> None:
        """One step for each distinct id; the gradients of each slice have one line per occurrence."""
        numbers = list(dict.fromkeys(number for ids, _ in slices for number in ids.tolist()))
        zero = np.zeros(self.dim, f32)
        sums = []
        for distinct, found in (reduce_gradients(ids, gradients) for ids, gradients in slices):
            sum_of = dict(zip(distinct.tolist(), found, strict=True))
            sums.append(np.array([sum_of.get(number, zero) for number in numbers], f32).reshape(-1, self.dim))
        before = self._stack([self.rows[number] for number in numbers])
        rows, skipped = update_rows(before, sum_tree(sums), self.optimizer, scale)
        self.rows.update(zip(numbers, rows, strict=True))
        self.counters.skipped += int(skipped.sum())

    def sweep(self) -> int:
        """Free the expired rows and return their number. No sweep changes another row or an output."""
        num_freed = self.forget_expired()
        self.counters.freed += num_freed
        return num_freed

    def forget_expired(self) -> int:
        """What saving and loading does: expired rows are left out, and do not count as freed."""
        expired = [number for number in self.rows if self.is_expired(number)]
        for number in expired:
            del self.rows[number], self.stamps[number]
        self.counters.rows = len(self.rows)
        return len(expired)

    def _make_weights(self, numbers: list[int]) -> Rows:
        return make_weights(np.array(numbers, np.uint64), self.dim, self.seed, self.init_scale)

    def _stack(self, rows: list[Rows]) -> Rows:
        return np.array(rows, f32).reshape(len(rows), self.optimizer.width(self.dim))


class ReferenceEmbedding:
    """Tables by name, and the features that use them; two features may share a table."""

    def __init__(
        self,
        features: Mapping[str, int],
        optimizer: ReferenceOptimizer,
        ttl: int | None = None,
        pooling: Mapping[str, str] | None = None,
        tables: Mapping[str, str] | None = None,
        seed: int = 0,
        init_scale: float = 0.01,
    ) -> None:
        self.table_of = {name: (tables or {}).get(name, name) for name in features}
        self.pooling = {name: (pooling or {}).get(name, "sum") for name in features}
        self.tables = {
            self.table_of[name]: ReferenceTable(
                dim, optimizer, seed_of_table(seed, self.table_of[name]), init_scale, ttl
            )
            for name, dim in features.items()
        }

    def forward(self, inputs: Inputs, training: bool = True) -> dict[str, Rows]:
        """Only the given features. A table is read once for all its features, so that a call counts an id once."""
        outputs = {}
        for table_name, table in self.tables.items():
            names = [name for name in self.table_of if name in inputs and self.table_of[name] == table_name]
            ids = np.concatenate([np.array([], np.uint64), *(inputs[name][0] for name in names)])
            rows = table.read_training(ids) if training else table.read_frozen(ids)
            for name in names:
                num_ids, lengths = len(inputs[name][0]), inputs[name][1]
                outputs[name] = pool(rows[:num_ids, : table.dim], lengths, self.pooling[name])
                rows = rows[num_ids:]
        return outputs

    def step(
        self, *slices: Sequence[tuple[Inputs, Mapping[str, Rows]]], weights: Sequence[float] | None = None
    ) -> None:
        """One update from all uses since the last: the inputs of each forward call, and the gradients of its outputs.

        The order of the sums within a slice: forward calls, features as declared, occurrences. The number of examples
        of a slice is that of its largest feature. The losses of slices were multiplied by `weights`.
        """
        divisor = 1.0 if weights is None else sum(weights)
        num_examples = sum(_count_examples(uses) for uses in slices) or 1
        for table_name, table in self.tables.items():
            is_mean = table.optimizer.loss_reduction == "mean"
            gathered = [self._gather(table_name, uses) for uses in slices]
            table.update(gathered, (num_examples if is_mean else 1) / divisor)

    def _gather(self, table_name: str, uses: Sequence[tuple[Inputs, Mapping[str, Rows]]]) -> tuple[Ids, Rows]:
        ids, gradients = [np.array([], np.uint64)], [np.zeros((0, self.tables[table_name].dim), f32)]
        for inputs, gradient_of in uses:
            for name in self.table_of:
                if name in gradient_of and self.table_of[name] == table_name:
                    ids.append(inputs[name][0])
                    gradients.append(spread(gradient_of[name], inputs[name][1], self.pooling[name]))
        return np.concatenate(ids), np.concatenate(gradients)

    def advance_clock(self) -> None:
        for table in self.tables.values():
            table.clock += 1

    def sweep(self) -> int:
        return sum(table.sweep() for table in self.tables.values())


def _count_examples(uses: Sequence[tuple[Inputs, Mapping[str, Rows]]]) -> int:
    sizes = [len(lengths) for inputs, gradient_of in uses if gradient_of for _, lengths in inputs.values()]
    return max(sizes, default=0)
