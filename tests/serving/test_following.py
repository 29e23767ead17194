"""A server follows a run that publishes, hour by hour: every answer is that of the hour that it names."""

import shutil
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.serving.clients import serving
from tests.serving.publishing import answers_by_hour, make_place, make_rows, start_training
from tests.waiting import wait_until

import samovar
from samovar.errors import CorruptData, NotAResult
from samovar.results import open_directory
from samovar.results.directory import ResultDirectory
from samovar.results.state import write_state
from samovar.scoring.bundle import WEIGHTS
from samovar.scoring.publication import ATTRIBUTE, check_chain, read_base, read_chain, read_delta
from samovar.scoring.weights import tree_over
from samovar.serving.models import Following, open_models
from samovar.store import LocalStore, MemoryStore

HOURS = 6


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_place(tmp_path_factory.mktemp("publish"), HOURS)


@pytest.fixture(scope="module")
def answers(place: Path) -> dict[str, bytes]:
    return answers_by_hour(place)


@pytest.fixture(scope="module")
def published(place: Path, answers: dict[str, bytes]) -> Path:
    """A finished run that published all its hours."""
    process = start_training(place)
    assert process.wait(300) == 0, process.stderr.read() if process.stderr else ""
    process.communicate()
    return place / "model"


def follow(place: Path, answers: dict[str, bytes], kills: int, seed: int) -> Counter[str]:
    """Send requests all the time while a trainer publishes and is killed. Each hour waits until the one before is
    served. Returns how many requests each hour answered."""
    rows, chance, gate = make_rows(), Random(seed), place / "gate"
    shutil.rmtree(place / "model", ignore_errors=True)
    gate.mkdir()
    hours: Counter[str] = Counter()
    problems: list[object] = []
    is_over = threading.Event()
    (gate / "0").touch()
    trainers = [start_training(place, gate)]
    wait_until(lambda: _is_published(place / "model"), "the first hour is published")
    with serving(place / "model") as server:

        def ask() -> None:
            client = server.client()
            try:
                while not is_over.is_set():
                    found, answer = client.score(rows)
                    hour = answer["model_hour"]
                    hours[hour] += 1
                    if found.tobytes() != answers[hour]:
                        problems.append(hour)
                        return
            except Exception as error:
                problems.append(error)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            killed = set(chance.sample(range(1, len(answers)), kills))
            for number, hour in enumerate(sorted(answers)):
                (gate / str(number)).touch()
                if number in killed:
                    time.sleep(chance.uniform(0, 0.5))
                    trainers[-1].kill()
                    trainers[-1].wait()
                    trainers.append(start_training(place, gate))
                wait_until(lambda hour=hour: hours[hour] > 0 or problems, f"{hour} is served")  # type: ignore[misc]
            assert trainers[-1].wait(600) == 0
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
            for trainer in trainers:
                trainer.kill()
                trainer.communicate()
        assert problems == []
        assert server.client().metrics()['samovar_reloads_total{outcome="failed"}'] == 0
        assert server.stop() == 0
    return hours


def _is_published(model: Path) -> bool:
    try:
        return bool(read_chain(open_directory(model).store))
    except NotAResult:
        return False


def test_a_server_follows_a_trainer_that_is_killed(place: Path, answers: dict[str, bytes]) -> None:
    assert follow(place, answers, kills=1, seed=1).keys() == answers.keys()


@pytest.mark.long
def test_a_server_follows_twenty_hours_of_a_trainer_that_is_killed(tmp_path: Path) -> None:
    place = make_place(tmp_path / "place", 22)
    answers = answers_by_hour(place)
    assert follow(place, answers, kills=6, seed=2).keys() == answers.keys()
    assert len(answers) == 22


def test_base_and_deltas_are_the_export_of_each_hour(place: Path, published: Path, tmp_path: Path) -> None:
    store = open_directory(published).store
    chain = read_chain(store)
    assert chain[0].kind == "base"
    assert chain[-1].uri == HOURS
    samovar.export(published, tmp_path / "bundle")
    program, signature, tree = read_base(store, chain[0])
    for segment in chain[1:]:
        tree = tree_over(tree, read_delta(store, segment), program.embeddings)
    made = MemoryStore()
    write_state(made, WEIGHTS, tree)
    for name in ("state.json", "arrays.safetensors"):
        assert made.read(f"{WEIGHTS}/{name}") == (tmp_path / "bundle" / WEIGHTS / name).read_bytes()
    assert program.to_bytes() == (tmp_path / "bundle/program.json").read_bytes()
    assert signature.to_bytes() == (tmp_path / "bundle/signature.json").read_bytes()


def test_a_follower_that_falls_behind_catches_up(published: Path, answers: dict[str, bytes], tmp_path: Path) -> None:
    """Apply all hours to a copy that knows some of them, in one step and in several."""
    shutil.copytree(published, tmp_path / "model")
    directory = ResultDirectory(LocalStore(tmp_path / "model"))
    whole = directory.store.attributes().values[ATTRIBUTE]
    outcomes: list[bool] = []

    def publish(count: int) -> str:
        directory.store.set_attributes("", **{ATTRIBUTE: whole[:count]})
        return str(whole[count - 1]["hour"])

    def wait_for(hour: str) -> None:
        wait_until(lambda: models.current.hour == hour, f"{hour} is served")

    publish(1)
    models = open_models(directory, outcomes.append)
    assert isinstance(models, Following)
    try:
        models._poll_seconds = 0.01
        (part,) = models.current.model.signature.read_rows(make_rows())
        for count in (1, 2):
            hour = publish(count)
            wait_for(hour)
            with models.use() as served:
                found = np.asarray(served.model.apply(*part), np.float32)
            assert found.tobytes() == answers[hour]
        assert all(outcomes)
        # What cannot be read leaves the model as it is.
        path = next(path for path in whole[-1]["files"] if path.endswith("safetensors"))
        good = (tmp_path / "model" / path).read_bytes()
        (tmp_path / "model" / path).write_bytes(good[:-5])
        publish(len(whole))
        wait_until(lambda: False in outcomes, "the torn delta is found")
        assert models.current.hour == whole[1]["hour"]
        (tmp_path / "model" / path).write_bytes(good)
        wait_for(whole[-1]["hour"])
        with models.use() as served:
            assert np.asarray(served.model.apply(*part), np.float32).tobytes() == answers[whole[-1]["hour"]]
    finally:
        models.close()


@pytest.mark.parametrize("change", ["dropped", "doubled", "reordered", "no base", "edited"])
def test_a_chain_that_is_not_whole_is_refused(published: Path, change: str) -> None:
    chain: list[Any] = list(read_chain(open_directory(published).store))
    assert len(chain) >= 3
    check_chain(chain, "chain")
    changed = {
        "dropped": [chain[0], *chain[2:]],
        "doubled": [*chain[:2], chain[1], *chain[2:]],
        "reordered": [chain[0], chain[2], chain[1]],
        "no base": chain[1:],
        "edited": [chain[0], type(chain[1])(**{**vars(chain[1]), "hour": "2024-05-01T09:00"})],
    }[change]
    with pytest.raises(CorruptData, match=r"does not follow|not what was published"):
        check_chain(changed, "chain")


def test_publishing_changes_no_result(place: Path, published: Path) -> None:
    for name in ("state.json", "arrays.safetensors"):
        assert (published / "model" / name).read_bytes() == (place / "straight/model" / name).read_bytes()
