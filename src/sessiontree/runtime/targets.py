"""The targets of a move, each with the hook that is asked before it.

Describes how resuming, starting a new session, forking and branching differ. `switching` makes the
move.
"""

from __future__ import annotations

from sessiontree.runtime import events
from sessiontree.runtime.restoring import default_thinking
from sessiontree.runtime.state import Wiring
from sessiontree.runtime.switching import Announce, Move, Target


def resume(wiring: Wiring, path: str) -> Move:
    """Resume the session in a file."""
    return Move(
        events.SessionBeforeSwitch("resume", path),
        Target(
            lambda: wiring.source.open(path, wiring.manager),
            _announce_as("resume"),
            default_thinking(wiring),
            wiring.source.discard,
        ),
    )


def start_new(wiring: Wiring, parent_session: str | None) -> Move:
    """Start a new session with the present model and thinking level."""
    return Move(
        events.SessionBeforeSwitch("new"),
        Target(
            lambda: wiring.source.start_new(wiring.manager, parent_session),
            _announce_as("new"),
            wiring.agent.thinking_level,
            wiring.source.discard,
            names_model=True,
        ),
    )


def fork(wiring: Wiring) -> Move:
    """Fork the present session."""
    return Move(
        events.SessionBeforeSwitch("fork"),
        Target(
            lambda: wiring.source.fork(wiring.manager),
            _announce_as("fork"),
            default_thinking(wiring),
            wiring.source.discard_copy,
        ),
    )


def copy(wiring: Wiring, path: str) -> Move:
    """Copy the session in a file into the present project."""
    return Move(
        events.SessionBeforeSwitch("fork", path),
        Target(
            lambda: wiring.source.copy(path, wiring.manager),
            _announce_as("fork"),
            default_thinking(wiring),
            wiring.source.discard_copy,
        ),
    )


def branch(wiring: Wiring, entry_id: str, leaf_id: str | None) -> Move:
    """Branch into a new session with the path to ``leaf_id``, the entry before ``entry_id``."""
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


def _announce_as(reason: events.SwitchReason) -> Announce:
    return lambda old, new: events.SessionSwitch(reason, old, new)
