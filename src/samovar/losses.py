"""Losses over groups of rows: the candidates of a request, the documents of a query. Knows no tables and no models.

A group is neighbouring rows; offsets say where each begins, and end with the number of rows:

    rows      a a a b b c c c c
    offsets   0     3   5       9

A table with a `pivot_column` has the column `group_start`, which is 1 at the first row of a group. List it among the
targets, and `group_offsets` makes offsets of it. All sums run over whole minibatches, without a loop over groups.
"""

import torch

from samovar.errors import BadInput


def group_offsets(starts: torch.Tensor) -> torch.Tensor:
    """Turn marks of the first rows into offsets.

    Args:
        starts: [B]: 1 at the first row of each group, 0 at the others. The column `group_start` of a table.

    Returns:
        int64 [groups + 1]: the first row of each group, then the number of rows.

    Raises:
        BadInput: The first row begins no group.

    Example:
        >>> group_offsets(torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0]))
        tensor([0, 3, 5])
    """
    if starts.dim() != 1 or (len(starts) > 0 and not bool(starts[0])):
        shown = f"shape {list(starts.shape)}" if starts.dim() != 1 else "a first row that begins no group"
        raise BadInput(f"group_offsets: starts must be a column of marks, the first of them 1, got {shown}")
    return torch.cat([starts.nonzero().squeeze(1), torch.tensor([len(starts)], device=starts.device)])


def softmax(
    scores: torch.Tensor, targets: torch.Tensor, offsets: torch.Tensor, reduction: str = "mean"
) -> torch.Tensor:
    """Cross-entropy of the softmax over each group's candidates: which of them was chosen?

    For a group with targets t, of sum T: -Σ (t_i / T) · log softmax(s)_i. A group without a positive target does not
    count.

    Args:
        scores: [B], logits.
        targets: [B], 0 or more: 1 for the candidate that was chosen. Several may be.
        offsets: [groups + 1], see `group_offsets`.
        reduction: "mean" over the groups that count, or "sum".

    Returns:
        One number; 0 if no group counts.

    Raises:
        BadInput: The shapes do not fit.

    Example:
        >>> scores, clicks = torch.tensor([0.0, 0.0, 5.0, 1.0]), torch.tensor([1.0, 0.0, 0.0, 1.0])
        >>> softmax(scores, clicks, torch.tensor([0, 2, 4]))  # (log 2 + log(1 + e⁴)) / 2
        tensor(2.3556)
    """
    group = _group_of_rows("softmax", scores, targets, offsets)
    num_groups = len(offsets) - 1
    top = scores.new_full((num_groups,), -torch.inf).scatter_reduce(0, group, scores.detach(), "amax")
    top = top.where(top.isfinite(), 0.0)  # of a group without rows, or of infinite scores
    sums = _add_up((scores - top[group]).exp(), group, num_groups)
    chosen = _add_up(targets * scores, group, num_groups)
    total = _add_up(targets, group, num_groups)
    counts = total > 0
    each = sums[counts].log() + top[counts] - chosen[counts] / total[counts]
    return _reduce("softmax", each, reduction)


