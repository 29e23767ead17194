"""The life of a stage: what is refused before it starts, what a failure leaves, and what remains at the end."""

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.commands import samovar
from tests.stages.toys import NUMBERS, TOTAL, make_chain, run, run_well, write_stage
from tests.training.toys import make_hours, write_table
from tests.waiting import wait_until

from samovar.config.identity import PLACE_KEYS
from samovar.provenance.auditing import audit
from samovar.provenance.contract import compare, contract_of
from samovar.provenance.verify import ChildExit, run_in_child, start_child
from samovar.results import open_directory
from samovar.stages.stage import make_stage
from samovar.testing.disks import CountingDisk, KillingDisk
from samovar.training.request import make_request

NAPPING = """
import os, signal
from pathlib import Path

def main(params, out):
    (out / "half.txt").write_text("half")
    (out / "folder").mkdir()
    if os.environ.get("NAP"):
        Path(os.environ["NAP"]).touch()
        signal.pause()
    (out / "whole.txt").write_text("whole")
"""


@pytest.fixture
def folder(quick_path: Path) -> Path:
    write_stage(quick_path, "numbers", NUMBERS, {"count": 3})
    write_stage(quick_path, "total", TOTAL, {"source": "numbers"})
    return quick_path


def test_a_missing_source_is_reported_before_anything_is_created(folder: Path) -> None:
    ended = run(folder, "total")
    assert ended.code == 2
    assert f"source: {folder}/numbers does not exist" in ended.output
    assert not (folder / "total").exists()


def test_an_unfinished_source_is_reported_with_its_state(folder: Path) -> None:
    (folder / "numbers.py").write_text(NUMBERS + "    raise RuntimeError('no tea')\n")
    assert run(folder, "numbers").code == 1
    status = open_directory(folder / "numbers").status
    assert status is not None
    assert (status.state, status.error) == ("failed", {"type": "RuntimeError", "message": "no tea"})
    ended = run(folder, "total")
    assert ended.code == 2
    assert f"source: {folder}/numbers is not finished (failed)" in ended.output
    assert not (folder / "total").exists()


def test_a_circle_of_sources_is_reported_with_its_path(quick_path: Path) -> None:
    make_chain(quick_path)
    shutil.rmtree(quick_path / "numbers")
    ended = run(quick_path, "total", conf={"source": "total"}, out="numbers")
    assert ended.code == 2
    assert f"source: {quick_path}/total was itself made from {quick_path}/numbers" in ended.output
    assert f"→ {quick_path}/total → {quick_path}/numbers)" in ended.output
    assert not (quick_path / "numbers").exists()


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("{count: 4}", "--conf, line 1"),
        ('{"count.deep": 4}', "cannot set 'count.deep', because 'count' is 3"),
        ('{"source": 3}', "source: expected the path of a result directory, got 3 (an integer)"),
        ('{"num_threads": 0}', "num_threads must be an integer of at least 1, got 0"),
    ],
)
def test_a_bad_override_is_one_message_and_creates_nothing(folder: Path, override: str, expected: str) -> None:
    ended = run(folder, "numbers", conf=override)
    assert ended.code == 2
    assert ended.output.startswith("error: ")
    assert expected in ended.output
    assert not (folder / "numbers").exists()


def test_a_duplicate_key_in_a_config_is_reported(folder: Path) -> None:
    (folder / "numbers.json").write_text('{"count": 3,\n "count": 4}')
    ended = run(folder, "numbers")
    assert ended.code == 2
    assert "duplicate key 'count'" in ended.output
    assert not (folder / "numbers").exists()


