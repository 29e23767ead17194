"""How much a process grows while its consumer is slower than the reader. Run in its own process.

.venv/bin/python -m benchmarks.loaders.memory TABLE MAX_CACHE_SIZE
"""

import json
import sys
import time
from pathlib import Path

from benchmarks.loaders.base import touch
from benchmarks.loaders.tables import to_batch

from samovar.tables import ReadOptions, open_table

FIELDS = ("RssAnon", "RssFile")
SECONDS_PER_RECORD = 0.002
RECORDS_PER_LOOK = 5


def main(folder: str, max_cache_size: int) -> None:
    """Print the growth of each field in bytes: private memory, and mapped pages of files."""
    table = open_table(folder)
    touch(to_batch(next(table.read(stop=1))))
    before = _memory_bytes()
    peak = before
    for number, record in enumerate(table.read(options=ReadOptions(max_cache_size=max_cache_size))):
        touch(to_batch(record))
        time.sleep(SECONDS_PER_RECORD)
        if number % RECORDS_PER_LOOK == 0:
            peak = {field: max(peak[field], size) for field, size in _memory_bytes().items()}
    print(json.dumps({field: peak[field] - before[field] for field in FIELDS}))


def _memory_bytes() -> dict[str, int]:
    lines = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
    return {line[0].rstrip(":"): int(line[1]) << 10 for line in lines if line[0].rstrip(":") in FIELDS}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
