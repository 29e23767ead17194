"""Questions to DuckDB over rows in memory, for people who may be guests: nothing on a disk or a network can be reached,
and neither the form nor a free SELECT can change anything. Knows no results.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from samovar.config.values import suggest
from samovar.errors import BadInput, UnknownColumn

MOST_ROWS = 1000
SIGNS = ("=", "!=", "<", "<=", ">", ">=", "contains")
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",  # a query must not see our variables
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "memory_limit": "1GB",
    "threads": "1",
    "temp_directory": "",  # by default it spills into the current folder
    "max_temp_directory_size": "0KB",
}


@dataclass(frozen=True)
class Form:
    """What the form of predictions asks: all of it optional.

    Attributes:
        columns: Which to show.
        column: Of the condition.
        sign: Of the condition.
        value: Of the condition.
        sort: A column; with "-" in front it descends.
        limit: How many rows.
    """

    columns: Sequence[str] = ()
    column: str = ""
    sign: str = "="
    value: str = ""
    sort: str = ""
    limit: int = 100


def query_form(rows: pa.Table, form: Form) -> dict[str, Any]:
    """Answer a form.

    Returns:
        All columns, those that are shown, the rows, and how many meet the condition.

    Raises:
        UnknownColumn: There is no column of that name.
        BadInput: The value does not fit the column, or there is no such sign.
    """
    sort = form.sort.removeprefix("-")
    for name in [*form.columns, *filter(None, (form.column, sort))]:
        if name not in rows.column_names:
            raise UnknownColumn(f"no column {name!r}{suggest(name, rows.column_names)}")
    where, values = "", []
    if form.column and form.value:
        if form.sign not in SIGNS:
            raise BadInput(f"no sign {form.sign!r}. Available: {', '.join(SIGNS)}")
        quoted = _quote(form.column)
        if form.sign == "contains":
            where, values = f"WHERE contains(CAST({quoted} AS VARCHAR), ?)", [form.value]
        else:
            kind = duckdb.from_arrow(rows.select([form.column]).slice(0, 0)).types[0]
            where, values = f"WHERE {quoted} {form.sign} CAST(? AS {kind})", [form.value]
    shown = ", ".join(map(_quote, form.columns)) or "*"
    order = f"ORDER BY {_quote(sort)} {'DESC' if form.sort.startswith('-') else 'ASC'} NULLS LAST" if sort else ""
    with _open({"rows": rows}) as connection:
        try:
            count = connection.execute(f"SELECT count(*) FROM rows {where}", values).fetchone()
            query = f"SELECT {shown} FROM rows {where} {order} LIMIT {max(1, min(form.limit, MOST_ROWS))}"
            answer = _fetch(connection.execute(query, values))
        except duckdb.Error as error:
            raise BadInput(f"{form.column} {form.sign} {form.value}: {_first_line(error)}") from error
    return {**answer, "all_columns": rows.column_names, "num_found": count[0] if count else 0, "num_rows": len(rows)}


def query_text(tables: Mapping[str, pa.Table], text: str) -> dict[str, Any]:
    """Answer one SELECT over copies of tables.

    Raises:
        BadInput: It is not one SELECT, or DuckDB refuses it.
    """
    with _open(tables) as connection:
        try:
            statements = connection.extract_statements(text)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise BadInput("write one SELECT")
            answer = _fetch(connection.execute(statements[0]))
        except duckdb.Error as error:
            raise BadInput(_first_line(error)) from error
    columns = {name: table.column_names for name, table in tables.items()}
    return {**answer, "tables": columns}


class _open:
    """A database in memory that has these tables, and from which nothing else can be reached."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._connection = duckdb.connect(":memory:", config=_SETTINGS)
        for name, table in tables.items():
            self._connection.register("incoming", table)
            self._connection.execute(f"CREATE TABLE {_quote(name)} AS SELECT * FROM incoming")
            self._connection.unregister("incoming")
        self._connection.execute("SET lock_configuration = true")

    def __enter__(self) -> duckdb.DuckDBPyConnection:
        return self._connection

    def __exit__(self, *error: object) -> None:
        self._connection.close()


def _fetch(found: Any) -> dict[str, Any]:
    columns = [each[0] for each in found.description or ()]
    rows = found.fetchmany(MOST_ROWS + 1)
    return {
        "columns": columns,
        "rows": [[_plain(value) for value in row] for row in rows[:MOST_ROWS]],
        "has_more": len(rows) > MOST_ROWS,
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
