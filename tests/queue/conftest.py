"""Queues in SQLite files and on a PostgreSQL server that is started once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.queue.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, quick_path: Path) -> str:
    """The address of an empty queue."""
    if request.param == "sqlite":
        return f"sqlite:///{quick_path}/queue.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()
