"""Every page shows what the commands say with --json, of a folder that has one of everything."""

import contextlib
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.ui.serving import Served

from samovar.cli.app import app
from samovar.runs import plot
from samovar.ui.showing import show_number

MODEL, OTHER = "models/lr0.02_seed1", "models/lr0.2_seed1"


class Tables(HTMLParser):
    """The text of each cell of each table, and the whole text, as a reader sees it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self._is_in_cell = False
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("td", "th") and self.tables and self.tables[-1]:
            self.tables[-1][-1].append("")
            self._is_in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._is_in_cell = False

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self._is_in_cell:
            cell = self.tables[-1][-1]
            cell[-1] = f"{cell[-1]} {data}".strip()


def ask_json(*words: object) -> Any:
    """The answer of a command with --json, in the folder of the page."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        app([*map(str, words), "--json"], standalone_mode=False)
    return json.loads(out.getvalue())


@pytest.fixture(autouse=True)
def in_the_folder(everything: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(everything)


def shown(value: Any) -> str:
    return "\N{EN DASH}" if value is None else show_number(value)


def read(served: Served, target: str) -> Tables:
    answer = served.ask(target)
    assert answer.status == 200, answer.text
    return Tables(answer.text)


QUESTIONS = [
    {},
    {"where": ["state=finished", "kind=model"], "sort": "-next_hour+1h.auc", "columns": "state,lr,next_hour+1h.auc"},
    {"where": ["lr>0.02"], "sort": "lr", "columns": "lr,seed,loss,loss:min,loss:max,loss:best,loss:mean"},
    {"where": ["state!=finished"], "columns": "kind,state,position,error"},
    {"where": ["name~models/*"], "sort": "-seed,-lr", "columns": "code,config.seed"},
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_runs_are_those_of_ls(served: Served, question: dict[str, Any]) -> None:
    words = [word for each in question.get("where", []) for word in ("--where", each)]
    words += [word for each in question.get("sort", "").split(",") if each for word in ("--sort", each)]
    words += ["--columns", question["columns"]] if "columns" in question else []
    expected = ask_json("ls", ".", *words)
    header, *rows = read(served, f"/runs?{urlencode(question, doseq=True)}").tables[0]
    names = list(map(squeeze, header))
    assert {squeeze(name) for row in expected for name in row} <= set(names)
    assert len(rows) == len(expected)
    for cells, row in zip(rows, expected, strict=True):
        values = {squeeze(name): cut(shown(value)) for name, value in row.items()}
        for name, cell in zip(names[1:], cells[1:], strict=True):
            if name != "age":  # which the page shows as the time that it was counted from
                assert re.sub(" stale$", "", cell) == values.get(name, shown(None)), name


def squeeze(name: str) -> str:
    """The name of a column, which a header shows on two lines, and with an arrow."""
    return re.sub("[\\s.↑↓]", "", name)


def cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}\N{HORIZONTAL ELLIPSIS}"


def test_groups_are_those_of_ls(served: Served) -> None:
    words = ("--where", "state=finished", "--where", "kind=model", "--columns", "loss", "--group", "seed")
    expected = ask_json("ls", ".", *words)
    assert [row["runs"] for row in expected] == [2, 1]
    table = read(served, "/runs?where=state%3Dfinished&where=kind%3Dmodel&columns=loss&group=seed").tables[0]
    assert table[1:] == [
        [row["group"], str(row["runs"]), row["state"], shown(row["loss"]), shown(row.get("loss:std"))]
        for row in expected
    ]


@pytest.mark.parametrize("path", [MODEL, "models/dead", "models/failed", "models/stopped", "tables/clicks",
                                  "stages/total", "predictions/clicks"])  # fmt: skip
def test_a_run_is_that_of_show(served: Served, path: str) -> None:
    expected = ask_json("show", path)
    page = read(served, f"/run/{path}")
    text = " ".join(" ".join(page.words).split())
    assert f"{expected['state']} " in text
    assert f"{expected['kind']} · {expected['id'][:12]}" in text
    config = re.search(
        r'<h2>Config</h2>\s*<pre tabindex="0" class="code">(.*?)</pre>', served.ask(f"/run/{path}").text, re.DOTALL
    )
    assert config is not None
    assert json.loads("".join(Tables(config[1]).words)) == expected["config"]
    if expected["error"] is not None:
        assert expected["error"]["message"] in text
    for name in expected["bytes"]:
        assert name in text


def test_a_damaged_run_is_explained(served: Served) -> None:
    answer = served.ask("/run/models/damaged")
    assert answer.status == 400
    assert "invalid JSON" in answer.text


def test_differences_are_those_of_diff(served: Served) -> None:
    for words, query in (
        ((), ""),
        (("--baseline", OTHER), f"&baseline={OTHER}"),
        (("--ignore", "model"), "&ignore=model"),
    ):
        expected = ask_json("diff", MODEL, OTHER, "models/dead", *words)
        table = read(served, f"/diff?run={MODEL}&run={OTHER}&run=models/dead{query}").tables[0]
        names = [cell.split()[0] for cell in table[0][1:]]
        assert names == expected["names"]
        rows = {cells[0]: cells[1:] for cells in table[1:] if cells[0] in expected["differences"]}
        assert rows.keys() == expected["differences"].keys()
        for key, values in expected["differences"].items():
            assert rows[key] == [show_number(values[name]) if name in values else "" for name in names]


def test_chains_are_those_of_chain_and_why(served: Served) -> None:
    expected, reasons = ask_json("chain", "stages/total")[0], ask_json("why", "stages/total")
    page = read(served, "/chain/stages/total")
    text = " ".join(page.words)
    source = expected["sources"][0]
    assert (source["state"], source["is_stale"]) == ("changed", True)
    assert [row[3] for row in page.tables[1][1:]] == ["changed", "good", "raw files"]
    assert next(row[4] for row in page.tables[1][1:]) == source["id"][:12]
    for reason in reasons["stale"][0]["reasons"]:
        assert reason in text


@pytest.mark.parametrize(("path", "by"), [(MODEL, "hour"), (MODEL, "day"), ("predictions/clicks", "hour")])
def test_metrics_are_those_of_metrics(served: Served, path: str, by: str) -> None:
    expected = ask_json("metrics", path, "--by", by)
    table = next(
        each for each in read(served, f"/evaluation/{path}?by={by}").tables if each[0][:2] == ["name", "shift"]
    )
    columns = [name.replace(" ", "_") for name in table[0]]
    assert table[1:] == [[shown(row.get(name)) for name in columns] for row in expected]


def test_curves_are_those_of_plot(served: Served) -> None:
    found = json.loads(served.ask(f"/curves/data?run={MODEL}&run={OTHER}&metric=loss").data)
    expected = ask_json("plot", MODEL, OTHER, "--metric", "loss")
    assert [
        (line["label"], step, value)
        for line in found["panels"][0]["lines"]
        for step, value in zip(line["x"], line["y"], strict=True)
    ] == [(point["run"], point["step"], point["value"]) for point in expected]


def test_the_open_end_of_a_log_is_shown_and_marked(served: Served) -> None:
    line = json.loads(served.ask("/curves/data?run=models/dead").data)["panels"][0]["lines"][0]
    assert (line["y"], line["num_open"], line["open_from"]) == ([1.0, 0.5, 1 / 3, 0.25], 3, 1.0)
    assert [len(each.values) for each in plot("models/dead").panels[0].lines] == [1]
    assert "3 not yet in a snapshot" in served.ask("/run/models/dead").text


def test_hash_tables_are_those_of_embeddings(served: Served) -> None:
    expected = ask_json("embeddings", MODEL)
    table = read(served, f"/embeddings/{MODEL}").tables[0]
    assert [(row[0], row[1], row[2], row[3], row[4]) for row in table[1:]] == [
        (f"{each['place']}: {each['name']}", each["optimizer"], str(each["dim"]), str(each["ttl"]), f"{each['ids']:,}")
        for each in expected
    ]


def test_a_table_is_that_of_table(served: Served) -> None:
    expected, minibatch = ask_json("table", "tables/clicks"), ask_json("table", "tables/clicks", "--minibatch", "2")
    page = read(served, "/table/tables/clicks?minibatch=2")
    assert [(row[0], row[1], row[3]) for row in page.tables[0][1:]] == [
        (each["name"], each["kind"], each["source_type"]) for each in expected["columns"]
    ]
    assert f"{expected['minibatches']} minibatches, {expected['examples']} examples" in " ".join(page.words)
    users = next(row for row in page.tables[1] if row[0] == "user")
    assert users[2] == " , ".join(map(str, minibatch["columns"]["user"]["data"][:12])).replace(" ,", ",")


def test_jobs_are_those_of_the_queue(served: Served) -> None:
    expected = ask_json("queue", "ls")
    table = read(served, "/queue").tables[0]
    assert [(row[0], row[1], row[2], row[6]) for row in table[1:]] == [
        (str(job["id"]), job["state"], job["kind"], job["out"]) for job in expected
    ]


def test_the_overview_counts_what_ls_lists(served: Served) -> None:
    expected = [row["state"] for row in ask_json("ls", ".")]
    text = " ".join(" ".join(read(served, "/").words).split())
    assert f"results {len(expected)} " in text
    for state in set(expected):
        assert f"{expected.count(state)} {state}" in text
    assert "Died or failed 3" in text
    assert "Best by next_hour+1h.auc" in text


def test_predictions_are_those_of_the_file(served: Served) -> None:
    page = read(served, "/predictions/predictions/clicks?column=clicked&sign=%3D&value=1&sort=-prediction&limit=5")
    rows = page.tables[0][1:]
    assert len(rows) == 5
    assert all(row[page.tables[0][0].index("clicked")] in ("1", "1.0") for row in rows)
    values = [float(row[page.tables[0][0].index("prediction")]) for row in rows]
    assert values == sorted(values, reverse=True)


def test_a_select_counts_the_runs_of_ls(served: Served) -> None:
    expected = ask_json("ls", ".")
    page = read(served, f"/sql?{urlencode({'q': 'select count(*) from runs'})}")
    assert page.tables[0][1] == [str(len(expected))]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("/runs?where=lr", "a condition is a column"),
        ("/runs?where=lrr%3D1", "Did you mean 'lr'"),
        ("/runs?sort=losss", "Did you mean 'loss'"),
        ("/runs?columns=loss:maxx", "no reduction 'maxx'"),
        ("/runs?group=sead", "no run has a config key of that name"),
        (f"/curves?run={MODEL}&metric=losss", "Did you mean 'loss'"),
        (f"/predictions/{MODEL}?sort=hitt", "Did you mean 'hit'"),
        ("/sql?q=select", "SELECT clause without selection list"),
    ],
)
def test_a_mistake_is_explained(served: Served, target: str, reason: str) -> None:
    answer = served.ask(target)
    assert answer.status == (200 if target.startswith("/sql") else 400)
    assert reason in " ".join(Tables(answer.text).words)
