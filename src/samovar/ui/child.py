"""Processes that read results for the page. A file that is damaged, endless or cut while it is read ends one of these,
never the server; and what they import, such as torch, is not in the server's memory. Knows no pages.

    server ── (name of a function, arguments) ──▶ child        over pipes, as pickles: both ends are ours
    server ◀── ("ok", answer) or ("error", …) ──  child
"""

import importlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from samovar.errors import SamovarError, UserError

START_SECONDS = 600.0
ASK_SECONDS = 60.0


class ReadFailed(SamovarError):
    """A result could not be read, or not in time."""


class WrongRequest(UserError, ValueError):
    """What was asked for does not exist, or cannot be answered."""


class Pipe(NamedTuple):
    """Both directions to another process."""

    inward: Connection
    outward: Connection


class Child:
    """A process that runs `function(pipe, *arguments)` of this room, and ends when we close our end or die.

    Args:
        function: `module:name` in `samovar.ui`.
        arguments: Texts.
    """

    def __init__(self, function: str, *arguments: str) -> None:
        # -P: the folder where the page was started may hold a `json.py` that is not ours.
        command = [sys.executable, "-P", "-m", "samovar.ui.child", function, *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        outward = Connection(os.dup(self._process.stdin.fileno()), readable=False)
        inward = Connection(os.dup(self._process.stdout.fileno()), writable=False)
        self._process.stdin.close()
        self._process.stdout.close()
        self.pipe = Pipe(inward, outward)

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> None:
        """End it at once. It writes nothing that could be left behind."""
        self._process.kill()
        self._process.wait()
        self.pipe.inward.close()
        self.pipe.outward.close()


def serve(function: str, arguments: list[str]) -> None:
    """What a child process runs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is meant for the server, which then closes the pipe
    inward, outward = Connection(os.dup(0), writable=False), Connection(os.dup(1), readable=False)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what a library prints must not get into the answers
    try:
        find_function(function)(Pipe(inward, outward), *arguments)
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the server is gone


def find_function(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(f"samovar.ui.{module}"), attribute)
    return found


def answer_questions(pipe: Pipe, root: str) -> None:
    """Answer one question after another, in the folder of the page."""
    importlib.import_module("samovar.ui.answers")
    pipe.outward.send(("ready", None))  # from here on the time of an answer counts
    while True:
        name, arguments = pipe.inward.recv()
        try:
            os.chdir(root)  # each time: the folder may have been removed and made again
            answer = ("ok", find_function(name)(*arguments))
        except SamovarError as error:
            answer = ("wrong" if isinstance(error, UserError) else "failed", str(error))
        except Exception as error:
            answer = ("failed", f"{type(error).__name__}: {error}")
        pipe.outward.send(answer)


class Readers:
    """A few child processes that answer questions. They start with the first one, and again when they die.

    Args:
        root: The folder of the page.
        count: How many questions are answered at a time.
        seconds: How long an answer may take; then the process is ended.
    """

    def __init__(self, root: Path, count: int = 2, seconds: float = ASK_SECONDS) -> None:
        self._root = root
        self._seconds = seconds
        self._free: queue.SimpleQueue[Child | None] = queue.SimpleQueue()
        for _ in range(count):
            self._free.put(None)
        self._lock = threading.Lock()
        self._children: set[Child] = set()
        self._is_closed = False

    def ask(self, name: str, *arguments: Any, seconds: float | None = None) -> Any:
        """What `name(*arguments)` of this room returns.

        Raises:
            WrongRequest: The function raised a user error.
            ReadFailed: It raised another error, took too long, or its process died.
        """
        with self._borrowed() as child:
            try:
                child.pipe.outward.send((name, arguments))
                if not child.pipe.inward.poll(self._seconds if seconds is None else seconds):
                    self._discard(child)
                    raise ReadFailed(f"reading takes longer than {self._seconds if seconds is None else seconds:g} s")
                kind, answer = child.pipe.inward.recv()
            except (EOFError, OSError) as error:
                self._discard(child)
                raise ReadFailed("the process that read it died; is a file being cut or changed in place?") from error
        if kind == "ok":
            return answer
        raise (WrongRequest if kind == "wrong" else ReadFailed)(answer)

    @contextmanager
    def _borrowed(self) -> Iterator[Child]:
        child = self._free.get()
        try:
            if child is None or child not in self._children:
                try:
                    child = self._start()
                except (EOFError, OSError) as error:
                    raise ReadFailed("a process that reads died while it started") from error
            yield child
        finally:
            self._free.put(child if child in self._children else None)

    def _start(self) -> Child:
        with self._lock:
            if self._is_closed:
                raise ReadFailed("the page is closing")
            child = Child("child:answer_questions", str(self._root))
            self._children.add(child)
        if child.pipe.inward.poll(START_SECONDS):
            child.pipe.inward.recv()
            return child
        self._discard(child)
        raise ReadFailed(f"a process that reads did not start within {START_SECONDS:g} s")

    def _discard(self, child: Child) -> None:
        with self._lock:
            if child in self._children:
                self._children.remove(child)
                child.end()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            while self._children:
                self._children.pop().end()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
