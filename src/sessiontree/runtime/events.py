"""Events of a running agent and its session, and the listeners that get them.

Owns three families of frozen values (`listeners` delivers the first two):

- **agent events** (`AgentEvent`): what an agent does, told by the agent;
- **session notices** (`SessionNotice`): what the session did about it (saved, compacted, fell back
  to another model), told by `AgentSession` to the same subscribers;
- **hook payloads** (`SessionStart` … `SessionShutdown`): what handlers registered with
  ``AgentSession.on`` receive. How those are called is `hooks`' business.

It must not know agents, sessions or files. Messages in events are the plain wire objects of the
session file; receivers must not change them.

The order in which an agent tells its events::

    AgentStart
      TurnStart                                one model call and the tools it asked for
        MessageStart MessageEnd                … each user message (prompt, steering)
        MessageStart MessageUpdate* MessageEnd … the assistant's answer
        ToolStart ToolUpdate* ToolEnd          … each tool call; several may overlap
        MessageStart MessageEnd                … the tool's result
      TurnEnd
      ModelRetry                               … wherever a call failed and is made again
      …
    AgentEnd
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Message: TypeAlias = dict[str, Any]
"""One message as the session file has it (roles ``user``, ``assistant``, …)."""

SwitchReason = Literal["new", "fork", "resume"]


# --- agent events -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentStart:
    """The agent began to work on a prompt."""


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """The agent is idle again. ``messages`` are those this run added, in order."""

    messages: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnStart:
    """One model call begins."""


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The model's answer and the results of the tools it called are complete."""

    message: Message
    tool_results: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageStart:
    """A message appears; an assistant's may still be empty."""

    message: Message


@dataclass(frozen=True, slots=True)
class Delta:
    """An addition by one update: ``text`` to the content block at ``index``.

    ``kind`` says which block that is. For ``tool_call`` the text is a piece of the arguments' JSON.
    """

    kind: Literal["text", "thinking", "tool_call"]
    text: str
    index: int = 0


@dataclass(frozen=True, slots=True)
class MessageUpdate:
    """An assistant message grew by ``delta``.

    ``message`` is the message so far. It may be the object that is still growing (copying it for
    each token would cost quadratic time): draw from it, don't keep it.
    """

    message: Message
    delta: Delta


@dataclass(frozen=True, slots=True)
class MessageEnd:
    """A message is complete and is now the last of ``agent.messages``. It never changes again.

    This is the event that the session persists. Every message of the conversation has exactly
    one of these: user messages, answers (aborted and failed ones too), tool results.
    """

    message: Message


@dataclass(frozen=True, slots=True)
class ToolStart:
    """A tool begins to run."""

    tool_call_id: str
    tool_name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolUpdate:
    """A running tool has something to show; ``partial`` is its output so far."""

    tool_call_id: str
    tool_name: str
    partial: str


@dataclass(frozen=True, slots=True)
class ToolEnd:
    """A tool ended; ``result`` is the ``toolResult`` message that follows as a message."""

    tool_call_id: str
    tool_name: str
    result: Message
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ModelRetry:
    """A call of the model failed in passing: the agent makes it again after a wait.

    The one event that a one-shot call (``Agent.complete``) may tell, too.
    """

    attempt: int
    """The call that comes next; the first one was number 1."""
    attempts: int
    """How many calls are made at most."""
    wait_s: float
    reason: str


AgentEvent: TypeAlias = (
    AgentStart
    | AgentEnd
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolStart
    | ToolUpdate
    | ToolEnd
    | ModelRetry
)


# --- session notices --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MessageSaved:
    """A message is in the session, as this entry."""

    entry_id: str
    message: Message


@dataclass(frozen=True, slots=True)
class PersistenceFailed:
    """Saving failed; ``pending`` messages are kept and retried after ``recover()``."""

    error: Exception
    pending: int


@dataclass(frozen=True, slots=True)
class PersistenceRestored:
    """Pending messages are saved now."""

    saved: int


@dataclass(frozen=True, slots=True)
class ModelFallback:
    """The session's model is not available; ``used`` stands in (``None``: no model at all)."""

    wanted: str
    used: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class ModelChanged:
    """The agent now uses ``model`` (``provider/id``)."""

    model: str


@dataclass(frozen=True, slots=True)
class ThinkingLevelChanged:
    """The agent now thinks at ``level``; ``requested`` is what was asked before clamping."""

    level: str
    requested: str


