"""The demo runs as written and would report a difference in bytes."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

DEMO = Path(__file__).parents[1] / "examples/click_model/demo.py"


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("click_demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, str(DEMO), str(folder), "--days", "2", "--rows-per-hour", "600"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return folder, done.stdout


def test_the_demo_goes_on_after_kills_and_ends_with_the_same_bytes(shown: tuple[Path, str]) -> None:
    _, text = shown
    assert len(re.findall(r"^  SIGKILL after hour \d+ of 48: ", text, re.MULTILINE)) == 2
    assert "online_model: already finished, nothing to do" in text
    assert re.search(r"SAME BYTES: 51 files of both runs compared, [\d,]+ bytes", text)
    assert re.search(r"^ *[\d,]+ rows/s: start, training", text, re.MULTILINE)


def test_the_demo_shows_how_good_the_model_is_beside_the_best_possible(shown: tuple[Path, str]) -> None:
    folder, text = shown
    rows = re.findall(r"^ (2026-01-0\d) +([\d,]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) ", text, re.MULTILINE)
    assert [row[0] for row in rows] == ["2026-01-01", "2026-01-02"]
    for _, _, auc, learned, best, base in rows:
        assert float(best) < float(learned) < float(base)
        assert float(auc) > 0.6
    for name in ("quality.png", "training.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
        assert str(folder / name) in text


def test_the_demo_fails_when_bytes_differ(
    demo: ModuleType, shown: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = shown
    assert demo.show_proof(folder)
    monkeypatch.setattr(demo, "contract_of", lambda root: {"model/state.json": str(root).encode()})
    assert not demo.show_proof(folder)
    assert "DIFFERENT BYTES" in capsys.readouterr().out
