"""A stranger's directory, opened with every command that only reads: nothing of it runs, nothing is written, and
neither memory nor time runs out."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.fuzz.mutate import dump, repair, sign
from tests.orphans import ending_with_me
from tests.runs.runs import evaluation_lines, make_run, train_lines
from tests.tables.making import make_table

from samovar.queue import make_task, open_queue
from samovar.store import LocalStore

SECONDS = 120
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
ATTACK = "import os\nopen(os.environ['GUARD_LOG'], 'a').write('the script ran\\n')\n"
COMMANDS = (
    "show {}", "show {} --json", "ls {}", "diff {} good", "diff {} good --environment", "metrics {}", "embeddings {}",
    "table {}", "table {} --minibatch 0", "chain {}", "why {}", "audit {}", "audit {} --chain", "checksum {}",
    "tree {} good", "plot {}", "queue ls --db sqlite:///{}/queue.db", "queue show 1 --db sqlite:///{}/queue.db",
    "checksum good --against {}/list.sha256",
)  # fmt: skip
PYTHON = """
import samovar
for opened in (samovar.results.open_directory, samovar.open_table):
    try:
        opened("evil")
    except samovar.errors.SamovarError as error:
        print(error)
"""
SOME_COMMANDS = ("show {}", "ls {}", "chain {}", "why {}", "audit {} --chain", "plot {}", "table {}", "diff {} good")
"""Those that meet the further traps."""


def set_attributes(folder: Path, **values: Any) -> None:
    newest = max((folder / ".samovar/attributes").glob("@*"))
    old = json.loads(newest.read_bytes().partition(b"\n")[2])
    newest.write_bytes(sign(dump({**old, **values})))


def change_json(path: Path, **values: Any) -> None:
    path.write_bytes(dump({**json.loads(path.read_bytes()), **values}))


def share_sources(folder: Path) -> None:
    """26 results, each made twice from the next: 2**26 ways from the first to the last."""
    for number in range(26):
        shutil.copytree(folder / "evil", folder / f"evil_{number}")
    for number in range(26):
        path = str(folder / f"evil_{number + 1}")
        sources = [{"key": key, "path": path, "id": "x", "version": 10**9} for key in ("source[0]", "source[1]")]
        change_json(folder / f"evil_{number}" / "lineage.json", sources=sources)
    change_json(folder / "evil/lineage.json", sources=[{"key": "source", "path": str(folder / "evil_0"), "id": "x"}])


def add_pipes_and_links(folder: Path) -> None:
    evil = folder / "evil"
    (evil / "params.json").unlink(missing_ok=True)
    (evil / "params.json").symlink_to("/dev/zero")
    (evil / "evaluation").mkdir(exist_ok=True)
    (evil / "evaluation/loop").symlink_to(evil)


def claim_much(folder: Path) -> None:
    set_attributes(folder / "evil", versions=[2**48] * 100_000, code={"script.py": "0"}, id="x" * 1000)
    change_json(folder / "evil/status.json", heartbeat="9999-12-31T23:59:59+00:00", position={"hour": 10**400})
    (folder / "evil/logs/metrics.jsonl").write_bytes(
        b'{"kind": "train", "loss": 1' + b"0" * 400 + b"}\n" + b'{"a":' * 150
    )
    repair(folder / "evil")


def name_raw_files(folder: Path) -> None:
    """The config names files that never end, and the lineage says that they were raw."""
    sources = [{"key": "files", "path": "/dev/zero", "id": "x", "is_raw": True, "content": {"files": 1}}]
    change_json(folder / "evil/lineage.json", kind="stage:evil", sources=sources)
    change_json(folder / "evil/model_config.json", files="/dev/zero", checksum=True)


ESCAPES = "\x1b]0;title\x07\x1b[2J\x1b[31mred\x9b1A\x7f\u202eback\r"


def write_escape_codes(folder: Path) -> None:
    """In every name and message that a command shows: a terminal would obey them."""
    evil = folder / "evil"
    sources = [{"key": f"source{ESCAPES}", "path": f"/nowhere/{ESCAPES}", "id": ESCAPES}]
    change_json(evil / "lineage.json", kind=f"stage:{ESCAPES}", sources=sources, code={f"all_files/{ESCAPES}": ESCAPES})
    change_json(evil / "model_config.json", **{ESCAPES: ESCAPES, "name": ESCAPES})
    error = {"type": ESCAPES, "message": ESCAPES}
    change_json(evil / "status.json", state="failed", kind=ESCAPES, error=error, position={ESCAPES: ESCAPES})
    change_json(evil / "environment.json", packages={ESCAPES: ESCAPES})
    line = {"kind": "evaluation", "name": ESCAPES, "num_examples": 1, "auc": 0.5, ESCAPES: 1.0}
    (evil / "logs/metrics.jsonl").write_bytes(json.dumps(line).encode() + b"\n")
    (evil / f"extra{ESCAPES}").write_bytes(b"")
    with closing(sqlite3.connect(evil / "queue.db")) as connection:
        connection.execute("UPDATE samovar_jobs_1 SET out = ?, holder = ?, error = ?, log = ?", [ESCAPES] * 4)
        connection.commit()
    repair(evil)


def break_the_queue(folder: Path) -> None:
    (folder / "evil/queue.db").write_bytes(b"SQLite format 3\x00" + bytes(100))


def answer_without_end(folder: Path) -> None:
    """The table of jobs is a view that never ends."""
    with closing(sqlite3.connect(folder / "evil/queue.db")) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(samovar_jobs_1)")]
        chosen = ", ".join(f"'x' AS {name}" for name in columns)
        connection.execute("DROP TABLE samovar_jobs_1")
        rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        connection.execute(f"CREATE VIEW samovar_jobs_1 AS {rows} SELECT {chosen} FROM n")
        connection.commit()


HOSTILE: dict[str, Callable[[Path], None]] = {
    "plain": lambda folder: None,
    "shared sources": share_sources,
    "pipes and links": add_pipes_and_links,
    "large claims": claim_much,
    "endless raw files": name_raw_files,
    "escape codes": write_escape_codes,
    "a broken queue": break_the_queue,
    "an endless queue": answer_without_end,
}
QUEUES = tuple(command for command in COMMANDS if command.startswith("queue"))
TRIED = {
    "plain": COMMANDS,
    "escape codes": (*SOME_COMMANDS, *QUEUES),
    "a broken queue": QUEUES,
    "an endless queue": QUEUES,
}
"""By trap, in `make test`: those that meet it. `make long` tries all commands with all traps."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    lines = [*train_lines([1.0, 0.5], lr=0.1), *evaluation_lines("next", [0.6])]
    for name in ("good", "evil"):
        make_run(place / name, {"model": {"lr": 0.1}, "name": name}, lines)
    evil = place / "evil"
    table = place / "table"
    make_table(LocalStore(table), 3)
    for name in ("manifest", "segments"):
        shutil.copytree(table / name, evil / name)
    (evil / "all_files").mkdir(exist_ok=True)
    for name in (
        "script.py",
        "all_files/typer.py",
        "all_files/model.py",
        "typer.py",
        "sitecustomize.py",
        "__init__.py",
    ):
        (evil / name).write_text(ATTACK)
    (evil / "list.sha256").write_text(f"{'0' * 64}  good/../../etc/passwd\n{'1' * 64}  /dev/zero\n")
    config = place / "job.json"
    config.write_text("{}")
    open_queue(f"sqlite:///{evil}/queue.db", is_new=True).add(
        [make_task(config, kind="run", script=evil / "script.py")]
    )
    return place


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_strangers_directory_can_be_opened_with_commands_that_read(folder: Path, kind: str) -> None:
    HOSTILE[kind](folder)
    open_with(folder, TRIED.get(kind, SOME_COMMANDS))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_strangers_directory_can_be_opened_with_every_command_that_reads(folder: Path, kind: str) -> None:
    HOSTILE[kind](folder)
    open_with(folder, (*COMMANDS, PYTHON))


