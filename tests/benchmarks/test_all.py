"""`python -m benchmarks` on real benchmarks in small sizes: the table on the page shows what ran."""

import json
import os
import platform
import socket
import statistics
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from benchmarks.contest.report import three_digits
from benchmarks.contest.summary import BEGIN, END

ROOT = Path(__file__).parents[2]
BEFORE, AFTER = "# Benchmarks\n\nWhat limits what.\n\n", "\n\n## Earlier\n\nFigures of last year.\n"
MOST_SVG_BYTES = 150_000


def run_benchmarks(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Without the peers, which only `make bench` installs."""
    command = [sys.executable, "-m", "benchmarks", *map(str, arguments)]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=variables)


def find_sections(folder: Path, name: str) -> list[dict[str, Any]]:
    result = json.loads((folder / f"{name}.json").read_text())
    assert result["is_quick"]
    assert result["is_complete"]
    return [section for report in result["reports"] for section in report["sections"]]


def assert_told(section: dict[str, Any], lines: Sequence[str]) -> None:
    """Speed and ratio of every contestant, recomputed from its seconds."""
    for contestant, seconds in section["seconds"].items():
        speed = f"{three_digits(section['amount'] / statistics.median(seconds))} {section['unit']}/s"
        peers = section["seconds"][section["peer"]]
        ratio = three_digits(statistics.median(peer / own for peer, own in zip(peers, seconds, strict=True)))
        peer = "" if contestant == section["peer"] else section["peer"]
        assert any(f"| {contestant} | {speed} | {peer} | {ratio} |" in line for line in lines), contestant


def test_the_table_tells_what_has_run_and_a_failure_stops_nothing(quick_path: Path) -> None:
    page, results, figures = quick_path / "README.md", quick_path / "results", quick_path / "figures"
    page.write_text(f"{BEFORE}{BEGIN}\n\nwhat stood here\n\n{END}{AFTER}")
    kept = ("--quick", "--results", results, "--readme", page, "--figures", figures, "--dir", quick_path)
    done = run_benchmarks("embeddings", "growth", *kept)
    assert done.returncode == 1, done.stderr
    assert "embeddings" in done.stdout.splitlines()[-1]
    assert "No module named 'fbgemm_gpu'" in done.stderr

    again = run_benchmarks("hash", *kept)  # the results of the others are still there
    assert again.returncode == 0, again.stderr
    text = page.read_text()
    assert text.startswith(BEFORE + BEGIN)
    assert text.endswith(END + AFTER)
    assert "what stood here" not in text
    sections = [*find_sections(results, "hash"), *find_sections(results, "growth")]
    assert len(sections) == 4 + 3 + 2 + 1
    for section in sections:
        assert_told(section, text.splitlines())
    assert "| **embeddings: ended early** |  |  |  |  | FAIL |" in text
    for told in (f"python {platform.python_version()}", f"torch {version('torch')}", f"xxhash {version('xxhash')}"):
        assert told in text
    for private in (socket.gethostname(), str(quick_path), str(ROOT)):
        assert private not in text
    pictures = sorted(figures.iterdir())
    assert [path.name for path in pictures] == ["embedding_step.svg", "reading.svg", "training_run.svg"]
    assert all(path.stat().st_size < MOST_SVG_BYTES for path in pictures)
    assert not list(quick_path.glob("samovar-bench-*"))


def test_an_unknown_benchmark_is_named() -> None:
    done = run_benchmarks("hash", "hahs")
    assert done.returncode == 2
    assert "no benchmark hahs; there are brew, embeddings" in done.stderr


def test_a_page_without_a_place_is_refused_before_anything_runs(tmp_path: Path) -> None:
    done = run_benchmarks("hash", "--readme", tmp_path / "README.md")
    assert done.returncode == 2
    assert "README.md: no such page" in done.stderr
    assert "hash" not in done.stdout


def test_the_page_of_the_repository_has_a_place_for_the_table() -> None:
    text = (ROOT / "benchmarks/README.md").read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    assert text.index(BEGIN) < text.index(END)


@pytest.mark.parametrize("path", sorted((ROOT / "docs/growth").glob("*.svg")), ids=lambda path: path.name)
def test_pictures_of_the_docs_are_small(path: Path) -> None:
    assert path.stat().st_size < MOST_SVG_BYTES
