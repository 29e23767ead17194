"""Requests to stop, and the command that continues. How whole commands end is in tests/cli/test_interrupts.py."""

import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from samovar.signals import NUMBERS, StopRequest, how_to_continue


def test_a_request_that_arrives_twice_counts_once() -> None:
    request = StopRequest()
    assert not request.wait(0)
    assert [request.ask("SIGTERM"), request.ask("SIGTERM")] == [True, False]
    assert request.wait(3600)
    assert (request.count, request.reason) == (1, "SIGTERM")


def test_earlier_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in NUMBERS]
    request = StopRequest()
    with request.asking():
        os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), StopRequest().interrupting():
        os.kill(os.getpid(), signal.SIGTERM)
    assert request.reason == "SIGTERM"
    assert [signal.getsignal(number) for number in NUMBERS] == before


class Stubborn:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_that_python_ignores_is_raised_again() -> None:
    def lose_it() -> None:
        Stubborn()
        signal.pause()

    with pytest.raises(KeyboardInterrupt), StopRequest().interrupting():
        lose_it()


def test_an_interrupt_leaves_no_lock_taken() -> None:
    """The signal comes inside `Condition.__enter__`, when its lock is taken and no `with` would give it back."""
    left: list[bool] = []
    lock = SimpleNamespace(acquire=None, release=None, __exit__=lambda *_: left.append(True))
    lock.__enter__ = partial(signal.raise_signal, signal.SIGINT)

    def work() -> None:
        with threading.Condition(lock):  # type: ignore[arg-type]  # all that it needs of a lock
            pass
        while True:
            pass

    with pytest.raises(KeyboardInterrupt), StopRequest().interrupting():
        work()
    assert left


def test_a_thread_that_waits_for_another_can_be_interrupted() -> None:
    signal_soon = threading.Timer(0.01, os.kill, [os.getpid(), signal.SIGINT])

    def wait() -> None:
        signal_soon.start()
        threading.Event().wait()

    with pytest.raises(KeyboardInterrupt), StopRequest().interrupting():
        wait()
    signal_soon.join()


def test_a_thread_other_than_the_main_one_changes_no_handlers() -> None:
    before = [signal.getsignal(number) for number in NUMBERS]
    inside: list[object] = []

    def work() -> None:
        with StopRequest().interrupting():
            inside.extend(signal.getsignal(number) for number in NUMBERS)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == before


def test_the_command_to_continue_can_be_pasted_into_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "samovar"
    program.touch(mode=0o755)
    words = ["train", "a b.json", "--conf", '{"x": 1}']
    monkeypatch.setattr(sys, "argv", [str(program), *words])
    typed = """train 'a b.json' --conf '{"x": 1}'"""
    assert how_to_continue() == f"to continue: {program} {typed}"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert how_to_continue() == f"to continue: samovar {typed}"
    monkeypatch.setattr(sys, "argv", ["/somewhere/samovar/__main__.py", *words])
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "samovar", *words])
    assert how_to_continue() == f"to continue: python -m samovar {typed}"
