"""Soak: hundreds of kills. Run by `make long`."""

from pathlib import Path
from typing import Any

import pytest
from tests.training.test_hash_embeddings import SCRIPT as HASH_SCRIPT
from tests.training.toys import OFFLINE, ONLINE, SCRIPT, make_hours, make_toy, write_table

from samovar.provenance.verify import verify_resume


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("config", [OFFLINE, ONLINE], ids=["offline", "online"])
@pytest.mark.parametrize("script", [SCRIPT, HASH_SCRIPT], ids=["dense", "hash"])
def test_three_hundred_kills_change_no_bit(quick_path: Path, config: dict[str, Any], script: str) -> None:
    write_table(quick_path / "clicks", make_hours([3, 2, 0, 4, 2, 3] * 5))
    done = verify_resume(make_toy(quick_path, config, {}, script), 300, quick_path / "verify")
    assert (done.num_kills, done.differences) == (300, [])
