"""Which rows of a source count: `where`, an expression of DuckDB over the columns of a row, and columns that must not
be missing. The same for every engine, because rows are left out before an engine sees them.

An expression is parsed by DuckDB and checked piece by piece against what is listed here. It cannot name another table,
a file or a setting, and gives the same answer whenever it is asked: no clock, no random numbers. It is then computed by
a DuckDB without access to files.
"""

import copy
import json
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from samovar.brewing.arrays import as_numpy, is_missing
from samovar.brewing.sources import FILE, ROW, Source, read_in_order
from samovar.config.values import did_you_mean, nearest, suggest
from samovar.errors import BadInput, ConfigError, UnknownColumn

_KINDS = frozenset(
    {"COLUMN_REF", "CONSTANT", "COMPARISON", "CONJUNCTION", "OPERATOR", "BETWEEN", "CASE", "CAST", "FUNCTION", "TYPE"}
)
_OPERATORS = frozenset(
    {
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "**",
        "^",
        "&",
        "|",
        "<<",
        ">>",
        "||",
        "~~",
        "!~~",
        "~~*",
        "!~~*",
        "~~~",
        "~",
        "@",
        "^@",
    }
)
_NAMES = """
abs ceil ceiling floor round trunc sign sqrt cbrt exp ln log log2 log10 pow power mod greatest least isnan
isinf isfinite even gcd lcm lower upper lcase ucase trim ltrim rtrim length len strlen char_length substr
substring left right replace reverse contains starts_with ends_with prefix suffix instr strpos position concat
concat_ws repeat lpad rpad split_part like_escape not_like_escape ilike_escape not_ilike_escape regexp_matches
regexp_full_match regexp_extract regexp_replace ascii chr unicode format printf strip_accents nfc_normalize
levenshtein md5 sha256 hex year quarter month week weekday day hour minute second millisecond microsecond
dayofmonth dayofweek dayofyear isodow isoyear weekofyear yearweek dayname monthname date_part datepart
date_trunc datetrunc date_diff datediff date_sub datesub epoch epoch_ms epoch_us epoch_ns make_date
make_timestamp to_timestamp strftime strptime try_strptime last_day time_bucket to_years to_months to_weeks
to_days to_hours to_minutes to_seconds to_milliseconds to_microseconds if ifnull nullif list_value
list_contains list_has list_has_any list_has_all list_position list_extract list_element list_slice
array_extract array_slice array_contains array_length list_sum list_min list_max list_avg struct_extract
"""
_FUNCTIONS = _OPERATORS.union(_NAMES.split())
_ROWS = "samovar_rows"


@dataclass(frozen=True)
class Where:
    """An expression over the columns of a row, such as `quantity > 0 AND country <> 'France'`.

    Raises:
        ConfigError: It is not an expression, or does more than look at the row.
    """

    text: str

    def __post_init__(self) -> None:
        _ = self.columns

    @property
    def columns(self) -> list[str]:
        """The columns that it reads, each once."""
        return list(dict.fromkeys(node["column_names"][0] for node in _nodes(self._tree) if _is_column(node)))

    def to_sql(self, aliases: Mapping[str, str]) -> str:
        """The same expression with other names: to DuckDB, `id` and `ID` are one column."""
        tree = copy.deepcopy(self._tree)
        for node in _nodes(tree):
            if _is_column(node):
                node["column_names"][0] = aliases[node["column_names"][0]]
        with _connect() as connection:
            found = connection.execute("SELECT json_deserialize_sql(?)", [json.dumps(tree)]).fetchall()
        return str(found[0][0])

    @cached_property
    def _tree(self) -> dict[str, Any]:
        if not self.text.strip():
            raise ConfigError('where: give an expression over the columns of a row, such as "quantity > 0"')
        tree = _parse(self.text)
        if tree["error"]:
            problem = str(tree["error_message"]).replace("\n", " ")
            raise ConfigError(f"where: {self.text!r} is not an expression ({problem})")
        rest, plain = (_without_expressions(each) for each in (tree, _parse("1")))
        if rest != plain:
            raise ConfigError(f'where: {self.text!r} must be one expression over columns, such as "quantity > 0"')
        for node in _nodes(tree):
            self._refuse(node)
        return tree

    def _refuse(self, node: Mapping[str, Any]) -> None:
        kind = node["class"]
        if kind not in _KINDS:
            raise ConfigError(
                f"where: {self.text!r} contains a {kind.lower()}. Compute only with the columns of one row"
            )
        if kind == "FUNCTION":
            name = str(node["function_name"]).lower()
            is_plain = not (node["schema"] or node["catalog"] or node["filter"] or node["distinct"])
            if name not in _FUNCTIONS or not is_plain:
                words = sorted(each for each in _FUNCTIONS if each.isidentifier())
                best = nearest(name, words) if name not in words else None
                raise ConfigError(f"where: the function {name!r} is not supported{did_you_mean(best)}")


@lru_cache(maxsize=64)  # the same recipe is checked several times
def _parse(text: str) -> dict[str, Any]:
    with _connect() as connection:
        found = connection.execute("SELECT json_serialize_sql(?)", [f"SELECT ({text}\n)"]).fetchall()
    tree: dict[str, Any] = json.loads(found[0][0])
    return tree


def _without_expressions(tree: Mapping[str, Any]) -> Any:
    """All of a statement but the expressions that it selects."""
    statements = copy.deepcopy(tree["statements"])
    for statement in statements:
        node = statement["node"]
        node["select_list"] = len(node.get("select_list", ()))
    return statements


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)


