"""A real standalone cluster of Spark for tests and benchmarks: a master and workers from the pyspark package, on
loopback. Needs Java."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

_HOME = Path(pyspark.__file__).parent
_DEPLOY = "org.apache.spark.deploy"


@dataclass(frozen=True)
class Cluster:
    master: str
    page: str
    """The master's page, whose JSON lists workers and applications."""
    folder: Path
    workers: tuple[subprocess.Popen[bytes], ...]

    @property
    def conf(self) -> dict[str, str]:
        """What a session needs on a machine without a network."""
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
        }

    def status(self) -> dict[str, object]:
        with urllib.request.urlopen(f"{self.page}/json/", timeout=10) as answer:
            found: dict[str, object] = json.load(answer)
        return found


@contextmanager
def start_cluster(
    folder: Path,
    num_workers: int = 2,
    memory: str = "1g",
    python_path: str | None = None,
    in_child: Callable[[], None] | None = None,
) -> Iterator[Cluster]:
    """Start a cluster whose workers have one core each. Logs and what executors leave are in `folder`; `python_path` is
    where executors find modules besides the installed ones; `in_child` is called in each new process."""
    started: list[subprocess.Popen[bytes]] = []
    environment = {
        **os.environ,
        "SPARK_HOME": str(_HOME),
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "128m",
        "PYSPARK_PYTHON": sys.executable,
        **({} if python_path is None else {"PYTHONPATH": python_path}),
    }

    def start(name: str, host: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (folder / f"{name}.log").open("wb") as log:
            command = [str(_HOME / "bin/spark-class"), *arguments]
            variables = {**environment, "SPARK_LOCAL_IP": host}
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env=variables, start_new_session=True, preexec_fn=in_child
            )
        started.append(process)
        return process

    host, port, page = "127.0.0.1", _free_port(), _free_port()
    master = f"spark://{host}:{port}"
    try:
        start("master", host, f"{_DEPLOY}.master.Master", "-h", host, "-p", str(port), "--webui-port", str(page))
        # Each has an address of its own: Spark runs no task twice on one machine.
        hosts = [f"127.0.0.{number}" for number in range(2, 2 + num_workers)]
        workers = tuple(
            start(
                f"worker{each}", each, f"{_DEPLOY}.worker.Worker", "-h", each, "-c", "1", "-m", memory,
                "--webui-port", "0", "-d", str(folder / f"worker{each}"), master,
            )
            for each in hosts
        )  # fmt: skip
        cluster = Cluster(master, f"http://127.0.0.1:{page}", folder, workers)
        _wait_for_workers(cluster, num_workers)
        yield cluster
    finally:
        for process in reversed(started):
            _signal_all(process, signal.SIGTERM)
        for process in started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            _signal_all(process, signal.SIGKILL)
            process.wait()


def _signal_all(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Spark's command is a script that starts Java; a signal to the script alone may leave Java behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _wait_for_workers(cluster: Cluster, num_workers: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            if cluster.status()["aliveworkers"] == num_workers:
                return
        except (OSError, ValueError):  # it does not listen yet, or has no answer yet
            pass
        time.sleep(0.1)
    logs = "\n".join(path.read_text()[-2000:] for path in cluster.folder.glob("*.log"))
    raise TimeoutError(f"the cluster has no {num_workers} workers:\n{logs}")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