def test_a_directory_that_holds_other_files_is_left_alone(folder: Path) -> None:
    (folder / "numbers").mkdir()
    (folder / "numbers/mine.txt").write_text("mine")
    ended = run(folder, "numbers")
    assert ended.code == 2
    assert "files that Samovar did not make" in ended.output
    assert [path.name for path in (folder / "numbers").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("script", "expected"),
    [("x = 1", "no function main(params, out)"), ("def main(params:", "numbers.py, line 1: syntax error: ")],
)
def test_a_script_that_cannot_be_used_creates_nothing(folder: Path, script: str, expected: str) -> None:
    write_stage(folder, "numbers", script, {})
    assert expected in run(folder, "numbers").output
    assert not (folder / "numbers").exists()


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("import sys\nsys.exit(0)", "the script called sys.exit(0)"),
        ("def main(params, out):\n    exit()", "main called"),
    ],
)
def test_a_script_that_exits_has_failed(folder: Path, script: str, what: str) -> None:
    write_stage(folder, "numbers", script, {})
    ended = run(folder, "numbers")
    assert ended.code == 1
    assert f"{folder}/numbers.py: {what}" in ended.output
    assert not (folder / "numbers").exists() or open_directory(folder / "numbers").condition == "failed"


def test_the_warning_for_an_unread_key_suggests_the_nearest_one(folder: Path) -> None:
    (folder / "numbers.py").write_text(NUMBERS + "    fist = 1\n")
    assert "did not read fist. Did you mean 'first'?" in run_well(folder, "numbers", conf={"fist": 5})


def test_a_table_is_a_source_as_well(folder: Path) -> None:
    write_table(folder / "clicks", make_hours([2, 1]))
    script = (
        "import samovar\n"
        "def main(params, out):\n"
        "    (out / 'rows').write_text(str(samovar.open_table(out.source('table').path).num_minibatches))\n"
    )
    write_stage(folder, "count", script, {"table": "clicks"})
    run_well(folder, "count")
    assert (folder / "count/files/rows").read_text() == "3"
    (link,) = open_directory(folder / "count").chain()
    assert (link.source.key, link.source.version, link.state) == ("table", 1, "live")


def test_a_stage_killed_at_any_disk_operation_ends_with_the_same_bytes(folder: Path) -> None:
    run_well(folder, "numbers", out="straight")
    expected = contract_of(folder / "straight")
    request = make_request(
        folder / "numbers.json", folder / "numbers.py", out=folder / "killed", directory_keys=PLACE_KEYS["run"]
    )

    def run_on(disk: CountingDisk) -> ChildExit:
        def work() -> None:
            make_stage(replace(request, disk=disk))
            print(disk.points)

        return run_in_child(work, folder / "log")

    for point in range(1, int(run_on(CountingDisk()).output) + 1, 7):
        shutil.rmtree(folder / "killed")
        assert run_on(KillingDisk(point)).was_killed
        run_well(folder, "numbers", out="killed")
        assert compare(expected, contract_of(folder / "killed")) == []
        assert audit(folder / "killed").differences == []


def test_a_key_that_was_not_read_is_a_warning_unless_it_is_retired(folder: Path) -> None:
    script = NUMBERS + "    if False:\n        params.seldom\n    params.retired('ancient')\n"
    write_stage(folder, "numbers", script, {"count": 1, "seldom": 1, "ancient": 1})
    assert run_well(folder, "numbers").splitlines() == [
        "warning: the script did not read seldom",
        "numbers: finished",
    ]


def test_a_default_that_changed_since_an_earlier_run_stops_the_new_one(folder: Path) -> None:
    run_well(folder, "numbers")
    (folder / "numbers.py").write_text(NUMBERS.replace('"first", 1', '"first", 2'))
    ended = run(folder, "numbers", out="again")
    assert ended.code == 2
    assert f"{folder}/numbers ran the same config with other defaults" in ended.output
    assert "the default of first changed: 1 → 2" in ended.output
    assert not (folder / "again").exists()
    run_well(folder, "numbers", out="given", conf={"first": 1})  # a value in the config overrides any default
    run_well(folder, "numbers", out="other", conf={"count": 4})  # a new config has no earlier run
    assert "the default of first changed: 1 → 2" in run_well(folder, "numbers", out="again", is_accepted=True)
    assert "changed" not in run_well(folder, "numbers", out="third")  # the newest earlier run has the new default


