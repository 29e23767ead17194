"""The public names of Samovar: which rooms are public, and what they export. Runs nothing."""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import samovar

ROOMS = (
    "brewing",
    "callbacks",
    "data",
    "embeddings",
    "functional",
    "functional.batch_iter",
    "nets",
    "provenance",
    "queue",
    "results",
    "runs",
    "scoring",
    "stages",
    "sweep",
    "tables",
    "training",
    "ui",
)
SINGLE = {
    "samovar.losses": ["bpr", "group_offsets", "lambdarank", "softmax"],
    "samovar.policies": [
        "Constant",
        "DecreasingOnPlateau",
        "Exponential",
        "LambdaEpoch",
        "Warmup",
        "LossStop",
        "Schedule",
        "Switch",
    ],
    "samovar.seeds": ["numpy_generator"],
    "samovar.signals": ["StopRequest"],
    "samovar.store": ["LocalStore", "MemoryStore"],
    "samovar.testing": ["CallbackContract"],
}
"""Of modules that are not public as a whole, what users meet."""


def exported() -> dict[str, list[str]]:
    """The public names by module."""
    rooms = {f"samovar.{room}": list(importlib.import_module(f"samovar.{room}").__all__) for room in ROOMS}
    return {"samovar": samovar.__all__, **rooms, **SINGLE}


def documented() -> Iterator[tuple[str, Any]]:
    """Functions and classes, each by its first public name."""
    seen = set()
    for module, names in exported().items():
        for name in names:
            found = getattr(importlib.import_module(module), name)
            if (inspect.isclass(found) or inspect.isfunction(found)) and id(found) not in seen:
                seen.add(id(found))
                yield f"{module}.{name}", found
