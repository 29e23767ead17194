"""The pages of the whole folder, and which address is which page. What they show comes from the catalogue, which is in
memory, or is read by a child process.
"""

from collections.abc import Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from samovar.config import MISSING
from samovar.config.diff import diff_flat
from samovar.config.identity import without_free_keys
from samovar.errors import SamovarError
from samovar.runs.comparison import shorten_keys
from samovar.runs.listing import FACTS, Columns, Listing, ListingRequest, RunSummary
from samovar.runs.metrics import badness_of
from samovar.ui import run_pages
from samovar.ui.app import answer_json, page_of, static_file
from samovar.ui.catalogue import MOST_ROWS
from samovar.ui.security import read_form
from samovar.ui.showing import is_number, show_number
from samovar.ui.svg import draw_lines, draw_points

MOST_CURVES = 10
_MOST_LISTED = 8
_SQL_SECONDS = 10.0


def overview(request: Request) -> Response:
    """What runs, what died, what is stale, which is best; and the folders."""
    page = page_of(request)
    catalogue = page.catalogue
    running = catalogue.in_state("running", "silent")
    if not running and page.is_known(request):
        return Response(status_code=304)
    broken = catalogue.in_state("dead", "failed", "unreadable")
    leaders = catalogue.leaders()
    progress = {
        run.facts["name"]: page.readers.ask("answers:read_progress_of", str(run.facts["name"]))
        for run in running[:_MOST_LISTED]
    }
    return page.render(
        request,
        "overview.html",
        "Overview",
        catalogue=catalogue,
        running=running,
        progress=progress,
        broken=broken,
        stale=catalogue.stale(),
        most=_MOST_LISTED,
        folders=catalogue.folders(),
        metric=None if leaders is None else leaders[0],
        leaders=[] if leaders is None else _with_differences(leaders[1]),
        leader_links=[] if leaders is None else [("run", run.facts["name"]) for run in leaders[1]],
        best_sort="" if leaders is None else ("" if badness_of(leaders[0], 1.0) > 0 else "-") + f"{leaders[0]}:best",
    )


def _with_differences(runs: Sequence[RunSummary]) -> list[tuple[RunSummary, str]]:
    """Each run with the keys in which it differs from the others."""
    flat = [without_free_keys(run.config, str(run.facts.get("kind", ""))) for run in runs]
    rows = diff_flat({str(number): config for number, config in enumerate(flat)}).rows
    short = shorten_keys(rows)
    texts = [
        ", ".join(
            f"{short[key]} = {show_number(row[number])}" for key, row in rows.items() if row[number] is not MISSING
        )
        for number in range(len(runs))
    ]
    return list(zip(runs, texts, strict=True))


def runs(request: Request) -> Response:
    """The table: filtered, sorted, grouped, with columns by name."""
    page, query = page_of(request), request.query_params
    if page.is_known(request):
        return Response(status_code=304)
    folder, group = query.get("in", ""), _names(query.getlist("group"))
    sort, columns = _names(query.getlist("sort")), _names(query.getlist("columns"))
    where = [text for text in query.getlist("where") if text.strip()]
    problem, scatter = None, None
    try:
        view = page.catalogue.view(ListingRequest(where, sort, columns), folder, group)
        if query.get("x") and query.get("y"):
            scatter = _scatter(page.catalogue.clock(), view.selection.runs, view.known, query["x"], query["y"])
    except ValueError as error:  # what the user typed: shown above all runs
        problem, view = str(error), page.catalogue.view(ListingRequest(), folder)
    selection = view.selection
    return page.render(
        request,
        "runs.html",
        "Runs",
        200 if problem is None else 400,
        catalogue=page.catalogue,
        view=view,
        rows=[(run, selection.row(run)) for run in selection.runs[:MOST_ROWS]],
        names=Listing(selection.columns, [], []).names,
        most=MOST_ROWS,
        folder=folder,
        where=where,
        sort=sort,
        asked=columns,
        group=group,
        problem=problem,
        scatter=scatter,
        x=query.get("x", ""),
        y=query.get("y", ""),
        choices=[*FACTS, *(f"config.{key}" for key in view.known.keys), *(f"metric.{m}" for m in view.known.metrics)],
        sorted_by=[_full(view.known, name) for name in sort] if problem is None else [],
        numeric=_numeric(selection.columns, selection.runs[:MOST_ROWS], selection.now),
        pairs=lambda runs: [("run", run.facts["name"]) for run in runs],
    )


def _full(known: Columns, name: str) -> str:
    """A column of `sort` by its full name, with its sign."""
    return ("-" if name.startswith("-") else "") + known.find(name.removeprefix("-"))


def _numeric(columns: Sequence[str], runs: Sequence[RunSummary], now: float) -> set[str]:
    """The columns of numbers, which are aligned on the right."""
    return {column for column in columns if any(is_number(run.get(column, now)) for run in runs[:20])}


def _names(texts: Sequence[str]) -> list[str]:
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def _scatter(now: float, runs: Sequence[RunSummary], known: Any, x: str, y: str) -> Any:
    """Any number of runs over any other."""
    across, up = known.find(x), known.find(y)
    points = [(run.get(across, now), run.get(up, now), str(run.facts["name"])) for run in runs]
    numbers = [point for point in points if all(isinstance(each, int | float) for each in point[:2])]
    return draw_points(numbers, across.partition(".")[2] or across, up.partition(".")[2] or up)


def _chosen(request: Request) -> list[str]:
    page = page_of(request)
    return list(dict.fromkeys(page.known_run(path) for path in request.query_params.getlist("run")))


