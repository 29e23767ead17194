"""The README's Python blocks run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_every_python_block_of_the_readme_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    outputs = ["finished\n", "2\n", "(200, 1)\n"]
    for block, expected in zip(blocks, outputs, strict=True):
        for _ in range(2):  # the second time a result has nothing to do
            done = subprocess.run(
                [sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stdout) == (0, expected), done.stderr


def blocks_of(title: str) -> dict[str, str]:
    """The first block of each kind after a title."""
    text = README.read_text().partition(f"## {title}")[2]
    return {kind: re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)[0] for kind in ("json", "sh", "py")}


def run_all(folder: Path, commands: str) -> None:
    for line in commands.splitlines():
        command = [sys.executable, "-m", *line.partition("#")[0].split()]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_table_and_the_model_are_made_as_written(quick_path: Path) -> None:
    log = README.parent / "examples" / "brewing" / "make_log.py"
    subprocess.run([sys.executable, log, "clicks.csv", "5000"], cwd=quick_path, check=True)
    table, model = blocks_of("A table from a CSV"), blocks_of("A model, trained hour by hour")
    (quick_path / "recipe.json").write_text(table["json"])
    run_all(quick_path, table["sh"])
    assert (quick_path / "rows.parquet").exists()
    subprocess.run([sys.executable, "-c", table["py"]], cwd=quick_path, check=True)
    (quick_path / "online.json").write_text(model["json"])
    (quick_path / "model.py").write_text(model["py"])
    run_all(quick_path, model["sh"])
    assert len(list((quick_path / "clicks_model" / "evaluation" / "next_hour").iterdir())) == 6


def test_the_pipeline_of_scripts_runs_as_written(quick_path: Path) -> None:
    section = README.read_text().partition("## A pipeline of your own scripts")[2].partition("\n## ")[0]
    for name, script in re.findall(r"```py\n# (\w+\.py)\n(.*?)```", section, re.DOTALL):
        (quick_path / name).write_text(script)
    (commands,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-e", "-c", commands],
        cwd=quick_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "total: equal, 1 file compared" in done.stdout
    assert (quick_path / "total/files/total.txt").read_text() == "285"


def test_every_link_of_the_documents_leads_somewhere() -> None:
    root = README.parent
    for page in [*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("benchmarks/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
