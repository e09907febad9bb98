"""The command as a process: its streams, the signals that end it, and its exit code."""

import codecs
import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from linstereo.errors import InputError

BAD_INPUT = 2
"""Exit code for bad input; a command ended by a signal has 128 plus its number, as in a shell."""
CLOSED_PIPE = 128 + 13  # SIGPIPE, which not every system has
_IN_WORDS = {"↑": "(higher is better)", "↓": "(lower is better)"}


class SignalledError(BaseException):
    """The process was asked by a signal, such as SIGTERM, to end; like KeyboardInterrupt, no ordinary error."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


def guarded(action: Callable[[], int | None]) -> int:
    """Do what the command line asks for; returns the exit code.

    Bad input, and what the operating system refuses (no such folder, a full disk), is told in one line on stderr.
    Ctrl-C and SIGTERM end the action as an exception does, so that nothing half-written is left.
    """
    _prepare_streams()
    signals = _Signals()
    try:
        with signals.heard():
            try:
                return action() or 0
            finally:
                sys.stdout.flush()
    except BaseException as error:
        if signals.number is not None:  # libraries make other exceptions of the one that the signal raised
            tell(f"ended by {signal.Signals(signals.number).name}")
            return 128 + signals.number
        return _exit_code(error)


def _exit_code(error: BaseException) -> int:
    """Tell what ended the command; what nobody foresaw is raised again."""
    if isinstance(error, SignalledError):
        tell(f"ended by {signal.Signals(error.number).name}")
        return 128 + error.number
    if isinstance(error, KeyboardInterrupt):
        tell("interrupted")
        return 128 + signal.SIGINT
    if isinstance(error, InputError):
        return _refuse(str(error))
    if isinstance(error, MemoryError):
        return _refuse("out of memory; use smaller images, or free memory")
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        if error.filename is not None:
            where = os.fsdecode(error.filename)
            return _refuse(f"cannot use {where}: {reason}; check the path, its permissions and the disk")
        if not _output_fails():
            return _refuse(f"writing failed: {reason}; check the disk")
        _discard_output()
        if isinstance(error, BrokenPipeError):
            return CLOSED_PIPE
        return _refuse(f"cannot write to the standard output: {reason}; redirect it")
    raise error


def tell(sentence: str) -> None:
    """Print one line on stderr, whatever is in it: a name with a newline would pass for two messages."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in sentence)
    with contextlib.suppress(OSError):
        print(f"linstereo: {shown}", file=sys.stderr)


def _refuse(sentence: str) -> int:
    tell(sentence)
    return BAD_INPUT


def _prepare_streams() -> None:
    """Print every character in every encoding; refuse a closed stdout, whose number the next file would get."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 (open for as long as the process lives)
    if sys.stdout is None:
        tell("the standard output is closed; redirect it to a file or to /dev/null")
        sys.exit(BAD_INPUT)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="linstereo")


def _in_words(error: UnicodeError) -> tuple[str, int]:
    """What is printed for characters that an encoding does not have, see `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_IN_WORDS.get(c) or c.encode("ascii", "backslashreplace").decode() for c in missing), error.end


codecs.register_error("linstereo", _in_words)


def _output_fails() -> bool:
    """Whether the standard output takes no more: its reader, such as head, has gone, or its device is full.

    Asked after an `OSError` that does not say where it comes from; so a line is tried.
    """
    try:
        print(flush=True)
    except OSError:
        return True
    return False


def _discard_output() -> None:
    """Send what is still to be written to nowhere, so that the interpreter does not fail at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Signals:
    """Ctrl-C and SIGTERM, which raise `SignalledError`.

    number: of the last one that came; None before.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Listen as long as the block lasts, to those signals that nobody else, such as a test, takes care of."""
        usual: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
        in_charge = threading.current_thread() is threading.main_thread()
        own = [number for number, handler in usual.items() if in_charge and signal.getsignal(number) == handler]
        for number in own:
            signal.signal(number, self._on_signal)
        try:
            yield
        finally:
            for number in own:
                signal.signal(number, usual[number])

    def _on_signal(self, number: int, _frame: object) -> None:
        self.number = number
        raise SignalledError(number)
