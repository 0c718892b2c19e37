"""Pause Python's garbage collector while building large structures."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


def with_paused_gc(build: Callable[_P, _T]) -> Callable[_P, _T]:
    """Keep the collector from walking a large structure again and again while it is built.

    What was built counts as old afterwards: freezing and thawing moves it there without a walk.
    A program that has frozen objects of its own keeps them frozen. The collector goes on whenever
    Ctrl-C comes: a ``with`` block could be left without its exit.
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
