"""A trained model that scores raw rows: signature, scoring function, embeddings. Knows no scripts and no files."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samovar.config.values import suggest
from samovar.embeddings import HashEmbedding
from samovar.embeddings.vectors import as_ids
from samovar.errors import BadInput, UnknownColumn
from samovar.scoring.outputs import as_numpy
from samovar.scoring.signature import Inputs, Signature

Score: TypeAlias = Callable[[Inputs, int], Any]
"""From the inputs of some rows to their predictions: `samovar.scoring.tiles.score` of a frozen model."""
_ROLES_OF_INTEGERS = ("id", "id_sequence")


def _has_text(ids: ArrayLike) -> bool:
    found = np.asarray(ids)
    return found.size > 0 and isinstance(found.reshape(-1)[0], str)


class Model:
    """A trained model: raw rows in, scores out, the same bits as `samovar predict` writes. Made by `samovar.load`.

    The score of a row does not depend on the rows around it, so rows may come in any order and number.

    Args:
        name: For messages: the directory that it was loaded from.
        signature: The columns that it reads.
        score: Applies it to inputs.
        embeddings: Its hash embeddings.

    Example:
        >>> model = samovar.load("models/hashed")
        >>> model.predict([{"user": 17}, {"user": 99}]).shape
        (2,)
        >>> model.embedding("user", [17]).shape
        (1, 4)
    """

    def __init__(self, name: str, signature: Signature, score: Score, embeddings: Sequence[HashEmbedding] = ()) -> None:
        self.name = name
        self.signature = signature
        self._score = score
        self._tables = {table: module for module in embeddings for table in module.table_names}

    def predict(self, rows: Any) -> Any:
        """Score rows.

        Args:
            rows: A DataFrame of pandas or polars, an Arrow table or reader, a DuckDB relation, a list of dicts (a
                missing key is null), a dict of columns, or a tensor table. Columns that the model does not read are
                ignored. Integers may come as decimal strings.

        Returns:
            One prediction per row, in the order of the rows: an array [N] or [N, K], or a dict of them if the script's
            `predict` returns a dict.

        Raises:
            BadInput: A value does not fit its column. Names the row and the column.
            UnknownColumn: A column that the model reads is missing.
        """
        parts = [self._score(inputs, num_rows) for inputs, num_rows in self.signature.read_rows(rows)]
        if not isinstance(parts[0], Mapping):
            return np.concatenate([as_numpy(part) for part in parts])
        return {name: np.concatenate([as_numpy(part[name]) for part in parts]) for name in parts[0]}

    def embedding(self, table: str, ids: ArrayLike) -> NDArray[np.float32]:
        """The weights of ids in a hash table.

        Args:
            table: Its name: the feature's, unless features share a table.
            ids: Signed or unsigned 64-bit integers; strings for a hashed column.

        Returns:
            [N, dim]; zeros for an id that training never saw, or that has expired.

        Raises:
            BadInput: They are strings, but the column has integers.
            UnknownColumn: The model has no such table.
        """
        if table not in self._tables:
            raise UnknownColumn(f"{self.name}: no hash table {table!r}{suggest(table, self._tables)}")
        column = next((each for each in self.signature.inputs if each.name == table), None)
        if column is not None and (column.converter or {}).get("role") in _ROLES_OF_INTEGERS and _has_text(ids):
            raise BadInput(f"{self.name}: the ids of {table!r} are integers, got strings")
        return self._tables[table].weights_of(table, as_ids(ids))

    def __repr__(self) -> str:
        return f"Model({self.name}, reads {', '.join(self.signature.names)})"
