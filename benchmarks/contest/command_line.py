"""The command line of a benchmark: common options, and sizes with a normal and a quick value."""

import argparse
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Size:
    """An integer option."""

    usual: int
    quick: int
    meaning: str = ""


class CommandLine(argparse.ArgumentParser):
    """`rows=Size(…)` adds `--rows`: the given value, else the normal one, or the quick one with `--quick`."""

    def __init__(self, description: str | None, **sizes: Size) -> None:
        super().__init__(description=description)
        self._sizes = sizes
        self.add_argument("--dir", type=Path, help="folder for files during the run; a temporary one by default")
        self.add_argument("--quick", action="store_true", help="tiny sizes: tries everything, proves no speed")
        self.add_argument("--json", type=Path, help="write the results to this file")
        for name, size in sizes.items():
            values = f"{size.usual:,}, or {size.quick:,} with --quick"
            self.add_argument(f"--{name.replace('_', '-')}", type=int, help=f"{size.meaning} ({values})".strip())

    def read(self) -> argparse.Namespace:
        found = self.parse_args()
        for name, size in self._sizes.items():
            if getattr(found, name) is None:
                setattr(found, name, size.quick if found.quick else size.usual)
        return found
