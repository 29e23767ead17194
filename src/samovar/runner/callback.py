"""What runs between URIs: the seam of all further logic. Knows nothing of what callbacks do."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samovar.runner.run import Run


class Callback:
    """Override the moments that you need. No minibatch is in flight when one of them is called, and what changes
    during the run and is needed to go on belongs into `state_dict`.

    Raise `EarlyStopping` at a URI's begin or end to end the run in order; call `run.stop(reason)` to stop it so that
    it can go on later.
    """

    def on_run_begin(self, run: "Run") -> None:
        """Once a process, after the state was restored."""

    def on_uri_begin(self, run: "Run") -> None:
        """Before the first minibatch of `run.uri`."""

    def on_batch_end(self, run: "Run") -> None:
        """After each minibatch. It only observes: `run.loss`, `run.record`."""

    def on_uri_end(self, run: "Run") -> None:
        """After the last minibatch of `run.uri`."""

    def on_run_end(self, run: "Run") -> None:
        """After the last URI; not when the run was stopped or failed."""

    def state_dict(self) -> Mapping[str, Any]:
        """What a snapshot keeps. Nothing by default."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what `state_dict` gave."""


def name_callbacks(callbacks: Sequence[Callback], users: Sequence[Callback] = ()) -> dict[str, Callback]:
    """Each by the name of its class, numbered where there are several: the keys of their states. The user's come first,
    so that none of ours, which come and go with the config, changes their names."""
    named: dict[str, Callback] = {}
    for callback in [*users, *(each for each in callbacks if not any(each is one for one in users))]:
        name, number = type(callback).__name__, 1
        while name in named:
            number += 1
            name = f"{type(callback).__name__} {number}"
        named[name] = callback
    return named
