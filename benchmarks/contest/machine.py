"""What a number was measured on: processor, memory, kernel and versions. No names of hosts, users or folders."""

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

OWN = ("samovar", "torch", "numpy")
PEERS = (
    "catboost",
    "duckdb",
    "fbgemm-gpu-cpu",
    "lightgbm",
    "litdata",
    "mosaicml-streaming",
    "pyarrow",
    "pylance",
    "pytorch-lightning",
    "river",
    "safetensors",
    "scikit-learn",
    "skorch",
    "torchrec",
    "vowpalwabbit",
    "xxhash",
    "zstandard",
)
_GIB = 1 << 30


@dataclass(frozen=True)
class Machine:
    processor: str
    num_cores: int
    memory_gib: float
    kernel: str
    versions: Mapping[str, str]
    """Versions of Python, Samovar's main dependencies, and every installed peer."""

    def __str__(self) -> str:
        return f"{self.num_cores} cores {self.processor}, {self.memory_gib:.0f} GiB, {self.kernel}"


def look_at_machine() -> Machine:
    return Machine(
        processor=f"{_first_value('/proc/cpuinfo', 'model name')}, model {_first_value('/proc/cpuinfo', 'model')}",
        num_cores=len(os.sched_getaffinity(0)),
        memory_gib=int(_first_value("/proc/meminfo", "MemTotal").split()[0]) * 1024 / _GIB,
        kernel=f"{platform.system()} {platform.release()}",
        versions=_find_versions(),
    )


def _find_versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in (*OWN, *PEERS):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    line = subprocess.run(["sha256sum", "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    return {**found, "sha256sum": line.split()[-1]}


def _first_value(file: str, field: str) -> str:
    lines = (line.partition(":") for line in Path(file).read_text().splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == field), "unknown")
