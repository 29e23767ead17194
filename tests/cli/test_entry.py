"""What the command line settles before torch is loaded."""

import os
import subprocess
import sys

import pytest

ASK = """
import os, sys
from samovar.cli import main
sys.argv = ["samovar", "--version"]
try:
    main()
except SystemExit:
    print(os.environ.get("GOMP_SPINCOUNT"), "torch" in sys.modules)
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "20000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_threads_of_torch_are_told_to_sleep_soon_unless_the_user_says_otherwise(
    given: dict[str, str], expected: str
) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    said = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True, env=kept | given)
    assert said.stdout.splitlines()[-1] == f"{expected} False"
