"""Which column a user means by a name: a fact, a config key or a metric, in full or by its last part."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from samovar.config.nearest import nearest
from samovar.config.paths import split
from samovar.errors import BadInput
from samovar.experiments.measures import main_metrics
from samovar.experiments.summary import FACTS, RunSummary


@dataclass(frozen=True)
class Columns:
    """All columns that some run has."""

    keys: Sequence[str]
    metrics: Sequence[str]

    @classmethod
    def of(cls, runs: Iterable[RunSummary]) -> "Columns":
        keys: dict[str, None] = {}
        metrics: dict[str, None] = {}
        for run in runs:
            keys |= dict.fromkeys(run.config)
            metrics |= dict.fromkeys(run.metrics)
        return cls(sorted(keys), list(metrics))

    def find(self, name: str) -> str:
        """The one column of that name: `state`, `config.model.lr`, `metric.next_hour+1h.auc`."""
        if name in FACTS:
            return name
        full = [f"config.{key}" for key in self.keys] + [f"metric.{metric}" for metric in self.metrics]
        if name in full:
            return name
        found = next(filter(None, self._candidates(name)), [])
        if len(found) > 1:
            raise BadInput(f"column {name!r}: found {', '.join(found)}; expected one: name it in full")
        if found:
            return found[0]
        short = {column.rpartition(".")[2] for column in full}
        best = nearest(name, {*FACTS, *short, *(column.partition(".")[2] for column in full)})
        guess = f"did you mean {best!r}?" if best else f"the facts are {', '.join(FACTS)}"
        raise BadInput(f"column {name!r}: no run has it; expected a fact, a config key or a metric: {guess}")

    def _candidates(self, name: str) -> Iterator[list[str]]:
        """Of the groups that may be meant the first that has somebody in it."""
        main, keys = main_metrics(self.metrics), [key for key in self.keys if str(split(key)[-1]) == name]
        yield [f"config.{key}" for key in self.keys if key == name] + [f"metric.{m}" for m in main if m == name]
        yield [f"config.{key}" for key in keys] + [f"metric.{m}" for m in main if m.rpartition(".")[2] == name]
        yield [f"metric.{m}" for m in self.metrics if m == name or m.rpartition(".")[2] == name]

    def usual(self) -> list[str]:
        """What is shown when nothing was asked for."""
        return ["name", "state", "kind", "age", *(f"metric.{metric}" for metric in main_metrics(self.metrics))]
