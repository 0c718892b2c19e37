"""Write a session in the format of an agent that is not of pi's family, where that agent looks.

Claude Code and Codex get what a model sees of the conversation: prompts, answers, tool calls and
their results, summaries of what was compacted. The source is only read, and what the agent has is
left alone: the session is a new file of its own, complete when it appears.

Left out, and told: other branches, and the model's thinking, which providers accept back only from
the model and the account that it came from. What was paid for is not written down a second time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sessiontree import clock
from sessiontree.core.context import build_session_context
from sessiontree.core.llm import convert_to_llm
from sessiontree.discovery.adapters import get_adapter
from sessiontree.discovery.adapters.records import read_time
from sessiontree.errors import NotASessionError, PersistenceError
from sessiontree.export.view import SessionView
from sessiontree.model import codec
from sessiontree.model.messages import WireMessage
from sessiontree.storage.file import FileSessionStorage

_SPELLINGS = {
    "claude-code": "sessiontree.export.claude_records:spell_session",
    "codex": "sessiontree.export.codex_records:spell_session",
}
HANDOVER_AGENTS = tuple(_SPELLINGS)
"""The agents whose sessions can be written, beside pi's family."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a model sees of a session, and where it came from."""

    agent: str
    id: str
    cwd: str
    name: str | None
    messages: Sequence[WireMessage]
    times_ms: Sequence[int]
    """When each message was said; never earlier than the one before it."""


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session as its agent writes it: where it belongs, and its records."""

    id: str
    path: str
    records: Sequence[Mapping[str, Any]]


Spell = Callable[[Conversation, str | None], NewSession]
"""Spells a conversation as a session in another home folder, or in this user's."""


@dataclass(slots=True)
class HandoverReport:
    """The result: the file, and the number of entries and thoughts that were left out."""

    agent: str
    path: str
    session_id: str
    cwd: str
    messages: int = 0
    other_branches: int = 0
    thoughts: int = 0

    def lines(self) -> list[str]:
        """One line for the user for each thing that was left out."""
        told = (
            (self.other_branches, "left out: {} of other branches"),
            (self.thoughts, "left out: the model's thinking ({})"),
        )
        return [text.format(f"{count:,}") for count, text in told if count]


def hand_over(
    view: SessionView,
    agent: str,
    *,
    source_agent: str,
    cwd: str | os.PathLike[str] | None = None,
    home: str | os.PathLike[str] | None = None,
) -> HandoverReport:
    """Write the session of a view as a new session of ``agent``, in its project or in ``cwd``.

    ``home`` is another home folder than this user's. Raises NotASessionError for one without
    messages, PersistenceError if it cannot be written, ValueError for an agent that is not in
    ``HANDOVER_AGENTS``.
    """
    if agent not in _SPELLINGS:
        raise ValueError(f"no such target: {agent!r}; choose one of {', '.join(HANDOVER_AGENTS)}")
    messages = [
        message
        for message in convert_to_llm(build_session_context(view.path).messages, repair=True)
        if message.get("role") != "system"
    ]
    place = os.path.abspath(cwd) if cwd is not None else view.cwd
    if not messages:
        raise NotASessionError(view.file or view.id, "it has no messages")
    if not place:
        raise NotASessionError(view.file or view.id, "it belongs to no project; name one (--cwd)")
    conversation = Conversation(
        source_agent, view.id, place, view.name, messages, _times(view, messages)
    )
    module, _, member = _SPELLINGS[agent].partition(":")
    spell: Spell = getattr(import_module(module), member)
    made = spell(conversation, os.fspath(home) if home is not None else None)
    _write(made)
    return HandoverReport(
        agent,
        made.path,
        made.id,
        place,
        len(messages),
        len(view.tree.entries) - len(view.path),
        sum(map(_count_thoughts, messages)),
    )


def resume_command(report: HandoverReport) -> str | None:
    """The command for a shell that continues the new session in its agent."""
    return get_adapter(report.agent).spell_resume(report.path, report.session_id, report.cwd)


def _times(view: SessionView, messages: Sequence[WireMessage]) -> list[int]:
    """The times of messages. A summary stands before what was said before it was made."""
    told = [read_time(message.get("timestamp")) or None for message in messages]
    latest = next(filter(None, reversed(told)), None) or read_time(view.timestamp)
    earliest = latest if latest is not None else clock.now_ms()
    times = []
    for time_ms in reversed(told):
        earliest = min(earliest, time_ms or earliest)
        times.append(earliest)
    return times[::-1]


def _write(made: NewSession) -> None:
    storage = FileSessionStorage()
    lines: Iterator[bytes] = (codec.encode(record) + b"\n" for record in made.records)
    try:
        if os.path.lexists(made.path):
            raise PersistenceError(made.path, "exists already; nothing was written")
        storage.ensure_dir(os.path.dirname(made.path))
        storage.write_atomic(made.path, lines, private=True)
    except OSError as error:
        raise PersistenceError.from_os_error(made.path, error) from error
    except ValueError as error:  # a project that no folder can be named after
        raise PersistenceError(
            made.path, f"cannot be stored: no file can have its names ({error})"
        ) from error


def blocks_of(message: WireMessage) -> list[dict[str, Any]]:
    """The content of a message as blocks, whatever it is."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content or () if isinstance(block, dict)]


def _count_thoughts(message: WireMessage) -> int:
    return sum(block.get("type") == "thinking" for block in blocks_of(message))
