"""Continue from another place: in the same file (`navigate`), or in a new one (`find_prompt`).

Owns where the leaf goes for a chosen entry, the summary of what is left behind, and the way back
when something fails. New files are made by `switching`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from sessiontree.core.compaction import BranchPlan, plan_branch_summary
from sessiontree.core.context import DEFAULT_ROLE
from sessiontree.errors import EntryNotFoundError, SessionTreeError
from sessiontree.model.entries import Entry
from sessiontree.model.messages import text_of
from sessiontree.runtime import events
from sessiontree.runtime.compacting import Summary, summarise_branch, summary_budget
from sessiontree.runtime.events import Message
from sessiontree.runtime.hooks import Cancel, ProvidedSummary
from sessiontree.runtime.models import clamp_thinking
from sessiontree.runtime.restoring import names_thinking, restore_mode, restore_model
from sessiontree.runtime.state import SummaryCancelled, Wiring
from sessiontree.runtime.switching import Snapshot, emit_replaced
from sessiontree.session.manager import SessionManager
from sessiontree.session.worker import run_to_end


class NotAPromptError(SessionTreeError):
    """Only a user's message can be edited and sent again."""

    def __init__(self, entry_id: str) -> None:
        super().__init__(f"Entry {entry_id} is not a user message")


@dataclass(frozen=True, slots=True)
class Navigation:
    """The end of a move in the tree."""

    is_moved: bool
    """False if a hook or a person called it off, or the leaf was there already."""
    editor_text: str | None = None
    """The text of the chosen prompt, to edit and send again."""
    summary_entry_id: str | None = None
    is_cancelled: bool = False
    reason: str | None = None
    """Why it was called off, if a hook said."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The leaf that a chosen entry leads to, and the text to edit."""

    leaf_id: str | None
    editor_text: str | None


def find_prompt(manager: SessionManager, entry_id: str) -> tuple[str | None, str]:
    """The entry before a user's message, and its text. EntryNotFoundError, NotAPromptError."""
    entry = manager.get_entry(entry_id)
    if entry is None:
        raise EntryNotFoundError(entry_id)
    message = entry.data.get("message")
    if entry.type != "message" or not isinstance(message, dict) or message.get("role") != "user":
        raise NotAPromptError(entry_id)
    return entry.parent_id, text_of(message.get("content"), "\n")


def _place_of(entry: Entry) -> _Place:
    """Before a prompt, so that it can be sent again; at any other entry, to continue from it."""
    if entry.type == "custom_message":
        return _Place(entry.parent_id, text_of(entry.data.get("content"), "\n"))
    if entry.type == "message":
        message = entry.data.get("message")
        if isinstance(message, dict) and message.get("role") == "user":
            return _Place(entry.parent_id, text_of(message.get("content"), "\n"))
    return _Place(entry.id, None)


async def navigate(
    wiring: Wiring, target_id: str, *, summarize: bool, instructions: str | None
) -> Navigation:
    """Move the leaf to ``target_id``, or not at all. EntryNotFoundError."""
    wiring.operating.check("moving in the tree", waits_for_agent=True)
    async with wiring.changing.hold("moving in the tree", waits_for_agent=True):
        budget = summary_budget(wiring)
        place, plan = await wiring.disk.run(_plan, wiring.manager, target_id, budget)
        old_leaf = wiring.manager.leaf_id
        if place.leaf_id == old_leaf:
            return Navigation(False, place.editor_text)
        answer = await wiring.hooks.ask(
            events.SessionBeforeTree(
                target_id, old_leaf, plan.common_ancestor_id, plan.entry_ids, summarize
            )
        )
        if isinstance(answer, Cancel):
            return Navigation(False, is_cancelled=True, reason=answer.reason)
        wiring.cancel_summary()
        provided = answer if isinstance(answer, ProvidedSummary) else None
        async with wiring.operating.hold("moving in the tree", waits_for_agent=True):
            step = _Step(wiring, target_id, summarize, instructions, provided)
            try:
                summary_id = await step.run()
            except SummaryCancelled:
                return Navigation(False, is_cancelled=True)
            await wiring.hooks.emit(
                events.SessionTree(step.old_leaf, wiring.manager.leaf_id, summary_id)
            )
    await emit_replaced(wiring)
    return Navigation(True, place.editor_text, summary_id)


