"""The main job, end to end: a click log becomes a table; a model learns it hour by hour and predicts each hour before
it sees it; its process is killed twice, resumes, and ends with the same bytes as a run that was never killed.

    python examples/click_model/demo.py [FOLDER] [--days 7] [--rows-per-hour 20000]

Everything that it prints happens while you watch.
"""

import argparse
import hashlib
import json
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

import samovar

HERE = Path(__file__).parent
FILES = ("make_log.py", "recipe.json", "online.json", "offline.json", "script.py", "in_python.py")
KILLED, STRAIGHT = "online_model", "straight_model"
TRAIN = ("train", "online.json", "--script", "script.py", "--conf", '{"snapshotter.frequency": 2}')

console = Console(highlight=False, soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--rows-per-hour", type=int, default=20000)
    asked = parser.parse_args(arguments)
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="samovar-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    return 0 if run_demo(folder, asked.days, asked.rows_per_hour) else 1


def run_demo(folder: Path, days: int, rows_per_hour: int) -> bool:
    """Run it all; returns whether the killed run ended with the same bytes as the uninterrupted one."""
    for name in FILES:
        shutil.copy(HERE / name, folder)
    num_rows = days * 24 * rows_per_hour
    show_title(f"A click log of {num_rows:,} rows becomes a table of minibatches")
    run_python(folder, "make_log.py", "clicks.parquet", "--days", str(days), "--rows-per-hour", str(rows_per_hour))
    run_samovar(folder, "brew", "recipe.json")
    run_samovar(folder, "table", "clicks")
    show_title("A model learns it hour by hour, and is killed twice on the way")
    train_with_kills(folder, len(samovar.open_table(folder / "clicks").hours))
    show_title("The same again, without a kill")
    start = time.monotonic()
    run_samovar(folder, *TRAIN, "--out", STRAIGHT)
    seconds = time.monotonic() - start
    console.print(f"  {num_rows / seconds:,.0f} rows/s: start, training, evaluation of every hour, snapshots")
    is_same = show_proof(folder)
    show_title("How good it is: each hour is predicted by the model of the hour before")
    console.print(show_days(folder / KILLED / "evaluation" / "ahead"))
    show_title("What it remembers: users and ads come and go, and so do their embedding rows")
    console.print(show_ids(folder / KILLED))
    show_title("The same from Python")
    console.print((folder / "in_python.py").read_text().partition("\n\n")[2].rstrip(), style="dim", markup=False)
    run_python(folder, "in_python.py")
    draw_training(folder / KILLED, folder / "training.png")
    show_next(folder)
    return is_same


def train_with_kills(folder: Path, num_hours: int) -> None:
    chance = random.Random()
    for third in (1, 2):
        number = num_hours * third // 3 + chance.randint(-(num_hours // 12), num_hours // 12)
        process = start_samovar(folder, *TRAIN)
        kill_after(process, folder / KILLED / "evaluation" / "ahead", number)
        console.print(f"  [red]SIGKILL[/] after hour {number} of {num_hours}")
    run_samovar(folder, *TRAIN)


def kill_after(process: subprocess.Popen[bytes], parts: Path, num_parts: int) -> None:
    """End the process as soon as it has predicted this many hours."""
    while process.poll() is None and sum(1 for _ in parts.glob("*.parquet")) < num_parts:
        time.sleep(0.001)  # the directory decides, not the clock
    process.kill()
    process.wait()


def show_proof(folder: Path) -> bool:
    expected, found = digests(folder / STRAIGHT), digests(folder / KILLED)
    differences = [path for path in sorted(expected | found) if expected.get(path) != found.get(path)]
    for name, each in ((STRAIGHT, expected), (KILLED, found)):
        console.print(f"  {join(each)}  {name}")
    for path in differences[:3]:
        console.print(f"  [red]{path} differs[/]")
    verdict = "[bold red]DIFFERENT BYTES[/]" if differences else "[bold green]SAME BYTES[/]"
    console.print(f"  {verdict}: {len(expected)} files: the model, its predictions, the log of its metrics")
    return not differences


def digests(root: Path) -> dict[str, str]:
    """The SHA-256 of everything that the run made. Logs of the time it took are left out."""
    made = [*(root / "model").rglob("*"), *(root / "evaluation").rglob("*"), root / "logs" / "metrics.jsonl"]
    files = sorted(path for path in made if path.is_file())
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def join(hashes: dict[str, str]) -> str:
    """One digest of many files, short enough to compare by eye."""
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()[:16]


def show_days(folder: Path) -> Table:
    table = Table("day", "rows", "log-loss", "best possible", "base rate", "gap closed", box=None)
    for day, rows in read_days(folder):
        targets = rows["clicked"].to_numpy()
        learned, best, base = (
            log_loss(targets, p)
            for p in (rows["prediction"].to_numpy(), rows["chance"].to_numpy(), np.full(len(targets), targets.mean()))
        )
        closed = (base - learned) / (base - best)
        table.add_row(day, f"{len(targets):,}", f"{learned:.4f}", f"{best:.4f}", f"{base:.4f}", f"{closed:.0%}")
    return table


def read_days(folder: Path) -> Iterator[tuple[str, pa.Table]]:
    paths = sorted(folder.glob("*.parquet"))
    for day in sorted({path.name[:8] for path in paths}):
        rows = pa.concat_tables([pq.read_table(path) for path in paths if path.name.startswith(day)])
        if len(rows):
            yield f"{day[:4]}-{day[4:6]}-{day[6:]}", rows


def log_loss(targets: NDArray[Any], predictions: NDArray[Any]) -> float:
    return float(-np.mean(np.where(targets == 1, np.log(predictions), np.log1p(-predictions))))


def show_ids(root: Path) -> Table:
    """A hash table grows when an id is new, and forgets an id that was not seen for `ttl` hours."""
    lines = read_hours(root)
    memory = json.loads((root / "logs" / "timing.jsonl").read_text().splitlines()[-1])["hash_tables"]
    table = Table("table", "ids met", "ids kept", "memory", box=None)
    for name, kept in lines[-1]["live_ids"].items():
        met = sum(line["new_ids"][name] for line in lines)
        table.add_row(name, f"{met:,}", f"{kept:,}", f"{memory[name]['bytes'] / 1e6:.1f} MB")
    return table


def read_hours(root: Path) -> list[dict[str, Any]]:
    """What the run logged after each hour of training."""
    lines = map(json.loads, (root / "logs" / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == "train"]


def draw_training(root: Path, path: Path) -> None:
    """Loss and ids by hour: without a time to live, the tables would hold all ids ever met."""
    lines = read_hours(root)
    figure = Figure(figsize=(10, 7), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    above.plot([line["loss"] for line in lines])
    above.set_ylabel("loss while training")
    below.plot([line["live_ids"]["user"] for line in lines], label="users kept")
    below.plot(np.cumsum([line["new_ids"]["user"] for line in lines]), "--", label="users met")
    below.set_xlabel("hour")
    below.legend()
    for axis in (above, below):
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=100)


def show_next(folder: Path) -> None:
    command = Path(sys.executable).with_name("samovar")
    show_title("Next")
    console.print(f"  cd {folder}    [dim]# training.png: loss and ids by hour[/]")
    console.print(f"  {command} show {KILLED}")
    console.print(f"  {command} metrics {KILLED} --by day --png quality.png")
    console.print(f"  {command} embeddings {KILLED}")
    console.print(f"  {command} verify-resume online.json --script script.py --kills 30")


def show_title(text: str) -> None:
    console.print()
    console.rule(f"[bold]{text}[/]", align="left")


def run_python(folder: Path, *arguments: str) -> None:
    console.print(f"[bold]$ python {' '.join(arguments)}[/]")
    subprocess.run([sys.executable, *arguments], cwd=folder, check=True)


def run_samovar(folder: Path, *arguments: str) -> None:
    if start_samovar(folder, *arguments).wait() != 0:
        raise SystemExit(f"samovar {arguments[0]} failed")


def start_samovar(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A samovar command; it prints its own output."""
    shown = (f"'{argument}'" if "{" in argument else argument for argument in arguments)
    console.print(f"[bold]$ samovar {' '.join(shown)}[/]")
    return subprocess.Popen([sys.executable, "-m", "samovar", *arguments], cwd=folder)


if __name__ == "__main__":
    sys.exit(main())
