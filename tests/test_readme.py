"""The README's Python blocks run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_every_python_block_of_the_readme_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    outputs = ["finished\n", "2\n"]
    for block, expected in zip(blocks, outputs, strict=True):
        for _ in range(2):  # the second time a result has nothing to do
            done = subprocess.run(
                [sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stdout) == (0, expected), done.stderr


def test_the_table_from_a_csv_is_brewed_looked_at_and_read_as_written(tmp_path: Path) -> None:
    text = README.read_text().partition("## A table from a CSV")[2]
    recipe, commands, code = (re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)[0] for kind in ("json", "sh", "py"))
    log = README.parent / "examples" / "brewing" / "make_log.py"
    subprocess.run([sys.executable, log, "clicks.csv", "5000"], cwd=tmp_path, check=True)
    (tmp_path / "recipe.json").write_text(recipe)
    lines = [line.partition("#")[0].split() for line in commands.splitlines()]
    assert [line[1] for line in lines] == ["brew", "table", "table"]
    for command in [*([sys.executable, "-m", *line] for line in lines), [sys.executable, "-c", code]]:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "rows.parquet").exists()


def test_every_link_of_the_documents_leads_somewhere() -> None:
    root = README.parent
    for page in [*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("benchmarks/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
