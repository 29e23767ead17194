"""Files of data that PyPI packages carry, found without importing the packages. Nothing is fetched."""

import importlib.util
from pathlib import Path

from samovar.errors import BadInput


def find_file(package: str, path: str) -> Path:
    """A file inside an installed package.

    Raises:
        BadInput: The package is not installed.
    """
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise BadInput(f"the package {package} is not installed: `make build/learning/installed` installs it")
    return Path(found.submodule_search_locations[0]) / path
