"""Where a session belongs. Knows no session: it is handed from whoever chooses to whoever makes."""

from __future__ import annotations

from dataclasses import dataclass

from sessiontree.clock import Clock, now_ms
from sessiontree.profiles import Profile
from sessiontree.storage.base import SessionStorage


@dataclass(frozen=True, slots=True)
class Place:
    """Profile, storage, folder, and the clock a session lives by."""

    profile: Profile
    storage: SessionStorage
    cwd: str
    session_dir: str
    has_explicit_dir: bool = False
    clock: Clock = now_ms
