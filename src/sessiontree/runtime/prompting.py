"""One prompt from beginning to end: the run, retries, compaction, queued messages.

Owns when the conversation is compacted around a run, the one retry after an overflow, and what is
done with messages that stayed in the queues.
"""

from __future__ import annotations

from collections.abc import Sequence

from sessiontree.errors import SessionTreeError
from sessiontree.logs import get_logger
from sessiontree.runtime import compacting
from sessiontree.runtime.agent import AgentBusyError
from sessiontree.runtime.events import Message
from sessiontree.runtime.state import Wiring

logger = get_logger(__name__)


async def run_prompt(wiring: Wiring, message: Message) -> None:
    """Ask the agent, and return when it has nothing left to do. Raises AgentBusyError."""
    async with wiring.operating.hold("a prompt"):
        if wiring.agent.is_running:
            raise AgentBusyError
        await _catch_up(wiring)
        if await compacting.is_over_threshold(wiring):
            await compacting.compact_by_itself(wiring, "threshold")
        due: Sequence[Message] = [*wiring.next_turn.clear(), message]
        epoch, aborts = wiring.epoch, wiring.aborts
    # Nothing is awaited between here and the agent's first step, so nothing can come in between.
    has_retried = False
    while True:
        await wiring.agent.prompt(due)
        async with wiring.operating.hold("the end of a run"):
            if wiring.epoch != epoch or wiring.agent.is_running:
                return
            await _catch_up(wiring)
            if wiring.aborts != aborts:
                return
            if compacting.is_overflow(wiring) and not has_retried:
                has_retried = True
                if not await compacting.compact_by_itself(wiring, "overflow", will_retry=True):
                    return
                compacting.drop_failed_answer(wiring)
                due = []
            else:
                if await compacting.is_over_threshold(wiring):
                    await compacting.compact_by_itself(wiring, "threshold")
                due = _take_leftovers(wiring) if wiring.aborts == aborts else []
                if not due:
                    return
            epoch = wiring.epoch


async def _catch_up(wiring: Wiring) -> None:
    """Save what can be saved, and read what others wrote, so that session and agent agree."""
    recording = wiring.recording
    recording.take_rest(wiring.agent.messages, wiring.mask)
    if recording.take_deferred():
        wiring.is_stale = True
    if recording.pending:
        if wiring.is_failing:
            try:
                await wiring.recover()
            except SessionTreeError as error:
                logger.info("still unsaved: %s", error)
        else:
            await wiring.save()
    if wiring.is_stale and not recording.pending:
        await wiring.refresh()


def _take_leftovers(wiring: Wiring) -> list[Message]:
    """Take messages that still wait after the run: queued too late, or ignored by the agent."""
    messages = wiring.agent.messages
    if messages and messages[-1].get("stopReason") in ("aborted", "error"):
        return []
    return wiring.agent.steering.take() or wiring.agent.follow_ups.take()
