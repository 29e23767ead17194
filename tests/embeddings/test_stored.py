"""Tables of a state tree, read without a model."""

import subprocess
import sys


def test_stored_tables_are_read_without_torch() -> None:
    program = "import sys, samovar.embeddings.stored; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
