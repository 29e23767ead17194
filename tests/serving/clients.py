"""Servers in processes of their own, and clients that keep a connection."""

import http.client
import json
import os
import re
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

ARROW = "application/vnd.apache.arrow.stream"


@dataclass
class Server:
    """A running `samovar serve`."""

    process: "subprocess.Popen[str]"
    port: int
    clients: list["Client"] = field(default_factory=list)

    def client(self, token: str | None = None) -> "Client":
        """A new connection, closed with the server."""
        self.clients.append(Client(self.port, token))
        return self.clients[-1]

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def serving(place: Path, *options: str) -> Iterator[Server]:
    """A server on a free port, until the block ends."""
    command = [sys.executable, "-m", "samovar", "serve", str(place), "--port", "0", *options]
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        server = None
        try:
            server = Server(process, _wait_for_port(process))
            yield server
        finally:
            for client in server.clients if server is not None else ():
                client.close()
            if process.poll() is None:
                process.kill()


def _wait_for_port(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    assert process.stderr is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        assert selector.select(300), "the server does not start"
    line = process.stdout.readline()
    found = re.search(r":(\d+)$", line.strip())
    assert found is not None, line + process.stderr.read()
    return int(found[1])


class Client:
    """One connection, reopened when the server closes it."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.was_closed = False

    def close(self) -> None:
        self._connection.close()

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, path, body, {**self._headers, **named})
        response = self._connection.getresponse()
        data = response.read()
        self.was_closed = response.getheader("connection") == "close"
        return response.status, data

    def post(self, document: Any) -> tuple[int, Any]:
        status, data = self.send("POST", "/score", json.dumps(document))
        return status, json.loads(data)

    def get(self, path: str) -> tuple[int, Any]:
        status, data = self.send("GET", path)
        return status, json.loads(data)

    def score(self, rows: list[dict[str, Any]]) -> tuple[Any, dict[str, Any]]:
        """Scores of rows as JSON, and the whole answer."""
        status, answer = self.post({"rows": rows})
        assert status == 200, answer
        return np.asarray(answer["predictions"]["prediction"], np.float32), answer

    def score_arrow(self, table: pa.Table) -> Any:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        status, data = self.send("POST", "/score", sink.getvalue().to_pybytes(), Content_Type=ARROW, Accept=ARROW)
        assert status == 200, data
        return pa.ipc.open_stream(data).read_all()["prediction"].to_numpy()

    def metrics(self) -> Mapping[str, float]:
        status, data = self.send("GET", "/metrics")
        assert status == 200
        lines = [line for line in data.decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def as_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame as JSON has them: a missing value is null or left out, a large id a number."""
    rows = []
    for number, row in enumerate(pa.Table.from_pandas(frame, preserve_index=False).to_pylist()):
        known = {name: value for name, value in row.items() if value is not None or number % 2}
        rows.append({name: str(value) if isinstance(value, pd.Timestamp) else value for name, value in known.items()})
    return rows
