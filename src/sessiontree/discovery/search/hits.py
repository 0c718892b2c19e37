"""The values that a search returns."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from datetime import datetime

import msgspec

from sessiontree.discovery.listing import SessionInfo
from sessiontree.profiles import DEFAULT_PROFILE, PROFILE_NAMES


class SearchHit(msgspec.Struct, frozen=True):
    """A session with the words, and the message that shows them best.

    ``snippet`` is one line of the message's text; ``marks`` are the ranges of the words in it. If
    the session's name shows them best, ``role`` is ``name``, and there is no entry id and no time.
    """

    session: SessionInfo
    entry_id: str
    role: str
    time: datetime | None
    snippet: str
    marks: tuple[tuple[int, int], ...]
    score: float
    profile: str

    @property
    def path(self) -> str:
        return self.session.path

    @property
    def resume_command(self) -> str:
        """Return a shell command that resumes the session from any folder, in its own agent."""
        if self.profile not in PROFILE_NAMES:
            from sessiontree.discovery.adapters import get_adapter

            session = self.session
            spelled = get_adapter(self.profile).spell_resume(self.path, session.id, session.cwd)
            return spelled or shlex.join(["sessiontree", "import", self.path])
        command = ["sessiontree"]
        if self.profile != DEFAULT_PROFILE:
            command += ["--profile", self.profile]
        return shlex.join([*command, "--resume", self.path])


class IndexProgress(msgspec.Struct, frozen=True):
    """The number of sessions to search, and of those that the index holds."""

    done: int
    total: int

    @property
    def is_complete(self) -> bool:
        return self.done >= self.total


class SearchResults(list[SearchHit]):
    """Hits, best first, and the state of the index.

    ``total`` is the number of sessions that match, shown or not; None if telling would mean reading
    them all. While ``indexing`` is not complete, part of the answer came from reading files:
    ``update_search_index`` makes the next one quick.
    """

    def __init__(self, hits: Iterable[SearchHit] = ()) -> None:
        super().__init__(hits)
        self.total: int | None = len(self)
        self.indexing = IndexProgress(0, 0)

    @property
    def is_indexing(self) -> bool:
        return not self.indexing.is_complete
