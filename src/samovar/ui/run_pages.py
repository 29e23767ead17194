"""The pages of one run: state, lineage, evaluation, predictions, hash tables, tensor table, files. Each run is found in
the catalogue first: an address cannot reach any other folder.
"""

import contextlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from samovar.runs.listing import RunSummary
from samovar.runs.metrics import main_metrics
from samovar.ui.answers import MOST_FILE_BYTES
from samovar.ui.app import Page, page_of
from samovar.ui.queries import SIGNS
from samovar.ui.showing import below
from samovar.ui.svg import draw_bars, draw_chain, draw_lines, draw_reliability

_MOST_PANELS = 6
_MOST_BARS = 48
_MOST_ROWS = 200
_PIECE_BYTES = 4 << 20


def _path(request: Request) -> tuple[Page, str, RunSummary]:
    page = page_of(request)
    path = page.known_run(request.path_params["path"])
    run = page.catalogue.get(path)
    assert run is not None
    return page, path, run


def _tabs(run: RunSummary) -> list[tuple[str, str]]:
    """The pages about a run that have something to show, with their names."""
    kind = str(run.facts.get("kind", ""))
    is_evaluated = kind == "prediction" or any(key.startswith("evaluation.") for key in run.config)
    return [
        ("run", "Run"),
        ("chain", "Chain"),
        *([("evaluation", "Evaluation"), ("predictions", "Predictions")] if is_evaluated else []),
        *([("embeddings", "Hash tables")] if any(each.startswith("live_ids.") for each in run.metrics) else []),
        *([("table", "Table")] if kind == "table" else []),
    ]


def _render(request: Request, template: str, title: str, status: int = 200, **content: Any) -> Response:
    """A page of a run, with the tabs that lead to its other pages."""
    page, _, summary = _path(request)
    return page.render(request, template, title, status, tabs=_tabs(summary), **content)


def run(request: Request) -> Response:
    """Everything about one run."""
    page, path, summary = _path(request)
    if summary.facts["state"] == "finished" and page.is_known(request):
        return Response(status_code=304)
    answer = page.readers.ask("answers:read_run", path)
    metrics = main_metrics(summary.metrics)[:_MOST_PANELS]
    is_refresh = "after" in request.query_params  # whose curves come by themselves
    panels = [] if is_refresh else page.readers.ask("answers:read_panels", [path], metrics)
    return _render(
        request,
        "run.html",
        path,
        path=path,
        run=answer,
        summary=summary,
        is_stale=page.catalogue.is_stale(path),
        panels=panels,
        metrics=metrics,
        pictures=[draw_lines(panel["lines"], panel["metric"]) for panel in panels],
        below=lambda place: below(place, page.settings.root),
        is_known=lambda place: place is not None and page.catalogue.get(place) is not None,
    )


def chain(request: Request) -> Response:
    """What a run was made from, and what of that is stale."""
    page, path, _ = _path(request)
    answer = page.readers.ask("answers:read_chain", path)
    return _render(
        request,
        "chain.html",
        f"Chain of {path}",
        path=path,
        chain=answer,
        picture=draw_chain(path, answer["kind"], answer["links"]),
        below=lambda place: below(place, page.settings.root),
        is_known=lambda place: place is not None and page.catalogue.get(place) is not None,
    )


def evaluation(request: Request) -> Response:
    """How good a run is by hour or day, beside another one if that is asked."""
    page, path, _ = _path(request)
    by = "day" if request.query_params.get("by") == "day" else "hour"
    other = request.query_params.get("with", "")
    answers = [page.readers.ask("measured:read_evaluation", each, by) for each in _both(page, path, other)]
    times, metrics = _times(answers), list(dict.fromkeys(name for each in answers for name in each["metrics"]))
    curves = {metric: _lines_of(answers, metric, times) for metric in metrics}
    pictures = {
        metric: draw_lines(lines, metric.replace("_", "-"), x_labels=_shorten(times))
        for metric, lines in curves.items()
    }
    return _render(
        request,
        "evaluation.html",
        f"Evaluation of {path}",
        path=path,
        other=other,
        by=by,
        answers=answers,
        pictures=pictures,
        curves=curves,
        reliability=[
            (answer["name"], name, bins, draw_reliability(bins, f"Reliability of {name} in {answer['name']}"))
            for answer in answers
            for name, bins in answer["reliability"].items()
        ],
        most=_MOST_ROWS,
        others=[each for each in page.catalogue.paths() if each != path][:_MOST_ROWS],
    )


