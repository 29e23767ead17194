"""A password is in no message, whatever is wrong with the address that it is in."""

import sys
from pathlib import Path

import pytest

from samovar.errors import SamovarError
from samovar.queue import open_queue
from samovar.results import open_directory
from samovar.signals import how_to_continue

SECRET = "hunter2"
ADDRESSES = (
    "postgres://user:{}@host/name",
    "postgresql//user:{}@host/name",
    "postgresql:/user:{}@host/name",
    "postgresql:user:{}@host/name",
    "user:{}@host/name",
    "mysql://user:{}@host/name",
    "postgresql+nothing://user:{}@host/name",
    "postgresql://user:{}@host:port/name",
    "postgresql://user:{}@[::1/name",
    "postgresql://user:some@{}@127.0.0.1:1/name",
    "postgresql://us/er:{}@127.0.0.1:1/name",
    "postgresql://user:{}#host/name",
    "postgresql://user:{}/name",
    "postgresql://user:some {}@127.0.0.1:1/name",
    "postgresql://user:some/{}@127.0.0.1:1/name",
    "postgresql://user:{}@127.0.0.1:1/name",
    "postgresql://127.0.0.1:1/name?user=me&password={}",
    "host=127.0.0.1 password={}",
    "sqlite://user:{}@host/queue.db",
)


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("is_new", [False, True])
def test_a_password_in_an_address_is_never_shown(
    address: str, is_new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SamovarError) as caught:
        open_queue(address.format(SECRET), is_new=is_new, patience_seconds=0.0)
    assert SECRET not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_address_given_for_a_path_is_shown_without_its_password() -> None:
    with pytest.raises(SamovarError, match=r"^postgresql://…@host/name: URLs must start with"):
        open_directory(f"postgresql://user:{SECRET}@host/name")


def test_the_command_that_continues_is_shown_without_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["samovar", "worker", "--db", f"postgresql://user:{SECRET}@host/name"])
    assert how_to_continue().endswith("worker --db postgresql://user:***@host/name")
