"""Contract tests, and disks that fail, for your own implementations: a store subclasses `StoreContract`, a callback
`CallbackContract`, a brewing engine `samovar.testing.engine.EngineContract`, a raw file format
`samovar.testing.format.FormatContract`. Needs pytest; knows the interfaces and no implementation. Also a disposable
Spark cluster, `samovar.testing.cluster`."""

import importlib
from typing import TYPE_CHECKING, Any

from samovar.testing.store import StoreContract

if TYPE_CHECKING:
    from samovar.testing.callback import CallbackContract

__all__ = ["CallbackContract", "StoreContract"]


def __getattr__(name: str) -> Any:
    if name != "CallbackContract":
        raise AttributeError(f"module 'samovar.testing' has no attribute {name!r}; it has {', '.join(__all__)}")
    return importlib.import_module("samovar.testing.callback").CallbackContract  # with torch, which stores do not need
