"""What makes a table a torch data set: a loop over its records whose place can be saved. Knows no files."""

from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from samovar.errors import BadInput
from samovar.tables.reader import ReaderState, TableReader
from samovar.tables.record import Record


class RecordDataset(IterableDataset[Record]):
    """The base of `Table`: hands out records to a `DataLoader`, and remembers which one is next.

    `iter` begins at the first record, or once at the place that `load_state_dict` restored.
    """

    name: str

    def __init__(self) -> None:
        self._first = 0
        """Where the next loop begins."""
        self._next = 0
        """The next minibatch that the newest loop hands out; at its end, that of the next loop."""

    @abstractmethod
    def read(self, *, start: int) -> TableReader:
        """The records from minibatch `start` on."""

    @abstractmethod
    def state_at(self, minibatch: int) -> ReaderState: ...

    @abstractmethod
    def position_of(self, state: ReaderState) -> int: ...

    def __iter__(self) -> Iterator[Record]:
        worker = get_worker_info()
        if worker is not None:
            raise BadInput(
                f"{self.name}: num_workers must be 0, got {worker.num_workers}. Each worker would hand out the whole "
                "table, and the table reads ahead in threads anyway"
            )
        start, self._first = self._first, 0
        self._next = start
        return self._hand_out(start)

    def _hand_out(self, start: int) -> Generator[Record, None, None]:
        with self.read(start=start) as reader:
            for record in reader:
                self._next = reader.position
                yield record
        self._next = 0

    def state_dict(self) -> dict[str, Any]:
        """Where the newest loop over this table is: save it beside your model.

        After k records it resumes with record k; after the end of a loop, with the first. It is a small dict of text
        and numbers. With several loops at once, it follows the one that advanced last.

        Returns:
            The table's id and version, the columns, and the number of the next minibatch.

        Example:
            >>> table = samovar.open_table("clicks")
            >>> for record in table:
            ...     break
            >>> table.state_dict()
            {'table_id': 'a table', 'version': 1, 'columns': ['user', 'clicked'], 'minibatch': 1}
        """
        return self.state_at(self._next).to_json()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next loop begin where `state_dict` was called; loops after it begin at the first record.

        Args:
            state: What `state_dict` returned, in this process or another, of this version of the table or an earlier
                one. Appended minibatches follow.

        Raises:
            Conflict: It belongs to another table, a later version or other columns.
            BadInput: It is no state of a table.

        Example:
            >>> state = {"table_id": "a table", "version": 1, "columns": ["user", "clicked"], "minibatch": 1}
            >>> table = samovar.open_table("clicks")
            >>> table.load_state_dict(state)
            >>> [record.number for record in table], [record.number for record in table]
            ([1], [0, 1])
        """
        try:
            saved = ReaderState.from_json(state)
        except (TypeError, KeyError):
            got = f"the keys {', '.join(map(str, state))}" if isinstance(state, Mapping) else type(state).__name__
            raise BadInput(f"{self.name}: state must be what state_dict returned, got {got}") from None
        self._first = self._next = self.position_of(saved)
