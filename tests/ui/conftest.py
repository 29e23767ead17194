"""One folder with one of everything, one page of it, and one browser, for all tests that only look."""

import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.ui.everything import make_everything
from tests.ui.serving import Served, serving

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-domain-reliability"),
)


@pytest.fixture(scope="session")
def everything() -> Iterator[Path]:
    """In memory if there is such a disk: commands make many small files durable."""
    memory = Path("/dev/shm")
    scratch = Path(tempfile.mkdtemp(prefix="samovar-test-", dir=memory if memory.is_dir() else None))
    make_everything(scratch / "results")
    yield scratch / "results"
    shutil.rmtree(scratch)


@pytest.fixture(scope="session")
def served(everything: Path) -> Iterator[Served]:
    with serving(everything, "--sql") as found:
        yield found


def find_browser() -> str | None:
    """Debian's Chromium, or a Chrome that is there. Root installs it: a page that no browser saw is not tested."""
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]):
            subprocess.run(command, check=False, capture_output=True)
        found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    executable = find_browser()
    if executable is None:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.warn("NO BROWSER: the tests of the page in a real browser did not run", stacklevel=1)
        pytest.skip("no Chromium or Chrome: install one (apt-get install chromium) to test the page in a browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        launched = playwright.chromium.launch(executable_path=executable, args=[*_FLAGS, *sandbox])
        yield launched
        launched.close()
