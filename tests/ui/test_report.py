"""A report is one file that needs nobody: no server, no other file, no script."""

import re
from pathlib import Path

import pytest

from samovar.errors import BadInput
from samovar.ui import write_report


def test_a_report_contains_runs_curves_and_differences(
    everything: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(everything)
    names = ["models/lr0.02_seed1", "models/lr0.2_seed1", "models/failed"]
    assert write_report(names, tmp_path / "report.html") == names
    text = (tmp_path / "report.html").read_text()
    assert [name for name in names if f">{name}</a>" in text] == names
    assert text.count('<path class="line') >= 5
    assert '<th scope="row">model.lr</th><td>0.02</td>' in text
    assert "the loss is not finite" in text
    assert "<b>now</b>" not in text
    assert re.findall(r"<script|<link|<img|https?://(?!www\.w3\.org/2000/svg)|url\(", text) == []
    assert re.findall(r'(?:href|src)="([^"#][^"]*)"', text) == []
    for target in re.findall(r'href="#([^"]+)"', text):
        assert f'id="{target}"' in text


def test_a_report_of_one_run_has_its_config(everything: Path, tmp_path: Path) -> None:
    write_report(everything / "models/lr0.02_seed1", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "What differs" not in text
    assert "<details open>" in text
    assert "&#34;lr&#34;: 0.02" in text


def test_a_report_of_nothing_is_refused(everything: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="only result directories can be reported"):
        write_report(everything / "lr0.02_seed1.json", tmp_path / "report.html")
    with pytest.raises(BadInput, match="no run has a metric 'aucc'"):
        write_report(everything / "models/lr0.02_seed1", tmp_path / "report.html", ["aucc"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("run", ["tables/clicks", "models/stopped", "stages/total"])
def test_results_without_metrics_are_reported_too(everything: Path, tmp_path: Path, run: str) -> None:
    write_report(everything / run, tmp_path / "report.html")
    assert "config" in (tmp_path / "report.html").read_text()
