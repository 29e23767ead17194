"""Fuzz: damage copies of real directories and inputs, and give them to commands, each case in a forked child.

    python -m tests.fuzz.run --seconds 60 --seed 0     as many cases as fit into a minute
    python -m tests.fuzz.run --case 1234               one case again, with the traceback

A case fails if the child is killed by a signal, needs more than the limits of time or memory, or ends with a traceback:
any exception that is not one of ours. The first cases are those of seeds.py. Prints one line per failure and a summary
as JSON; exit code 1 if any failed.
"""

import argparse
import contextlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.corpus import make_corpus
from tests.fuzz.inputs import INPUTS
from tests.fuzz.mutate import mutate_bytes, mutate_file, mutate_json, repair
from tests.fuzz.seeds import SEEDS
from tests.orphans import end_with_parent

CASE_SECONDS = 120.0
"""Of the clock: far more than a case needs on a busy machine."""
CASE_BYTES = 3 << 30
"""What a case may add to the address space of the process. Brewing reserves 2 GiB for the heaps of its threads."""

_ANY = ("show {}", "show {} --json", "chain {}", "why {}", "audit {}", "ls {}", "ls {} --json",
        "checksum {} --no-cache", "diff {} other", "tree {} other",
        "diff {} other --environment", "chain {} --json")  # fmt: skip
COMMANDS: dict[str, tuple[str, ...]] = {
    "table": (*_ANY, "table {}", "table {} --json", "table {} --minibatch 0", "table {} --minibatch 1 --json"),
    "model": (*_ANY, "metrics {}", "embeddings {}", "embeddings {} --json", "plot {}", "metrics {} --by day"),
    "live": (*_ANY, "table {}", "table {} --minibatch 5", "brew live.json --append --out live"),
    "offline": (*_ANY, "metrics {}", "embeddings {}", "predict {} --table table --epoch best --keys hit --out scored"),
    "unfinished": (*_ANY, "embeddings {}", "plot {}", "ls {} --sort -loss"),
    "predictions": (*_ANY, "metrics {}"),
    "total": _ANY,
    "numbers": (*_ANY, "chain total", "why total", "audit total --chain"),
    "queue.db": ("queue ls --db sqlite:///queue.db", "queue ls --db sqlite:///queue.db --json",
                 "queue show 1 --db sqlite:///queue.db"),
    "list.sha256": ("checksum other --no-cache --against list.sha256",),
    "config.json": ("diff config.json other", "tree config.json other", "chain config.json"),
    **{f"raw.{kind}": (f"recipe raw.{kind}", f"brew raw.{kind}.json --out of_{kind}")
       for kind in ("parquet", "arrow", "jsonl", "csv")},
    "recipe.json": ("brew recipe.json --out brewed", "chain recipe.json"),
    "experiment.json": ("diff experiment.json other", "tree experiment.json other"),
}  # fmt: skip
_MAY_FAIL = ("audit unfinished",)
"""Commands whose answer about what is not damaged is no, too."""
_CASES_PER_RUN = 10_000_000
_WEIGHTS = {"table": 4, "live": 2, "model": 4, "offline": 2, "unfinished": 4}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument(
        "--cases", type=int, default=sys.maxsize, help="at most, so that a fast machine tries no others"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int)
    parser.add_argument("--undamaged", action="store_true", help="check that commands take what is not damaged")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="samovar-fuzz-", dir=_fast_folder()) as place:
        corpus = Path(place) / "corpus"
        corpus.mkdir()
        os.environ["TMPDIR"] = place  # the cache of checksums and answers
        tempfile.tempdir = place
        problem = _in_child(lambda: make_corpus(corpus), 300, None)
        assert problem is None, problem
        if options.undamaged:
            return check_undamaged(corpus)
        if options.case is not None:
            again = run_case(corpus, Path(place) / "case", options.case)
            print(again or "passed")
            return int(again is not None)
        return fuzz(corpus, Path(place) / "case", options.seed, options.seconds, options.cases)


def _fast_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def fuzz(corpus: Path, place: Path, seed: int, seconds: float, max_cases: int) -> int:
    _preload(corpus)
    stop, number, problems = time.monotonic() + seconds, seed * _CASES_PER_RUN, Counter[str]()
    first = number
    while time.monotonic() < stop and number - first < max_cases:
        problem = run_case(corpus, place, number)
        if problem is not None:
            key = problem.rstrip().rpartition("\n")[2]
            if key not in problems:
                print(f"--case {number}: {problem}", flush=True)
            problems[key] += 1
        number += 1
    print(json.dumps({"cases": number - first, "failures": sum(problems.values()), "distinct": len(problems)}))
    return int(bool(problems))


def check_undamaged(corpus: Path) -> int:
    """A command or an input that is refused as it is would hide what its damage does."""
    problems = []
    for kind, commands in COMMANDS.items():
        for command in commands:
            problem = _in_child(lambda: _succeed(corpus, command.format(kind).split()), CASE_SECONDS, CASE_BYTES)  # noqa: B023  # called at once
            problems += [f"{command}: {problem}"] if problem else []
    for name, (seeds, read) in INPUTS.items():
        for seed in seeds:
            problem = _in_child(lambda: _take(corpus, read, seed), CASE_SECONDS, CASE_BYTES)  # noqa: B023  # the same
            problems += [f"{name} {seed!r:.100}: {problem}"] if problem else []
    print("\n".join(problems))
    return int(bool(problems))


def _succeed(place: Path, words: list[str]) -> None:
    os.chdir(place)
    if run_command(words) not in (None, 0) and " ".join(words) not in _MAY_FAIL:
        raise AssertionError("it was refused")


