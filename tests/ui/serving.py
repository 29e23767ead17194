"""A real `samovar ui` in a process of its own, on a free port, and requests to it as any program could send them."""

import http.client
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import wait_until

from samovar.ui.security import Secrets


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode()


@dataclass(frozen=True)
class Served:
    port: int
    token: str
    pid: int

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def secrets(self) -> Secrets:
        return Secrets(self.token)

    @property
    def cookie(self) -> str:
        return f"{self.secrets.cookie_name}={self.secrets.cookie}"

    def ask(
        self,
        target: str,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "GET",
        body: bytes = b"",
        with_cookie: bool = True,
    ) -> Answer:
        """Send a request target as it is: no client of ours cleans it up."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        given = {
            "Host": f"127.0.0.1:{self.port}",
            **({"Cookie": self.cookie} if with_cookie else {}),
            **(headers or {}),
        }
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in {**given, "Content-Length": str(len(body))}.items():
                if value:
                    connection.putheader(name, value)
            connection.endheaders(body)
            found = connection.getresponse()
            return Answer(found.status, {name.lower(): value for name, value in found.getheaders()}, found.read())
        finally:
            connection.close()


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Served]:
    """The page of a folder, once it has read all of it."""
    command = [sys.executable, "-m", "samovar", "ui", str(folder), "--no-browser", "--port", "0", *options]
    environment = {name: value for name, value in os.environ.items() if name != "SAMOVAR_DB"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", process.stdout.readline())
        assert found is not None
        served = Served(int(found[1]), found[2], process.pid)
        wait_until(lambda: "Reading the folder" not in served.ask("/").text, "the folder is read")
        yield served
    finally:
        process.terminate()
        assert process.wait() == 0
        assert process.stdout is not None
        process.stdout.close()
