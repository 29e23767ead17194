"""The README's Python blocks run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_every_python_block_of_the_readme_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        for expected in ("finished\n", "finished\n"):  # the second time there is nothing to do
            done = subprocess.run(
                [sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stdout) == (0, expected), done.stderr


def test_every_link_of_the_documents_leads_somewhere() -> None:
    root = README.parent
    for page in [*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("benchmarks/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
