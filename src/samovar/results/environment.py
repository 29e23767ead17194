"""`environment.json`: the versions, threads and git state that a result is made with. Changes nothing."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from samovar.config import MISSING, flatten
from samovar.config.diff import diff_flat
from samovar.config.values import Tree

_RELEVANT = ("python", "cpu", "packages", "threads", "devices")
_HARMLESS = ("threads.cores",)  # the config has the number that is used
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "CUDA_VISIBLE_DEVICES")


def capture_environment(code_folder: Path | None = None) -> dict[str, Any]:
    """What may change a result and is not in the config. `code_folder` is the folder of the user's script."""
    torch = sys.modules.get("torch")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "packages": dict(_package_versions()),
        "threads": {
            "cores": os.cpu_count(),
            "torch": torch.get_num_threads() if torch is not None else None,
            "environment": {name: os.environ[name] for name in _THREAD_VARIABLES if name in os.environ},
        },
        "devices": _devices(torch),
        "git": _git_state(code_folder) if code_folder is not None else None,
    }


def flat_environment(environment: Mapping[str, Any]) -> Tree:
    """The part that may change a result, flat: python, cpu, packages, threads, devices. The git state is left out,
    because the directory keeps the code itself."""
    return flatten({key: environment[key] for key in _RELEVANT if environment.get(key) is not None})


def changed_environment(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The differences that may give other bits, one line each. What only one of the two knows is left out."""
    before, after = flat_environment(old), flat_environment(new)
    rows = diff_flat({"old": before, "new": after}).rows.items()
    changed = [(key, pair) for key, pair in rows if MISSING not in pair and None not in pair and key not in _HARMLESS]
    return [f"{key.removeprefix('packages.')}: {pair[0]} → {pair[1]}" for key, pair in changed]


def _devices(torch: Any) -> list[str] | None:
    """The accelerators in use. Asking an unused CUDA would initialise it on every device."""
    if torch is None or not torch.cuda.is_initialized():
        return None
    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


_SEPARATORS = re.compile(r"[-_.]+")


@cache
def _package_versions() -> tuple[tuple[str, str], ...]:
    """Versions by canonical name, from the names of the packages' folders: opening each of them would take most of the
    start-up time of a small stage."""
    found = (_from_folder(item) or (item.name, item.version) for item in metadata.distributions())
    return tuple(sorted((_SEPARATORS.sub("-", name).lower(), version) for name, version in found))


def _from_folder(item: metadata.Distribution) -> tuple[str, str] | None:
    folder = getattr(item, "_path", None)  # private, so it may disappear; then the metadata is read
    if folder is None or folder.suffix != ".dist-info":
        return None
    name, _, version = folder.stem.partition("-")
    return (name, version) if version else None


@cache
def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def _git_state(folder: Path) -> dict[str, Any] | None:
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return {
        "commit": commit,
        "changed_files": (_git(folder, "status", "--porcelain", "--untracked-files=no") or "").splitlines(),
    }


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return None  # git is not installed
    return done.stdout.rstrip() if done.returncode == 0 else None
