"""Which model a server uses: that of a bundle, or the newest that a run publishes. Runs nothing of the user's."""

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from samovar.errors import NotAResult
from samovar.results import ResultDirectory
from samovar.scoring.bundle import BUNDLE_KIND, read_bundle
from samovar.scoring.frozen import FrozenModel
from samovar.scoring.publication import Segment, read_base, read_chain, read_delta

POLL_SECONDS = 1.0
_log = logging.getLogger(__name__)
_HOUR = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")


@dataclass(frozen=True)
class Served:
    """A model that is in use.

    Attributes:
        model: It.
        version: Counts the models that this server has used.
        hour: The last hour that it was trained on; None if its training has no hours.
        loaded_at: When it was loaded, in seconds since 1970 UTC.
    """

    model: FrozenModel
    version: int = 1
    hour: str | None = None
    loaded_at: float = field(default_factory=time.time)


class Models:
    """The models of a server: one in use, and perhaps one that is made ready beside it. Any thread may ask for it.

    Args:
        served: The first model.
    """

    def __init__(self, served: Served) -> None:
        self._current = served

    @property
    def current(self) -> Served:
        """The model that is in use now."""
        return self._current

    @contextmanager
    def use(self) -> Iterator[Served]:
        """The model to score with. It stays as it is for the `with` block."""
        while True:
            served = self._current
            with served.model.lock:
                if served is self._current:
                    yield served
                    return

    def misses(self) -> dict[str, int]:
        """By hash table: distinct ids that were looked up and not found."""
        return dict(_misses_of(self._current.model))

    def close(self) -> None:
        """Stop following."""


class Following(Models):
    """The models that a run publishes, each from the moment that it is there.

    There are two copies. A delta is applied to the one that nobody uses, then one pointer is swapped, so requests never
    wait for an update; the other copy gets the same delta at the next update. What cannot be read leaves the model as
    it is, and is tried again.

    Args:
        directory: A model directory with publications.
        on_reload: Called with whether a newer model could be used.
        poll_seconds: How often to look.

    Raises:
        CorruptData: What is published is damaged.
    """

    def __init__(
        self, directory: ResultDirectory, on_reload: Callable[[bool], None], poll_seconds: float = POLL_SECONDS
    ) -> None:
        self._store = directory.store
        self._on_reload = on_reload
        self._poll_seconds = poll_seconds
        self._old_misses: Counter[str] = Counter()
        chain = read_chain(self._store)
        self._copy = self._load(chain)
        self._spare: _Copy | None = None
        super().__init__(Served(self._copy.model, hour=chain[-1].hour))
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="follow", daemon=True)
        self._thread.start()

    def misses(self) -> dict[str, int]:
        """By hash table: distinct ids that were looked up and not found."""
        found = self._old_misses.copy()
        for copy in (self._copy, self._spare):
            if copy is not None:
                found += _misses_of(copy.model)
        return {**dict.fromkeys(_misses_of(self._copy.model), 0), **found}

    def close(self) -> None:
        """Stop following."""
        self._is_over.set()
        self._thread.join()

    def _follow(self) -> None:
        problem, chain = "", list[Segment]()
        while not self._is_over.wait(self._poll_seconds):
            try:
                chain = read_chain(self._store)
                if chain and chain[-1].digest != self._copy.digest:
                    self._use(chain)
                    self._on_reload(True)
                problem = ""
            except Exception as error:  # whatever it is, the model in use stays
                if self._has_moved_on(chain):
                    continue
                self._on_reload(False)
                if str(error) != problem:
                    problem = str(error)
                    _log.warning("the newest model cannot be used, the server keeps its own: %s", error)

    def _has_moved_on(self, chain: Sequence[Segment]) -> bool:
        """Whether the run has published more meanwhile, and removed what this chain lists."""
        try:
            return read_chain(self._store) != chain
        except Exception:
            return False

    def _use(self, chain: Sequence[Segment]) -> None:
        ready = self._update_spare(chain) or self._load(chain)
        before = self._current
        self._spare, self._copy = self._copy, ready
        self._current = Served(ready.model, before.version + 1, chain[-1].hour)

    def _update_spare(self, chain: Sequence[Segment]) -> "_Copy | None":
        """The unused copy with the deltas that it lacks; None if there is none, or it cannot become this model."""
        spare, self._spare = self._spare, None  # one that fails half-way is not used again
        if spare is None:
            return None
        places = [number for number, segment in enumerate(chain) if segment.digest == spare.digest]
        if not places:
            self._old_misses += _misses_of(spare.model)
            return None
        with spare.model.lock:  # a forward may still be running
            for segment in chain[places[0] + 1 :]:
                spare.model.advance(read_delta(self._store, segment))
        return _Copy(spare.model, chain[-1].digest)

    def _load(self, chain: Sequence[Segment]) -> "_Copy":
        model = FrozenModel(*read_base(self._store, chain[0]), self._store.name)
        for segment in chain[1:]:
            model.advance(read_delta(self._store, segment))
        return _Copy(model, chain[-1].digest)


@dataclass(frozen=True)
class _Copy:
    model: FrozenModel
    digest: str
    """Of the last segment in it."""


def _misses_of(model: FrozenModel) -> Counter[str]:
    found: Counter[str] = Counter()
    for embedding in model.embeddings.values():
        for name, counters in embedding.counters().items():
            found[name] += counters.missed
    return found


def _hour_of(position: Any) -> str | None:
    """The hour that a model was trained until; None if it was trained in epochs."""
    trained = position.get("trained") if isinstance(position, dict) else None
    return trained if isinstance(trained, str) and _HOUR.fullmatch(trained) else None


def open_models(directory: ResultDirectory, on_reload: Callable[[bool], None]) -> Models:
    """The models of a directory.

    Args:
        directory: A bundle, or a model directory whose run publishes.
        on_reload: Called with whether a newer model could be used.

    Raises:
        NotAResult: There is nothing that runs without a script.
        CorruptData: It is damaged.
    """
    if directory.kind == BUNDLE_KIND:
        return Models(Served(read_bundle(directory), hour=_hour_of(directory.finish.position)))
    if directory.kind == "model" and read_chain(directory.store):
        return Following(directory, on_reload)
    hint = f"Make a bundle of it: samovar export {directory.name} {directory.name}_bundle"
    if directory.kind == "model" and directory.config.get("publish"):
        hint = "Its run has not published a model yet: start the server after its first hour"
    raise NotAResult(f"{directory.name} is {directory.describe_kind()}, and a server runs no scripts. {hint}")
