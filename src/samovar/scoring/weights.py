"""The numbers of a frozen model as a state tree: dense weights, and the rows of its hash tables without the state of
optimizers. Knows no files.

    {"dense": {"top.weight": tensor, …},
     "embeddings": {"embedding": {"clock": 17, "tables": {"user": [{"ids", "stamps", "rows"}, … per shard]}}}}

With "fp16" and "int8", matrices are stored in fewer bytes: {"half": float16}, or {"bytes": int8, "scales": float32},
one scale per row.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from samovar.config.records import as_corrupt
from samovar.embeddings import HashEmbedding
from samovar.embeddings.changes import rows_over, rows_since
from samovar.embeddings.state import FORMAT as TABLES_FORMAT
from samovar.embeddings.stored import COUNTERS
from samovar.errors import CorruptData
from samovar.scoring.program import EmbeddingPlan

Precision: TypeAlias = Literal["fp32", "fp16", "int8"]
Tree: TypeAlias = dict[str, Any]
_LARGEST_BYTE = 127


def weights_tree(
    dense: Mapping[str, torch.Tensor],
    embeddings: Mapping[str, HashEmbedding],
    since: Mapping[str, int] | None = None,
) -> Tree:
    """The numbers of a model as they are now; write them before the next step.

    Args:
        dense: Weights and buffers by name.
        embeddings: By their path in the model.
        since: The clock of each embedding at an earlier time: only rows that were used after it are taken. None: all.
    """
    found = {}
    for path, embedding in embeddings.items():
        state = embedding.get_extra_state(is_final=True)
        clock = None if since is None else since[path]
        tables = {name: rows_since(table["shards"], clock, table["dim"]) for name, table in state["tables"].items()}
        found[path] = {"clock": state["clock"], "tables": tables}
    return {"dense": {name: weight.detach() for name, weight in dense.items()}, "embeddings": found}


def tree_over(older: Tree, newer: Tree, plans: Mapping[str, EmbeddingPlan]) -> Tree:
    """A whole tree, with the tree of a later publication over it."""
    embeddings = {}
    for path, plan in plans.items():
        old, new = older["embeddings"][path], newer["embeddings"][path]
        tables = {
            name: [
                rows_over(before, after, new["clock"], plan.ttl[name])
                for before, after in zip(old["tables"][name], new["tables"][name], strict=True)
            ]
            for name in plan.ttl
        }
        embeddings[path] = {"clock": new["clock"], "tables": tables}
    return {"dense": newer["dense"], "embeddings": embeddings}


def encoded(tree: Tree, precision: Precision) -> Tree:
    """The same numbers in fewer bytes."""
    if precision == "fp32":
        return tree
    encode = _as_halves if precision == "fp16" else _as_bytes
    return {
        "dense": {name: encode(value.numpy()) if _is_matrix(value) else value for name, value in tree["dense"].items()},
        "embeddings": {
            path: {
                "clock": each["clock"],
                "tables": {
                    name: [{**shard, "rows": encode(np.asarray(shard["rows"]))} for shard in shards]
                    for name, shards in each["tables"].items()
                },
            }
            for path, each in tree["embeddings"].items()
        },
    }


def decoded(tree: Any, where: str) -> Tree:
    """A tree as it was read, with the numbers as float32."""
    with as_corrupt(where):
        return {
            "dense": {name: _as_tensor(value) for name, value in tree["dense"].items()},
            "embeddings": {
                path: {
                    "clock": each["clock"],
                    "tables": {
                        name: [{**shard, "rows": _as_floats(shard["rows"])} for shard in shards]
                        for name, shards in each["tables"].items()
                    },
                }
                for path, each in tree["embeddings"].items()
            },
        }


def make_embedding(plan: EmbeddingPlan, state: Mapping[str, Any], where: str) -> HashEmbedding:
    """A frozen hash embedding with the rows of a tree.

    Raises:
        CorruptData: They do not fit the plan.
    """
    with as_corrupt(where):
        pooling = {name: "mean" if name in plan.means else "sum" for name in plan.features}
        embedding = HashEmbedding(plan.features, pooling=pooling, tables=plan.tables)
        if set(embedding.table_names) != plan.ttl.keys() or set(plan.ttl) != state["tables"].keys():
            raise CorruptData(f"{where}: its hash tables are not those of the program")
        lives = {ttl for ttl in plan.ttl.values() if ttl is not None}
        if len(lives) > 1:
            raise CorruptData(f"{where}: its hash tables have several ttls")
        embedding.set_optimizer("none", next(iter(lives), None))
        eternal = [name for name, ttl in plan.ttl.items() if ttl is None]
        if eternal:
            embedding.freeze(*eternal)
        tables = {
            name: {
                "format": TABLES_FORMAT,
                "optimizer": "none",
                "dim": embedding.dim_of(name),
                "ttl": plan.ttl[name],
                "width": embedding.dim_of(name),
                "counters": dict.fromkeys(COUNTERS, 0),
                "shards": checked_shards(shards, embedding.dim_of(name), f"{where}: hash table {name!r}"),
            }
            for name, shards in state["tables"].items()
        }
        clock = state["clock"]
        if type(clock) is not int or not 0 <= clock < 2**32:
            raise CorruptData(f"{where}: {clock!r} is no clock")
        embedding.set_extra_state({"clock": clock, "tables": tables})
        return embedding.eval()


def checked_shards(shards: Any, dim: int, where: str) -> list[dict[str, Any]]:
    """The shards of a table, if they have the arrays that they must have; else `CorruptData`."""
    for shard in shards:
        ids, stamps, rows = shard["ids"], shard["stamps"], shard["rows"]
        found = (ids.dtype.name, stamps.dtype.name, rows.dtype.name, stamps.shape, rows.shape)
        if ids.ndim != 1 or found != ("uint64", "uint32", "float32", ids.shape, (len(ids), dim)):
            raise CorruptData(f"{where}: arrays {found} for {len(ids)} ids of dimension {dim}")
    return list(shards)


def _is_matrix(value: torch.Tensor) -> bool:
    return value.dtype == torch.float32 and value.dim() > 1


def _as_halves(rows: NDArray[np.float32]) -> dict[str, Any]:
    largest = np.finfo(np.float16).max
    return {"half": rows.clip(-largest, largest).astype(np.float16)}


def _as_bytes(rows: NDArray[np.float32]) -> dict[str, Any]:
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    scales = np.abs(flat).max(1, initial=0.0).astype(np.float32) / np.float32(_LARGEST_BYTE)
    whole = np.rint(flat / np.where(scales > 0, scales, np.float32(1))[:, None]).astype(np.int8)
    return {"bytes": whole.reshape(rows.shape), "scales": scales}


def _as_floats(value: Any) -> NDArray[np.float32]:
    if isinstance(value, Mapping):
        if "half" in value:
            return np.asarray(value["half"], np.float32)
        whole, scales = np.asarray(value["bytes"]), np.asarray(value["scales"])
        return np.asarray(whole * scales.reshape(-1, *[1] * (whole.ndim - 1)), np.float32)
    found = np.asarray(value)
    if found.dtype != np.float32:
        raise ValueError(f"rows of {found.dtype}")
    return found


def _as_tensor(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    return torch.from_numpy(_as_floats(value))