def open_with(folder: Path, commands: Sequence[str]) -> None:
    """Assert that nothing is run, written, or printed as a traceback."""
    tmp = folder.parent / "tmp"
    tmp.mkdir()
    shutil.copy(Path(__file__).with_name("guard.py"), tmp / "sitecustomize.py")
    before = files_of(folder)
    with ThreadPoolExecutor(2) as threads:
        problems = list(threads.map(lambda command: run_guarded(folder, tmp, command), commands))
    assert [problem for problem in problems if problem] == []
    assert (tmp / "guard.log").read_text() == ""
    assert files_of(folder) == before


def files_of(folder: Path) -> dict[str, bytes | None]:
    """Every file and its bytes: the hook does not see what libraries write in C."""
    found = (path for path in folder.rglob("*") if not path.is_symlink())
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in found}


MISDEEDS = {
    "compile": "sys.path.insert(0, '.'); import model",
    "exec": "exec(compile(open('evil/script.py').read(), os.path.abspath('evil/script.py'), 'exec'))",
    "open": "open('evil/new', 'w')",
    "os.rename": "os.rename('evil/script.py', 'evil/other.py')",
    "os.remove": "os.remove('evil/other.py')",
    "os.mkdir": "os.mkdir('evil/folder')",
    "os.symlink": "os.symlink('script.py', 'evil/link')",
    "subprocess.Popen": "subprocess.run(['true'])",
    "os.system": "os.system('true')",
    "os.posix_spawn": "os.posix_spawn('/bin/true', ['true'], {})",
    "socket.connect": "socket.socket().connect_ex(('127.0.0.1', 1))",
}