def _both(page: Page, path: str, other: str) -> list[str]:
    return [path] if not other else [path, page.known_run(other)]


def _times(answers: list[dict[str, Any]]) -> list[str]:
    """The names of hours, days or epochs; hours are sorted, because shifts reach different ones first."""
    times = list(dict.fromkeys(str(row["time"]) for answer in answers for row in answer["rows"]))
    return times if any(time.startswith("epoch") for time in times) else sorted(times)


def _shorten(times: list[str]) -> list[str]:
    """Hours without what all of them share: the year, or the date."""
    hours = [time.replace("T", " ") for time in times]
    if not all(len(hour) >= 10 and hour[4:5] == "-" for hour in hours):
        return times
    if len({hour[:10] for hour in hours}) == 1 and all(len(hour) > 11 for hour in hours):
        return [hour[11:] for hour in hours]
    return [hour[5:] for hour in hours] if len({hour[:4] for hour in hours}) == 1 else hours


def _lines_of(answers: list[dict[str, Any]], metric: str, times: list[str]) -> list[dict[str, Any]]:
    places = {time: float(number) for number, time in enumerate(times)}
    lines: dict[str, dict[str, Any]] = {}
    for answer in answers:
        for row in answer["rows"]:
            if row.get(metric) is None:
                continue
            lag = "" if row["shift"] is None else f" +{row.get('lag', str(row['shift']) + 'h')}"
            label = f"{row['name']}{lag}" if len(answers) == 1 else f"{answer['name']}: {row['name']}{lag}"
            line = lines.setdefault(label, {"label": label, "x": [], "y": []})
            line["x"].append(places[str(row["time"])])
            line["y"].append(row[metric])
    return list(lines.values())


def predictions(request: Request) -> Response:
    """Rows of predictions that meet a form."""
    page, path, _ = _path(request)
    query = request.query_params
    form = {
        "columns": query.getlist("columns"),
        "column": query.get("column", ""),
        "sign": query.get("sign", "="),
        "value": query.get("value", ""),
        "sort": query.get("sort", ""),
        "limit": _number(query.get("limit", ""), 100),
    }
    answer, problem = None, None
    try:
        answer = page.readers.ask("measured:read_predictions", path, query.get("folder", ""), form)
    except ValueError as error:
        problem = str(error)
        with contextlib.suppress(ValueError):
            answer = page.readers.ask("measured:read_predictions", path, query.get("folder", ""), {})
    return _render(
        request,
        "predictions.html",
        f"Predictions of {path}",
        200 if problem is None else 400,
        path=path,
        form=form,
        answer=answer,
        problem=problem,
        signs=SIGNS,
    )


def _number(text: str, otherwise: int | None) -> Any:
    return int(text) if text.isdigit() and len(text) < 10 else otherwise


def embeddings(request: Request) -> Response:
    """The hash tables of a model."""
    page, path, _ = _path(request)
    answer = page.readers.ask("measured:read_embeddings", path)
    ages = [
        (table, draw_bars(_spans(table["ages"]), f"Ages of {table['name']}", mark=_expired_span(table)))
        for table in answer["tables"]
    ]
    lines = {
        kind: [
            {"label": name.removeprefix(f"{kind}."), "x": each["steps"], "y": each["values"]}
            for name, each in answer["series"].items()
            if name.startswith(f"{kind}.")
        ]
        for kind in ("live_ids", "new_ids")
    }
    return _render(
        request, "embeddings.html", f"Hash tables of {path}", path=path, answer=answer, ages=ages, lines=lines,
        pictures={kind: draw_lines(each, kind.replace("_", " ")) for kind, each in lines.items()},
    )  # fmt: skip


def _spans(counts: dict[int, int]) -> list[tuple[str, float]]:
    """As `samovar embeddings` groups ages: each span is twice as long as the one before."""
    spans: list[tuple[str, float]] = []
    first, width = 0, 1
    while first <= max(counts, default=0):
        last = first + width - 1
        count = sum(count for age, count in counts.items() if first <= age <= last)
        spans.append((str(first) if width == 1 else f"{first}-{last}", count))
        first, width = last + 1, width * 2 if first else 1
    return spans


