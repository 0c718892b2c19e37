"""Give the whole conversation of a session to another agent.

Owns the list of what an agent takes over from the one before. The new agent is made ready first and
put in its place last, so that a failure leaves the old one at work.
"""

from __future__ import annotations

from sessiontree.runtime import events
from sessiontree.runtime.agent import Agent, AgentBusyError
from sessiontree.runtime.models import Model, clamp_thinking
from sessiontree.runtime.restoring import default_thinking
from sessiontree.runtime.state import Wiring


async def replace_agent(wiring: Wiring, agent: Agent, model: Model | None) -> None:
    """Put ``agent`` in the present one's place, with ``model`` or else its own.

    Raises AgentBusyError during a run, PersistenceError; then nothing has changed.
    """
    async with wiring.operating.hold("changing the agent", waits_for_agent=True):
        old = wiring.agent
        if old.is_running:
            raise AgentBusyError
        chosen = model or agent.model
        before = old.thinking_level
        agent.model = chosen
        agent.thinking_level = level = clamp_thinking(_wanted_level(wiring), chosen)
        _hand_over(old, agent)
        if chosen is not None:
            await wiring.disk.run(wiring.manager.append_model_change, chosen.ref)
        is_attached = wiring.is_attached
        wiring.detach()
        wiring.agent = agent
        wiring.model_fallback = None
        if is_attached:
            wiring.attach()
        if level != before:
            await wiring.disk.run(wiring.manager.append_thinking_level_change, level)
    if chosen is not None:
        await wiring.emit(events.ModelChanged(chosen.ref))
    if level != before:
        await wiring.emit(events.ThinkingLevelChanged(level, level))


def _hand_over(old: Agent, agent: Agent) -> None:
    agent.session_id = old.session_id
    agent.cwd = old.cwd
    agent.mode = old.mode
    agent.replace_messages(list(old.messages))
    agent.steering.restore(old.steering.snapshot())
    agent.follow_ups.restore(old.follow_ups.snapshot())


def _wanted_level(wiring: Wiring) -> str:
    """The present level; the default if the model had no choice, because the user chose none."""
    model = wiring.agent.model
    has_choice = model is not None and len(model.thinking_levels) > 1
    return wiring.agent.thinking_level if has_choice else default_thinking(wiring)
