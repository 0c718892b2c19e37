"""End a command on signals, as Ctrl-C does, while an agent works.

A closed terminal (SIGHUP) or a polite kill (SIGTERM) would otherwise end this process alone: the
commands that the agent has started run in sessions of their own and would go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator

_NAMES = ("SIGTERM", "SIGHUP")


class Ending:
    """The signal that asked for the end, if one did."""

    def __init__(self, stop: Callable[[], object]) -> None:
        self._stop = stop
        self.number: int | None = None

    def meet(self, number: int) -> None:
        """Begin to end; a second signal finds that under way."""
        if self.number is None:
            self.number = number
            self._stop()

    @property
    def exit_code(self) -> int:
        """The exit code that a shell reports for a process that a signal has ended."""
        return 128 + (self.number or 0)


@contextlib.contextmanager
def ending_on_signals(stop: Callable[[], object]) -> Iterator[Ending]:
    """Call ``stop`` on the running loop when a signal asks for the end.

    A signal that is ignored stays so: ``nohup`` means that a closed terminal ends nothing.
    """
    loop = asyncio.get_running_loop()
    ending = Ending(stop)
    caught: list[int] = []
    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is None or signal.getsignal(number) is signal.SIG_IGN:
            continue
        # Not in the main thread, or not on this system: then it ends us as it always did.
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
            loop.add_signal_handler(number, ending.meet, number)
            caught.append(number)
    try:
        yield ending
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
