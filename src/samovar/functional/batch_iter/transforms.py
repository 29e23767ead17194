"""Functions of an item, and where they run: here, in threads, in processes. The order of items never changes.

A function with a parameter named `random` is handed the item's own generator: what it draws depends on nothing else.
"""

import inspect
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeAlias

import numpy as np

Item: TypeAlias = tuple[Any, np.random.Generator]
"""A value, and its generator."""


class Transform:
    """Calls a function on each item in turn."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        self._takes_random = "random" in _parameters(func)

    def call(self, item: Item) -> Item:
        value, random = item
        return (self.func(value, random=random) if self._takes_random else self.func(value)), random

    def apply(self, items: Iterable[Item]) -> Generator[Item, None, None]:
        for item in items:
            yield self.call(item)


class Threads(Transform):
    """Calls it in several threads: for functions that wait, or that leave Python."""

    def __init__(self, func: Callable[..., Any], n_workers: int = 2) -> None:
        super().__init__(func)
        self.n_workers = n_workers

    def executor(self) -> Executor:
        return ThreadPoolExecutor(self.n_workers)

    def apply(self, items: Iterable[Item]) -> Generator[Item, None, None]:
        waiting: deque[Future[Item]] = deque()
        executor = self.executor()
        try:
            for item in items:
                waiting.append(executor.submit(self.call, item))
                if len(waiting) > 2 * self.n_workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            executor.shutdown(wait=False, cancel_futures=True)  # see the reader of tables: nobody waits for it


class Processes(Threads):
    """Calls it in several processes; the function must be importable by name."""

    def executor(self) -> Executor:
        # A forked child of a process with threads may hang.
        return ProcessPoolExecutor(self.n_workers, get_context("forkserver"))


class unpack_args:  # users call it like a function
    """A function of an item from a function of its parts."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    def __call__(self, parts: Iterable[Any]) -> Any:
        return self.func(*parts)


class multiply:  # users call it like a function
    """The same function of each part."""

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.func = func

    def __call__(self, parts: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(self.func(part) for part in parts)


class apply_at:  # users call it like a function
    """A function of some parts only, by their numbers."""

    def __init__(self, index: int | Iterable[int], func: Callable[[Any], Any]) -> None:
        self.indices = {index} if isinstance(index, int) else set(index)
        self.func = func

    def __call__(self, parts: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(self.func(part) if number in self.indices else part for number, part in enumerate(parts))


def _parameters(func: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(func).parameters)
    except (TypeError, ValueError):  # a function of C that does not say
        return set()
