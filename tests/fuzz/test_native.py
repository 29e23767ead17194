"""The C++ fuzzer of cells, built with sanitizers. `make native-test` runs it for a few seconds; here it runs longer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.orphans import ending_with_me

SECONDS = os.environ.get("SAMOVAR_FUZZ_SECONDS", "900")
ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.timeout(float(SECONDS) + 900)  # building takes minutes
def test_changed_cells_are_decoded_or_refused_without_a_wrong_access(tmp_path: Path) -> None:
    build = tmp_path / "build"
    cmake = [sys.executable, "-m", "cmake"]
    options = ["-DSAMOVAR_PYTHON=OFF", "-DSAMOVAR_TESTS=ON", "-DSAMOVAR_SANITIZE=address,undefined"]
    subprocess.run([*cmake, "-S", str(ROOT), "-B", str(build), *options], check=True, capture_output=True)
    subprocess.run([*cmake, "--build", str(build), "--target", "fuzz_cells"], check=True, capture_output=True)
    seed = str(int.from_bytes(os.urandom(3), "little"))
    settings = {**os.environ, "SAMOVAR_FUZZ_SECONDS": SECONDS, "SAMOVAR_FUZZ_SEED": seed}
    ended = subprocess.run(
        [build / "fuzz_cells"], env=settings, capture_output=True, text=True, preexec_fn=ending_with_me()
    )
    assert ended.returncode == 0, f"SAMOVAR_FUZZ_SEED={seed}: {ended.stdout}{ended.stderr}"