@dataclass(frozen=True, slots=True)
class ModeChanged:
    """The session is now in ``mode``; ``available`` is false if this program doesn't know it."""

    mode: str
    data: Any = None
    available: bool = True


@dataclass(frozen=True, slots=True)
class QueueChanged:
    """The messages that wait in the steering, follow-up and next-turn queues."""

    steering: tuple[Message, ...] = ()
    follow_up: tuple[Message, ...] = ()
    next_turn: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactionStart:
    """Compaction begins, because of a ``threshold``, an ``overflow`` or a ``request``."""

    reason: Literal["threshold", "overflow", "request"]


@dataclass(frozen=True, slots=True)
class CompactionEnd:
    """Compaction is over. ``entry_id`` names the new entry; otherwise ``error`` says why not."""

    reason: Literal["threshold", "overflow", "request"]
    entry_id: str | None = None
    error: str | None = None
    will_retry: bool = False


@dataclass(frozen=True, slots=True)
class SessionReplaced:
    """The session, its leaf or its context changed as a whole: draw the conversation again."""

    session_id: str
    session_file: str | None


@dataclass(frozen=True, slots=True)
class CalledOff:
    """A hook's handler said no to a move, and why, if it did; nothing has changed."""

    reason: str | None = None


SessionNotice: TypeAlias = (
    MessageSaved
    | PersistenceFailed
    | PersistenceRestored
    | ModelFallback
    | ModelChanged
    | ThinkingLevelChanged
    | ModeChanged
    | QueueChanged
    | CompactionStart
    | CompactionEnd
    | SessionReplaced
    | CalledOff
)

SessionEvent: TypeAlias = AgentEvent | SessionNotice


# --- hook payloads ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionStart:
    """``session_start``: a session is ready."""

    session_id: str
    session_file: str | None


@dataclass(frozen=True, slots=True)
class SessionBeforeSwitch:
    """``session_before_switch``: about to leave for ``target`` (``None``: a new session)."""

    reason: SwitchReason
    target: str | None = None


@dataclass(frozen=True, slots=True)
class SessionSwitch:
    """``session_switch``: another session is in place."""

    reason: SwitchReason
    previous_session_file: str | None = None
    session_file: str | None = None


@dataclass(frozen=True, slots=True)
class SessionBeforeBranch:
    """``session_before_branch``: about to start a new file from before ``entry_id``."""

    entry_id: str


@dataclass(frozen=True, slots=True)
class SessionBranch:
    """``session_branch``: the new file is in place."""

    previous_session_file: str | None = None
    session_file: str | None = None


@dataclass(frozen=True, slots=True)
class SessionBeforeTree:
    """``session_before_tree``: about to move the leaf to ``target_id`` in the same file."""

    target_id: str
    old_leaf_id: str | None
    common_ancestor_id: str | None
    entry_ids: tuple[str, ...] = ()
    """The entries that would be left behind, root side first."""
    summarize: bool = False


@dataclass(frozen=True, slots=True)
class SessionTree:
    """``session_tree``: the leaf moved; ``summary_entry_id`` if the branch left was summarised."""

    old_leaf_id: str | None
    new_leaf_id: str | None
    summary_entry_id: str | None = None


@dataclass(frozen=True, slots=True)
class SessionBeforeCompact:
    """``session_before_compact``: about to summarise everything before ``first_kept_entry_id``."""

    reason: Literal["threshold", "overflow", "request"]
    first_kept_entry_id: str
    tokens_before: int
    entry_ids: tuple[str, ...] = ()
    """The entries that the summary will stand for."""
    previous_summary: str | None = None
    instructions: str | None = None


@dataclass(frozen=True, slots=True)
class SessionCompact:
    """``session_compact``: the compaction entry is in the session."""

    entry_id: str
    from_extension: bool = False


@dataclass(frozen=True, slots=True)
class SessionShutdown:
    """``session_shutdown``: the session is about to close."""

    session_id: str
    session_file: str | None


HookPayload: TypeAlias = (
    SessionStart
    | SessionBeforeSwitch
    | SessionSwitch
    | SessionBeforeBranch
    | SessionBranch
    | SessionBeforeTree
    | SessionTree
    | SessionBeforeCompact
    | SessionCompact
    | SessionShutdown
)


# --- delivery ---------------------------------------------------------------------------------

AgentListener: TypeAlias = Callable[[AgentEvent], Awaitable[None] | None]
"""Receives an agent's events; may be a coroutine function, which the agent then awaits."""

SessionListener: TypeAlias = Callable[[SessionEvent], Awaitable[None] | None]
"""Receives a session's notices as well."""