def bpr(scores: torch.Tensor, targets: torch.Tensor, offsets: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    """Bayesian personalised ranking: log(1 + exp(s_j - s_i)) for each pair of a group in which i has the higher target.

    Args:
        scores: [B].
        targets: [B]: clicks, or any grades.
        offsets: [groups + 1], see `group_offsets`.
        reduction: "mean" over all pairs, or "sum".

    Returns:
        One number; 0 if there is no pair.

    Raises:
        BadInput: The shapes do not fit.

    Example:
        >>> bpr(torch.tensor([0.0, 0.0, 1.0]), torch.tensor([1.0, 0.0, 1.0]), torch.tensor([0, 2, 3]))  # log 2
        tensor(0.6931)
    """
    better, worse = _pairs(_group_of_rows("bpr", scores, targets, offsets), targets, offsets)
    return _reduce("bpr", torch.nn.functional.softplus(scores[worse] - scores[better]), reduction)


def lambdarank(
    scores: torch.Tensor, targets: torch.Tensor, offsets: torch.Tensor, reduction: str = "mean"
) -> torch.Tensor:
    """Pairwise loss weighted by NDCG: log(1 + exp(s_j - s_i)) · |ΔNDCG|, how much NDCG would change if i and j swapped
    places in the order of the scores.

    The gain of a target t is 2^t - 1, the discount of rank r (from 1) is 1 / log₂(1 + r). Rows with equal scores are
    ranked in the order of the table. The weights get no gradient.

    Args:
        scores: [B].
        targets: [B], grades from 0 on.
        offsets: [groups + 1], see `group_offsets`.
        reduction: "mean" over the groups that have a pair, or "sum".

    Returns:
        One number; 0 if there is no pair.

    Raises:
        BadInput: The shapes do not fit.

    Example:
        >>> scores, grades = torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0.0, 1.0, 3.0])
        >>> lambdarank(scores, grades, torch.tensor([0, 3]))
        tensor(1.1742)
    """
    group = _group_of_rows("lambdarank", scores, targets, offsets)
    num_groups = len(offsets) - 1
    better, worse = _pairs(group, targets, offsets)
    with torch.no_grad():
        gain = torch.exp2(targets.to(scores.dtype)) - 1
        discount = 1 / torch.log2(2 + _ranks(scores, group, offsets).to(scores.dtype))
        ideal = 1 / torch.log2(2 + _ranks(targets, group, offsets).to(scores.dtype))
        best = _add_up(gain * ideal, group, num_groups)
        weight = (gain[better] - gain[worse]) * (discount[better] - discount[worse]).abs() / best[group[better]]
    loss = _add_up(torch.nn.functional.softplus(scores[worse] - scores[better]) * weight, group[better], num_groups)
    has_pair = torch.zeros(num_groups, dtype=torch.bool, device=scores.device).index_fill(0, group[better], True)
    return _reduce("lambdarank", loss[has_pair], reduction)


def _group_of_rows(name: str, scores: torch.Tensor, targets: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """The number of each row's group."""
    num_rows = len(scores) if scores.dim() == 1 else -1
    if scores.shape != targets.shape or offsets.dim() != 1 or len(offsets) == 0 or int(offsets[-1]) != num_rows:
        last = f", which end with {int(offsets[-1])}" if offsets.numel() else ""
        raise BadInput(
            f"{name}: scores and targets must be of shape [B], and offsets end with B, got scores "
            f"{list(scores.shape)}, targets {list(targets.shape)} and offsets {list(offsets.shape)}{last}"
        )
    return torch.repeat_interleave(offsets.diff())


def _add_up(values: torch.Tensor, group: torch.Tensor, num_groups: int) -> torch.Tensor:
    return values.new_zeros(num_groups).index_add(0, group, values)


def _pairs(group: torch.Tensor, targets: torch.Tensor, offsets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs of rows of one group in which the first has the higher target."""
    sizes = offsets.diff()[group]
    left = torch.repeat_interleave(sizes)  # each row once per row of its group
    place = torch.arange(len(left), device=group.device) - (sizes.cumsum(0) - sizes)[left]
    right = offsets[:-1][group[left]] + place
    is_better = targets[left] > targets[right]
    return left[is_better], right[is_better]


def _ranks(values: torch.Tensor, group: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """The place of each row in its group, from 0, from the highest value down."""
    order = values.argsort(descending=True, stable=True)
    order = order[group[order].argsort(stable=True)]
    places = torch.arange(len(values), device=values.device) - offsets[:-1][group]
    return torch.empty_like(order).scatter(0, order, places)


def _reduce(name: str, losses: torch.Tensor, reduction: str) -> torch.Tensor:
    if reduction not in ("mean", "sum"):
        raise BadInput(f"{name}: reduction must be 'mean' or 'sum', got {reduction!r}")
    total = losses.sum()
    return total / max(len(losses), 1) if reduction == "mean" else total
