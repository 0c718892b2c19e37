"""Background threads for pickers, which the program may abandon when it ends.

The threads are daemons: leaving a picker must not wait for a listing of ten thousand files. So this
work never writes anything that exists only here.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from textual.message_pump import MessagePump

from sessiontree.logs import get_logger

logger = get_logger(__name__)

T = TypeVar("T")


class BackgroundWork:
    """Work in progress. `stop` discards its result; the work may check `is_stopped`."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self.is_done = False

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        self._stopped.set()


def run_in_background(
    owner: MessagePump,
    work: Callable[[BackgroundWork], T],
    then: Callable[[T], Any],
    failed: Callable[[Exception], Any] | None = None,
) -> BackgroundWork:
    """Run ``work`` in a thread, then hand its result to ``then`` on the owner's own task.

    After `stop` neither ``then`` nor ``failed`` is called.
    """
    made = BackgroundWork()
    loop = asyncio.get_running_loop()

    def tell(callback: Callable[..., Any], *args: Any) -> None:
        def deliver() -> None:
            made.is_done = True
            if not made.is_stopped:
                owner.call_later(callback, *args)

        try:
            loop.call_soon_threadsafe(deliver)
        except RuntimeError:
            return  # the program has ended meanwhile

    def run() -> None:
        try:
            result = work(made)
        except Exception as error:
            if failed is None:
                logger.exception("background work failed")
            else:
                tell(failed, error)
            return
        tell(then, result)

    threading.Thread(target=run, name="sessiontree-picker", daemon=True).start()
    return made


def tell_from_thread(
    owner: MessagePump,
    loop: asyncio.AbstractEventLoop,
    work: BackgroundWork,
    callback: Callable[..., Any],
    *args: Any,
) -> None:
    """Call back from the work's thread on the owner's task, unless the work was stopped."""

    def deliver() -> None:
        if not work.is_stopped:
            owner.call_later(callback, *args)

    try:
        loop.call_soon_threadsafe(deliver)
    except RuntimeError:
        return