def curves(request: Request) -> Response:
    """Curves of some runs on one page."""
    page, query = page_of(request), request.query_params
    if page.is_known(request):
        return Response(status_code=304)
    chosen = _chosen(request)
    metrics = query.getlist("metric")
    strength = _strength(query.get("smooth", ""))
    found: dict[str, Any] = {"panels": [], "metrics": [], "cursor": ""}
    if chosen:
        found = page.readers.ask("answers:read_curves", chosen[:MOST_CURVES], metrics, strength)
    is_log = query.get("log") == "1"
    return page.render(
        request,
        "curves.html",
        "Curves",
        chosen=chosen,
        most=MOST_CURVES,
        found=found,
        pictures=[draw_lines(panel["lines"], panel["metric"], is_log=is_log) for panel in found["panels"]],
        metrics=metrics,
        strength=strength,
        is_log=is_log,
        states={path: run.facts["state"] for path in chosen if (run := page.catalogue.get(path)) is not None},
    )


def curve_data(request: Request) -> Response:
    """The points of curves as JSON; 304 if none is newer than `after`."""
    page, query = page_of(request), request.query_params
    arguments = (query.getlist("metric"), _strength(query.get("smooth", "")), query.get("after"))
    found = page.readers.ask("answers:read_curves", _chosen(request)[:MOST_CURVES], *arguments)
    return Response(status_code=304) if found is None else answer_json(found)


def _strength(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 0.999) if text else 0.0
    except ValueError:
        return 0.0


def diff(request: Request) -> Response:
    """What differs between runs, and their curves."""
    page, query = page_of(request), request.query_params
    chosen = _chosen(request)
    found, panels = None, []
    has_environment = query.get("environment") == "1"
    if len(chosen) > 1:
        baseline = query.get("baseline") or None
        if baseline is not None:
            page.known_run(baseline)
        found = page.readers.ask(
            "answers:read_diff", chosen, baseline, _names(query.getlist("ignore")), has_environment
        )
        panels = page.readers.ask("answers:read_panels", chosen[:MOST_CURVES])
    now = page.catalogue.clock()
    summaries = {path: run for path in chosen if (run := page.catalogue.get(path)) is not None}
    metrics = list(dict.fromkeys(metric for run in summaries.values() for metric in run.metrics))
    return page.render(
        request,
        "diff.html",
        "Diff",
        chosen=chosen,
        found=found,
        panels=panels,
        pictures=[draw_lines(panel["lines"], panel["metric"]) for panel in panels],
        baseline=query.get("baseline", ""),
        ignore=query.get("ignore", ""),
        has_environment=has_environment,
        summaries=summaries,
        metrics=metrics,
        now=now,
    )


def queue(request: Request) -> Response:
    """The jobs of the queue."""
    page = page_of(request)
    if page.settings.queue is None:
        raise HTTPException(404, "There is no queue here. Name one with `samovar ui --db URL`.")
    jobs = page.readers.ask("answers:read_queue", page.settings.queue)
    counts: dict[str, int] = {}
    for job in jobs:
        state = "lost" if job["is_lost"] else job["state"]
        counts[state] = counts.get(state, 0) + 1
    wanted = request.query_params.get("state", "")
    shown = [job for job in jobs if not wanted or wanted in (job["state"], "lost" if job["is_lost"] else "")]
    return page.render(
        request, "queue.html", "Queue", jobs=shown[:MOST_ROWS], num_found=len(shown), counts=counts, wanted=wanted
    )


def sql(request: Request) -> Response:
    """One free SELECT, if the page was started with --sql."""
    page, query = page_of(request), request.query_params
    if not page.settings.has_sql:
        raise HTTPException(404, "Free SELECTs are off. Start with `samovar ui --sql`.")
    text, path = query.get("q", ""), query.get("run", "")
    answer, problem = None, None
    if text:
        view = page.catalogue.view(ListingRequest(columns=["state", "kind", "code"]))
        listed = [
            {
                "name": str(run.facts["name"]),
                "state": run.facts["state"],
                **{f"config.{key}": value for key, value in run.config.items()},
                **{f"metric.{metric}": value for metric, value in run.metrics.items()},
            }
            for run in view.selection.runs
        ]
        arguments = (page.known_run(path) if path else "", query.get("folder", ""), text, listed)
        try:
            answer = page.readers.ask("measured:run_sql", *arguments, seconds=_SQL_SECONDS)
        except SamovarError as error:
            problem = str(error)
    return page.render(request, "sql.html", "SQL", text=text, path=path, answer=answer, problem=problem)


async def act(request: Request) -> Response:
    """Retry or cancel a job, or stop a run; only with --actions."""
    page = page_of(request)
    fields = await read_form(request, page.settings.secrets)
    if fields is None or not page.settings.has_actions:
        raise HTTPException(403, "This page was started without --actions, or the form is not its own.")
    action, back = fields.get("action", ""), fields.get("back", "/")
    if action in ("retry", "cancel") and page.settings.queue is not None and fields.get("job", "").isdigit():
        page.readers.ask("answers:change_queue", page.settings.queue, action, int(fields["job"]))
    elif action == "stop":
        page.readers.ask("answers:stop_run", page.known_run(fields.get("run", "")))
    else:
        raise HTTPException(400, "There is no such action.")
    is_ours = back.startswith("/") and not back.startswith(("//", "/\\"))
    return RedirectResponse(back if is_ours else "/", 303)


ROUTES = [
    Route("/", overview),
    Route("/runs", runs),
    Route("/curves", curves),
    Route("/curves/data", curve_data),
    Route("/diff", diff),
    Route("/queue", queue),
    Route("/sql", sql),
    Route("/act", act, methods=["POST"]),
    Route("/static/{name}", static_file),
    *run_pages.ROUTES,
]
