"""What a session holds and has cost, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from sessiontree.core.context import iter_messages
from sessiontree.core.usage import MessageCounts, Usage, count_messages, total_usage
from sessiontree.runtime.compacting import estimate_session
from sessiontree.session.manager import SessionManager


@dataclass(frozen=True, slots=True)
class SessionStats:
    """A session in numbers."""

    session_id: str
    session_file: str | None
    session_name: str | None
    messages: MessageCounts
    """Of the present context."""
    usage: Usage
    """Of everything that was ever asked in this session, abandoned branches too."""
    context_tokens: int
    """How full the context is, by estimate."""
    context_window: int


def gather_stats(manager: SessionManager, window: int) -> SessionStats:
    """Count. Reads the whole session; for the disk thread."""
    everything = (message for _, message in iter_messages(manager.get_entries()))
    return SessionStats(
        manager.session_id,
        manager.session_file,
        manager.session_name,
        count_messages(manager.build_session_context().messages),
        total_usage(everything),
        estimate_session(manager).tokens,
        window,
    )