def test_a_computed_default_is_compared_after_the_run(folder: Path) -> None:
    (folder / "numbers.py").write_text(NUMBERS.replace('"first", 1', '"first", len("a")'))
    run_well(folder, "numbers")
    (folder / "numbers.py").write_text(NUMBERS.replace('"first", 1', '"first", len("ab")'))
    assert "warning: the default of first changed: 1 → 2" in run_well(folder, "numbers", out="again")


def test_a_killed_stage_starts_over_with_nothing_of_the_old_attempt(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_stage(folder, "nap", NAPPING, {})
    request = make_request(folder / "nap.json", folder / "nap.py", directory_keys=PLACE_KEYS["run"])
    monkeypatch.setenv("NAP", str(folder / "asleep"))
    child = start_child(lambda: make_stage(request), folder / "log")
    wait_until((folder / "asleep").exists, "the stage sleeps")
    assert "is in use by process" in run(folder, "nap").output
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait().was_killed
    assert (folder / "nap/files/half.txt").exists()
    monkeypatch.delenv("NAP")
    run_well(folder, "nap")
    inventory = open_directory(folder / "nap").inventory()
    assert {"files/half.txt", "files/whole.txt"} <= inventory.keys()


def test_a_stage_that_lost_its_directory_stops_writing(folder: Path) -> None:
    """As after a pause that is longer than its lease."""
    script = (
        "from samovar.store import LocalStore\n"
        "def main(params, out):\n"
        "    out / 'fine'\n"
        "    store = LocalStore(out.path.parent)\n"
        "    attributes = store.attributes()\n"
        "    lease = {**attributes.values['lease'], 'epoch': attributes.values['lease']['epoch'] + 1}\n"
        "    store.set_attributes('', lease=lease)\n"
        "    out / 'late'\n"
    )
    write_stage(folder, "late", script, {})
    ended = run(folder, "late")
    assert ended.code == 1
    assert "took over the lease" in ended.output
    assert not open_directory(folder / "late").is_finished


def test_a_fixed_script_is_accepted_and_the_old_one_kept(folder: Path) -> None:
    (folder / "numbers.py").write_text(NUMBERS + "    raise RuntimeError('no tea')\n")
    assert run(folder, "numbers").code == 1
    (folder / "numbers.py").write_text(NUMBERS)
    assert "the code changed before the first snapshot: script.py; the old code is kept" in run_well(folder, "numbers")
    assert "no tea" in (folder / "numbers/script.1.py").read_text()
    assert (folder / "numbers/script.py").read_text() == NUMBERS


def test_local_modules_are_kept_and_their_keys_are_known(folder: Path) -> None:
    (folder / "toy_adder.py").write_text("def add(params, x):\n    return x + params.get('plus', 1)\n")
    script = "import toy_adder\ndef main(params, out):\n    (out / 'x').write_text(str(toy_adder.add(params, 1)))\n"
    write_stage(folder, "added", script, {"plus": 5})
    run_well(folder, "added")
    assert (folder / "added/files/x").read_text() == "6"
    assert (folder / "added/all_files/toy_adder.py").exists()


def test_several_sources_are_opened_by_name(quick_path: Path) -> None:
    make_chain(quick_path)
    script = (
        "def main(params, out):\n"
        "    names = [out.source(name).path.name for name in ('a', 'b')]\n"
        "    (out / 'names').write_text(' '.join(names))\n"
    )
    write_stage(quick_path, "both", script, {"source": {"a": "numbers", "b": "total"}})
    run_well(quick_path, "both")
    assert (quick_path / "both/files/names").read_text() == "numbers total"
    assert [source.key for source in open_directory(quick_path / "both").lineage.sources] == ["source.a", "source.b"]
    listed = script.replace("'a'", "'numbers'").replace("'b'", "'totl'")
    write_stage(quick_path, "listed", listed, {"source": ["numbers", "total"]})
    ended = run(quick_path, "listed")
    assert ended.code == 2
    assert "no source 'totl'. Did you mean 'total'? Available: numbers, total" in ended.output


def test_a_source_that_only_moved_is_the_same_source(quick_path: Path) -> None:
    make_chain(quick_path)
    write_stage(quick_path, "two", TOTAL.replace("'data'", "'numbers'"), {"source": ["numbers", "total"]})
    (quick_path / "two.py").write_text("def main(params, out):\n    pass\n")
    run_well(quick_path, "two")
    (quick_path / "numbers").rename(quick_path / "moved")
    output = run_well(quick_path, "two", conf={"source": ["moved", "total"]})
    assert "two: finished already" in output


def test_the_same_seed_draws_the_same_numbers(folder: Path) -> None:
    script = (
        "import random, numpy, torch\n"
        "def main(params, out):\n"
        "    drawn = (random.random(), float(numpy.random.rand()), float(torch.rand(1)))\n"
        "    (out / 'drawn').write_text(repr(drawn))\n"
    )
    write_stage(folder, "draw", script, {})
    for out, seed in (("a", 0), ("b", 0), ("c", 1)):
        run_well(folder, "draw", out=out, conf={"seed": seed})
    a, b, c = ((folder / out / "files/drawn").read_text() for out in "abc")
    assert a == b != c


def test_a_symbolic_link_in_the_files_is_refused(folder: Path) -> None:
    write_stage(folder, "link", "def main(params, out):\n    (out / 'x').symlink_to('/etc/hosts')\n", {})
    ended = run(folder, "link")
    assert ended.code == 2
    assert "is a symbolic link" in ended.output


def test_out_log_writes_the_metrics_log(folder: Path) -> None:
    script = "import numpy\ndef main(params, out):\n    out.log(epoch=0, loss=numpy.float32(0.5), bad=float('nan'))\n"
    write_stage(folder, "log", script, {})
    run_well(folder, "log")
    line = json.loads((folder / "log/logs/metrics.jsonl").read_text())
    assert line == {"kind": "train", "uri": 0, "epoch": 0, "loss": 0.5, "bad": None}


def test_output_of_a_script_does_not_mix_with_json_output(folder: Path) -> None:
    body = "    subprocess.run(['echo', 'hot'])\n    os.write(1, b'water')\n"
    write_stage(folder, "loud", f"import os, subprocess\ndef main(params, out):\n{body}", {})
    done = samovar("run", folder / "loud.py", "-c", folder / "loud.json", "--json")
    assert json.loads(done.stdout)["was_finished"] is False
    assert "hot\nwater" in done.stderr


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"files": "*.py", "checksum": 1}, "checksum: expected true or false, got 1 (an integer)"),
        ({"files": "*.py", "checksum": "true"}, "checksum: expected true or false, got 'true' (a string)"),
        ({"files": 5}, "files: expected a path or pattern, or a list of them, got 5 (an integer)"),
        ({"files": []}, "files: expected a path or pattern, or a list of them, got [] (a list)"),
    ],
)
def test_a_wrong_value_for_raw_files_is_reported(folder: Path, config: dict[str, object], message: str) -> None:
    write_stage(folder, "raw", "def main(params, out):\n    pass\n", config)
    ended = run(folder, "raw")
    assert ended.code == 2
    assert message in ended.output
    assert not (folder / "raw").exists()


def test_the_command_line_runs_a_stage_once(folder: Path) -> None:
    command = ("run", folder / "numbers.py", "-c", folder / "numbers.json", "--out", folder / "there")
    done = samovar(*command)
    assert (done.returncode, done.stdout) == (0, f"{folder}/there: finished\n"), done.stderr
    again = samovar(*command)
    assert (again.returncode, again.stdout) == (0, f"{folder}/there: already finished, nothing to do\n")
