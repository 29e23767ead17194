"""The page in a real browser: live, by mouse and keyboard, offline, for everybody."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from tests.ui.everything import SCRIPT, online, start_holder, write_rows
from tests.ui.serving import Served, serving
from tests.waiting import PATIENCE_SECONDS, wait_until

from samovar.results import open_directory
from samovar.results.artifacts import METRICS_LOG, read_live_log

SLOWNESS = 6
"""How many times slower than a quiet one a busy machine may be."""
MODEL, OTHER = "models/lr0.02_seed1", "models/lr0.2_seed1"
ALL_PAGES = (
    "/",
    "/runs",
    f"/curves?run={MODEL}&run={OTHER}&smooth=0.5",
    f"/diff?run={MODEL}&run={OTHER}",
    "/queue",
    "/sql?q=select+1",
    f"/run/{MODEL}",
    "/run/models/dead",
    "/chain/stages/total",
    f"/evaluation/{MODEL}?with={OTHER}",
    f"/predictions/{MODEL}",
    f"/embeddings/{MODEL}",
    "/table/tables/clicks?minibatch=0",
    f"/file/{MODEL}/script.py",
    "/runs?group=seed&columns=loss&where=kind%3Dmodel",
    "/runs?x=lr&y=loss",
    "/nothing",
)


class Visit:
    """A browser window that fails a test if it asks anybody but this machine, or if a script fails."""

    def __init__(self, browser: Any, served: Served, **options: Any) -> None:
        self.served = served
        self.context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        self.context.set_default_timeout(PATIENCE_SECONDS * 1000)
        self.problems: list[str] = []
        self.context.on("request", self._check_request)
        self.context.on("weberror", lambda error: self.problems.append(str(error.error)))
        self.page = self.context.new_page()
        self.page.goto(f"{served.base}/?token={served.token}")
        self.page.wait_for_url(f"{served.base}/")

    def _check_request(self, request: Any) -> None:
        if urlsplit(request.url).hostname != "127.0.0.1":
            self.problems.append(f"asked {request.url}")

    def go(self, target: str) -> Any:
        self.page.goto(self.served.base + target)
        return self.page

    def close(self) -> None:
        self.context.close()
        assert self.problems == []


@pytest.fixture
def visit(browser: Any, served: Served) -> Iterator[Visit]:
    found = Visit(browser, served)
    yield found
    found.close()


def names(page: Any) -> list[str]:
    return [str(text) for text in page.locator("table[data-rows] td.name").all_inner_texts()]


def test_the_token_is_not_in_the_address_any_more(visit: Visit) -> None:
    assert visit.page.url == f"{visit.served.base}/"
    assert visit.context.cookies()[0]["httpOnly"]
    assert visit.page.evaluate("document.cookie") == ""


def test_filter_sort_select_diff_and_back(visit: Visit) -> None:
    page = visit.go("/runs")
    page.locator("[data-filter]").fill("kind=model")
    page.locator("input[name=sort]").fill("-lr")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**sort=-lr**")
    shown = names(page)
    assert shown[0] == "models/failed"
    assert page.get_by_role("button", name="Diff").is_disabled()
    for run in (MODEL, OTHER):
        page.get_by_label(f"select {run}").check()
    page.get_by_role("button", name="Diff").click()
    page.wait_for_url("**/diff?**")
    assert page.locator("table.diff th[scope=row]").first.inner_text() == "model.lr"
    page.go_back()
    page.wait_for_url("**/runs?**")
    assert names(page) == shown
    assert page.locator("[data-filter]").input_value() == "kind=model"


def test_an_address_gives_the_same_rows_in_a_fresh_browser(visit: Visit, browser: Any) -> None:
    page = visit.go("/runs?where=state%3Dfinished&sort=-name&columns=kind")
    other = Visit(browser, visit.served)
    assert names(other.go(page.url.removeprefix(visit.served.base))) == names(page) != []
    other.close()


def test_from_the_table_to_the_diff_with_the_keyboard_alone(visit: Visit) -> None:
    page = visit.go("/runs?where=kind%3Dmodel&where=state%3Dfinished")
    page.keyboard.press("?")
    assert page.locator("dialog#help").is_visible()
    page.keyboard.press("Escape")
    for key in ("j", "x", "ArrowDown", "ArrowDown", "x"):
        page.keyboard.press(key)
    assert page.locator("#num-chosen").inner_text() == "2 selected"
    page.keyboard.press("d")
    page.wait_for_url("**/diff?**")
    assert [text.split()[0] for text in page.locator("table.diff thead th a").all_inner_texts()] == [MODEL, OTHER]
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_url("**/runs")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "where"
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/run/**")


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_pages_are_accessible_and_whole_in_both_schemes(browser: Any, served: Served, scheme: str) -> None:
    visit = Visit(browser, served, color_scheme=scheme)
    for target in ALL_PAGES:
        page = visit.go(target)
        page.wait_for_selector("main h1", state="attached")
        found = Axe().run(page).response["violations"]
        serious = [
            (each["id"], [node["html"][:200] for node in each["nodes"][:3]])
            for each in found
            if each["impact"] in ("serious", "critical")
        ]
        assert serious == [], f"{target} ({scheme}): {json.dumps(serious, indent=1)}"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{target} is too wide"
    visit.problems = [each for each in visit.problems if "404" not in each]
    visit.close()


def test_pages_read_without_javascript(browser: Any, served: Served) -> None:
    visit = Visit(browser, served, java_script_enabled=False)
    page = visit.go(f"/run/{MODEL}")
    assert page.locator("figure.plot svg path.line").count() >= 3
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", page.locator("time").first.inner_text())
    assert names(visit.go("/runs")) != []
    visit.close()


def test_a_file_of_a_result_runs_no_script(visit: Visit) -> None:
    for name in ("page.html", "picture.svg"):
        page = visit.go(f"/file/stages/total/files/{name}")
        assert "<script" in page.locator("pre.file").inner_text()
        assert page.title() != "hacked"
        with page.expect_download() as download:
            page.get_by_role("link", name="raw").click()
        assert download.value.suggested_filename == name


def test_eight_tabs_are_served_at_once(visit: Visit) -> None:
    pages = [visit.context.new_page() for _ in range(8)]
    for page in pages:
        page.goto(f"{visit.served.base}/curves?run={MODEL}&run={OTHER}", wait_until="commit")
    for page in pages:
        page.wait_for_selector("figure.plot .uplot canvas")
        assert "last" in page.evaluate("Object.keys(document.querySelector('figure.plot').dataset)")


def test_smoothing_is_drawn_over_the_raw_line(visit: Visit) -> None:
    page = visit.go(f"/curves?run={MODEL}&metric=loss&smooth=0.9")
    page.wait_for_selector("figure.plot .uplot canvas")
    answer = json.loads(visit.served.ask(f"/curves/data?run={MODEL}&metric=loss&smooth=0.9").data)
    line = answer["panels"][0]["lines"][0]
    assert line["smooth"][0] == line["y"][0]
    assert line["smooth"][-1] != line["y"][-1]


SLOW = """
import time

