"""Test helpers for programs that build on Sessiontree: fakes, faults, and contracts.

- ``StorageContract``: subclass it with two fixtures and pytest runs every rule of the storage seam
  against a storage of your own.
- ``StoreContract``: the same for a store, with one fixture.
- ``StoreFaultContract``: what a store keeps when calls fail, with a second fixture, ``faults``.
- ``FaultyStorage``: any storage, with failures where and when a test wants them.
- ``fixed_clock``: time that stands still, or moves by a fixed step.
- ``ScriptedAgent``: an agent that follows a script (imported when it is named).

Production code must not import this package.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sessiontree.testing.contract import StorageContract
from sessiontree.testing.faults import FaultyStorage

if TYPE_CHECKING:
    from sessiontree.testing.scripted_agent import ScriptedAgent as ScriptedAgent
    from sessiontree.testing.store_contract import StoreContract as StoreContract
    from sessiontree.testing.store_faults import StoreFaultContract as StoreFaultContract

__all__ = [
    "FaultyStorage",
    "ScriptedAgent",
    "StorageContract",
    "StoreContract",
    "StoreFaultContract",
    "fixed_clock",
]


def fixed_clock(start_ms: int = 1_771_237_230_000, step_ms: int = 0) -> Callable[[], int]:
    """A clock in Unix milliseconds: ``start_ms`` first, then ``step_ms`` later at each call.

    The default is 2026-02-16T10:20:30.000Z, for ever.
    """
    times = itertools.count(start_ms, step_ms)
    return lambda: next(times)


if not TYPE_CHECKING:  # a type checker that sees it takes every misspelt name for one of ours

    def __getattr__(name: str) -> Any:
        if name == "ScriptedAgent":
            from sessiontree.testing.scripted_agent import ScriptedAgent

            return ScriptedAgent
        if name == "StoreContract":
            from sessiontree.testing.store_contract import StoreContract

            return StoreContract
        if name == "StoreFaultContract":
            from sessiontree.testing.store_faults import StoreFaultContract

            return StoreFaultContract
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
