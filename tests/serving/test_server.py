"""The endpoint answers what `predict` writes, names what is wrong, counts what it does, and ends without losing anyone
that waits.
"""

import json
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.serving.clients import Client, Server, as_rows, serving
from tests.training.rows import COLUMNS, SCRIPT, make_frame

import samovar
from samovar.results import open_directory
from samovar.scoring.bundle import read_parts
from samovar.scoring.frozen import FrozenModel

QUIET: dict[str, Any] = {"num_threads": 1, "progress": False}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve")
    (folder / "model.py").write_text(SCRIPT)
    columns = {name: role for name, role in COLUMNS.items() if name != "hit"}
    table = samovar.brew(make_frame(), folder / "table", time="time", columns=columns, batch_size=50, progress=False)
    samovar.train(
        folder / "model.py",
        table,
        targets=["clicked"],
        model={"ttl": 1},
        model_dir=folder / "model",
        pipeline="online",
        **QUIET,
    )
    samovar.export(folder / "model", folder / "click")
    return folder


@pytest.fixture(scope="module")
def expected(place: Path) -> Any:
    return samovar.load(place / "model").predict(make_frame())


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[Server]:
    with serving(place / "click") as found:
        yield found


def rows_of(frame: Any) -> list[dict[str, Any]]:
    return as_rows(frame.drop(columns=["time", "clicked", "hit"]))


def test_requests_of_any_size_give_the_bits_of_predict(server: Server, expected: Any) -> None:
    frame = make_frame()
    rows, client = rows_of(frame), server.client()
    random = np.random.default_rng(1)
    for size in (1, 2, 31, 32, 33, 300):
        chosen = random.permutation(len(rows))[:size]
        found, answer = client.score([rows[row] for row in chosen])
        assert found.tobytes() == expected[chosen].tobytes()
        assert (answer["model_hour"], answer["version"]) == ("2024-05-01T05:00", 1)
        table = pa.Table.from_pandas(frame.iloc[chosen], preserve_index=False)
        assert client.score_arrow(table).tobytes() == expected[chosen].tobytes()
    assert client.post({"rows": []}) == (200, {**answer, "predictions": {"prediction": []}})


@pytest.mark.long
def test_a_hundred_thousand_rows_give_the_bits_of_predict(place: Path, server: Server, tmp_path: Path) -> None:
    frame = make_frame(100_000, seed=7)
    frame["user"] = np.resize(make_frame()["user"].array, len(frame))  # ids that training knows
    columns = {name: role for name, role in COLUMNS.items() if name != "hit"}
    table = samovar.brew(frame, tmp_path / "table", columns=columns, batch_size=1000, progress=False)
    expected = samovar.predict(place / "model", table, tmp_path / "out").predictions()["prediction"].to_numpy()
    bundle = samovar.load(place / "click")
    assert bundle.predict(frame).tobytes() == samovar.load(place / "model").predict(frame).tobytes()
    scores = bundle.predict(table)
    assert scores.tobytes() == expected.tobytes()
    offline = bundle.predict(frame)
    rows, client, random = rows_of(frame), server.client(), np.random.default_rng(2)
    order = random.permutation(len(rows))
    done = 0
    while done < len(rows):
        chosen = order[done : done + int(random.integers(1, 301))]
        assert client.score([rows[row] for row in chosen])[0].tobytes() == offline[chosen].tobytes()
        arrow = pa.Table.from_pandas(frame.iloc[chosen], preserve_index=False)
        assert client.score_arrow(arrow).tobytes() == offline[chosen].tobytes()
        done += len(chosen)


@pytest.mark.parametrize("change", ["none", "an option", "the ttl"])
def test_scores_would_differ_with_another_option_or_ttl(place: Path, expected: Any, change: str) -> None:
    directory = open_directory(place / "click")
    program, signature, tree = read_parts(directory.store, "", directory.inventory())
    if change == "an option":
        title = next(column for column in signature.inputs if column.name == "title")
        fewer = replace(title, converter={**(title.converter or {}), "words": 1})
        inputs = tuple(fewer if column is title else column for column in signature.inputs)
        signature = replace(signature, inputs=inputs)
    if change == "the ttl":
        (path,) = program.embeddings
        plan = program.embeddings[path]
        shorter = replace(plan, ttl={name: ttl - 1 for name, ttl in plan.ttl.items() if ttl is not None})
        program = replace(program, embeddings={path: shorter})
    found = FrozenModel(program, signature, tree, "bundle").model().predict(make_frame())
    assert (found.tobytes() == expected.tobytes()) == (change == "none")


def test_shared_values_belong_to_every_row(server: Server) -> None:
    client = server.client()
    rows = [{"user": 5, "ad": ad, "price": 2.5} for ad in ("hat", "shoes", None)]
    one, _ = client.score(rows)
    _, answer = client.post({"shared": {"user": 5, "price": 2.5}, "rows": [{"ad": row["ad"]} for row in rows]})
    assert np.asarray(answer["predictions"]["prediction"], np.float32).tobytes() == one.tobytes()


