"""The parts of a model by name, which is what `frozen`, `pretrained` and `init_from` choose from. Trains nothing.

    tower.0.weight     a parameter or buffer, by its name in the state
    embedding.user     a hash table: its HashEmbedding, then the table

A prefix is a name, or whole parts of it from the left: `tower` covers `tower.0.weight`, and not `towers.bias`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import nn

from samovar.config.values import suggest
from samovar.embeddings import HashEmbedding
from samovar.errors import ConfigError

_EXTRA = "_extra_state"


def covers(prefix: str, name: str) -> bool:
    """Whether a name is the prefix, or below it."""
    return name == prefix or name.startswith(f"{prefix}.")


def is_covered(name: str, prefixes: Iterable[str]) -> bool:
    """Whether one of the prefixes covers a name."""
    return any(covers(prefix, name) for prefix in prefixes)


def check_prefixes(key: str, prefixes: Iterable[str], names: Iterable[str], noun: str) -> None:
    """Raise `ConfigError` for a prefix that covers nothing, with the nearest that would."""
    known = list(names)
    for prefix in prefixes:
        if not any(covers(prefix, name) for name in known):
            raise ConfigError(f"{key}: no {noun} begins with {prefix!r}{suggest(prefix, _all_prefixes(known))}")


def _all_prefixes(names: Iterable[str]) -> list[str]:
    """The names and everything above them, in order."""
    found: dict[str, None] = {}
    for name in names:
        parts = name.split(".")
        found |= dict.fromkeys(".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return list(found)


def named_tables(model: nn.Module) -> dict[str, tuple[HashEmbedding, str]]:
    """Every hash table of a model: its module, and its name there. A module with two names counts under the first."""
    return {
        join(name, table): (module, table)
        for name, module in model.named_modules()
        if isinstance(module, HashEmbedding)
        for table in module.table_names
    }


def state_parts(weights: Mapping[str, Any]) -> Iterator[tuple[str, str, str | None, Any]]:
    """The parts of a model's state: name, key in the state, hash table or None, and value."""
    for key, value in weights.items():
        if key.split(".")[-1] == _EXTRA and isinstance(value, dict) and value.keys() == {"clock", "tables"}:
            place = key.removesuffix(_EXTRA).removesuffix(".")
            yield from ((join(place, table), key, table, state) for table, state in value["tables"].items())
        else:
            yield key, key, None, value


def join(place: str, name: str) -> str:
    """The name of something inside a module; the model itself has the name ''."""
    return f"{place}.{name}" if place else name


def freeze(model: nn.Module, prefixes: Iterable[str]) -> None:
    """Let training change nothing that these prefixes cover.

    Raises:
        ConfigError: A prefix covers nothing, or all that the model learns is covered.
    """
    chosen = tuple(prefixes)
    if not chosen:
        return
    tables, parameters = named_tables(model), dict(model.named_parameters(remove_duplicate=False))
    check_prefixes("frozen", chosen, [*tables, *parameters], "parameter or hash table")
    for name, (module, table) in tables.items():
        if is_covered(name, chosen):
            module.freeze(table)
    for name, parameter in parameters.items():
        if is_covered(name, chosen):
            parameter.requires_grad_(False)
    learning = [name for name, (module, table) in tables.items() if table not in module.frozen_tables]
    if not learning and not any(parameter.requires_grad for parameter in parameters.values()):
        raise ConfigError(f"frozen: {', '.join(chosen)} is all that the model learns. Leave out a part to train")