class Slow(samovar.Callback):
    def on_uri_end(self, run):
        time.sleep(0.25)

build_fast = build

def build(params):
    made = build_fast(params)
    return samovar.Learner(made.model, made.optimizers, made.loss, made.predict, callbacks=[Slow()])
"""


def test_a_training_is_live_and_dies_before_the_readers_eyes(browser: Any, quick_path: Path) -> None:
    root = quick_path / "live"
    root.mkdir()
    write_rows(quick_path / "rows.csv", num_hours=400, rows_per_hour=2)
    recipe = {"source": "rows.csv", "time_field": "time", "categorical_factors": ["user", "ad"],
              "realvalue_factors": ["clicked"], "keys": ["hit"]}  # fmt: skip
    (quick_path / "clicks.json").write_text(json.dumps(recipe))
    (quick_path / "model.py").write_text(SCRIPT + SLOW)
    config = online(str(quick_path / "table"))
    del config["evaluation"]
    (quick_path / "run.json").write_text(json.dumps(config))
    samovar = [sys.executable, "-m", "samovar"]
    subprocess.run([*samovar, "brew", "clicks.json", "--out", "table"], cwd=quick_path, check=True, capture_output=True)
    with serving(root) as served:
        visit = Visit(browser, served)
        visit.page.wait_for_selector("text=There are no results below")
        train = [*samovar, "train", "run.json", "--script", "model.py", "--out", str(root / "run")]
        process = subprocess.Popen(train, cwd=quick_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            visit.page.get_by_role("link", name="run", exact=True).wait_for()  # it shows by itself
            page = visit.go("/run/run")
            page.wait_for_selector(".state.running")
            page.wait_for_selector("figure.plot .uplot canvas")
            page.wait_for_selector("text=of 400")
            store = open_directory(root / "run").store

            def drawn() -> list[float]:
                return list(json.loads(page.evaluate("document.querySelector('figure.plot').dataset.last"))[0])

            def last() -> dict[str, Any]:
                return read_live_log(store, METRICS_LOG).open[-1]

            first = last()
            began = time.monotonic()
            wait_until(lambda: drawn()[0] >= first["uri"], "the newest point is drawn")
            assert time.monotonic() - began < 5 * SLOWNESS
            step, value = drawn()
            assert value == next(line["loss"] for line in read_live_log(store, METRICS_LOG).open if line["uri"] == step)
            process.send_signal(signal.SIGKILL)
            process.wait()
            page.wait_for_selector(".head .state.dead")
            wait_until(lambda: drawn()[0] == last()["uri"], "the last point is drawn")
            assert drawn() == [last()["uri"], last()["loss"]]
            assert "not yet in a snapshot" in page.locator("figure.plot").inner_text()
        finally:
            process.kill()
            process.wait()
        visit.close()


def test_a_sleeping_reader_sees_what_changed(browser: Any, quick_path: Path) -> None:
    """A run that a process holds shows as running, and as dead without a reload."""
    root = quick_path / "results"
    process = start_holder(root / "run")
    with serving(root) as served:
        visit = Visit(browser, served)
        page = visit.go("/runs")
        page.wait_for_selector(".state.running")
        page.get_by_label("select run").check()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        page.wait_for_selector(".state.dead")
        assert page.get_by_label("select run").is_checked()  # the selection is kept
        visit.close()
    wait_until(lambda: not Path(f"/proc/{served.pid}").exists(), "the server ends")
