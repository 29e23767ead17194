"""One table of reports: what each line shows, and where it is written."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from benchmarks.contest.machine import Machine, look_at_machine
from benchmarks.contest.report import Bar, Promise, Report, Section
from benchmarks.contest.result import Result, publish
from benchmarks.contest.summary import BEGIN, END, Row, make_rows, to_markdown, write_into

from samovar.errors import BadInput

SECONDS = {"ours": [1.0, 2.0, 1.0], "theirs": [3.0, 4.0, 4.0], "limit": [1.0, 1.0, 1.0]}
MACHINE = Machine("Abacus", 2, 24.0, "Linux 6", {"python": "3.11"})


def make_result(section: Section, *bars: Bar) -> Result:
    return Result(datetime(2026, 11, 16, 7, 30, tzinfo=UTC), False, MACHINE, [Report("a race", [section], bars)], True)


def test_a_promise_stands_beside_its_peer() -> None:
    promises = [Promise("ours", "limit", 0.9), Promise("ours", "theirs", 3.5, "a remark")]
    rows = list(make_rows("run", make_result(Section("lap", SECONDS, 6.0, "m", "limit", promises))))
    assert rows == [
        Row("run: a race"),
        Row("lap", "ours", "6.00 m/s", "limit", "1.00", "PASS: 0.9 at least"),
        Row("", "ours", "6.00 m/s", "theirs", "3.00", "FAIL: 3.5 at least; a remark"),
        Row("", "theirs", "1.50 m/s", "limit", "0.25"),
        Row("", "limit", "6.00 m/s", "", "1.00"),
    ]


def test_a_disturbed_section_keeps_no_promise() -> None:
    section = Section("lap", SECONDS, 6.0, "m", "limit", [Promise("ours", "limit", 0.9)], is_disturbed=True)
    result = make_result(section)
    assert not result.is_kept
    assert list(make_rows("run", result))[1].promise == "FAIL: 0.9 at least; other processes used the machine"


def test_a_promise_about_no_peer_has_a_row_of_its_own() -> None:
    result = make_result(Section("lap", SECONDS, 6.0, "m", "limit"), Bar("takes less than 1 MB", "0.5 MB", True))
    assert list(make_rows("run", result))[-1] == Row("", "takes less than 1 MB", "0.5 MB", promise="PASS")


def test_what_is_published_is_shown_and_kept_for_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    section = Section("lap", SECONDS, 6.0, "m", "limit", [Promise("ours", "theirs", 3.5)])
    report = Report("a race", [section], [Bar("takes less than 1 MB", "0.5 MB", True)])
    assert publish([report], False, tmp_path / "run.json") == 1
    assert "FAIL lap: ours at 3.5 of theirs: 3.00" in capsys.readouterr().out
    result = Result.load(tmp_path / "run.json")
    assert list(result.reports) == [report]
    assert result.machine == look_at_machine()


def test_a_benchmark_that_dies_has_told_what_it_knew(tmp_path: Path) -> None:
    def reports() -> Iterator[Report]:
        yield Report("a race", [Section("lap", SECONDS, 6.0, "m", "limit")])
        raise RuntimeError("a wheel broke")

    with pytest.raises(RuntimeError, match="a wheel broke"):
        publish(reports(), False, tmp_path / "run.json")
    rows = list(make_rows("run", Result.load(tmp_path / "run.json")))
    assert rows[1].contestant == "ours"
    assert rows[-1] == Row("run: ended early", promise="FAIL")


def test_machine_and_date_stand_above_the_table() -> None:
    lines = to_markdown({"run": make_result(Section("a|b", SECONDS, 6.0, "m", "limit"))}).splitlines()
    assert lines[0] == "- run (2026-11-16 07:30 UTC): 2 cores Abacus, 24 GiB, Linux 6; python 3.11"
    assert lines[2] == "| what was measured | contestant | its speed | limit or peer | ratio | promise |"
    assert lines[5] == "| a\\|b | ours | 6.00 m/s | limit | 1.00 |  |"


def test_the_rest_of_a_page_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"above\n{BEGIN}{END}\nbelow\n")
    for text in ("first", "second"):
        write_into(page, text)
    assert page.read_text() == f"above\n{BEGIN}\n\nsecond\n\n{END}\nbelow\n"


def test_a_page_without_a_place_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{END}\n{BEGIN}\n")
    with pytest.raises(BadInput, match=r"page\.md: the markers"):
        write_into(page, "table")
    assert page.read_text() == f"{END}\n{BEGIN}\n"
