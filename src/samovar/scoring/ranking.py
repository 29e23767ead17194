"""How good the order within groups is: NDCG, reciprocal rank and AUC of each group. Knows no tables and no models.

rows      a a a b b c c c c        a group is neighbouring rows;
starts    1 0 0 1 0 1 0 0 0        1 at the first row of each, as in the column `group_start`
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samovar.errors import BadInput

Floats = NDArray[np.float64]


@dataclass
class Ranking:
    """Sums over the groups so far.

    Args:
        k: How many rows of a group count in NDCG.

    Example:
        >>> ranking = Ranking(k=10)
        >>> ranking.add(np.array([0.0, 1.0, 0.0]), np.array([0.9, 0.5, 0.1]), np.ones(3), np.array([1.0, 0.0, 0.0]))
        >>> ranking.result()
        {'num_groups': 1, 'ndcg@10': 0.6309297535714575, 'mrr': 0.5, 'group_auc': 0.5}
    """

    k: int
    num_groups: int = 0
    _ranked: float = 0.0  # the weight of groups with a positive
    _ndcg: float = 0.0
    _reciprocal: float = 0.0
    _mixed: float = 0.0  # the weight of groups with a positive and another row
    _auc: float = 0.0

    def add(self, targets: Floats, scores: Floats, weights: Floats, starts: NDArray[np.float64]) -> None:
        """Count whole groups.

        Args:
            targets: [N], grades from 0 on; a row above 0 is positive.
            scores: [N].
            weights: [N]; a group has the mean weight of its rows.
            starts: [N], 1 at the first row of each group, 0 at the others.

        Raises:
            BadInput: The first row begins no group.
        """
        if len(targets) == 0:
            return
        if not starts[0]:
            raise BadInput("group_start must be 1 at the first row of every minibatch, got 0. Brew with pivot_column")
        groups = _Groups(targets, scores, starts)
        weight = groups.add_up(weights) / groups.sizes
        has_positive, is_mixed = groups.positives > 0, (groups.positives > 0) & (groups.positives < groups.sizes)
        self.num_groups += len(weight)
        self._ranked += float(weight[has_positive].sum())
        with np.errstate(over="ignore", invalid="ignore"):  # 2^target of targets that are no grades; gives None
            self._ndcg += float((weight * groups.ndcg(self.k))[has_positive].sum())
        self._reciprocal += float((weight * groups.reciprocal_rank())[has_positive].sum())
        self._mixed += float(weight[is_mixed].sum())
        self._auc += float((weight * groups.auc())[is_mixed].sum())

    def result(self) -> dict[str, float | int | None]:
        """The means over the groups that count; None if there is none."""
        has_ndcg = self._ranked > 0 and np.isfinite(self._ndcg)
        return {
            "num_groups": self.num_groups,
            f"ndcg@{self.k}": self._ndcg / self._ranked if has_ndcg else None,
            "mrr": self._reciprocal / self._ranked if self._ranked > 0 else None,
            "group_auc": self._auc / self._mixed if self._mixed > 0 else None,
        }


class _Groups:
    """The rows of some groups, each group sorted by its scores, from the highest down."""

    def __init__(self, targets: Floats, scores: Floats, starts: NDArray[np.float64]) -> None:
        group = np.cumsum(starts != 0) - 1
        self.sizes = np.bincount(group).astype(np.float64)
        order = np.lexsort((-scores, group))
        self._group = group  # sorting keeps the rows of a group together
        self._targets, scores = targets[order], scores[order]
        self._first = (np.cumsum(self.sizes) - self.sizes).astype(np.int64)
        self.positives = self.add_up(self._targets > 0)
        # Rows of one group with equal scores are one tie.
        is_new = np.ones(len(group), bool)
        is_new[1:] = (group[1:] != group[:-1]) | (scores[1:] != scores[:-1])
        self._tie = np.cumsum(is_new) - 1
        self._tie_group = group[is_new]

    def add_up(self, values: NDArray[np.float64] | NDArray[np.bool_]) -> Floats:
        """Sums by group."""
        return np.asarray(np.bincount(self._group, values, len(self.sizes)), np.float64)

    def ndcg(self, k: int) -> Floats:
        """DCG of the first k rows, divided by that of the best order. The gain of a target t is 2^t - 1, the discount
        of rank r is 1 / log2(1 + r). Rows of a tie share their mean gain."""
        rank = np.arange(len(self._group)) - self._first[self._group]
        discount = np.where(rank < k, 1 / np.log2(rank + 2.0), 0.0)
        gain = np.exp2(self._targets) - 1
        shared = np.bincount(self._tie, gain) / np.bincount(self._tie)
        best = gain[np.lexsort((-gain, self._group))]
        ideal = self.add_up(best * discount)
        found = self.add_up(shared[self._tie] * discount)
        return np.divide(found, ideal, out=np.zeros_like(found), where=ideal > 0)

    def reciprocal_rank(self) -> Floats:
        """1 / rank of the first positive. Within a tie, positives come last."""
        is_positive = self._targets > 0
        others = np.bincount(self._tie, ~is_positive)
        before = np.cumsum(others)  # in all groups; through the end of each tie
        before_group = before[self._tie[self._first]] - others[self._tie[self._first]]
        ties = np.unique(self._tie[is_positive])
        groups, places = np.unique(self._tie_group[ties], return_index=True)
        ranks = np.full(len(self.sizes), np.inf)
        ranks[groups] = 1 + before[ties[places]] - before_group[groups]
        return np.asarray(1 / ranks)

    def auc(self) -> Floats:
        """Of pairs of a positive and another row, the part in which the positive is higher; a tie counts half. 0 for
        groups without such pairs."""
        is_positive = self._targets > 0
        positives, others = np.bincount(self._tie, is_positive), np.bincount(self._tie, ~is_positive)
        through = np.cumsum(others)
        above = through - others - (through - others)[self._tie[self._first]][self._tie_group]
        total = self.sizes - self.positives
        below = total[self._tie_group] - above - others
        pairs = np.bincount(self._tie_group, positives * (below + others / 2), len(self.sizes))
        all_pairs = self.positives * total
        return np.divide(pairs, all_pairs, out=np.zeros_like(pairs), where=all_pairs > 0)
