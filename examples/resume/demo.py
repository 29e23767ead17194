"""What Samovar can do today: a job that is killed again and again from outside ends with the same bytes, and a log
becomes a table of minibatches.

    python examples/resume/demo.py [DIRECTORY]

Everything it prints was done in front of the reader; it knows nothing of what is yet to be built.
"""

import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.tree import Tree

from samovar.errors import NotOurs
from samovar.native import hash_bytes, hash_integers
from samovar.results import open_directory
from samovar.seeds import numpy_generator
from samovar.tables import open_table

JOB = Path(__file__).with_name("job.py")
HOURS = 60
KILLS_ON_THE_WAY = 6
BREWING = Path(__file__).parents[1] / "brewing"
LOG_ROWS = 50_000
COMPARED = ("model", "evaluation", "logs")

console = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Moment:
    """When to kill: as soon as the directory shows a sign."""

    what: str
    is_there: Callable[[Path], bool]


def choose_moments(chance: random.Random) -> list[Moment]:
    """In the order in which a run comes to them; the hours, and what happens in them, are chance."""
    hours = sorted(chance.sample(range(2, HOURS - 2), KILLS_ON_THE_WAY))
    return [
        Moment("as the directory was being made", lambda root: (root / ".samovar").exists()),
        *(chance.choice([part_moment, snapshot_moment])(hour) for hour in hours),
        Moment("at the final model", lambda root: (root / "model").exists()),
    ]


def part_moment(hour: int) -> Moment:
    return Moment(f"in hour {hour}", lambda root: (root / f"evaluation/train/{hour:06d}.f32").exists())


def snapshot_moment(hour: int) -> Moment:
    number = hour // 2 + 1  # the job takes one every second hour
    return Moment(f"at snapshot {number}", lambda root: any(root.glob(f"snapshot/{number:06d}.*")))


def start_job(root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, JOB, root, str(HOURS)], stdout=subprocess.PIPE, text=True)


def run_to_the_end(root: Path) -> str:
    process = start_job(root)
    said, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"{JOB}: ended with exit code {process.returncode}; expected 0: see its error above")
    return said.strip()


def kill_at(moment: Moment, root: Path) -> bool:
    """Start the job, or go on with it, and kill it at the moment; False when it was done before that."""
    process = start_job(root)
    while process.poll() is None and not moment.is_there(root):
        time.sleep(0.0001)  # leaves the processor to the job; the directory decides, not the time
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


def describe_safe_point(root: Path) -> str:
    try:
        return f"safe up to hour {open_directory(root).load_model().position['hour']}"
    except NotOurs:
        return "nothing is safe yet"


def show_kills(root: Path, chance: random.Random) -> int:
    """Kill the job at each moment and let it go on; gives the number of kills that struck."""
    killed = 0
    for moment in choose_moments(chance):
        if kill_at(moment, root):
            killed += 1
            console.print(f"  [red]SIGKILL[/] {moment.what}: {describe_safe_point(root)}")
        else:
            console.print(f"  it ended before it could be killed {moment.what}")
    console.print(f"  to the end: {run_to_the_end(root)}")
    console.print(f"  once more:  {run_to_the_end(root)}")
    return killed


