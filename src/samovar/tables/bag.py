"""A categorical feature of one minibatch. Knows no tables and no embeddings."""

from typing import Protocol

import torch

from samovar.errors import BadInput


class DataLater(Protocol):
    """Data of bags that nobody has asked for yet, by number."""

    def __getitem__(self, number: int, /) -> torch.Tensor: ...


class Bag:
    """Ids of all examples end to end, and how many belong to each.

    `data` is int64 with the 64 bits of the unsigned id; `data_len` is int32, [B] or deeper, and adds up to len(data).
    A table may have kept distinct ids and positions: then `unique` and `inverse` are given without work, and
    data == unique[inverse]; else both are None. Bags of a minibatch may share a data_len: do not change it in place.

    Examples:
        >>> bag = Bag(torch.tensor([124, 456]), torch.tensor([1, 1, 0], dtype=torch.int32))
    """

    __slots__ = ("_data", "_later", "data_len", "inverse", "unique")

    def __init__(self, data: torch.Tensor, data_len: torch.Tensor) -> None:
        if data.dtype != torch.int64 or data.ndim != 1 or data_len.dtype != torch.int32:
            raise BadInput(
                f"Bag: found data {data.dtype} of rank {data.ndim} and data_len {data_len.dtype}; "
                "expected int64 of rank 1 and int32: convert them"
            )
        self._data: torch.Tensor | None = data
        self._later: tuple[DataLater, int] | None = None
        self.data_len = data_len
        self.unique: torch.Tensor | None = None
        self.inverse: torch.Tensor | None = None

    @classmethod
    def of_checked(cls, data: torch.Tensor, data_len: torch.Tensor) -> "Bag":
        """A bag of tensors that are known to have the right types, as those of a table are."""
        bag = cls.__new__(cls)
        bag._data, bag.data_len = data, data_len
        bag._later = bag.unique = bag.inverse = None
        return bag

    @classmethod
    def of_distinct(
        cls,
        unique: torch.Tensor,
        inverse: torch.Tensor,
        data_len: torch.Tensor,
        later: tuple[DataLater, int] | None = None,
    ) -> "Bag":
        """A bag of distinct ids and positions (int32). `later` and a number in it give its data when somebody asks: a
        whole minibatch makes those of all its bags at once, and vouches that its ids are distinct."""
        if later is None and (num_distinct := len(set(unique.reshape(-1).tolist()))) != unique.numel():
            raise BadInput(
                f"Bag: {unique.numel()} ids in `unique`, but only {num_distinct} distinct ones; expected each once: "
                "let torch.unique(data, return_inverse=True) make them"
            )
        bag = cls.__new__(cls)
        bag._data, bag._later = None, later
        bag.data_len, bag.unique, bag.inverse = data_len, unique, inverse
        return bag

    @property
    def data(self) -> torch.Tensor:
        if self._data is None:
            assert self.unique is not None
            assert self.inverse is not None
            if self._later is None:
                self._data = self.unique[self.inverse.long()]
            else:
                later, number = self._later
                self._data = later[number]
            self._later = None
        return self._data

    def __len__(self) -> int:
        """The number of examples."""
        return len(self.data_len)

    def __repr__(self) -> str:
        return f"Bag({len(self.data)} ids, data_len {list(self.data_len.shape)})"
