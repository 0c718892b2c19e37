"""Restore a session's model, thinking level and mode: steps 12 to 14 of docs/switching.md.

Used alike at start-up, on a switch and when moving in the tree. Owns the choice when the session
names nothing, or something that is gone. Raises what the agent, a mode or the disk raises; undoing
is the caller's business.
"""

from __future__ import annotations

from sessiontree.core.context import DEFAULT_ROLE, SessionContext
from sessiontree.runtime import events
from sessiontree.runtime.models import Model, clamp_thinking
from sessiontree.runtime.state import Wiring
from sessiontree.session.manager import SessionManager


def restore_model(wiring: Wiring, context: SessionContext) -> None:
    """The session's default model if the registry has it; else the present one, told as such."""
    wanted = context.models.get(DEFAULT_ROLE)
    if wanted is None:
        wiring.model_fallback = None
        return
    found = wiring.models.resolve(wanted, current=wiring.agent.model)
    wiring.agent.model = found.model
    wiring.model_fallback = None
    if found.reason is not None:
        used = found.model.ref if found.model else None
        wiring.model_fallback = events.ModelFallback(wanted, used, found.reason)


async def restore_thinking(wiring: Wiring, context: SessionContext, default: str) -> None:
    """The session's thinking level; if it has none, ``default``, which is then written into it."""
    model = wiring.agent.model
    if await wiring.disk.run(names_thinking, wiring.manager):
        wiring.agent.thinking_level = clamp_thinking(context.thinking_level, model)
        return
    level = clamp_thinking(default, model)
    wiring.agent.thinking_level = level
    await wiring.disk.run(wiring.manager.append_thinking_level_change, level)


async def restore_mode(wiring: Wiring, context: SessionContext) -> None:
    """The session's mode; one that this program doesn't know is kept as unavailable."""
    await wiring.mode.change(context.mode, context.mode_data)
    wiring.agent.mode = context.mode


def default_thinking(wiring: Wiring) -> str:
    """The level for sessions that name none."""
    return wiring.settings.default_thinking or wiring.models.default_thinking


def default_model(wiring: Wiring) -> Model | None:
    """The model for sessions that name none."""
    return wiring.models.resolve(wiring.settings.default_model).model


def names_thinking(manager: SessionManager) -> bool:
    """Whether the session says at its leaf how much to think."""
    if manager.leaf_id is None:
        return False
    return any(entry.type == "thinking_level_change" for entry in manager.get_branch())
