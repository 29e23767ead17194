import subprocess
import sys

import pytest
from benchmarks.start import processor_seconds


def test_processor_time_counts_work_but_not_waiting() -> None:
    worked = processor_seconds([sys.executable, "-c", "sum(range(10_000_000))"])
    slept = processor_seconds([sys.executable, "-c", "import time; time.sleep(0.5)"])
    assert 0 < slept < worked


def test_a_command_that_fails_is_not_measured() -> None:
    with pytest.raises(subprocess.CalledProcessError, match="exit status 3"):
        processor_seconds([sys.executable, "-c", "raise SystemExit(3)"])
