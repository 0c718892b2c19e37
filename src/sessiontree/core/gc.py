"""Say when Python's garbage collector looks for cycles: not while a large structure is built."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")
_OBJECTS_OF_A_COMMAND = 50_000
_usual = gc.get_threshold()


def collect_rarely() -> None:
    """Let a short command collect rarely: what it loads and lists stays until it ends.

    A collector that looks through that every 700 objects takes a tenth of the command's time.
    """
    gc.set_threshold(_OBJECTS_OF_A_COMMAND, *_usual[1:])


def collect_as_usual() -> None:
    """Let what runs for long, such as a server, collect as Python does: it leaves cycles behind."""
    gc.set_threshold(*_usual)


def pass_over_what_is_loaded() -> None:
    """Keep the collector away from everything made so far, such as the modules of a screen.

    They stay until the program ends, and looking through them takes 10 ms.
    """
    gc.freeze()


def with_paused_gc(build: Callable[_P, _T]) -> Callable[_P, _T]:
    """Keep the collector from walking a large structure again and again while it is built.

    What was built counts as old afterwards: freezing and thawing moves it there without a walk. A
    program that has frozen objects of its own keeps them frozen. The collector is enabled again
    even if Ctrl-C comes; with a ``with`` block, Ctrl-C could prevent that.
    """

    @functools.wraps(build)
    def paused(*args: _P.args, **options: _P.kwargs) -> _T:
        if not gc.isenabled():
            return build(*args, **options)
        has_frozen = gc.get_freeze_count() > 0
        try:
            return build_paused(*args, **options)
        except BaseException:
            if not has_frozen:
                gc.unfreeze()
            gc.enable()
            raise

    def build_paused(*args: _P.args, **options: _P.kwargs) -> _T:
        gc.disable()
        try:
            return build(*args, **options)
        finally:
            if gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
            gc.enable()

    return paused
