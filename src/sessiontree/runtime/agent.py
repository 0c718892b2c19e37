"""The protocol that every agent implements: all that a session needs of one.

Owns the contract and nothing else. An agent talks to a model and runs tools; it must not know
session files. The session listens, saves what the agent finishes, and moves the agent to another
conversation by replacing its messages.

The whole contract, in the order in which you would build an agent:

1. **State.** ``session_id``, ``cwd``, ``model``, ``thinking_level`` and ``mode`` are plain
   attributes that the session sets; use their values at the next model call. Setting one must not
   fail and must not touch a run that is under way. ``messages`` is the conversation;
   ``steering`` and ``follow_ups`` are `MessageQueue` values that the session fills and the agent
   empties.

2. **Running.** ``prompt(messages)`` appends the messages, calls the model, runs its tools, calls
   the model again, and returns when there is nothing left to do. Between two model calls it takes
   what ``steering`` holds; when the model has nothing more to do it takes what ``follow_ups``
   holds and goes on. ``prompt([])`` continues from the messages as they are (after a retry). A
   second prompt during a run raises `AgentBusyError`. ``is_running`` is true before ``prompt``
   first awaits.

3. **Events.** The agent reports everything as `AgentEvent` values in the order drawn in `events`,
   by `Listeners`. The one rule that persistence rests on: a message is appended to ``messages`` and
   then told by one ``MessageEnd``, and nothing else changes ``messages`` but ``replace_messages``.
   A model's failure is not an exception: it is an assistant message with ``stopReason: "error"``
   and ``errorMessage``.

4. **Stopping.** ``abort()`` asks a run to stop and returns at once, so that it can be called from
   inside the run. The answer so far becomes a message with ``stopReason: "aborted"``; running tools
   and their processes end, each with a ``toolResult`` that has ``isError: true``. ``wait_idle()``
   returns when the run, its ``AgentEnd`` and its tools are over (at once if there is none); a
   listener must not await it. Cancelling the task that awaits ``prompt`` counts as an abort.

5. **One-shot calls.** ``complete(...)`` asks the model once, apart from the conversation: no
   events but ``ModelRetry``, no change to ``messages``, no tools. Summaries and compaction go
   through it. The session calls it only while the agent is idle, and stops it by cancelling the
   task that awaits it.

What an agent sends to its model is ``convert_to_llm(self.messages, repair=True)``: ``messages``
also holds the roles ``custom``, ``bashExecution``, ``branchSummary`` and ``compactionSummary``,
which that function turns into user messages.

`AgentBase` (``runtime/agent_base.py``) keeps this contract for you: one method is left to write.
``examples/custom_agent.py`` does that; `ScriptedAgent` in `sessiontree.testing` is built so too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from sessiontree.errors import SessionTreeError
from sessiontree.runtime.events import AgentListener, Message
from sessiontree.runtime.hooks import Unsubscribe
from sessiontree.runtime.models import Model
from sessiontree.runtime.queues import MessageQueue

__all__ = ["Agent", "AgentBusyError", "Message", "MessageQueue", "Model"]


class AgentBusyError(SessionTreeError):
    """The agent is already working; steer it, queue a follow-up, or abort."""

    def __init__(
        self, message: str = "The agent is busy: steer, queue a follow-up or abort"
    ) -> None:
        super().__init__(message)


@runtime_checkable
class Agent(Protocol):
    """A conversation with a model, as a session sees it. The module's docstring is the contract."""

    session_id: str | None
    """Set by the session; providers may use it as a cache key."""

    cwd: str | None
    """The project folder, where tools work. The session sets it when it is None, and when it is
    moved to a session of another project. The folder may be gone; then tools are to refuse."""

    model: Model | None
    """The model of the next call; ``None`` until one is chosen (then ``prompt`` answers with an
    error message)."""

    thinking_level: str
    """One of `THINKING_LEVELS`, already clamped to what ``model`` can do."""

    mode: str
    """The session's mode (``none``, ``plan``, ``plan_paused``, or a program's own). An agent that
    knows ``plan`` refuses tools that write or run; one that doesn't may ignore it."""

    steering: MessageQueue
    """User messages to put in between two model calls of the present run."""

    follow_ups: MessageQueue
    """User messages to continue with when the present run would otherwise end."""

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation so far. Grows only by what ``MessageEnd`` tells."""

    @property
    def is_running(self) -> bool:
        """Whether a prompt is under way."""

    def replace_messages(self, messages: Sequence[Message]) -> None:
        """Replace the conversation by these messages (copy the list). Only while idle."""

    def subscribe(self, listener: AgentListener) -> Unsubscribe:
        """Call ``listener`` with every event from now on, and await it; return a function that ends
        that."""

    async def prompt(self, messages: Sequence[Message]) -> None:
        """Add the messages and run until done. Raises AgentBusyError during a run."""

    async def abort(self) -> None:
        """Ask the run to stop; returns at once, also when nothing runs."""

    async def wait_idle(self) -> None:
        """Return once nothing runs and the last ``AgentEnd`` has been heard by all."""

    async def complete(
        self, *, system: str, messages: Sequence[Message], max_tokens: int
    ) -> Message:
        """One answer to these messages, as an assistant message with ``usage`` and ``stopReason``.

        ``messages`` have only the roles a model knows (``user``, ``assistant``, ``toolResult``). A
        failure is an answer with ``stopReason: "error"``, as in a conversation.
        """
