"""The examples run as they stand, and the demo would tell if bytes differed."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

DEMO = Path(__file__).parents[1] / "examples/resume/demo.py"


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("resume_demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_demo_kills_a_job_and_finds_the_same_bytes(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, DEMO, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    kills = len(re.findall(r"^  SIGKILL ", done.stdout, re.MULTILINE))
    assert kills >= 5
    assert f"SAME BYTES in all 63 files, after {kills} kills" in done.stdout
    assert "once more:  finished already: nothing to do" in done.stdout
    assert re.search(r"^status +finished", done.stdout, re.MULTILINE)
    assert "model.decay,0.9,0.99" in done.stdout
    assert f"show {tmp_path}/killed" in done.stdout
    assert "clicks_table: version 1, 50000 rows in 54 minibatches" in done.stdout
    assert re.search(r"read back as tensors: [\d,]+ rows/s", done.stdout)


def test_the_demo_names_every_file_that_differs(demo: ModuleType, tmp_path: Path) -> None:
    for name in ("model/weights", "evaluation/train/0", "evaluation/train/1", "logs/metrics.jsonl"):
        (tmp_path / "straight" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "straight" / name).write_bytes(name.encode())
    shutil.copytree(tmp_path / "straight", tmp_path / "killed")
    straight = demo.read_compared(tmp_path / "straight")
    assert demo.compare(straight, demo.read_compared(tmp_path / "killed")) == []
    (tmp_path / "killed/evaluation/train/1").write_bytes(b"evaluation/train/2")
    (tmp_path / "killed/logs/metrics.jsonl").unlink()
    killed = demo.read_compared(tmp_path / "killed")
    assert demo.compare(straight, killed) == ["evaluation/train/1", "logs/metrics.jsonl"]
    lines = demo.gather(sorted(straight), ["evaluation/train/1"])
    assert lines["evaluation/train/"] == ["evaluation/train/0"]
    assert lines["evaluation/train/1"] == ["evaluation/train/1"]


def test_the_demo_fails_when_bytes_differ(demo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["demo.py", str(tmp_path)])
    monkeypatch.setattr(demo, "choose_moments", lambda chance: [])
    monkeypatch.setattr(demo, "read_compared", lambda root: {"model/weights": str(root).encode()})
    assert demo.main() == 1
