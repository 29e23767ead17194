"""A run that is killed three times beside one that is not, trained here and now: the same curve, the same bytes.

python -m docs.pictures.killed_run [FOLDER]
"""

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from docs.pictures.theme import FOLDER, Theme, save
from examples.click_model.demo import FILES, HERE, digests, join, kill_after, log_loss
from matplotlib.figure import Figure
from pyarrow import parquet

DAYS = 4
KILLS = (21, 49, 77)
"""Hours after which a process is killed."""
_TRAIN = ("train", "online.json", "--script", "script.py", "--conf", '{"snapshotter.frequency": 0.7}')


@dataclass(frozen=True)
class Process:
    """What one process of a run did before it was killed or done."""

    first: int
    losses: list[float]
    """By hour, from `first` on."""

    @property
    def hours(self) -> range:
        return range(self.first, self.first + len(self.losses))


def train(folder: Path, out: str, kills: tuple[int, ...]) -> list[Process]:
    """One process per kill, and one that finishes."""
    processes = []
    for last in (*kills, None):
        command = [sys.executable, "-m", "samovar", *_TRAIN, "--out", out]
        with (folder / "said.txt").open("wb") as said:
            process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said)
            if last is not None:
                kill_after(process, folder / out / "evaluation" / "ahead", last)
            elif process.wait() != 0:
                raise RuntimeError((folder / "said.txt").read_text())
        resumed = re.search(r"continuing at URI (\d+)", (folder / "said.txt").read_text())
        first = int(resumed[1]) if resumed else 0
        processes.append(Process(first, read_losses(folder / out)[first:]))
    return processes


def read_losses(root: Path) -> list[float]:
    """The log-loss of each hour, predicted by the model of the hour before."""
    rows = (parquet.read_table(path) for path in sorted((root / "evaluation" / "ahead").glob("*.parquet")))
    return [log_loss(each["clicked"].to_numpy(), each["prediction"].to_numpy()) for each in rows if len(each)]


def draw(theme: Theme, straight: Process, killed: list[Process], names: dict[str, str]) -> Figure:
    figure = Figure(figsize=(8.4, 3.4))
    axes = figure.add_axes((0.09, 0.15, 0.89, 0.76))
    axes.plot(straight.hours, straight.losses, color=theme.faint, linewidth=6, label="never killed")
    for color, process in zip(theme.segments, killed, strict=True):
        axes.plot(process.hours, process.losses, color=color, linewidth=1.5)
        axes.plot(process.hours[:1], process.losses[:1], "o", color=color, markersize=5)
    for process in killed[:-1]:
        axes.plot(process.hours[-1:], process.losses[-1:], "X", color=theme.bad, markersize=9, zorder=3)
    axes.plot([], [], color=theme.segments[0], label="killed: a color per process")
    axes.plot([], [], "X", color=theme.bad, markersize=8, linestyle="none", label="kill -9")
    axes.plot([], [], "o", color=theme.segments[1], markersize=5, linestyle="none", label="resumed from a snapshot")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 0.98), ncols=4, fontsize="small")
    proof = "\n".join(f"{name:<12}  SHA-256 {digest}…" for name, digest in names.items())
    axes.text(0.02, 0.05, f"model, predictions, metrics log\n{proof}", transform=axes.transAxes, family="monospace",
              fontsize="small", linespacing=1.5)  # fmt: skip
    low, high = min(straight.losses), max(straight.losses)
    axes.set(ylim=(low - 0.45 * (high - low), high + 0.05 * (high - low)), xlim=(-1, straight.hours[-1] + 1))
    axes.set_xlabel("hour of the log")
    axes.set_ylabel("log-loss of the next hour")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(theme.faint)
    axes.tick_params(color=theme.faint)
    return figure


def main(folder: Path = FOLDER, rows_per_hour: int = 10_000) -> list[Path]:
    place = Path(tempfile.mkdtemp(prefix="samovar-picture-"))
    for name in FILES:
        shutil.copy(HERE / name, place)
    log = ("make_log.py", "clicks.parquet", "--days", str(DAYS), "--rows-per-hour", str(rows_per_hour))
    subprocess.run([sys.executable, *log], cwd=place, check=True)
    subprocess.run([sys.executable, "-m", "samovar", "brew", "recipe.json"], cwd=place, check=True, capture_output=True)
    (straight,), killed = train(place, "straight", ()), train(place, "killed", KILLS)
    names = {"never killed": join(digests(place / "straight")), "killed": join(digests(place / "killed"))}
    shutil.rmtree(place)
    return save(partial(draw, straight=straight, killed=killed, names=names), "killed_run", folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
