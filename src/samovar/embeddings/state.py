"""Hash tables as a state tree and back: per table and shard three flat arrays, streamed out, never copied whole.

tables/<name>/shards/<k>   ids uint64 [n], stamps uint32 [n], rows float32 [n, weights and optimizer state]

Expired rows are left out: at its next use such an id begins anew either way. The function id -> shard
(native/include/samovar/hash_table.h) is part of the format.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from samovar.errors import BadInput, CorruptData
from samovar.native.embedding import SHARDS, Embedding, Loading
from samovar.results import StreamedArray

FORMAT = 1
_COUNTERS = ("inserted", "reset", "freed", "missed", "skipped")
_ROWS_A_PIECE = 1 << 16


def tables_state(core: Embedding, tables: Mapping[str, int], clock: int, *, is_sorted: bool) -> dict[str, Any]:
    """A view of the tables as they are now; it must be written before they change."""
    return {name: _table_state(core, number, clock, is_sorted) for name, number in tables.items()}


def _table_state(core: Embedding, table: int, clock: int, is_sorted: bool) -> dict[str, Any]:
    counters = core.counters(table)
    return {
        "format": FORMAT,
        "optimizer": core.kind(table),
        "dim": core.dim(table),
        "ttl": core.ttl(table),
        "width": core.width(table),
        "counters": {name: counters[name] for name in _COUNTERS},
        "shards": [_shard_state(core, table, shard, clock, is_sorted) for shard in range(SHARDS)],
    }


def _shard_state(core: Embedding, table: int, shard: int, clock: int, is_sorted: bool) -> dict[str, StreamedArray]:
    n = core.count_shard(table, shard, clock)
    version = core.version

    def reader(field: str) -> Callable[[], Iterator[memoryview]]:
        def read() -> Iterator[memoryview]:
            if core.version != version:
                raise BadInput(
                    "state of hash tables: they changed since state_dict(); it is a view of them, expected to be "
                    "written at once: write it first, or keep copy.deepcopy of it"
                )
            yield from core.stream(table, shard, clock, field, is_sorted=is_sorted)

        return read

    return {
        "ids": StreamedArray("uint64", (n,), reader("ids")),
        "stamps": StreamedArray("uint32", (n,), reader("stamps")),
        "rows": StreamedArray("float32", (n, core.width(table)), reader("rows")),
    }


def load_tables(core: Embedding, tables: Mapping[str, int], state: Mapping[str, Any], *, must_match: bool) -> None:
    """Put the tables of a state in the place of those in use: all of them, or, if one is bad, none."""
    if state.keys() != tables.keys():
        raise BadInput(
            f"state of hash tables: it has {', '.join(state) or 'none'}; the model has {', '.join(tables) or 'none'}: "
            "build the model that was saved"
        )
    for name, number in tables.items():
        _check_table(core, name, number, state[name], must_match)
    loaded = [_load_table(core, name, number, state[name]) for name, number in tables.items()]
    for loading, one in zip(loaded, (state[name] for name in tables), strict=True):
        loading.finish([one["counters"][counter] for counter in _COUNTERS])


def _check_table(core: Embedding, name: str, table: int, state: Mapping[str, Any], must_match: bool) -> None:
    where = f"state of hash table {name!r}"
    if state["format"] != FORMAT:
        raise CorruptData(
            f"{where}: has format {state['format']}; this Samovar reads {FORMAT}: use the one that wrote it"
        )
    if must_match and core.kind(table) != state["optimizer"]:
        raise BadInput(
            f"{where}: its rows were made by optimizer {state['optimizer']!r}; the model has {core.kind(table)!r}: "
            "build the optimizer that was saved"
        )
    if must_match and core.width(table) != state["width"]:
        raise BadInput(
            f"{where}: its rows have {state['width']} floats; the model's have {core.width(table)}: build the model "
            "that was saved"
        )
    if len(state["shards"]) != SHARDS:
        raise CorruptData(f"{where}: has {len(state['shards'])} shards; expected {SHARDS}: restore a copy")


def _load_table(core: Embedding, name: str, table: int, state: Mapping[str, Any]) -> Loading:
    num_rows = sum(shard["ids"].shape[0] for shard in state["shards"])
    loading = core.load(table, state["optimizer"], num_rows)

    def load_shard(number: int) -> None:
        try:
            for ids, stamps, rows in _pieces(state["shards"][number]):
                loading.insert(number, ids, stamps, rows)
        except ValueError as error:
            raise CorruptData(
                f"state of hash table {name!r}, shard {number}: {error}; expected each id once, a stamp and "
                f"{state['width']} floats for each: restore a copy"
            ) from error

    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        list(threads.map(load_shard, range(SHARDS)))
    return loading


def _pieces(shard: Mapping[str, Any]) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.float32]]]:
    ids, stamps, rows = (np.asarray(shard[field]) for field in ("ids", "stamps", "rows"))
    if not len(ids) == len(stamps) == len(rows):
        raise ValueError(f"{len(ids)} ids, {len(stamps)} stamps, {len(rows)} rows")
    for start in range(0, len(ids), _ROWS_A_PIECE):
        stop = start + _ROWS_A_PIECE
        yield ids[start:stop], stamps[start:stop], rows[start:stop]


def final_state(model: nn.Module) -> dict[str, Any]:
    """`model.state_dict()` as it does not tell how it came about: the ids of every hash table are sorted, and what its
    counters owe to sweeps and to evaluation is left out."""
    state = model.state_dict()
    for name, module in model.named_modules(remove_duplicate=False):  # the state has it under all its names
        key = f"{name}._extra_state" if name else "_extra_state"
        if key in state and hasattr(module, "table_names"):
            state[key] = module.get_extra_state(is_sorted=True)
            for table in state[key]["tables"].values():
                table["counters"] = _lasting(table["counters"])
    return state


def _lasting(counters: Mapping[str, int]) -> dict[str, int]:
    """Whether an expired id comes back as reset or as inserted depends on whether a sweep came between."""
    new = counters["inserted"] + counters["reset"]
    return {**dict.fromkeys(_COUNTERS, 0), "inserted": new, "skipped": counters["skipped"]}