def test_the_guard_reports_each_misdeed(folder: Path) -> None:
    tmp = folder.parent / "tmp"
    tmp.mkdir()
    shutil.copy(Path(__file__).with_name("guard.py"), tmp / "sitecustomize.py")
    (folder / "model.py").write_text("")
    code = "\n".join(["import os, socket, subprocess, sys", *MISDEEDS.values()])
    words = [sys.executable, "-c", code]
    subprocess.run(words, cwd=folder, env=guarded(folder, tmp), check=True, timeout=SECONDS)
    seen = {line.partition(" ")[0] for line in (tmp / "guard.log").read_text().splitlines()}
    assert seen >= MISDEEDS.keys()


def run_guarded(folder: Path, tmp: Path, command: str) -> str | None:
    words = [sys.executable, "-P", "-m", "samovar", *command.format("evil").split()]
    if command == PYTHON:
        words = [sys.executable, "-P", "-c", PYTHON]
    environment = guarded(folder, tmp)
    try:
        ended = subprocess.run(
            words,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            preexec_fn=ending_with_me(),
        )
    except subprocess.TimeoutExpired:
        return f"{command}: took more than {SECONDS} s"
    printed = ended.stdout + ended.stderr
    if (code := _CONTROLS.search(printed)) is not None:
        return f"{command}: printed {code[0]!r} after {printed[max(0, code.start() - 200) : code.start()]!r}"
    if ended.returncode not in (0, 1, 2) or "Traceback" in ended.stderr:
        return f"{command}: exit code {ended.returncode}: {ended.stderr[-1500:]}"
    return None


def guarded(folder: Path, tmp: Path) -> dict[str, str]:
    """The environment of a child that the guard watches."""
    return {
        **os.environ,
        "PYTHONPATH": str(tmp),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(tmp),
        "MPLCONFIGDIR": str(tmp),
        "GUARD_LOG": str(tmp / "guard.log"),
        "GUARD_FOREIGN": str(folder),
        "GUARD_WRITABLE": str(tmp),
    }
