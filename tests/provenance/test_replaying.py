"""`replay` makes results again: equal, or with the first difference and what changed in the environment."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.commands import samovar
from tests.stages.toys import NUMBERS, copy_example, in_child, make_chain, run, run_well, write_stage
from tests.training.toys import FIRST, HOUR, OFFLINE, ONLINE, SCRIPT, make_hours, make_toy, write_table
from tests.training.toys import run_well as train_well

from samovar.brewing.brew import load_recipe, make_table
from samovar.config import merge, read_config
from samovar.provenance.auditing import audit
from samovar.provenance.replaying import replay
from samovar.provenance.verify import run_in_child
from samovar.results import open_directory
from samovar.training.prediction import PredictRequest, run_prediction
from samovar.training.request import make_request


def replayed(path: Path) -> list[str]:
    """The differences that a replay finds, or the number of files if there are none."""

    def work() -> None:
        sys.dont_write_bytecode = False  # as for most users
        done = replay(path, path.parent / "replayed")
        print(*(done.differences or [f"equal {done.num_files}"]), *done.environment, sep="\n")

    output = in_child(path.parent, work)
    shutil.rmtree(path.parent / "replayed")
    return output.splitlines()


def check_replay(path: Path) -> None:
    assert replayed(path)[0].startswith("equal "), path
    assert audit(path).differences == []


def refusal(path: Path) -> str:
    ended = run_in_child(lambda: replay(path, path.parent / "replayed"), path.parent / "child.log")
    assert ended.code == 2, ended.output
    assert not (path.parent / "replayed").exists()
    return ended.output


def test_every_stage_of_the_example_is_replayed_bit_for_bit(quick_path: Path) -> None:
    folder = copy_example("stages", quick_path)
    subprocess.run([sys.executable, "make_images.py", "images"], cwd=folder, check=True)
    stages = {"data": "make_dataset", "augmentation": "augment", "model": "train", "evaluation": "evaluate",
              "prediction": "predict", "export": "export"}  # fmt: skip
    for name, script in stages.items():
        run_well(folder, name, script=script)
    accuracy = json.loads((folder / "evaluation/files/accuracy.json").read_text())
    assert accuracy["all"] > 0.8
    for name in stages:
        check_replay(folder / name)
    assert len((folder / "model/logs/metrics.jsonl").read_text().splitlines()) == 20
    (folder / "images/disc/0000.pgm").write_bytes(b"P5 12 12 255\n" + bytes(144))
    assert audit(folder / "data").differences == [f"files = {folder}/images/**/*.pgm: disc/0000.pgm changed"]
    assert "disc/0000.pgm changed" in refusal(folder / "data")


def test_the_brewing_example_is_replayed_bit_for_bit(quick_path: Path) -> None:
    folder = copy_example("brewing", quick_path)
    subprocess.run([sys.executable, "make_log.py", "clicks.csv", "3000"], cwd=folder, check=True)
    tree = read_config(folder / "recipe.json")
    make_table(load_recipe(tree, "recipe", folder), folder / "clicks_table")
    check_replay(folder / "clicks_table")


def test_the_click_model_and_its_predictions_are_replayed_bit_for_bit(quick_path: Path) -> None:
    folder = copy_example("click_model", quick_path)
    command = [sys.executable, "make_log.py", "clicks.parquet", "--days", "1", "--rows-per-hour", "60"]
    subprocess.run(command, cwd=folder, check=True)
    tree = read_config(folder / "recipe.json")
    make_table(load_recipe(tree, "recipe", folder), folder / "clicks")
    for name in ("online", "offline"):
        train_well(make_request(folder / f"{name}.json", folder / "script.py", [{"num_threads": 1}]))
        check_replay(folder / f"{name}_model")
    request = PredictRequest(folder / "online_model", folder / "clicks", folder / "predicted", ["hit"], ["clicked"])
    in_child(folder, lambda: run_prediction(request))
    check_replay(folder / "predicted")


def test_a_table_that_grew_is_read_at_the_old_version(quick_path: Path) -> None:
    write_table(quick_path / "clicks", make_hours([2, 1]))
    out = train_well(make_toy(quick_path, OFFLINE))
    write_table(quick_path / "clicks", make_hours([3], first=FIRST + 2 * HOUR, number=10))
    check_replay(out)


def test_a_run_that_depends_on_the_clock_differs_and_the_first_place_is_named(quick_path: Path) -> None:
    script = "import time\ndef main(params, out):\n    (out / 'a.txt').write_text(f'same\\n{time.time()}\\n')\n"
    write_stage(quick_path, "clock", script, {})
    run_well(quick_path, "clock")
    (line,) = replayed(quick_path / "clock")
    assert line.startswith("files/a.txt: differs in line 2: ")


def test_a_model_that_depends_on_the_clock_differs_first_in_its_metrics(quick_path: Path) -> None:
    write_table(quick_path / "clicks", make_hours([2, 1]))
    script = SCRIPT.replace("import torch\n", "import time\nimport torch\n", 1)
    script = script.replace("params.lr,", "params.lr + time.time() % 1000 / 1e4,")
    out = train_well(make_toy(quick_path, ONLINE, script=script))
    lines = replayed(out)
    assert lines[0].startswith("logs/metrics.jsonl: differs in line ")
    assert any(line.startswith("model/arrays.safetensors: differs in the array ") for line in lines)


def test_another_version_of_a_library_is_named(quick_path: Path) -> None:
    make_chain(quick_path)
    path = quick_path / "total/environment.json"
    environment = json.loads(path.read_text())
    now = environment["packages"]["numpy"]
    environment["packages"]["numpy"] = "1.0.0"
    environment["threads"]["torch"] = 64
    path.write_text(json.dumps(environment))
    assert replayed(quick_path / "total") == [
        "equal 1",
        f"numpy: 1.0.0 → {now}",
        f"threads.torch: 64 → {open_directory(quick_path / 'total').config['num_threads']}",
    ]
    assert "environment.json: damaged or changed" in audit(quick_path / "total").differences[0]


def test_a_result_that_cannot_be_replayed_is_refused_with_the_reason(quick_path: Path) -> None:
    make_chain(quick_path)
    shutil.rmtree(quick_path / "numbers")
    assert "numbers is missing" in refusal(quick_path / "total")
    (quick_path / "numbers.py").write_text(NUMBERS + "    1 / 0\n")
    assert run(quick_path, "numbers").code == 1
    assert "not finished (failed)" in refusal(quick_path / "numbers")
    write_table(quick_path / "by_hand", make_hours([1]))
    assert "not finished" in refusal(quick_path / "by_hand")


def test_a_replay_never_overwrites_a_directory(quick_path: Path) -> None:
    make_chain(quick_path)
    ended = run_in_child(lambda: replay(quick_path / "total", quick_path / "numbers"), quick_path / "child.log")
    assert ended.code == 2
    assert "not empty, and results are never overwritten" in ended.output
    kept = samovar("replay", quick_path / "total", "--into", quick_path / "kept")
    assert (kept.returncode, kept.stdout) == (0, f"{quick_path}/total: equal, 1 file compared\n")
    assert open_directory(quick_path / "kept").lineage.kind == "stage:total"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_flights_example_is_replayed_bit_for_bit(quick_path: Path) -> None:
    folder = copy_example("flights", quick_path)
    subprocess.run([sys.executable, "make_log.py", "--until", "2013-01-15"], cwd=folder, check=True)
    tree = read_config(folder / "recipe.json")
    for name, change in (("leaving", {}), ("known", {"time_field": "known"})):
        recipe = merge(tree, change)
        make_table(load_recipe(recipe, "recipe", folder), folder / name)
        check_replay(folder / name)
    check_replay(train_well(make_request(folder / "online.json", folder / "script.py")))
