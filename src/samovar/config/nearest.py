"""The one "did you mean". Knows nothing of where names come from."""

import difflib
from collections.abc import Iterable

# "epochs" still finds "epoch_count" (0.59), "lr" no longer finds "l2" (0.50).
_CUTOFF = 0.55


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like `name`, or None if none is like it. Case does not count."""
    by_folded = {candidate.casefold(): candidate for candidate in sorted(candidates, reverse=True)}
    close = difflib.get_close_matches(name.casefold(), sorted(by_folded), n=1, cutoff=_CUTOFF)
    return by_folded[close[0]] if close else None
