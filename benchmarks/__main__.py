"""Runs every benchmark in its own process and prints one table at the end: `make bench`.

A benchmark that fails does not stop the others. With --results each writes its JSON to that folder, and the table is
made from all files in it, so one benchmark can be repeated without the others.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.contest.result import Result
from benchmarks.contest.summary import Results, find_place, to_markdown, to_terminal, write_into
from rich.console import Console

from samovar.errors import BadInput

FOLDER = Path(__file__).parent
DRAWN = "growth"
LEAST_WIDTH = 150  # of the table when it goes to a file
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path != Path(__file__))


def run_all(arguments: Mapping[str, Sequence[str]], folder: Path) -> list[str]:
    """Run benchmarks with their arguments; returns the names of those that failed or broke a promise."""
    failed = []
    for number, (name, own) in enumerate(arguments.items(), 1):
        print(f"\n[{number}/{len(arguments)}] {name}", flush=True)
        start = time.monotonic()
        command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(file_of(name, folder)), *own]
        Result.begin("--quick" in own).save(file_of(name, folder))  # remains if it does not even start
        done = subprocess.run(command, cwd=FOLDER.parent)
        print(f"{name}: exit code {done.returncode} after {time.monotonic() - start:.0f} s", flush=True)
        if done.returncode:
            failed.append(name)
    return failed


def choose_arguments(options: argparse.Namespace) -> dict[str, list[str]]:
    shared = ["--quick"] * options.quick + (["--dir", str(options.dir.absolute())] if options.dir else [])
    arguments = {name: [*shared] for name in options.names or NAMES}
    if options.figures and DRAWN in arguments:
        arguments[DRAWN] += ["--figures", str(options.figures.absolute())]
    return arguments


def load_all(folder: Path) -> Results:
    return {name: Result.load(file_of(name, folder)) for name in NAMES if file_of(name, folder).exists()}


def file_of(name: str, folder: Path) -> Path:
    return folder / f"{name}.json"


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these; all by default: {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: tries everything, proves no speed")
    parser.add_argument("--dir", type=Path, help="folder for files during the run; a temporary one by default")
    parser.add_argument("--results", type=Path, help="folder for the JSON files")
    parser.add_argument("--readme", type=Path, help="write the table between the markers of this page")
    parser.add_argument("--figures", type=Path, help="draw the growth curves into this folder")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if options.readme:
        try:
            find_place(options.readme)  # fail now, not after twenty minutes
        except BadInput as error:
            parser.error(str(error))
    return options


def main() -> int:
    options = read_options()
    with tempfile.TemporaryDirectory(prefix="samovar-bench-") as temporary:
        folder = options.results.absolute() if options.results else Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        failed = run_all(choose_arguments(options), folder)
        results = load_all(folder)
    Console(highlight=False, width=max(Console().width, LEAST_WIDTH)).print(to_terminal(results))
    if options.readme:
        write_into(options.readme, to_markdown(results))
    print(f"failed or broke a promise: {', '.join(failed)}" if failed else "every promise is kept")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
