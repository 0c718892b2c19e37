"""What the footer says of a live session: gathered where the session may be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessiontree.runtime.compacting import estimate_session
from sessiontree.tui.chat.footer import FooterFacts
from sessiontree.tui.chat.session_reading import Branches, read_branches
from sessiontree.tui.pickers.session_rows import short_path

if TYPE_CHECKING:
    from sessiontree.runtime.agent_session import AgentSession


async def read_cost(session: AgentSession) -> float:
    """What the session has cost so far. Reads all of it: once for each session, not each answer."""
    return (await session.stats()).usage.cost


async def read_figures(session: AgentSession, cost: float, *, is_offline: bool) -> FooterFacts:
    """The facts of this moment."""
    branches = await session.read(read_branches)
    tokens = (await session.read(estimate_session)).tokens
    model = session.model
    return FooterFacts(
        session=session.session_name or f"session {session.session_id[:8]}",
        project=short_path(session.cwd),
        branch=word_branch(branches),
        model=model.display_name if model is not None else "no model",
        is_offline=is_offline,
        thinking=session.thinking_level,
        mode=session.mode.name,
        tokens=tokens,
        window=model.context_window if model is not None else 0,
        cost=cost,
        is_saved=session.manager.is_persisted,
        unsaved=session.unsaved,
    )


def word_branch(branches: Branches) -> str:
    """``branch 2 of 3``, with the nearest label; nothing for a conversation that never parted."""
    words = []
    if branches.total > 1 and branches.current:
        words.append(f"branch {branches.current} of {branches.total}")
    elif not branches.current and not branches.is_empty:
        words.append("a new branch")
    if branches.label:
        words.append(f"[{branches.label}]")
    return " ".join(words)
