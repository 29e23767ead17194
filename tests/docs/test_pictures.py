"""The pictures of the README are drawn by scripts from numbers that were measured."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from docs.pictures import killed_run, learning, speed
from docs.pictures.theme import FOLDER


def test_the_bar_chart_shows_the_numbers_of_the_benchmarks(tmp_path: Path) -> None:
    for path in speed.main(tmp_path):
        assert path.read_bytes() == (FOLDER / path.name).read_bytes(), "draw it again: python -m docs.pictures.speed"


def test_the_bar_chart_names_machine_and_date() -> None:
    page = (
        "- brew (2026-11-17 02:08 UTC), hash (2026-11-18 02:10 UTC): 2 cores AMD EPYC, 24 GiB, Linux 6.18; python 3.11"
    )
    assert speed.read_machine(page) == "2 cores AMD EPYC, 24 GiB, 2026-11-18"


def test_a_bar_without_a_line_in_the_table_is_an_error() -> None:
    rows = list(speed.read_rows(speed.TABLE.read_text()))
    assert speed.find_ratio(rows, speed.BARS[0]) > 0
    with pytest.raises(LookupError, match="0 lines of the table fit the bar 'torch and Arrow'"):
        speed.find_ratio(rows, replace(speed.BARS[0], peer="nobody"))


def test_the_chart_of_scores_shows_the_numbers_of_its_page(tmp_path: Path) -> None:
    for path in learning.main(tmp_path):
        assert path.read_bytes() == (FOLDER / path.name).read_bytes(), "draw it again: python -m docs.pictures.learning"


def test_a_bar_is_the_difference_in_percent_of_samovars_score() -> None:
    page = """### Tables: log-loss or RMSE
| **diamonds**, RMSE | Samovar | 1,000.0 | 3, ± 2.0 |  |  | 1x |
|  | Samovar, fast=True | 1,100.0 | 1 | +100.0 [+90.0, +110.0] | ahead | 0.2x |
|  | CatBoost: deep | **900.0** | 1 | -100.0 [-1,200.0, -90.0] | behind | 2x |
"""
    assert list(learning.read_bars(page)) == [learning.Bar("Tables", "diamonds", "CatBoost", -10.0, -120.0, -9.0)]


def test_a_killed_run_is_drawn_with_the_same_digest_as_a_straight_one(tmp_path: Path) -> None:
    light, dark = (path.read_text() for path in killed_run.main(tmp_path, rows_per_hour=300))
    for picture in (light, dark):
        first, second = re.findall(r"SHA-256 ([0-9a-f]{16})", picture)
        assert first == second


@pytest.mark.parametrize("theme", ["", ".dark"])
def test_the_picture_of_the_readme_shows_equal_digests(theme: str) -> None:
    first, second = re.findall(r"SHA-256 ([0-9a-f]{16})", (FOLDER / f"killed_run{theme}.svg").read_text())
    assert first == second
