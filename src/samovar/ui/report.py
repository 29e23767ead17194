"""`samovar report`: runs and what differs between them as one HTML file that needs no server."""

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from samovar.config import dump_config, show_value
from samovar.errors import BadInput
from samovar.runs import diff as compare
from samovar.runs import find_targets, plot
from samovar.runs.find import Target
from samovar.runs.listing import Columns, ListingRequest, summarize_runs
from samovar.runs.metrics import main_metrics
from samovar.store import save_text
from samovar.ui.decimation import decimate
from samovar.ui.showing import FILTERS, is_number
from samovar.ui.svg import draw_lines

_MOST_POINTS = 800
_MOST_PANELS = 12
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def write_report(runs: str | Path | Sequence[str | Path], out: Path | str, metrics: Sequence[str] = ()) -> list[str]:
    """Write one HTML file about runs: their states and metrics, curves, what differs, and each config.

    Args:
        runs: Result directories, folders or glob patterns.
        out: The file.
        metrics: Metrics to plot, by full name or last part; by default all that say how good a run is.

    Returns:
        The names of the runs.

    Raises:
        BadInput: There is no result among them, no run has one of the metrics, or the file cannot be written.

    Example:
        >>> write_report(["models/click", "models/hashed"], "report.html")
        ['models/click', 'models/hashed']
    """
    targets = [target for target in find_targets(runs) if target.directory is not None]
    if not targets:
        raise BadInput("report: only result directories can be reported, got only configs")
    now = datetime.now(UTC)
    summaries = summarize_runs([target.path for target in targets], with_reductions=True)
    selection = ListingRequest().select(summaries, Columns.of(summaries), now.timestamp())
    environment = Environment(
        loader=PackageLoader("samovar.ui"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= FILTERS
    found = compare(targets) if len(targets) > 1 else None
    text = environment.get_template("report.html").render(
        title=targets[0].name if len(targets) == 1 else f"{len(targets)} runs",
        policy=_POLICY,
        style=Markup(files("samovar.ui").joinpath("static", "page.css").read_text().replace("</", "")),
        now=now,
        names=selection.to_listing().names,
        columns=selection.columns,
        rows=[(run, selection.row(run)) for run in selection.runs],
        panels=_panels(targets, metrics or main_metrics(list(dict.fromkeys(
            metric for run in summaries for metric in run.metrics)))[:_MOST_PANELS]),
        diff=None if found is None else {key: list(map(show_value, row)) for key, row in found.rows.items()},
        targets=targets,
        configs=[dump_config(dict(target.config)) for target in targets],
        is_number=is_number,
    )  # fmt: skip
    save_text(Path(out), text.encode("utf-8", "replace").decode())
    return [target.name for target in targets]


def _panels(targets: Sequence[Target], metrics: Sequence[str]) -> list[tuple[str, list[dict[str, object]], Markup]]:
    """Of each metric its name, its lines and their picture; none if nothing was logged yet."""
    if not metrics:
        return []
    panels = []
    for panel in plot(targets, metrics, live=True).panels:
        lines: list[dict[str, object]] = []
        for line in panel.lines:
            kept = decimate(line.values, _MOST_POINTS)
            lines.append({"label": line.label, "x": [line.steps[i] for i in kept], "y": [line.values[i] for i in kept]})
        panels.append((panel.metric, lines, draw_lines(lines, panel.metric)))
    return panels
