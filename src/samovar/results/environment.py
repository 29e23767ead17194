"""`environment.json`: the versions, threads and code state that a result was made with. Changes nothing."""

import os
import platform
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "CUDA_VISIBLE_DEVICES")


def capture_environment(code_folder: Path | None = None) -> dict[str, Any]:
    """What may change a result and is not in the config. `code_folder` is where the user's script lies."""
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
        "git": _git_state(code_folder) if code_folder is not None else None,
    }


def changed_versions(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What differs in a way that may give other bits, one line each."""
    lines = [f"{key}: {old[key]} → {new[key]}" for key in ("python", "cpu") if old[key] != new[key]]
    names = sorted(old["packages"].keys() & new["packages"].keys())
    versions = [(name, old["packages"][name], new["packages"][name]) for name in names]
    return lines + [f"{name}: {before} → {after}" for name, before, after in versions if before != after]


@cache
def _package_versions() -> tuple[tuple[str, str], ...]:
    return tuple(sorted((item.name, item.version) for item in metadata.distributions()))


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
    return {"commit": commit, "changed_files": (_git(folder, "status", "--porcelain") or "").splitlines()}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return None  # no git here: then there is no state to record
    return done.stdout.strip() if done.returncode == 0 else None
