"""`sitecustomize` of a child that opens a stranger's directory: limits its memory, and reports every import, write and
new process that it should not make. Everything is told by the environment.

    GUARD_LOG      the file for reports, one line each
    GUARD_FOREIGN  the stranger's folder: nothing in it may be compiled, imported or run
    GUARD_WRITABLE the only folder that may be written to
"""

import os
import resource
import sys
from typing import Any

_FOREIGN = os.environ["GUARD_FOREIGN"]
_WRITABLE = os.environ["GUARD_WRITABLE"]
_LOG = os.open(os.environ["GUARD_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_HARMLESS = ("/dev/null", "/dev/tty")
_CHANGES = (
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "shutil.rmtree",
)
_PROCESSES = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect")
_MAX_BYTES = 6 << 30


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        path, _, flags = arguments
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            _check_write(event, path)
    elif event in _CHANGES:
        for path in arguments[:2]:
            _check_write(event, path)
    elif event == "exec":
        _check_code(event, getattr(arguments[0], "co_filename", ""))
    elif event == "compile" or event == "import":
        _check_code(event, arguments[1])
    elif event in _PROCESSES and not _is_uname(arguments):
        _report(event, arguments)


def _check_write(event: str, path: object) -> None:
    if not isinstance(path, str | bytes):
        return
    name = os.path.abspath(os.fsdecode(path))
    if not name.startswith(_WRITABLE) and name not in _HARMLESS:
        _report(event, name)


def _check_code(event: str, file: object) -> None:
    name = os.fsdecode(file) if isinstance(file, str | bytes) else ""
    if name and not name.startswith("<") and os.path.abspath(name).startswith(_FOREIGN):
        _report(event, name)


def _is_uname(arguments: tuple[Any, ...]) -> bool:
    """Python's `platform` asks it for the processor; `why` compares environments."""
    return arguments[:1] == ("uname",)


def _report(event: str, what: object) -> None:
    os.write(_LOG, f"{event} {what!r}\n".encode(errors="replace"))


resource.setrlimit(resource.RLIMIT_AS, (_MAX_BYTES, _MAX_BYTES))
sys.addaudithook(watch)
