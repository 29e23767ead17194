"""The command line of a benchmark: what all of them take, and sizes that have a usual and a quick value."""

import argparse
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Size:
    """A whole number that the user may set."""

    usual: int
    quick: int
    meaning: str = ""


class CommandLine(argparse.ArgumentParser):
    """`--rows` of `rows=Size(…)` is what the user gave, else its usual value, or with `--quick` its quick one."""

    def __init__(self, description: str | None, **sizes: Size) -> None:
        super().__init__(description=description)
        self._sizes = sizes
        self.add_argument("--dir", type=Path, help="where files go for the time of the run; else a temporary folder")
        self.add_argument("--quick", action="store_true", help="tries everything on little: proves no speed")
        self.add_argument("--json", type=Path, help="keep what was found in this file")
        for name, size in sizes.items():
            values = f"{size.usual:,}, or {size.quick:,} with --quick"
            self.add_argument(f"--{name.replace('_', '-')}", type=int, help=f"{size.meaning} ({values})".strip())

    def read(self) -> argparse.Namespace:
        found = self.parse_args()
        for name, size in self._sizes.items():
            if getattr(found, name) is None:
                setattr(found, name, size.quick if found.quick else size.usual)
        return found
