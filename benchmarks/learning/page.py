"""Outcomes as tables of a page: scores, seeds and intervals. Runs nothing."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.learning.contest import find_settings, find_standings, open_field
from benchmarks.learning.outcome import Standing

BEGIN = "<!-- written by `make learning`: from here -->"
END = "<!-- written by `make learning`: to here -->"
SAMOVAR = "Samovar"
TABLES, STREAMS = "benchmarks.learning.tables", "benchmarks.learning.streams"
TITLES = {STREAMS: "Streams: log-loss of the next block", TABLES: "Tables: log-loss or RMSE on rows held out"}
PACKAGES = {"catboost", "lightgbm", "python", "river", "samovar", "scikit-learn", "torch", "vowpalwabbit"}
COLUMNS = ("data", "contestant", "score", "seeds", "higher than Samovar's by (95 %)", "verdict", "processor time")


def to_markdown(folder: Path, old: str = "") -> str:
    """One section per field: from the outcomes in the folder or, if there are none, as it is in the old text."""
    sections = (make_section(module, folder) or find_section(title, old) for module, title in TITLES.items())
    return "\n\n".join(section for section in sections if section)


def make_section(module: str, folder: Path) -> str:
    """Nothing if the field has no outcome."""
    lines = list(make_lines(module, folder))
    if not lines:
        return ""
    parts = [f"### {TITLES[module]}", "", *describe_runs(module, folder), ""]
    parts += [f"| {' | '.join(COLUMNS)} |", "|---|---|--:|--:|--:|---|--:|", *lines, ""]
    parts += ["| compared with | Samovar ahead | no clear difference | Samovar behind |", "|---|---|---|---|"]
    parts += [*count_verdicts(module, folder), "", *list_settings(module, folder)]
    return "\n".join(parts).strip()


def find_section(title: str, text: str) -> str:
    """The heading and what follows, up to the next heading."""
    _, heading, rest = text.partition(f"### {title}\n")
    return (heading + rest.partition("\n### ")[0]).strip()


def make_lines(module: str, folder: Path) -> Iterator[str]:
    for task in open_field(module).tasks:
        standings = dict(find_standings(module, task, folder))
        own = standings.get(SAMOVAR)
        if own is None:
            continue
        shown = f"**{task}**, {'RMSE' if own.outcomes[0].is_rmse else 'log-loss'}"
        best = min(standings.values(), key=lambda standing: standing.score)
        for name, standing in standings.items():
            setting = standing.outcomes[0].setting
            score = _digits(standing.score, own.score)
            cells = [
                shown,
                f"{name}: {setting}" if setting else name,
                f"**{score}**" if standing is best else score,
                _show_seeds(standing, own.score),
                *_show_difference(own, standing),
                f"{standing.cpu_seconds / own.cpu_seconds:.2g}x",
            ]
            yield f"| {' | '.join(cells)} |"
            shown = ""


def count_verdicts(module: str, folder: Path) -> Iterator[str]:
    """One line per peer: on which tasks Samovar with its defaults is better, worse, or neither."""
    field = open_field(module)
    found: dict[str, dict[str, list[str]]] = {name: {} for name in field.contestants if name != SAMOVAR}
    for task in field.tasks:
        standings = dict(find_standings(module, task, folder))
        own = standings.pop(SAMOVAR, None)
        if own is not None:
            for name, standing in standings.items():
                found[name].setdefault(judge(own, standing), []).append(task)
    for name, verdicts in found.items():
        if verdicts:
            yield f"| {name} | {' | '.join(', '.join(verdicts.get(each, [])) for each in ('ahead', '', 'behind'))} |"


def list_settings(module: str, folder: Path) -> Iterator[str]:
    """All settings of those that have several, by the score of the first seed."""
    field = open_field(module)
    several = [name for name, contestant in field.contestants.items() if len(contestant.settings) > 1]
    if several:
        yield f"| setting, first seed | {' | '.join(field.tasks)} |"
        yield f"|---|{'--:|' * len(field.tasks)}"
    for name in several:
        found = {task: find_settings(module, task, name, folder) for task in field.tasks}
        for setting in field.contestants[name].settings:
            scores = [found[task][setting].scores[0] if setting in found[task] else None for task in field.tasks]
            shown = " | ".join("" if score is None else _digits(score, score) for score in scores)
            yield f"| {name.partition(',')[0]}: {setting} | {shown} |"


def judge(own: Standing, other: Standing) -> str:
    """Whether Samovar is ahead or behind, or nothing if zero is in the interval."""
    difference = own.compare(other)
    if not difference.is_clear:
        return ""
    return "ahead" if difference.middle > 0 else "behind"


def describe_runs(module: str, folder: Path) -> Iterator[str]:
    """Dates, machines and versions, one line per machine."""
    dates: dict[str, set[str]] = {}
    versions: dict[str, dict[str, set[str]]] = {}
    for task in open_field(module).tasks:
        for _, standing in find_standings(module, task, folder):
            for outcome in standing.outcomes:
                machine = str(outcome.machine)
                dates.setdefault(machine, set()).add(f"{outcome.began:%Y-%m-%d}")
                for package in PACKAGES & outcome.machine.versions.keys():
                    found = versions.setdefault(machine, {}).setdefault(package, set())
                    found.add(outcome.machine.versions[package])
    for machine, days in dates.items():
        packages = ", ".join(f"{name} {' and '.join(sorted(each))}" for name, each in sorted(versions[machine].items()))
        yield f"- {' to '.join(sorted({min(days), max(days)}))}: {machine}; {packages}"


def _show_seeds(standing: Standing, scale: float) -> str:
    if standing.deviation is None:
        return "1"
    return f"{len(standing.outcomes)}, ± {_digits(standing.deviation, scale)}"


def _show_difference(own: Standing, other: Standing) -> Sequence[str]:
    if own is other:
        return "", ""
    difference = own.compare(other)
    middle, low, high = (_digits(each, own.score, "+") for each in (difference.middle, difference.low, difference.high))
    return f"{middle} [{low}, {high}]", judge(own, other)


def _digits(value: float, scale: float, sign: str = "") -> str:
    """As many decimals as a score of this size needs: four for 0.4, one for 500."""
    decimals = 1 if scale > 100 else 5 if scale < 0.05 else 4
    return f"{value:{sign},.{decimals}f}"