def read_compared(root: Path) -> dict[str, bytes]:
    files = (path for name in COMPARED for path in sorted((root / name).rglob("*")) if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def compare(straight: dict[str, bytes], killed: dict[str, bytes]) -> list[str]:
    """The files that are not the same, byte for byte, or not there on both sides."""
    return sorted(path for path in straight.keys() | killed.keys() if straight.get(path) != killed.get(path))


def show_comparison(straight: dict[str, bytes], killed: dict[str, bytes]) -> Table:
    different = compare(straight, killed)
    table = Table("file", "bytes", "straight run", "killed run", "", box=None)
    for name, paths in gather(sorted(straight.keys() | killed.keys()), different).items():
        before, after = (b"".join(files.get(path, b"") for path in paths) for files in (straight, killed))
        verdict = "[red]DIFFERENT[/]" if name in different else "[green]equal[/]"
        label = name if name in paths else f"{len(paths)} in {name}"
        table.add_row(label, str(len(before)), f"{hash_bytes(before):016x}", f"{hash_bytes(after):016x}", verdict)
    return table


def gather(paths: Iterable[str], different: Collection[str]) -> dict[str, list[str]]:
    """The lines of the table: one a file, but the many part files together as long as they are the same."""
    lines: dict[str, list[str]] = {}
    for path in paths:
        is_one_of_many = path.startswith("evaluation/") and path not in different
        lines.setdefault(f"{path.rpartition('/')[0]}/" if is_one_of_many else path, []).append(path)
    return lines


def show_command(*arguments: str | Path) -> None:
    """A command of samovar's, and what it prints."""
    console.print(f"[bold]$ samovar {' '.join(map(str, arguments))}[/]")
    done = subprocess.run([sys.executable, "-m", "samovar", *arguments], capture_output=True, text=True, check=True)
    console.print(done.stdout, markup=False)


def write_other_config(root: Path) -> Path:
    config = open_directory(root).config
    other = root.with_name("other_config.json")
    other.write_text(json.dumps({**config, "seed": 2, "model": {**config["model"], "decay": 0.99}}, indent=2))
    return other


def describe_hash_speed() -> str:
    data = numpy_generator(1, "demo").bytes(64 << 20)
    integers = numpy_generator(1, "demo").integers(0, 2**63, 5_000_000)
    gigabytes = len(data) / least_seconds(lambda: hash_bytes(data)) / 1e9
    millions = len(integers) / least_seconds(lambda: hash_integers(integers)) / 1e6
    return f"{gigabytes:.1f} GB/s for checksums, {millions:,.0f} million ids/s, on one core of this machine"


def least_seconds(act: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return min(times)


def show_tree(root: Path) -> Tree:
    tree = Tree(f"[bold]{root}[/]")
    for path in sorted(root.iterdir()):
        if path.is_dir() and path.name != ".samovar":
            branch = tree.add(f"{path.name}/")
            files = [file.relative_to(path).as_posix() for file in sorted(path.rglob("*")) if file.is_file()]
            for name in files if len(files) <= 4 else [*files[:2], f"… {len(files) - 3} more", files[-1]]:
                branch.add(name)
        else:
            tree.add(path.name if path.is_file() else f"{path.name}/  [dim]attributes and lease[/]")
    return tree


def show_title(text: str) -> None:
    console.print()
    console.rule(f"[bold]{text}[/]", align="left")


def run_demo(folder: Path, chance: random.Random) -> bool:
    """All of it; says whether the killed run ended with the bytes of the straight one."""
    straight, killed = folder / "straight", folder / "killed"
    console.print(
        "[bold]Samovar[/] is for training PyTorch models on tables of any size. This is what stands today: results "
        "that survive any crash, and tables of ready minibatches. Embeddings and training are still to come."
    )
    show_title(f"One job of {HOURS} hours, straight")
    console.print(f"  {run_to_the_end(straight)}")
    show_title("The same job, killed from outside at moments of chance")
    num_kills = show_kills(killed, chance)
    show_title("The bytes of both")
    files = read_compared(straight), read_compared(killed)
    different = compare(*files)
    console.print(show_comparison(*files))
    if different or not files[0]:
        console.print(f"[bold red]DIFFERENT BYTES[/] in {', '.join(different) or 'nothing: no file was made'}")
        return False
    console.print(f"[bold green]SAME BYTES[/] in all {len(files[0])} files, after {num_kills} kills")
    show_rest(killed)
    show_table(folder)
    show_next(killed)
    return True


def show_rest(root: Path) -> None:
    show_title("A result says what it is")
    show_command("show", root)
    show_command("diff", root, write_other_config(root))
    show_title("Speed of the hash under it all")
    console.print(f"  {describe_hash_speed()}")
    show_title("What is in the directory")
    console.print(show_tree(root))


def show_table(folder: Path) -> None:
    show_title(f"A log of {LOG_ROWS:,} rows becomes a table of minibatches")
    subprocess.run([sys.executable, BREWING / "make_log.py", folder / "clicks.csv", str(LOG_ROWS)], check=True)
    shutil.copy(BREWING / "recipe.json", folder)
    show_command("brew", folder / "recipe.json")
    show_command("table", folder / "clicks_table")
    table = open_table(folder / "clicks_table")
    seconds = least_seconds(lambda: [record.num_examples for record in table.read()])
    console.print(f"  read back as tensors: {table.num_examples / seconds:,.0f} rows/s")


def show_next(root: Path) -> None:
    show_title("Next")
    console.print(f"  make test                      checks the code and runs all tests\n  make bench{' ' * 21}speed")
    console.print(f"  {Path(sys.executable).with_name('samovar')} show {root}")
    console.print(f"  rm -r {root.parent}")


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="samovar-demo-"))
    return 0 if run_demo(folder, random.Random()) else 1


if __name__ == "__main__":
    sys.exit(main())
