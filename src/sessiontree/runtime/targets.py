"""Where a live session can be moved to, each with the question that is asked before.

Owns what differs between resuming, starting anew, forking and branching. How a move is made is
`switching`'s business.
"""

from __future__ import annotations

from sessiontree.runtime import events
from sessiontree.runtime.restoring import default_thinking
from sessiontree.runtime.state import Wiring
from sessiontree.runtime.switching import Announce, Move, Target


def resume(wiring: Wiring, path: str) -> Move:
    """The session in a file."""
    return Move(
        events.SessionBeforeSwitch("resume", path),
        Target(
            lambda: wiring.source.open(path, wiring.manager),
            _told("resume"),
            default_thinking(wiring),
            wiring.source.discard,
        ),
    )


def start_new(wiring: Wiring, parent_session: str | None) -> Move:
    """A new session that goes on with the present model and thinking level."""
    return Move(
        events.SessionBeforeSwitch("new"),
        Target(
            lambda: wiring.source.start_new(wiring.manager, parent_session),
            _told("new"),
            wiring.agent.thinking_level,
            wiring.source.discard,
            names_model=True,
        ),
    )


def fork(wiring: Wiring) -> Move:
    """A copy of the present session."""
    return Move(
        events.SessionBeforeSwitch("fork"),
        Target(
            lambda: wiring.source.fork(wiring.manager),
            _told("fork"),
            default_thinking(wiring),
            wiring.source.discard_copy,
        ),
    )


def copy(wiring: Wiring, path: str) -> Move:
    """A copy of the session in a file, in the present project."""
    return Move(
        events.SessionBeforeSwitch("fork", path),
        Target(
            lambda: wiring.source.copy(path, wiring.manager),
            _told("fork"),
            default_thinking(wiring),
            wiring.source.discard_copy,
        ),
    )


def branch(wiring: Wiring, entry_id: str, leaf_id: str | None) -> Move:
    """A new session with just the path to ``leaf_id``, the entry before the prompt ``entry_id``."""
    return Move(
        events.SessionBeforeBranch(entry_id),
        Target(
            lambda: wiring.source.branch(wiring.manager, leaf_id),
            events.SessionBranch,
            wiring.agent.thinking_level,
            wiring.source.discard_copy,
            names_model=leaf_id is None,
        ),
    )


def _told(reason: events.SwitchReason) -> Announce:
    return lambda old, new: events.SessionSwitch(reason, old, new)
