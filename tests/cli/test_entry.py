"""What the command line does before it knows what it is asked for."""

import subprocess
import sys

ASK = """
import sys
from samovar.cli import main
sys.argv = ["samovar", "--version"]
try:
    main()
except SystemExit:
    print("torch" in sys.modules)
"""


def test_who_asks_for_the_version_does_not_wait_for_torch() -> None:
    said = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "False"
