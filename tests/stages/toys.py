"""Small stages for tests: scripts written to a folder and run in forked children, which may be killed."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from samovar.config import parse_override
from samovar.config.identity import PLACE_KEYS
from samovar.provenance.verify import ChildExit, run_in_child
from samovar.stages.stage import make_stage
from samovar.training.request import make_request

EXAMPLES = Path(__file__).parents[2] / "examples"

NUMBERS = """
def main(params, out):
    numbers = [params.get("first", 1) + n for n in range(params.count)]
    (out / "numbers.txt").write_text("\\n".join(map(str, numbers)))
"""
TOTAL = """
def main(params, out):
    numbers = (out.source("data") / "numbers.txt").read_text().split()
    (out / "total.txt").write_text(str(sum(map(int, numbers)) * params.get("factor", 1)))
"""


def write_stage(folder: Path, name: str, script: str, config: Mapping[str, Any]) -> None:
    """`<name>.py` and `<name>.json`."""
    (folder / f"{name}.py").write_text(script)
    (folder / f"{name}.json").write_text(json.dumps(config))


def run(
    folder: Path,
    name: str,
    conf: Mapping[str, Any] | str | None = None,
    out: str | None = None,
    script: str | None = None,
    is_accepted: bool = False,
) -> ChildExit:
    """Run a stage as `samovar run` does."""

    def work() -> None:
        overrides = [] if conf is None else [parse_override(conf) if isinstance(conf, str) else conf]
        place = folder / out if out is not None else None
        request = make_request(
            folder / f"{name}.json",
            folder / f"{script or name}.py",
            overrides,
            out=place,
            directory_keys=PLACE_KEYS["run"],
        )
        done = make_stage(replace(request, accept_defaults=is_accepted))
        print(*done.notes, f"{done.directory.name}: finished{' already' if done.was_finished else ''}", sep="\n")

    return run_in_child(work, folder / "child.log")


def run_well(folder: Path, name: str, **options: Any) -> str:
    ended = run(folder, name, **options)
    assert ended.code == 0, ended.output
    return ended.output


def in_child(folder: Path, work: Callable[[], object]) -> str:
    """The output of a function that executes scripts, or must not leave threads behind."""
    ended = run_in_child(work, folder / "child.log")
    assert ended.code == 0, ended.output
    return ended.output


def make_chain(folder: Path) -> None:
    """Two finished results: numbers → total."""
    write_stage(folder, "numbers", NUMBERS, {"count": 3})
    write_stage(folder, "total", TOTAL, {"source": "numbers"})
    run_well(folder, "numbers")
    run_well(folder, "total")


def add_report(folder: Path) -> None:
    """Lengthen the chain: numbers → total → report."""
    script = "def main(params, out):\n    (out / 'report').write_text((out.source() / 'total.txt').read_text())\n"
    write_stage(folder, "report", script, {"source": "total"})
    run_well(folder, "report")


def remake(folder: Path, name: str, **options: Any) -> None:
    """Remove a result and make it again."""
    shutil.rmtree(folder / name)
    run_well(folder, name, **options)


def copy_example(name: str, folder: Path) -> Path:
    return Path(shutil.copytree(EXAMPLES / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")))
