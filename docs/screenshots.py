"""Takes the pictures of docs/page.md with a real browser, of real runs that it makes in a temporary folder.

python -m docs.screenshots [FOLDER]     (a few minutes; needs Chromium or Chrome)
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright
from tests.ui import everything
from tests.ui.conftest import find_browser
from tests.ui.serving import Served, serving
from tests.ui.test_browser import SLOW

PAGES = Path(__file__).parent / "page"
RATES = (0.02, 0.05, 0.1, 0.2)
SEEDS = (1, 2)
BEST = [("run", f"models/lr{rate}_seed1") for rate in RATES]
SHOTS = {
    "overview": "/",
    "runs": "/runs?where=kind%3Dmodel&sort=-next_hour%2B1h.auc:best&columns=state,lr,seed,next_hour%2B1h.auc:best,"
    "next_hour%2B1h.auc,next_hour%2B1h.log_loss,loss",
    "curves": f"/curves?{urlencode(BEST)}&metric=next_hour%2B1h.auc&metric=loss&smooth=0.7",
    "evaluation": "/evaluation/models/lr0.1_seed1?with=models/lr0.02_seed1",
}
SIZE = {"width": 1180, "height": 640}


def make_results(folder: Path) -> "subprocess.Popen[bytes]":
    """Eight finished trainings of 36 hours, one that failed, one that died, a stale stage, and one that runs."""
    everything.make_sources(folder, num_hours=36, rows_per_hour=300)
    for rate in RATES:
        for seed in SEEDS:
            config = {**everything.online(str(folder / "tables/clicks"), lr=rate, dim=8), "seed": seed}
            path = folder / f"lr{rate}_seed{seed}.json"
            path.write_text(json.dumps(config))
            everything.run("train", path, "--script", folder / "model.py", "--out", folder / f"models/{path.stem}")
    everything.make_failed(folder / "models/lr0.5_seed1", "lower the learning rate")
    everything.make_dead(folder / "models/lr0.4_seed1")
    everything.make_stale(folder)
    (folder / "slow.py").write_text(everything.SCRIPT + SLOW.replace("0.25", "2.0"))
    (folder / "slow.json").write_text(json.dumps(everything.online(str(folder / "tables/clicks"), lr=0.1, dim=16)))
    words = ["train", "slow.json", "--script", "slow.py", "--out", "models/dim16"]
    command = [sys.executable, "-m", "samovar", *words]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def take(browser: Any, served: Served, folder: Path) -> list[Path]:
    taken = []
    for scheme, suffix in (("light", ""), ("dark", ".dark")):
        context = browser.new_context(viewport=SIZE, color_scheme=scheme)
        page = context.new_page()
        page.goto(f"{served.base}/?token={served.token}")
        page.wait_for_url(f"{served.base}/")
        for name, target in SHOTS.items() if scheme == "light" else [("overview", "/")]:
            page.goto(served.base + target)
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(500)  # until the curves are drawn
            taken.append(folder / f"{name}{suffix}.png")
            page.screenshot(path=taken[-1])
        context.close()
    return taken


def main(folder: Path = PAGES) -> list[Path]:
    executable = find_browser()
    if executable is None:
        raise SystemExit("no Chromium or Chrome: install one (apt-get install chromium)")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        results = Path(scratch) / "clicks"
        running = make_results(results)
        try:
            with serving(results) as served:
                while "stale" not in served.ask("/").text or "running" not in served.ask("/").text:
                    time.sleep(0.5)
                sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
                browser = playwright.chromium.launch(executable_path=executable, args=["--disable-gpu", *sandbox])
                taken = take(browser, served, folder)
                browser.close()
        finally:
            running.kill()
            running.wait()
    return taken


if __name__ == "__main__":
    print(*main(*map(Path, sys.argv[1:2])), sep="\n")