@pytest.mark.parametrize(
    ("document", "status", "message", "place_of_error"),
    [
        ({"rows": [{"user": 1}, {"user": "x"}]}, 400, "'x' does not fit", (1, "user")),
        ({"rows": [{"user": 1}, {"usr": 1}]}, 400, "no column 'usr'. Did you mean 'user'", (1, "usr")),
        ({"rows": [{"price": 1}, {"price": "much"}]}, 400, "price", (1, "price")),
        ({"rows": [{"vector": [1, 2]}]}, 400, "vector", (0, "vector")),
        ({"rows": [{"user": [1]}]}, 400, "column 'user'", (None, "user")),
        ({"rows": 5}, 400, "the request must be", (None, None)),
        ({"rows": [1]}, 400, "row 0: must be an object", (0, None)),
        ({"rwos": []}, 400, "the request must be", (None, None)),
        ({"rows": [], "share": {}}, 400, "Did you mean 'shared'", (None, None)),
        ([], 400, "the request must be", (None, None)),
    ],
)
def test_a_bad_request_is_told_its_row_and_column(
    server: Server, document: Any, status: int, message: str, place_of_error: tuple[int | None, str | None]
) -> None:
    found, answer = server.client().post(document)
    assert found == status
    assert message in answer["error"]["message"]
    assert (answer["error"].get("row"), answer["error"].get("column")) == place_of_error


def test_hostile_bodies_get_an_error(server: Server) -> None:
    client = server.client()
    for body in (
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"rows": [{"user": 1e999}]}',
        b'{"rows": [{"user": ' + b"9" * 400,
    ):
        status, data = client.send("POST", "/score", body)
        assert status == 400, data
        assert json.loads(data)["error"]["message"]
    status, data = client.send("POST", "/score", b"junk" * 9, Content_Type="application/vnd.apache.arrow.stream")
    assert (status, b"not an Arrow stream" in data) == (400, True)
    assert client.send("GET", "/score")[0] == 405
    assert client.send("GET", "/nothing")[0] == 404
    assert client.send("POST", "/score", b"x" * (33 << 20))[0] == 413
    assert server.client().score([{"user": 1}])[0].shape == (1,)


def test_one_bad_request_does_not_fail_those_that_wait_with_it(server: Server, expected: Any) -> None:
    rows = rows_of(make_frame())
    outcomes: Counter[int] = Counter()
    wrong: list[int] = []

    def ask(number: int) -> None:
        client = server.client()
        for row in range(number, 200, 8):
            if row % 5 == 0:
                outcomes[client.post({"rows": [{"user": "x"}]})[0]] += 1
                continue
            found, _ = client.score(rows[row : row + 3])
            outcomes[200] += 1
            if found.tobytes() != expected[row : row + 3].tobytes():
                wrong.append(row)

    run_together(ask, 8)
    assert (outcomes, wrong) == ({200: 160, 400: 40}, [])


def run_together(work: Any, count: int) -> None:
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_the_model_and_the_server_describe_themselves(server: Server) -> None:
    client = server.client()
    _, signature = client.get("/signature")
    assert signature["columns"] == ["user", "ad", "tags", "title", "history", "price", "vector"]
    assert signature["outputs"] == [{"name": "", "shape": [], "dtype": "float32"}]
    assert client.get("/v2/health/live") == (200, {"live": True})
    assert client.get("/v2/health/ready") == (200, {"ready": True})
    assert client.get("/v2/models/click/ready") == (200, {"ready": True})
    status, model = client.get("/v2/models/click")
    assert (status, model["name"], model["outputs"]) == (
        200,
        "click",
        [{"name": "prediction", "datatype": "FP32", "shape": [-1]}],
    )
    assert client.get("/v2/models/other")[0] == 404


def test_metrics_agree_with_the_client(place: Path) -> None:
    rows = rows_of(make_frame())
    with serving(place / "click", "--token", "secret") as server:
        assert server.client().post({"rows": []})[0] == 401
        assert server.client("other").get("/signature")[0] == 401
        assert server.client().get("/v2/health/ready")[0] == 200
        client = server.client("secret")
        sizes = [1, 5, 40]
        for size in sizes:
            client.score(rows[:size])
        assert client.post({"rows": [{"user": "x"}]})[0] == 400
        metrics = client.metrics()
        assert metrics['samovar_requests_total{status="200"}'] == len(sizes)
        assert metrics['samovar_requests_total{status="400"}'] == 1
        assert metrics["samovar_rows_total"] == sum(sizes)
        assert metrics["samovar_forwards_total"] == len(sizes)
        assert metrics["samovar_request_seconds_count"] == len(sizes) + 1
        assert metrics['samovar_request_seconds_bucket{le="+Inf"}'] == len(sizes) + 1
        before = metrics['samovar_lookup_misses_total{table="ad"}']
        client.score([{"ad": "never seen"}])
        assert client.metrics()['samovar_lookup_misses_total{table="ad"}'] == before + 1
        assert server.stop() == 0


def test_sigterm_under_load_resets_no_connection(place: Path) -> None:
    rows = rows_of(make_frame())[:20]
    answered: Counter[str] = Counter()
    with serving(place / "click") as server:
        started = threading.Barrier(5)

        def ask(number: int) -> None:
            client = server.client()
            client.score(rows)
            started.wait()
            while not client.was_closed:  # as a balancer does, it goes elsewhere when it is asked to
                client.score(rows)
                answered["good"] += 1

        def stop() -> None:
            started.wait()
            server.process.terminate()

        stopping = threading.Thread(target=stop)
        stopping.start()
        run_together(ask, 4)
        stopping.join()
        assert server.process.wait(60) == 0
        assert answered["good"] >= 4
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""


def test_what_cannot_be_served_is_refused(place: Path, tmp_path: Path) -> None:
    def refusal(*arguments: str) -> str:
        command = [sys.executable, "-m", "samovar", "serve", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 2
        return done.stderr

    model = str(place / "model")
    assert f"samovar export {model} {model}_bundle" in refusal(model)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "Address already in use" in refusal(str(place / "click"), "--port", str(taken.getsockname()[1]))


def test_a_client_that_leaves_harms_nobody(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as left:
        left.sendall(b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    assert isinstance(server.client(), Client)
    assert server.client().score([{"user": 1}])[0].shape == (1,)
