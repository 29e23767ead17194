"""The main job on a real S3 server: trained in a bucket, from a table in a bucket, with kills on both sides."""

import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_SECONDS

from samovar.errors import StoreError
from samovar.provenance.contract import compare, contract_of
from samovar.results import open_directory
from samovar.testing.object_servers import ObjectServer, running, seaweedfs

EXAMPLE = Path(__file__).parents[2] / "examples/click_model"
NUM_KILLS = 8


def make_job(folder: Path, url: str) -> None:
    for name in ("make_log.py", "recipe.json", "online.json", "script.py"):
        shutil.copy(EXAMPLE / name, folder)
    log = ("make_log.py", "clicks.parquet", "--days", "2", "--rows-per-hour", "1000")
    subprocess.run([sys.executable, *log], cwd=folder, check=True)
    recipe = json.loads((folder / "recipe.json").read_text()) | {"result": f"{url}/clicks"}
    (folder / "recipe.json").write_text(json.dumps(recipe))
    config = json.loads((folder / "online.json").read_text()) | {"snapshotter": {"frequency": 0.0}}
    text = json.dumps(config).replace('"table": "clicks"', f'"table": "{url}/clicks"')
    (folder / "online.json").write_text(text)


def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "samovar", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: "subprocess.Popen[str]") -> int:
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode in (0, 1), output
    return process.returncode


def train(folder: Path, out: str) -> "subprocess.Popen[str]":
    return start(folder, "train", "online.json", "--script", "script.py", "--out", out)


@pytest.mark.long
def test_kills_of_the_trainer_and_of_the_server_change_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(7)
    with running(seaweedfs(tmp_path / "server")) as server:
        for name, value in server.environ().items():
            monkeypatch.setenv(name, value)
        make_job(tmp_path, server.url)
        assert finish(start(tmp_path, "brew", "recipe.json")) == 0
        assert finish(train(tmp_path, "straight")) == 0
        out = f"{server.url}/models/killed"
        for number in range(NUM_KILLS):
            process = train(tmp_path, out)
            num_snapshots = wait_for_snapshots(process, out, number + 1)
            time.sleep(chance.uniform(0, 0.5))
            if number % 2:
                server.kill()
                server.start()
                finish(process)
            else:
                process.kill()
                process.communicate()
            assert num_snapshots > 0
        while finish(train(tmp_path, out)) != 0:
            pass
        assert compare(contract_of(tmp_path / "straight"), contract_of(out)) == []


def wait_for_snapshots(process: "subprocess.Popen[str]", out: str, count: int) -> int:
    """Wait until the run has as many snapshots, or has ended."""
    found = 0
    while process.poll() is None and found < count:
        time.sleep(0.05)
        try:
            snapshots = open_directory(out).store.attributes().values.get("snapshots", [])
        except (LookupError, ValueError, StoreError):
            continue
        found = int(snapshots[0]["name"].partition(".")[0]) if snapshots else 0
    return max(found, 1)


STARTER = """
import sys
from samovar.errors import LeaseHeld
from samovar.store import take_lease
from samovar.store.objects import ObjectStore
for line in sys.stdin:
    try:
        lease = take_lease(ObjectStore(line.strip()))
        print("won", flush=True)
    except LeaseHeld:
        print("held", flush=True)
"""


@pytest.mark.long
def test_of_two_starters_one_runs(s3: ObjectServer) -> None:
    starters = [
        subprocess.Popen([sys.executable, "-c", STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for number in range(50):
        for starter in starters:
            assert starter.stdin is not None
            starter.stdin.write(f"{s3.url}/starters/{number}\n")
            starter.stdin.flush()
        answers = [starter.stdout.readline().strip() for starter in starters if starter.stdout is not None]
        assert sorted(answers) == ["held", "won"]
    for starter in starters:
        starter.communicate()
