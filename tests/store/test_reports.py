"""Files that users name appear whole or not at all."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from samovar.errors import AlreadyExists, BadInput
from samovar.store.reports import save_figure, save_text, writing


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    path.write_text("old")
    program = f"from samovar.store.reports import save_text; save_text({str(path)!r}, 'x' * 100_000)"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))

    words = [sys.executable, "-c", program]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, preexec_fn=limit)
    assert "BadInput: could not write" in ended.stderr
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["report.csv"])


def test_a_link_stays_and_the_file_that_it_names_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    save_text(tmp_path / "link.csv", "new")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "new"


def test_a_device_is_written_to() -> None:
    save_text("/dev/null", "text")
    assert Path("/dev/null").is_char_device()


def test_what_cannot_be_written_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none/a.csv: the folder .*none does not exist"):
        save_text(tmp_path / "none/a.csv", "")
    with pytest.raises(BadInput, match="it is a folder"):
        save_text(tmp_path, "")
    (tmp_path / "a.csv").touch()
    with (
        pytest.raises(AlreadyExists, match=r"a.csv already exists.*Choose another name"),
        writing(tmp_path / "a.csv", replace=False),
    ):
        pass


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_picture_has_the_same_bytes_each_time(tmp_path: Path, suffix: str) -> None:
    for name in ("a", "b"):
        figure = Figure()
        figure.add_subplot().plot([1, 2, 3])
        save_figure(figure, tmp_path / f"{name}.{suffix}")
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_a_suffix_that_names_no_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"x.txt: the name must end with .png, .svg or .pdf"):
        save_figure(Figure(), tmp_path / "x.txt")
