"""Where a session belongs. Knows no session: it is handed from whoever chooses to whoever makes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sessiontree.profiles import Profile
from sessiontree.storage.base import SessionStorage

Clock = Callable[[], int]


def now_ms() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Place:
    """Profile, storage, folder, and the clock a session lives by."""

    profile: Profile
    storage: SessionStorage
    cwd: str
    session_dir: str
    has_explicit_dir: bool = False
    clock: Clock = now_ms