def _take(place: Path, read: Callable[[Any], object], seed: Any) -> None:
    os.chdir(place)
    read(seed)


def run_case(corpus: Path, place: Path, number: int) -> str | None:
    """What went wrong, or None."""
    chance = random.Random(number)
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(corpus, place, symlinks=True)
    if chance.random() < 0.1 and number % _CASES_PER_RUN >= len(SEEDS):
        name = chance.choice(sorted(INPUTS))
        return _in_child(lambda: _try_input(name, chance, place), CASE_SECONDS, CASE_BYTES)
    seeds = list(SEEDS.values())
    number_of_seed = number % _CASES_PER_RUN
    if number_of_seed < len(seeds):
        kind, damage_as_found = seeds[number_of_seed]
        damage_as_found(place / kind)
        commands = list(COMMANDS[kind])
    else:
        kind, commands = _damage_by_chance(place, chance)
    if any(path.is_file() and path.stat().st_size > CASE_BYTES for path in (place / kind).rglob("*")):
        commands = [each for each in commands if not each.startswith("checksum")]  # which reads every byte, as it must
    problem = _in_child(lambda: _run_commands(place, kind, commands), CASE_SECONDS, CASE_BYTES)
    return None if problem is None else f"{kind}: {problem}"


def _damage_by_chance(place: Path, chance: random.Random) -> tuple[str, list[str]]:
    """What was damaged, and commands that look at it."""
    kinds = sorted(COMMANDS)
    kind = chance.choices(kinds, [_WEIGHTS.get(each, 1) for each in kinds])[0]
    if chance.random() < 0.1:
        kind, damage_as_found = chance.choice(list(SEEDS.values()))
        damage_as_found(place / kind)
    damage(place / kind, chance)
    return kind, chance.sample(COMMANDS[kind], min(3, len(COMMANDS[kind])))


def damage(target: Path, chance: random.Random) -> None:
    if target.is_file():
        mutate_file(target, chance)
        return
    files = sorted(
        path for path in target.rglob("*") if path.is_file() and not path.is_symlink() and "all_files" not in path.parts
    )
    for path in chance.sample(files, chance.choice([1, 1, 1, 2])):
        mutate_file(path, chance)
    if chance.random() < 0.75:
        repair(target)


def _run_commands(place: Path, kind: str, commands: list[str]) -> None:
    os.chdir(place)
    for command in commands:
        run_command(command.format(kind).split())


def run_command(words: list[str]) -> object:
    """Run a command as the program does, and return its exit code; raise whatever would be printed as a traceback."""
    from samovar.cli import main as samovar

    sys.argv = ["samovar", *words]
    try:
        samovar()
    except SystemExit as end:
        if end.code not in (None, 0, 1, 2):
            raise AssertionError(f"{' '.join(words)}: exit code {end.code}") from end
        return end.code
    except BaseException as error:
        error.add_note(f"samovar {' '.join(words)}")
        raise
    return None


def _try_input(name: str, chance: random.Random, place: Path) -> None:
    from samovar.errors import SamovarError

    os.chdir(place)
    seeds, read = INPUTS[name]
    for _ in range(20):
        value = chance.choice(seeds)
        changed: Any = (
            mutate_bytes(value.encode(), chance).decode(errors="replace")
            if isinstance(value, str)
            else mutate_json(value, chance)
        )
        try:
            read(changed)
        except SamovarError:
            continue
        except BaseException as error:
            error.add_note(f"input {name}: {changed!r:.300}")
            raise


def _in_child(work: Callable[[], object], seconds: float, max_bytes: int | None) -> str | None:
    """Run in a forked child; return what went wrong, with the place of the error as the last line."""
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setsid()  # so that the processes which it forks are killed with it
        end_with_parent(parent)
        _end_child(work, writing, max_bytes)
    os.close(writing)
    deadline = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"took more than {seconds} s"
        time.sleep(0.002)
    with open(reading, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    if os.WIFSIGNALED(status):
        return f"killed by signal {os.WTERMSIG(status)}"
    return text or None


def _end_child(work: Callable[[], object], writing: int, max_bytes: int | None) -> None:
    """Never returns."""
    message = b""
    try:
        if max_bytes is not None:
            limit = _address_space() + max_bytes
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        with _silent():
            work()
    except BaseException as error:
        message = _describe(error).encode(errors="replace")[-20_000:]  # what a pipe holds without a reader
    os.write(writing, message)
    os._exit(0)


def _describe(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/samovar/" in frame.filename] or frames
    place = f"{Path(ours[-1].filename).name}:{ours[-1].name}"
    return f"{''.join(traceback.format_exception(error))}\n{type(error).__name__} at {place}"


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _preload(corpus: Path) -> None:
    """Import what commands import, so that each child does not. Nothing here starts a thread."""
    import importlib

    for name in ("app", "tables", "training", "stages", "runs", "verify", "queue"):
        importlib.import_module(f"samovar.cli.{name}")
    for name in ("tables.export", "embeddings.stored", "provenance.auditing", "provenance.graph", "runs.dendrogram",
                 "runs.listing", "runs.curves", "runs.checksums", "queue.jobs",
                 "scoring.quality", "brewing", "brewing.engines.duckdb", "training.prediction"):  # fmt: skip
        importlib.import_module(f"samovar.{name}")
    for name in ("torch.optim", "matplotlib.figure", "duckdb", "pandas", "scipy.cluster.hierarchy", "sqlite3"):
        importlib.import_module(name)


if __name__ == "__main__":
    sys.exit(main())
