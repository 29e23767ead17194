"""Where the result of a config goes when nobody says it on the command line. Makes no directory."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

DIRECTORY_KEYS = ("model_dir", "model_yt_dir", "out")
PLACE_KEYS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {"train": DIRECTORY_KEYS, "predict": DIRECTORY_KEYS, "brew": ("result",), "run": ("out",)}
)
"""By command: the keys of its config that say where the result goes. Two configs cannot share one."""
_KEPT = "model_config.json"


def named_place(config: Path, tree: Mapping[str, Any], keys: Sequence[str] = DIRECTORY_KEYS) -> Path:
    """The directory that a key of the config names, relative to its file; else the file's name without its ending."""
    if config.name == _KEPT and config.with_name("status.json").exists():
        return config.parent  # the config that a directory keeps is that directory's, also when it was copied
    named = next((tree[key] for key in keys if isinstance(tree.get(key), str)), config.stem)
    return config.parent / Path(named).expanduser()