def _is_column(node: Mapping[str, Any]) -> bool:
    return bool(node["class"] == "COLUMN_REF")


@contextmanager
def _connect() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB that reaches nothing but what is registered in it."""
    options: dict[str, Any] = {
        "threads": "1",
        "temp_directory": "",
        "autoload_known_extensions": "false",
        "autoinstall_known_extensions": "false",
        "python_enable_replacements": "false",
    }
    with closing(duckdb.connect(config=options)) as connection:
        connection.execute("SET TimeZone = 'UTC'")  # not the machine's
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection


@dataclass(frozen=True)
class RowFilter:
    """The rows for which `where` is true and no column of `required` is missing."""

    where: Where | None = None
    required: tuple[str, ...] = field(default=())

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys([*(self.where.columns if self.where else ()), *self.required]))

    def __bool__(self) -> bool:
        return self.where is not None or bool(self.required)

    def check(self, schema: pa.Schema, name: str) -> None:
        """Refuse columns that a source does not have, and an expression that is not true or false. `name` is that of
        the source."""
        for column in self.columns:
            if column not in schema.names:
                what = "where" if self.where and column in self.where.columns else "missing"
                raise UnknownColumn(f"{name}: {what}: no column {column!r}{suggest(column, schema.names)}")
        if self.where is not None:
            fields = [schema.field(column) for column in self.where.columns]
            with _Evaluation(self.where, name).opened() as evaluation:
                evaluation.check(pa.RecordBatch.from_pylist([], pa.schema(fields)))

    def read(
        self, source: Source, schema: pa.Schema, columns: Sequence[str], files: Collection[int] | None = None
    ) -> Generator[pa.RecordBatch]:
        """The rows that count, in the order of the files, with `columns` and their places."""
        needed = list(dict.fromkeys([*columns, *self.columns]))
        with closing(read_in_order(source, schema, needed, files)) as batches:
            if not self:
                yield from batches
            elif self.where is None:
                for batch in batches:
                    yield _keep(batch, ~self._lacks(batch), columns)
            else:
                with _Evaluation(self.where, source.name).opened() as evaluation:
                    for batch in batches:
                        is_kept = ~self._lacks(batch)
                        is_kept[is_kept] = evaluation.holds(batch.filter(is_kept), source)
                        yield _keep(batch, is_kept, columns)

    def _lacks(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        lacks = np.zeros(batch.num_rows, bool)
        for column in self.required:
            lacks |= is_missing(batch.column(column))
        return lacks


ALL_ROWS = RowFilter()


def _keep(batch: pa.RecordBatch, is_kept: NDArray[np.bool_], columns: Sequence[str]) -> pa.RecordBatch:
    chosen = batch.select([*columns, FILE, ROW])
    return chosen if is_kept.all() else chosen.filter(pa.array(is_kept))


class _Evaluation:
    """Computes one expression for many batches."""

    def __init__(self, where: Where, name: str) -> None:
        self._where = where
        self._name = name
        self._aliases = {column: f"samovar_{number}_" for number, column in enumerate(where.columns)}
        self._sql = f"{where.to_sql(self._aliases)} AS is_kept FROM {_ROWS}"
        self._connection: duckdb.DuckDBPyConnection

    @contextmanager
    def opened(self) -> Iterator["_Evaluation"]:
        with _connect() as self._connection:
            yield self

    def check(self, no_rows: pa.RecordBatch) -> None:
        try:
            kind = self._compute(no_rows).type
        except duckdb.Error as error:
            raise ConfigError(f"{self._name}: {self._explain(error)}") from None
        if not types.is_boolean(kind) and not types.is_null(kind):
            raise ConfigError(
                f"{self._name}: where must be true or false for each row, but {self._where.text!r} is {kind}"
            )

    def holds(self, batch: pa.RecordBatch, source: Source) -> NDArray[np.bool_]:
        try:
            found = self._compute(batch)
        except duckdb.Error as error:
            row = self._first_failure(batch)
            place = source.locate(batch.column(FILE)[row].as_py(), batch.column(ROW)[row].as_py())
            raise BadInput(f"{place}: {self._explain(self._failure(batch.slice(row, 1)) or error)}") from None
        if types.is_null(found.type):
            return np.zeros(batch.num_rows, bool)
        return as_numpy(found.fill_null(False)).astype(bool)

    def _first_failure(self, batch: pa.RecordBatch) -> int:
        """The first row with which the rows before it cannot be computed."""
        low, high = 0, batch.num_rows
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._failure(batch.slice(0, middle)) else (middle, high)
        return low

    def _failure(self, batch: pa.RecordBatch) -> duckdb.Error | None:
        try:
            self._compute(batch)
        except duckdb.Error as error:
            return error
        return None

    def _compute(self, batch: pa.RecordBatch) -> pa.Array:
        arrays = [batch.column(column) for column in self._aliases]
        if not arrays:  # such as `true`: DuckDB still needs the rows
            arrays = [pa.nulls(batch.num_rows, pa.int8())]
        names = list(self._aliases.values()) or ["none"]
        self._connection.register(_ROWS, pa.Table.from_arrays(arrays, names=names))
        found = self._connection.sql(self._sql).to_arrow_table().column(0)
        return found.combine_chunks() if found.num_chunks != 1 else found.chunk(0)

    def _explain(self, error: duckdb.Error) -> str:
        problem = str(error).splitlines()[0].strip().rstrip(".!")
        for column, alias in self._aliases.items():
            problem = problem.replace(alias, column)
        return f"where: {problem}, in {self._where.text!r}"
