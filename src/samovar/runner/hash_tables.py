"""The hash embeddings of a model, as a run sees them: tables with a clock that counts URIs with data."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch


@runtime_checkable
class HashTables(Protocol):
    """The face of `HashEmbedding`. Found by its shape, so that a model may wrap it."""

    def advance_clock(self) -> None: ...

    def sweep(self) -> int: ...

    def counters(self) -> Mapping[str, Any]: ...

    def count_live(self) -> Mapping[str, int]: ...


def find_hash_tables(model: torch.nn.Module) -> list[HashTables]:
    return [module for module in model.modules() if isinstance(module, HashTables)]
