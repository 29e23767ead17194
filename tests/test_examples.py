"""The demo runs as written and would report a difference in bytes."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pyarrow.compute as pc
import pyarrow.parquet as pq
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
    assert len(re.findall(r"^  SIGKILL after hour \d+ of 48$", text, re.MULTILINE)) == 2
    first, second = re.findall(r"^  ([0-9a-f]{16})  (?:straight|online)_model$", text, re.MULTILINE)
    assert first == second
    assert "SAME BYTES: 50 files" in text
    assert re.search(r"^ *[\d,]+ rows/s: start, training", text, re.MULTILINE)


def test_the_demo_shows_how_good_the_model_is_beside_the_best_possible(shown: tuple[Path, str]) -> None:
    folder, text = shown
    rows = re.findall(r"^ (2026-01-0\d) +([\d,]+) +([\d.]+) +([\d.]+) +([\d.]+) ", text, re.MULTILINE)
    assert [row[0] for row in rows] == ["2026-01-01", "2026-01-02"]
    for _, _, learned, best, base in rows:
        assert float(best) < float(learned) < float(base)
    assert (folder / "training.png").read_bytes().startswith(b"\x89PNG")


def test_the_demo_shows_that_hash_tables_forget(shown: tuple[Path, str]) -> None:
    _, text = shown
    kept = dict(re.findall(r"^ (user|ad) +([\d,]+ +[\d,]+) +[\d.]+ MB", text, re.MULTILINE))
    for name in ("user", "ad"):
        met, live = (int(number.replace(",", "")) for number in kept[name].split())
        assert 0 < live < met


def test_the_demo_ends_with_predictions_from_python(shown: tuple[Path, str]) -> None:
    folder, text = shown
    assert (folder / "last_day_model/model").is_dir()
    rows = re.findall(r"^ *\d+ +ad-\d+ +(0\.\d+) +(0\.\d+)$", text, re.MULTILINE)
    assert len(rows) == 3
    assert all(0 < float(prediction) < 1 for _, prediction in rows)


def test_the_demo_fails_when_bytes_differ(
    demo: ModuleType, shown: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = shown
    assert demo.show_proof(folder)
    monkeypatch.setattr(demo, "KILLED", "last_day_model")
    assert not demo.show_proof(folder)
    assert "DIFFERENT BYTES" in capsys.readouterr().out


def test_a_log_has_users_and_ads_that_come_and_go(tmp_path: Path) -> None:
    path = tmp_path / "clicks.parquet"
    command = [sys.executable, str(DEMO.with_name("make_log.py")), str(path), "--days", "7", "--rows-per-hour", "7500"]
    subprocess.run(command, check=True)
    rows = pq.read_table(path, columns=["time", "user", "ad"])
    assert pc.count_distinct(rows["user"]).as_py() >= 200_000
    assert pc.count_distinct(rows["ad"]).as_py() >= 20_000
    first = pc.less(rows["time"], pc.add(pc.min(rows["time"]), 86400))
    last = pc.greater(rows["time"], pc.subtract(pc.max(rows["time"]), 86400))
    for name in ("user", "ad"):
        early, late = (set(rows.filter(day)[name].to_pylist()) for day in (first, last))
        assert len(early & late) < 0.01 * len(early)
    busiest = pc.max(pc.value_counts(rows["ad"]).field("counts")).as_py()
    assert busiest > 50 * len(rows) / pc.count_distinct(rows["ad"]).as_py()
