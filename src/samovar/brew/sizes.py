"""Sizes as people write them."""

import re

from samovar.errors import ConfigError

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{prefix}B": 1000**power for power, prefix in enumerate("KMGT", 1)}
_UNITS |= {f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", 1)}


def parse_size(size: str | int | None) -> int | None:
    """Bytes: a number, or a text such as '2GB' (10**9) or '512MiB' (2**20)."""
    if size is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(\w*)", str(size).strip())
    units = {unit.upper(): factor for unit, factor in _UNITS.items()}
    if found is None or found[2].upper() not in units or float(found[1]) == 0:
        raise ConfigError(f"memory_limit: found {size!r}, expected bytes or a text such as '2GB' or '512MiB': mend it")
    return int(float(found[1]) * units[found[2].upper()])
