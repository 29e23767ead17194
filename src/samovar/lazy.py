"""Names of a package that are imported on first use: a command that lists runs must not wait for torch."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package.

    Args:
        package: Its `__name__`.
        places: Where each public name is: `module:name`, or `module` if it is that module itself, relative to the
            package.

    Example:
        >>> __getattr__ = lazy_names("samovar.scoring", {"Model": "model:Model"})
    """

    def find(name: str) -> Any:
        if name not in places:
            known = ", ".join(sorted(places))
            raise AttributeError(f"module {package!r} has no attribute {name!r}. Available: {known}")
        module, _, attribute = places[name].partition(":")
        found = importlib.import_module(f"{package}.{module}")
        return getattr(found, attribute) if attribute else found

    return find