def _expired_span(table: dict[str, Any]) -> str | None:
    """The first span in which every row has expired."""
    if table["ttl"] is None:
        return None
    spans = [name for name, _ in _spans(table["ages"])]
    return next((name for name in spans if int(name.partition("-")[0]) > table["ttl"]), None)


def table(request: Request) -> Response:
    """A tensor table."""
    page, path, _ = _path(request)
    number = _number(request.query_params.get("minibatch", ""), None)
    answer = page.readers.ask("measured:read_table", path, number)
    counts = [count for _, count in answer["hours"]]
    hours = _at_most(list(zip(_shorten([hour for hour, _ in answer["hours"]]), counts, strict=True)), _MOST_BARS)
    sizes = [(str(size), float(count)) for size, count in answer["batch_sizes"].items()][:_MOST_BARS]
    minibatch = answer["minibatch"]
    histograms = {}
    if minibatch is not None:
        histograms = {
            column["name"]: draw_bars(
                [(f"{low:.4g}", count) for low, _, count in column["counts"]], column["name"], width=300, height=90
            )
            for column in minibatch["columns"]
            if column["counts"] and len(column["counts"]) > 1
        }
    return _render(
        request,
        "table.html",
        f"Table {path}",
        path=path,
        table=answer,
        hours=draw_bars(hours, f"Minibatches by {answer['uri']}", width=640) if hours else None,
        sizes=draw_bars(sizes, "Examples per minibatch", width=640),
        histograms=histograms,
        number=number,
    )


def _at_most(bars: list[tuple[str, int]], most: int) -> list[tuple[str, float]]:
    """Neighbours added up, so that there are not too many."""
    every = -(-len(bars) // most)
    groups = [bars[start : start + every] for start in range(0, len(bars), every)] if every else []
    return [(group[0][0], sum(count for _, count in group)) for group in groups]


def file(request: Request) -> Response:
    """A file of a run as text; `raw=1` gives the file itself, which a browser never shows but as text."""
    page = page_of(request)
    whole = request.path_params["path"]
    path, name = _split(page, whole)
    start = _number(request.query_params.get("start", ""), 0)
    answer = page.readers.ask("answers:read_file", path, name, start)
    if request.query_params.get("raw") == "1":
        return _raw(page, path, name, answer["size"])
    data: bytes = answer["data"]
    is_text = b"\0" not in data[:4096]
    return page.render(
        request,
        "file.html",
        name,
        path=path,
        name=name,
        whole=whole,
        size=answer["size"],
        start=start,
        next=start + len(data) if start + len(data) < answer["size"] else None,
        text=data.decode("utf-8", "replace") if is_text else None,
        most=MOST_FILE_BYTES,
    )


_TEXTS = (".json", ".jsonl", ".py", ".txt", ".csv", ".md", ".log")


def _raw(page: Page, path: str, name: str, size: int) -> Response:
    """Text as plain text, anything else as a download: nothing that a run wrote is ever run by a browser."""

    def pieces() -> Iterator[bytes]:
        start = 0
        while start < size:
            piece: bytes = page.readers.ask("answers:read_file", path, name, start, _PIECE_BYTES)["data"]
            if not piece:
                return
            start += len(piece)
            yield piece

    headers = {"content-length": str(size)}
    if name.endswith(_TEXTS):
        return StreamingResponse(pieces(), headers=headers, media_type="text/plain; charset=utf-8")
    headers["content-disposition"] = f"attachment; filename*=utf-8''{quote(PurePosixPath(name).name)}"
    return StreamingResponse(pieces(), headers=headers, media_type="application/octet-stream")


def _split(page: Page, whole: str) -> tuple[str, str]:
    """The run that a path leads into, the innermost first, and the rest of the path."""
    parts = whole.split("/")
    for count in range(len(parts) - 1, -1, -1):
        path = "/".join(parts[:count])
        if page.catalogue.get(path) is not None:
            return path or ".", "/".join(parts[count:])
    raise HTTPException(404, f"There is no result that has {whole}.")


ROUTES = [
    Route("/run/{path:path}", run),
    Route("/chain/{path:path}", chain),
    Route("/evaluation/{path:path}", evaluation),
    Route("/predictions/{path:path}", predictions),
    Route("/embeddings/{path:path}", embeddings),
    Route("/table/{path:path}", table),
    Route("/file/{path:path}", file),
]
