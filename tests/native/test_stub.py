"""The types of the C++ core, as mypy sees them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_committed_stub_is_the_generated_one(tmp_path: Path) -> None:
    stub = tmp_path / "_native.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "samovar._native", "-o", str(stub)]
    subprocess.run(command, check=True)
    committed = (ROOT / "src/samovar/_native.pyi").read_text()
    assert stub.read_text() == committed, "bindings changed: run `make stub`"
