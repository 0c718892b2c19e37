"""The chat's state, updated from a live session's events. Pure: no widget, no clock of its own.

Holds the conversation on screen and the state around it: whether the agent works and on what, the
queue, the cost. Events only change values here; the chat reads them when it draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sessiontree.core.usage import usage_of
from sessiontree.runtime import events
from sessiontree.runtime.events import Message, SessionEvent
from sessiontree.tui.chat.todos import Todo, said_todos
from sessiontree.tui.transcript.blocks import Conversation


@dataclass(slots=True)
class Narrator:
    """Update the chat's state from events."""

    clock: Callable[[], float]
    conversation: Conversation = field(default_factory=Conversation)
    running_since: float | None = None
    """When the agent began to work; None while it is idle."""
    activity: str = ""
    """The agent's present activity, in a word or two."""
    retry: events.ModelRetry | None = None
    """The latest failed call of the model, until the next one answers."""
    _retry_at: float = 0.0
    steering: tuple[str, ...] = ()
    queued: tuple[str, ...] = ()
    cost: float = 0.0
    """The cost since the footer's figures were read."""
    unsaved: int = 0
    notices: list[tuple[str, bool]] = field(default_factory=list)
    """Notices to show once, each with whether it reports a problem."""
    todos: list[Todo] | None = None
    """The list that the agent has just written, until it is shown."""
    called_off: str | None = None
    """The reason that a hook gave for cancelling the last move."""
    needs_reload: bool = False
    """Whether the conversation changed as a whole, so that the chat must read it again."""
    is_changed: bool = False
    has_new_figures: bool = False
    _entry_ids: dict[int, str] = field(default_factory=dict)
    _held: list[SessionEvent] | None = None

    @property
    def doing(self) -> str:
        """The activity; while a failed call waits for its next attempt, with the reason."""
        again = self.retry
        if again is None:
            return self.activity
        left = math.ceil(self._retry_at - self.clock())
        when = f" in {left} s" if left > 0 else ""
        attempt = f"attempt {again.attempt} of {again.attempts}{when}"
        return f"{self.activity or 'Waiting'} · {attempt} · {again.reason}"

    # -- replacing the conversation --------------------------------------------------------------

    def hold(self) -> None:
        """Keep events while the conversation is read again."""
        self._held = []
        self.needs_reload = False

    def install(self, conversation: Conversation, known: frozenset[str]) -> None:
        """Show this conversation, which holds the ``known`` entries, then apply the kept events.

        A command that the user is running stays in it.
        """
        conversation.blocks += [
            block
            for block in self.conversation.blocks
            if block.kind == "command" and block.status == "running"
        ]
        self.conversation = conversation
        self.is_changed = True
        held, self._held = self._held or [], None
        for event in held:
            if not self._is_known(event, known):
                self.hear(event)

    def release(self) -> None:
        """Keep the old conversation and apply the kept events: reading failed."""
        held, self._held = self._held or [], None
        for event in held:
            self.hear(event)

    def _is_known(self, event: SessionEvent, known: frozenset[str]) -> bool:
        match event:
            case events.MessageStart(message) | events.MessageEnd(message):
                return self._entry_ids.get(id(message)) in known
            case events.MessageUpdate(message, _):
                return self._entry_ids.get(id(message)) in known
            case _:
                return False

    # -- hearing ---------------------------------------------------------------------------------

    def hear(self, event: SessionEvent) -> None:
        """Apply one event."""
        if isinstance(event, events.MessageSaved):
            self._entry_ids[id(event.message)] = event.entry_id
        if self._held is not None:
            self._held.append(event)
            return
        self.is_changed = True
        match event:
            case events.AgentStart():
                self.running_since = self.clock()
                self.activity = "Waiting for the model"
                self.retry = None
                self._entry_ids.clear()
            case events.AgentEnd():
                self.retry = None
                self.running_since = None
                self.activity = ""
                self.conversation.stop_waiting()
                self.has_new_figures = True
            case events.TurnStart():
                self.activity = "Waiting for the model"
            case events.MessageStart(message):
                if message.get("role") == "assistant":
                    self.conversation.begin_answer()
            case events.MessageUpdate(message, delta):
                self.activity = "Thinking" if delta.kind == "thinking" else "Answering"
                self.retry = None
                self.conversation.update_answer(message)
            case events.MessageEnd(message):
                self._end_message(message)
            case events.MessageSaved(entry_id, message):
                self.conversation.note_saved(message, entry_id)
                if message.get("role") == "bashExecution":
                    self._show_command(message, entry_id)
            case events.ModelRetry(wait_s=wait_s):
                self.retry, self._retry_at = event, self.clock() + wait_s
            case events.ToolStart(_, tool_name, _):
                self.activity = f"Running {tool_name}"
            case events.ToolUpdate(call_id, _, partial):
                self.conversation.update_tool(call_id, partial)
            case events.ToolEnd(call_id, _, result, _):
                self.conversation.end_tool(call_id, result)
                said = said_todos(result)
                self.todos = self.todos if said is None else said
            case _:
                self._hear_notice(event)

    def _end_message(self, message: Message) -> None:
        match message.get("role"):
            case "assistant":
                self.retry = None
                self.conversation.end_answer(message, self._entry_ids.get(id(message)))
                used = usage_of(message)
                if used is not None:
                    self.cost += used.cost
                self.has_new_figures = True
            case "toolResult":
                pass  # ToolEnd has shown it already
            case _:
                self.conversation.add_message(message, self._entry_ids.get(id(message)))

    def _show_command(self, message: Message, entry_id: str) -> None:
        """Replace the running command's block by the recorded one."""
        for block in reversed(self.conversation.blocks):
            if block.kind == "command" and block.entry_id is None:
                if block.title == message.get("command"):
                    block.entry_id = entry_id
                return

    def _hear_notice(self, event: Any) -> None:
        match event:
            case events.QueueChanged(steering, follow_up, next_turn):
                self.steering = tuple(map(_words, steering))
                self.queued = tuple(map(_words, (*follow_up, *next_turn)))
            case events.CalledOff(reason):
                self.called_off = reason
            case events.SessionReplaced():
                self.needs_reload = True
                self.has_new_figures = True
            case events.CompactionStart(reason):
                why = {"threshold": " (the context is nearly full)", "overflow": " (it overflowed)"}
                self.running_since = self.running_since or self.clock()
                self.activity = f"Compacting{why.get(reason, '')}"
            case events.CompactionEnd(_, entry_id, error, will_retry):
                self.retry = None
                if not will_retry:
                    self.running_since, self.activity = None, ""
                if entry_id is not None:
                    self.needs_reload = True
                elif error:
                    self.notices.append((error, True))
            case events.PersistenceFailed(error, pending):
                self.unsaved = pending
                self.notices.append((f"Not saved: {error}", True))
            case events.PersistenceRestored():
                self.unsaved = 0
                self.notices.append(("Everything is saved again", False))
            case events.ModelFallback(wanted, used, _):
                instead = f"using {used}" if used else "no model is left"
                self.notices.append((f"Model {wanted} is not available: {instead}", True))
            case events.ThinkingLevelChanged(level, requested) if level != requested:
                self.notices.append((f"This model thinks at most: {level}", False))
                self.has_new_figures = True
            case _:
                self.has_new_figures = True


def _words(message: Message) -> str:
    from sessiontree.model.messages import text_of

    return text_of(message.get("content"))
