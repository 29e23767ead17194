"""Hash tables to a state tree and back: three flat arrays per table and shard, streamed and never copied whole.

tables/<name>/shards/<k>   ids uint64 [n], stamps uint32 [n], rows float32 [n, weights and optimizer state]

Expired rows are left out: such an id starts from new weights at its next use in any case. The function id -> shard
(native/include/samovar/hash_table.h) is part of the format. "Row" means embedding row.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from samovar.embeddings.stored import COUNTERS
from samovar.errors import BadInput, CorruptData
from samovar.native.embedding import SHARDS, Embedding, Loading
from samovar.results import StreamedArray

FORMAT = 1
_ROWS_PER_PIECE = 1 << 16
_FIELDS = {"ids": ("uint64", 1), "stamps": ("uint32", 1), "rows": ("float32", 2)}


def tables_state(core: Embedding, tables: Mapping[str, int], clock: int, *, is_final: bool) -> dict[str, Any]:
    """A view of the tables as they are now; write it before they change. For `is_final` see `final_state`."""
    return {name: _table_state(core, number, clock, is_final) for name, number in tables.items()}


def _table_state(core: Embedding, table: int, clock: int, is_final: bool) -> dict[str, Any]:
    counters = _lasting(core.counters(table)) if is_final else core.counters(table)
    return {
        "format": FORMAT,
        "optimizer": core.kind(table),
        "dim": core.dim(table),
        "ttl": core.ttl(table),
        "width": core.width(table),
        "counters": {name: counters[name] for name in COUNTERS},
        "shards": [_shard_state(core, table, shard, clock, is_final) for shard in range(SHARDS)],
    }


def _shard_state(core: Embedding, table: int, shard: int, clock: int, is_final: bool) -> dict[str, StreamedArray]:
    n = core.count_shard(table, shard, clock)
    version = core.version

    def reader(field: str) -> Callable[[], Iterator[memoryview]]:
        def read() -> Iterator[memoryview]:
            if core.version != version:
                raise BadInput(
                    "the hash tables changed after state_dict(), which is a view of them. Write the state before the "
                    "next step, or copy it with copy.deepcopy"
                )
            yield from core.stream(table, shard, clock, field, is_sorted=is_final)

        return read

    return {
        "ids": StreamedArray("uint64", (n,), reader("ids")),
        "stamps": StreamedArray("uint32", (n,), reader("stamps")),
        "rows": StreamedArray("float32", (n, core.width(table)), reader("rows")),
    }


def load_tables(core: Embedding, tables: Mapping[str, int], state: Mapping[str, Any], *, must_match: bool) -> None:
    """Replace the tables in use by those of a state: all of them or, if one is bad, none."""
    if state.keys() != tables.keys():
        raise BadInput(
            f"the state has hash tables {', '.join(state) or 'none'}, the model has {', '.join(tables) or 'none'}. "
            "Build the model that was saved"
        )
    for name, number in tables.items():
        _check_table(core, name, number, state[name], must_match)
    loaded = [_load_table(core, name, number, state[name]) for name, number in tables.items()]
    for loading, one in zip(loaded, (state[name] for name in tables), strict=True):
        loading.finish([one["counters"][counter] for counter in COUNTERS])


def _check_table(core: Embedding, name: str, table: int, state: Mapping[str, Any], must_match: bool) -> None:
    where = f"state of hash table {name!r}"
    if state["format"] != FORMAT:
        raise CorruptData(
            f"{where}: format {state['format']} is not supported, this Samovar reads {FORMAT}. Use a newer Samovar"
        )
    if must_match and core.kind(table) != state["optimizer"]:
        raise BadInput(
            f"{where}: saved with optimizer {state['optimizer']!r}, the model has {core.kind(table)!r}. Build the "
            "optimizer that was saved"
        )
    if must_match and core.width(table) != state["width"]:
        raise BadInput(
            f"{where}: an embedding row has {state['width']} floats, the model's rows have {core.width(table)}. Build "
            "the model that was saved"
        )
    if len(state["shards"]) != SHARDS:
        raise CorruptData(f"{where}: has {len(state['shards'])} shards instead of {SHARDS}. Restore it from a copy")
    for number, shard in enumerate(state["shards"]):
        found = {field: (str(shard[field].dtype), len(shard[field].shape)) for field in _FIELDS}
        if found != _FIELDS:
            raise CorruptData(
                f"{where}, shard {number}: its arrays have the types and ranks {found}, expected {_FIELDS}. Restore it "
                "from a copy"
            )


def _load_table(core: Embedding, name: str, table: int, state: Mapping[str, Any]) -> Loading:
    num_rows = sum(shard["ids"].shape[0] for shard in state["shards"])
    loading = core.load(table, state["optimizer"], num_rows)

    def load_shard(number: int) -> None:
        try:
            for ids, stamps, rows in _pieces(state["shards"][number]):
                loading.insert(number, ids, stamps, rows)
        except ValueError as error:
            raise CorruptData(
                f"state of hash table {name!r}, shard {number} is damaged: {error}. Restore it from a copy"
            ) from error

    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        list(threads.map(load_shard, range(SHARDS)))
    return loading


def _pieces(shard: Mapping[str, Any]) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.float32]]]:
    ids, stamps, rows = (np.asarray(shard[field]) for field in ("ids", "stamps", "rows"))
    if not len(ids) == len(stamps) == len(rows):
        raise ValueError(f"{len(ids)} ids, {len(stamps)} stamps, {len(rows)} rows")
    for start in range(0, len(ids), _ROWS_PER_PIECE):
        stop = start + _ROWS_PER_PIECE
        yield ids[start:stop], stamps[start:stop], rows[start:stop]


def refit_table(saved: Mapping[str, Any], module: Any, table: str, *, keeps_state: bool) -> dict[str, Any]:
    """The saved state of a table as one of another table, which may have another dimension or optimizer.

    Common components are taken. New ones are those of a new id. State that belongs to a component is taken with it and
    starts at 0 for new ones; state of a whole row is taken. Without `keeps_state` all state starts at 0.

    Args:
        saved: One entry of `tables` in a state.
        module: A HashEmbedding.
        table: The name of the table there.
        keeps_state: Whether to take the optimizer's state. The kind must then be the same.
    """
    here = module.get_extra_state()["tables"][table]
    same = ("optimizer", "dim", "width")
    if keeps_state and all(saved[name] == here[name] for name in same):
        return dict(saved)
    blocks = _state_blocks(here["optimizer"]) if keeps_state else 0

    def convert(ids: NDArray[np.uint64], rows: NDArray[np.float32]) -> NDArray[np.float32]:
        old, new, common = saved["dim"], here["dim"], min(saved["dim"], here["dim"])
        fitted = np.zeros((len(ids), here["width"]), np.float32)
        if new > old:
            fitted[:, :new] = module.initial_weights(table, ids)
        for block in range(blocks + 1):
            fitted[:, block * new : block * new + common] = rows[:, block * old : block * old + common]
        if keeps_state:
            fitted[:, (blocks + 1) * new :] = rows[:, (blocks + 1) * old :]
        return fitted

    shards = [{**shard, "rows": _converted(shard, here["width"], convert)} for shard in saved["shards"]]
    return {**saved, **{name: here[name] for name in (*same, "ttl")}, "shards": shards}


def _state_blocks(optimizer: str) -> int:
    """How many floats of state a row has per component; the rest belongs to the whole row (see reference.py)."""
    return {"none": 0, "sgd": 0, "adagrad": 1, "rowwise_adagrad": 0, "adam": 2}[optimizer]


def _converted(
    shard: Mapping[str, Any],
    width: int,
    convert: Callable[[NDArray[np.uint64], NDArray[np.float32]], NDArray[np.float32]],
) -> StreamedArray:
    def read() -> Iterator[memoryview]:
        for ids, _, rows in _pieces(shard):
            yield convert(ids, rows).reshape(-1).view(np.uint8).data

    return StreamedArray("float32", (shard["ids"].shape[0], width), read)


def final_state(model: nn.Module) -> dict[str, Any]:
    """`model.state_dict()` without traces of how training went: ids are sorted, and counters that depend on sweeps and
    evaluations are zero.

    Args:
        model: A module with any number of `HashEmbedding`s.

    Returns:
        A state that `model.load_state_dict` accepts; two runs with the same rows give the same bytes.

    Example:
        >>> model = HashEmbedding({"user": 4})
        >>> sorted(final_state(model)["_extra_state"])
        ['clock', 'tables']
    """
    state = model.state_dict()
    for name, module in model.named_modules(remove_duplicate=False):  # a shared module has several names in the state
        key = f"{name}._extra_state" if name else "_extra_state"
        if key in state and hasattr(module, "table_names"):
            state[key] = module.get_extra_state(is_final=True)
    return state


def _lasting(counters: Mapping[str, int]) -> dict[str, int]:
    """Whether an expired id counts as reset or as inserted depends on the sweeps, so both are added up."""
    new = counters["inserted"] + counters["reset"]
    return {**dict.fromkeys(COUNTERS, 0), "inserted": new, "skipped": counters["skipped"]}
