"""Scores requests one after the other in a thread; those that wait meanwhile are scored together. Knows no network.

The score of a row does not depend on the rows around it, so joining changes no bit. Nothing waits for company: with one
client, each request is scored at once.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from samovar.errors import Conflict
from samovar.scoring.signature import Inputs
from samovar.serving.models import Served
from samovar.serving.requests import Predictions, named, split
from samovar.tables.record import Bag, RecordValue

MAX_JOINED_ROWS = 2048


@dataclass(frozen=True)
class Answer:
    """The predictions of one request, and the model that made them."""

    predictions: Predictions
    num_rows: int
    served: Served


@dataclass(frozen=True)
class _Waiting:
    rows: Any
    future: "asyncio.Future[Answer]"
    loop: asyncio.AbstractEventLoop

    def answer(self, found: Answer | Exception) -> None:
        self.loop.call_soon_threadsafe(self._set, found)

    def _set(self, found: Answer | Exception) -> None:
        if self.future.cancelled():
            return
        if isinstance(found, Answer):
            self.future.set_result(found)
        else:
            self.future.set_exception(found)


class Joiner:
    """The queue in front of a model.

    Args:
        use: Gives the model to use now, for a `with` block.
        max_waiting: Requests that may wait; more are refused.
        on_batch: Called for each forward.
    """

    def __init__(
        self,
        use: Callable[[], AbstractContextManager[Served]],
        max_waiting: int = 1000,
        on_batch: Callable[[], None] = lambda: None,
    ) -> None:
        self._use = use
        self._max_waiting = max_waiting
        self._on_batch = on_batch
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._is_running = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="score")

    @property
    def num_waiting(self) -> int:
        """Requests that wait for the model."""
        return len(self._waiting)

    async def score(self, rows: Any) -> Answer:
        """The predictions of rows.

        Raises:
            Conflict: Too many requests wait.
            UserError: A row does not fit the model.
        """
        loop = asyncio.get_running_loop()
        request = _Waiting(rows, loop.create_future(), loop)
        with self._lock:
            if len(self._waiting) >= self._max_waiting:
                raise Conflict(f"{self._max_waiting} requests are waiting. Try again later")
            self._waiting.append(request)
            starts, self._is_running = not self._is_running, True
        if starts:
            self._thread.submit(self._run)
        return await request.future

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(cancel_futures=True)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_running = False
                    return
                batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
            try:
                self._score(batch)
            except BaseException as error:  # nobody may wait forever
                for request in batch:
                    request.answer(RuntimeError(f"{type(error).__name__}: {error}"))

    def _score(self, batch: Sequence[_Waiting]) -> None:
        with self._use() as served:
            self._score_with(served, batch)

    def _score_with(self, served: Served, batch: Sequence[_Waiting]) -> None:
        group: list[tuple[_Waiting, Inputs, int]] = []
        num_rows = 0
        for request in batch:
            for part in self._parts(request, served):
                if group and num_rows + part[2] > MAX_JOINED_ROWS:
                    self._score_group(group, served)
                    group, num_rows = [], 0
                group.append(part)
                num_rows += part[2]
        if group:
            self._score_group(group, served)

    def _parts(self, request: _Waiting, served: Served) -> list[tuple[_Waiting, Inputs, int]]:
        """The inputs of a request; a large one is scored here, in pieces."""
        try:
            pieces = list(served.model.signature.read_rows(request.rows))
            if len(pieces) == 1:
                return [(request, *pieces[0])]
            found = [named(served.model.apply(*piece)) for piece in pieces]
            self._on_batch()
            joined = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
            request.answer(Answer(joined, sum(count for _, count in pieces), served))
        except Exception as error:
            request.answer(error)
        return []

    def _score_group(self, group: Sequence[tuple[_Waiting, Inputs, int]], served: Served) -> None:
        """Score requests together; if that fails, each alone, so that one bad request does not fail others."""
        counts = [count for _, _, count in group]
        try:
            inputs = join([inputs for _, inputs, _ in group]) if len(group) > 1 else group[0][1]
            found = named(served.model.apply(inputs, sum(counts)))
        except Exception as error:
            if len(group) == 1:
                group[0][0].answer(error)
                return
            for each in group:
                self._score_group([each], served)
            return
        self._on_batch()
        for (request, _, count), predictions in zip(group, split(found, counts), strict=True):
            request.answer(Answer(predictions, count, served))


def join(parts: Sequence[Inputs]) -> Inputs:
    """The rows of several inputs, one after the other. Sequences are filled up to one length: no score changes."""
    return {name: _join([part[name] for part in parts]) for name in parts[0]}


def _join(values: Sequence[RecordValue]) -> RecordValue:
    bags = [value for value in values if isinstance(value, Bag)]
    if bags:
        lengths = [bag.data_len for bag in bags]
        widths = [max(sizes) for sizes in zip(*(each.shape[1:] for each in lengths), strict=True)]
        return Bag.of_checked(
            torch.cat([bag.data for bag in bags]), torch.cat([_widen(each, widths) for each in lengths])
        )
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return torch.cat(tensors) if tensors else pa.concat_arrays(values)


def _widen(lengths: torch.Tensor, widths: Sequence[int]) -> torch.Tensor:
    if list(lengths.shape[1:]) == list(widths):
        return lengths
    wide = lengths.new_zeros(len(lengths), *widths)
    wide[tuple(slice(size) for size in lengths.shape)] = lengths
    return wide
