"""The parent's side of the turns: a process that trains when asked. Knows no models."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self


@dataclass(frozen=True)
class Turn:
    num_rows: int
    seconds: float
    cpu_seconds: float
    """Processor time of all threads."""
    loss: float


class Contender:
    """A process that works only during a turn. Use it in a `with` block."""

    def __init__(
        self, module: str, arguments: Sequence[str], log: Path, variables: Mapping[str, str] | None = None
    ) -> None:
        """`variables` are added to its environment."""
        self._command = [sys.executable, "-m", module, *arguments]
        self._log = log
        self._environment = {**os.environ, **(variables or {})}

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()  # its model is not needed
        self._process.communicate()

    def ask(self, name: str) -> Turn:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line.startswith("{"):
            raise SystemExit(f"{name}: ended. It said:\n{line}{self._log.read_text()}")
        return Turn(**json.loads(line))
