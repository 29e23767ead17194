"""The one table of a queue's database, and the database's own clock. Knows neither SQLite's nor PostgreSQL's files."""

from typing import Any

from sqlalchemy import Column, Double, Index, Integer, MetaData, Table, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import ColumnElement

metadata = MetaData()

# The number is the format: a queue of another one is another table. A lost queue is rebuilt from directories.
jobs = Table(
    "samovar_jobs_1",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("out", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("config_path", Text, nullable=False),
    Column("overrides", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("script", Text),
    Column("folder", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False, default=0),
    Column("epoch", Integer, nullable=False, default=0),
    Column("ready_at", Double, nullable=False, default=0.0),
    Column("holder", Text),
    Column("beat_at", Double),
    Column("lease_until", Double),
    Column("exit_code", Integer),
    Column("error", Text),
    Column("log", Text),
)
Index("samovar_jobs_1_next", jobs.c.state, jobs.c.priority, jobs.c.id)


class database_now(ColumnElement[float]):
    """Seconds since 1970 by the database's clock: workers on many machines agree on it."""

    type = Double()
    inherit_cache = True


@compiles(database_now, "sqlite")
def _sqlite_now(element: database_now, compiler: Any, **options: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(database_now, "postgresql")
def _postgresql_now(element: database_now, compiler: Any, **options: Any) -> str:
    return "extract(epoch from clock_timestamp())::double precision"
