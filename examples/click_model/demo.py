"""The main job, end to end: a click log becomes a table; a model learns it hour by hour and predicts each hour before
it sees it; its process is killed twice, resumes, and ends with the same bytes as a run that was never killed.

    python examples/click_model/demo.py [FOLDER] [--days 7] [--rows-per-hour 6000]

Everything that it prints happens while you watch.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.tree import Tree

from samovar.errors import NotAResult
from samovar.provenance.contract import compare, contract_of
from samovar.results import open_directory
from samovar.results.artifacts import METRICS_LOG, read_log
from samovar.scoring.quality import measure
from samovar.store import LocalStore
from samovar.tables import open_table

HERE = Path(__file__).parent
FILES = ("make_log.py", "recipe.json", "online.json", "offline.json", "script.py")
KILLED, STRAIGHT = "online_model", "straight_model"
TRAIN = ("train", "online.json", "--script", "script.py", "--conf", '{"snapshotter.frequency": 2}')

console = Console(highlight=False, soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--rows-per-hour", type=int, default=6000)
    asked = parser.parse_args(arguments)
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="samovar-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    return 0 if run_demo(folder, asked.days, asked.rows_per_hour) else 1


def run_demo(folder: Path, days: int, rows_per_hour: int) -> bool:
    """Run it all; returns whether the killed run ended with the same bytes as the uninterrupted one."""
    for name in FILES:
        shutil.copy(HERE / name, folder)
    num_rows = days * 24 * rows_per_hour
    show_title(f"A click log of {num_rows:,} rows in {days} days becomes a table of minibatches")
    run_python(folder, "make_log.py", "clicks.parquet", "--days", str(days), "--rows-per-hour", str(rows_per_hour))
    run_samovar(folder, "brew", "recipe.json")
    show_title("A model learns it hour by hour, and is killed twice on the way")
    train_with_kills(folder, len(open_table(folder / "clicks").hours))
    show_title("The same again, without a kill")
    start = time.monotonic()
    run_samovar(folder, *TRAIN, "--out", STRAIGHT)
    seconds = time.monotonic() - start
    console.print(f"  {num_rows / seconds:,.0f} rows/s: start, training, evaluation of every hour, snapshots")
    is_same = show_proof(folder)
    show_title("How good it is: each hour is predicted by the model of the hour before")
    console.print(show_days(folder / KILLED / "evaluation" / "ahead"))
    show_title("The directory is the truth")
    console.print(show_tree(folder / KILLED))
    draw_training(folder / KILLED, folder / "training.png")
    run_samovar(folder, "metrics", KILLED, "--png", "quality.png")
    show_next(folder)
    return is_same


def train_with_kills(folder: Path, num_hours: int) -> None:
    chance = random.Random()
    for third in (1, 2):
        number = num_hours * third // 3 + chance.randint(-(num_hours // 12), num_hours // 12)
        process = start_samovar(folder, *TRAIN)
        parts = folder / KILLED / "evaluation" / "ahead"
        while process.poll() is None and sum(1 for _ in parts.glob("*.parquet")) < number:
            time.sleep(0.001)  # the directory decides, not the clock
        process.kill()
        process.wait()
        console.print(f"  [red]SIGKILL[/] after hour {number} of {num_hours}: {describe_safe_point(folder / KILLED)}")
    run_samovar(folder, *TRAIN)
    run_samovar(folder, *TRAIN)


def describe_safe_point(root: Path) -> str:
    try:
        return f"{open_directory(root).load_model().position['next_uri']} hours are safe in its snapshot"
    except NotAResult:
        return "nothing is safe yet"


def show_proof(folder: Path) -> bool:
    expected, found = contract_of(folder / STRAIGHT), contract_of(folder / KILLED)
    differences = compare(expected, found)
    for line in differences:
        console.print(f"  [red]{line}[/]")
    size = sum(len(content) for content in expected.values() if not isinstance(content, list))
    verdict = "[bold red]DIFFERENT BYTES[/]" if differences else "[bold green]SAME BYTES[/]"
    console.print(f"  {verdict}: {len(expected)} files of both runs compared, {size:,} bytes")
    return not differences


def show_days(folder: Path) -> Table:
    table = Table("day", "rows", "AUC", "log-loss", "best possible", "base rate", "gap closed", box=None)
    for day, rows in read_days(folder):
        targets = rows["clicked"].to_numpy()
        learned, best, base = (
            log_loss(targets, p)
            for p in (rows["prediction"].to_numpy(), rows["chance"].to_numpy(), np.full(len(targets), targets.mean()))
        )
        auc = measure(targets, rows["prediction"].to_numpy())["auc"]
        closed = (base - learned) / (base - best)
        table.add_row(
            day, f"{len(targets):,}", f"{auc:.4f}", f"{learned:.4f}", f"{best:.4f}", f"{base:.4f}", f"{closed:.0%}"
        )
    return table


def read_days(folder: Path) -> Iterator[tuple[str, pa.Table]]:
    paths = sorted(folder.glob("*.parquet"))
    for day in sorted({path.name[:8] for path in paths}):
        rows = pa.concat_tables([pq.read_table(path) for path in paths if path.name.startswith(day)])
        if len(rows):
            yield f"{day[:4]}-{day[4:6]}-{day[6:]}", rows


def log_loss(targets: NDArray[Any], predictions: NDArray[Any]) -> float:
    return float(-np.mean(np.where(targets == 1, np.log(predictions), np.log1p(-predictions))))


def draw_training(root: Path, path: Path) -> None:
    """Loss and ids by hour: new ads appear every day, and old ones expire."""
    lines = [line for line in read_log(LocalStore(root), METRICS_LOG) if line["kind"] == "train"]
    figure = Figure(figsize=(10, 7), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    above.plot([line["loss"] for line in lines])
    above.set_ylabel("loss while training")
    for name in ("ad", "user"):
        below.plot([line["live_ids"][name] for line in lines], label=f"live ids of {name}")
    below.plot([line["new_ids"]["ad"] for line in lines], ".", label="new ads")
    below.set_xlabel("hour")
    below.legend()
    for axis in (above, below):
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=100)


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


def show_next(folder: Path) -> None:
    samovar = Path(sys.executable).with_name("samovar")
    show_title("Next")
    console.print(f"  plots: {folder / 'quality.png'} (AUC, log-loss), {folder / 'training.png'} (loss, ids and ttl)\n")
    console.print(f"  cd {folder}")
    console.print(f"  {samovar} show {KILLED}")
    console.print(f"  {samovar} embeddings {KILLED}")
    console.print(f"  {samovar} train offline.json --script script.py")
    console.print(f"  {samovar} verify-resume online.json --script script.py --kills 30")


def show_title(text: str) -> None:
    console.print()
    console.rule(f"[bold]{text}[/]", align="left")


def run_python(folder: Path, *arguments: str) -> None:
    console.print(f"[bold]$ python {' '.join(arguments)}[/]")
    subprocess.run([sys.executable, *arguments], cwd=folder, check=True)


def run_samovar(folder: Path, *arguments: str) -> None:
    if start_samovar(folder, *arguments).wait() != 0:
        raise SystemExit("the command above failed; expected it to succeed: see its error")


def start_samovar(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A samovar command; it prints its own output."""
    shown = (f"'{argument}'" if "{" in argument else argument for argument in arguments)
    console.print(f"[bold]$ samovar {' '.join(shown)}[/]")
    return subprocess.Popen([sys.executable, "-m", "samovar", *arguments], cwd=folder)


if __name__ == "__main__":
    sys.exit(main())