def _plan(manager: SessionManager, target_id: str, budget: int) -> tuple[_Place, BranchPlan]:
    entry = manager.get_entry(target_id)
    if entry is None:
        raise EntryNotFoundError(target_id)
    place = _place_of(entry)
    old = manager.get_branch() if manager.leaf_id is not None else []
    new = manager.get_branch(place.leaf_id) if place.leaf_id is not None else []
    return place, plan_branch_summary(old, new, budget)


class _Step:
    """One move of the leaf, with its way back."""

    def __init__(
        self,
        wiring: Wiring,
        target_id: str,
        summarize: bool,
        instructions: str | None,
        provided: ProvidedSummary | None,
    ) -> None:
        self._wiring = wiring
        self._target_id = target_id
        self._summarize = summarize
        self._instructions = instructions
        self._provided = provided
        self._before = Snapshot.take(wiring)
        self._messages: list[Message] | None = None
        self._taken = 0
        self.old_leaf = wiring.manager.leaf_id

    async def run(self) -> str | None:
        """Move; the summary's entry, if there is one. SummaryCancelled if that was called off."""
        wiring = self._wiring
        try:
            wiring.detach()
            await wiring.stop_agent()
            wiring.clear_queues()
            await wiring.flush()
            # An aborted answer may have been added: what is left behind is known only now.
            self.old_leaf = wiring.manager.leaf_id
            place, plan = await wiring.disk.run(
                _plan, wiring.manager, self._target_id, summary_budget(wiring)
            )
            summary = await self._summary(plan)
            summary_id = await wiring.disk.run(_move_leaf, wiring.manager, place.leaf_id, summary)
            await self._restore()
        except BaseException:
            await run_to_end(asyncio.ensure_future(self._go_back()))
            raise
        return summary_id

    async def _summary(self, plan: BranchPlan) -> Summary | None:
        if not self._summarize or not plan.messages:
            return None
        if self._provided is not None:
            return Summary(self._provided.summary, self._provided.details, from_extension=True)
        work = summarise_branch(self._wiring, plan, self._instructions)
        return await self._wiring.run_summary(work)

    async def _restore(self) -> None:
        """Bring the agent into the state that opening the session at this leaf would give."""
        wiring = self._wiring
        self._messages = list(wiring.agent.messages)
        self._taken = wiring.recording.taken
        context = await wiring.disk.run(wiring.manager.build_session_context)
        wiring.replace_messages(context.messages)
        if context.models.get(DEFAULT_ROLE) is not None:
            restore_model(wiring, context)
        if await wiring.disk.run(names_thinking, wiring.manager):
            level = clamp_thinking(context.thinking_level, wiring.agent.model)
            wiring.agent.thinking_level = level
        await restore_mode(wiring, context)
        wiring.attach()

    async def _go_back(self) -> None:
        wiring = self._wiring
        await wiring.disk.run(self._before.recording.manager.put_leaf_back, self.old_leaf)
        if self._messages is not None:
            self._before.recording.taken = self._taken
        await self._before.put_back(wiring, self._messages)


def _move_leaf(manager: SessionManager, leaf_id: str | None, summary: Summary | None) -> str | None:
    if summary is not None:
        return manager.branch_with_summary(
            leaf_id, summary.text, summary.details, summary.from_extension or None
        )
    _set_leaf(manager, leaf_id)
    return None


def _set_leaf(manager: SessionManager, leaf_id: str | None) -> None:
    if leaf_id is None:
        manager.reset_leaf()
    elif manager.leaf_id != leaf_id:
        manager.branch(leaf_id)
