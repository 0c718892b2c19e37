"""Find and summarize foreign sessions without converting them.

A listing decodes only a few fields of each line, so years of sessions take seconds. It caches
nothing and writes nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from sessiontree.errors import AmbiguousSessionError, SessionNotFoundError, SessionTreeError
from sessiontree.discovery.adapters import claude_content, codex_items, foreign_places
from sessiontree.discovery.adapters.codex_items import RolloutLine, read_line
from sessiontree.discovery.adapters.codex_steps import Gatherer, count_messages, told_cwd, typed_prompts
from sessiontree.importers.foreign import AGENTS, Agent, read_source
from sessiontree.discovery.adapters.records import get_object, get_text, read_time
from sessiontree.model import codec
from sessiontree.storage.regular import open_for_reading
from sessiontree.text.words import to_moment

_CHUNK_BYTES = 1 << 20
_TITLE_KEYS = {"custom-title": "customTitle", "agent-name": "agentName", "ai-title": "aiTitle"}
_TITLE_RANKS = {"custom-title": 3, "agent-name": 2, "ai-title": 1}


@dataclass(slots=True)
class ForeignSession:
    """One session of another agent, as a listing shows it.

    ``message_count`` counts the main conversation: prompts, tool results, and each answer once.
    """

    agent: Agent
    path: str
    id: str
    cwd: str | None
    title: str | None
    first_message: str | None
    message_count: int
    created: datetime | None
    modified: datetime
    size: int

    @property
    def name(self) -> str:
        """The name to show in a list."""
        return self.title or self.first_message or self.id


def find_foreign_sessions(
    agent: Agent | None = None,
    home: str | os.PathLike[str] | None = None,
    *,
    on_progress: Callable[[int, int], object] | None = None,
) -> list[ForeignSession]:
    """List this user's Claude Code and Codex sessions, newest first.

    ``home`` is another home folder; without it the agents' environment variables count. Sessions
    without a message are left out, and so are files that cannot be read.
    """
    where = os.fspath(home) if home is not None else None
    paths = _files(agent, where)
    names = foreign_places.read_thread_names(foreign_places.codex_home(where))
    found = []
    for index, (each, path) in enumerate(paths, 1):
        session = describe_foreign(path, each, names)
        if session is not None and session.message_count:
            found.append(session)
        if on_progress is not None:
            on_progress(index, len(paths))
    found.sort(key=lambda session: (session.modified, session.path), reverse=True)
    return found


def find_foreign_files(
    agent: Agent | None = None, home: str | os.PathLike[str] | None = None
) -> list[tuple[Agent, str]]:
    """List the files that may hold a Claude Code or Codex session, oldest first, unread."""

    def age(found: tuple[Agent, str]) -> tuple[int, str]:
        try:
            return os.stat(found[1]).st_mtime_ns, found[1]
        except OSError:
            return 0, found[1]

    return sorted(_files(agent, os.fspath(home) if home is not None else None), key=age)


def _files(agent: Agent | None, home: str | None) -> list[tuple[Agent, str]]:
    paths: list[tuple[Agent, str]] = []
    for each in AGENTS if agent is None else (agent,):
        find = foreign_places.claude_files if each == "claude-code" else foreign_places.codex_files
        paths += [(each, path) for path in find(home)]
    return paths


def resolve_foreign(
    value: str, agent: Agent | None = None, home: str | os.PathLike[str] | None = None
) -> ForeignSession:
    """Find the session with this path, id or id prefix.

    Raises SessionNotFoundError, or AmbiguousSessionError with the candidates.
    """
    if "/" in value or "\\" in value or value.endswith(foreign_places.SUFFIX):
        guess = agent or ("codex" if os.path.basename(value).startswith("rollout-") else AGENTS[0])
        session = describe_foreign(os.path.abspath(value), guess)
        if session is None:
            raise SessionNotFoundError(value)
        return session
    found = [each for each in find_foreign_sessions(agent, home) if each.id.startswith(value)]
    exact = [each for each in found if each.id == value]
    if len(exact or found) > 1:
        raise AmbiguousSessionError(value, exact or found)
    if not found or not value:
        raise SessionNotFoundError(value)
    return (exact or found)[0]


def describe_foreign(
    path: str, agent: Agent, thread_names: dict[str, str] | None = None
) -> ForeignSession | None:
    """Summarize one file for a listing; None if it can't be read."""
    scan: _ClaudeScan | _CodexScan
    scan = _ClaudeScan(path) if agent == "claude-code" else _CodexScan()
    try:
        with open_for_reading(path) as file:
            stat = os.fstat(file.fileno())
            for line in _lines(lambda: file.read(_CHUNK_BYTES)):
                if line.strip():
                    scan.take(line)
        found = scan.finish(path)
    except OSError:
        return None
    session_id = found.session_id or foreign_places.session_id_of(path) or os.path.basename(path)
    if agent == "claude-code":
        session_id = foreign_places.session_id_of(path) or session_id
    return ForeignSession(
        agent,
        path,
        session_id,
        found.cwd,
        found.title or (thread_names or {}).get(session_id),
        found.first_message,
        found.count,
        _moment(found.created_ms),
        to_moment(stat.st_mtime_ns),
        stat.st_size,
    )


def _moment(time_ms: int | None) -> datetime | None:
    return to_moment(time_ms * 1_000_000) if time_ms is not None else None


def _lines(read: Callable[[], bytes]) -> Iterator[bytes]:
    """The lines of a file, however long, in pieces as they are read."""
    pending: list[bytes] = []
    while chunk := read():
        first, *rest = chunk.split(b"\n")
        pending.append(first)
        if rest:
            yield b"".join(pending)
            yield from rest[:-1]
            pending = [rest[-1]]
    yield b"".join(pending)


@dataclass(slots=True)
class _Findings:
    """What a scan has found in a file so far."""

    session_id: str | None = None
    cwd: str | None = None
    title: str | None = None
    first_message: str | None = None
    created_ms: int | None = None
    count: int = 0


class _ClaudeMessage(msgspec.Struct, gc=False):
    id: Any = None
    content: msgspec.Raw = msgspec.Raw()


class _ClaudeLine(msgspec.Struct, gc=False):
    type: Any = None
    uuid: Any = None
    isSidechain: Any = None  # noqa: N815 - the key in the file
    isMeta: Any = None  # noqa: N815
    isCompactSummary: Any = None  # noqa: N815
    message: _ClaudeMessage | None = None


class _Block(msgspec.Struct, gc=False):
    type: Any = None


_decode_claude = msgspec.json.Decoder(_ClaudeLine).decode
_decode_blocks = msgspec.json.Decoder(list[_Block]).decode


class _ClaudeScan:
    """Count the messages that an import would make, and look for names."""

    def __init__(self, path: str) -> None:
        self._found = _Findings()
        self._is_subagent = foreign_places.is_subagent(path)
        self._uuids: set[str] = set()
        self._answers: set[str] = set()
        self._title_rank = -1
        self._summaries: list[tuple[object, str]] = []
        self._command: str | None = None

    def finish(self, path: str) -> _Findings:
        """What was found, when all lines were taken."""
        found = self._found
        if found.title is None:
            for leaf, title in reversed(self._summaries):
                # Old versions also wrote summaries of other sessions into a file.
                if isinstance(leaf, str) and leaf in self._uuids:
                    found.title = title
                    break
        if found.title is None and self._is_subagent:
            found.title = get_text(foreign_places.meta_of_sidechain(path), "description")
        found.first_message = found.first_message or self._command
        return found

    def take(self, line: bytes) -> None:
        try:
            fields = _decode_claude(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # An odd or damaged line: read it as an import does.
            record = _decode(line)
            fields = _ClaudeLine(*(record.get(key) for key in _ClaudeLine.__struct_fields__[:-1]))
            fields.message = _odd_message(record)
        kind = fields.type
        if kind == "summary" or (isinstance(kind, str) and kind in _TITLE_KEYS):
            self._take_title(kind, _decode(line))
        if isinstance(fields.uuid, str):
            if fields.uuid in self._uuids:
                return
            self._uuids.add(fields.uuid)
        if fields.isSidechain is True and not self._is_subagent:
            return
        if kind in ("user", "assistant"):
            self._take_place(line)
            if fields.message is not None and fields.isCompactSummary is not True:
                if kind == "assistant":
                    self._take_answer(fields, fields.message)
                else:
                    self._take_prompt(fields, fields.message, line)
        elif kind == "attachment":
            self._take_attachment(line)

    def _take_place(self, line: bytes) -> None:
        found = self._found
        if found.cwd is not None and found.created_ms is not None:
            return
        record = _decode(line)
        found.cwd = found.cwd or get_text(record, "cwd")
        found.session_id = found.session_id or get_text(record, "sessionId")
        if found.created_ms is None:
            found.created_ms = read_time(record.get("timestamp"))

    def _take_answer(self, fields: _ClaudeLine, message: _ClaudeMessage) -> None:
        if not bytes(message.content):
            return
        answer = message.id if isinstance(message.id, str) else fields.uuid
        if isinstance(answer, str):
            self._found.count += answer not in self._answers
            self._answers.add(answer)

    def _take_prompt(self, fields: _ClaudeLine, message: _ClaudeMessage, line: bytes) -> None:
        results, is_more = _count_results(bytes(message.content))
        self._found.count += results
        if is_more and fields.isMeta is not True:
            self._take_text(get_object(_decode(line), "message").get("content"))

    def _take_text(self, body: object) -> None:
        text = claude_content.plain_text(body)
        if claude_content.is_command_markup(text):
            self._command = self._command or claude_content.typed_command(text)
            return
        if claude_content.bash_output(text) is not None:
            return
        _, typed = claude_content.split_prompt(claude_content.convert_prompt(body).blocks)
        self._found.count += bool(typed)
        said = "\n".join(block["text"] for block in typed if block["type"] == "text")
        if self._found.first_message is None and said.strip():
            self._found.first_message = claude_content.bash_input(said) or said

    def _take_attachment(self, line: bytes) -> None:
        attachment = get_object(_decode(line), "attachment")
        if claude_content.is_queued_prompt(attachment):
            self._take_text(attachment.get("prompt"))

    def _take_title(self, kind: str, record: dict[str, Any]) -> None:
        if kind == "summary":
            title = get_text(record, "summary")
            if title is not None:
                self._summaries.append((record.get("leafUuid"), title))
            return
        title = get_text(record, _TITLE_KEYS[kind])
        if title is not None and _TITLE_RANKS[kind] >= self._title_rank:
            self._title_rank = _TITLE_RANKS[kind]
            self._found.title = title


def _odd_message(record: dict[str, Any]) -> _ClaudeMessage | None:
    message = record.get("message")
    if not isinstance(message, dict):
        return None
    content = message.get("content")
    raw = codec.encode(content) if "content" in message else b""
    return _ClaudeMessage(message.get("id"), msgspec.Raw(raw))


def _count_results(content: bytes) -> tuple[int, bool]:
    """Count the tool results of a user's content, and tell whether it has other blocks."""
    if not content.lstrip().startswith(b"["):
        return 0, bool(content)
    try:
        blocks = _decode_blocks(content)
    except msgspec.MsgspecError:
        return 0, True
    results = sum(1 for block in blocks if block.type == "tool_result")
    return results, results < len(blocks)


class _Payload(msgspec.Struct, gc=False):
    type: Any = None
    id: Any = None
    call_id: Any = None
    name: Any = None


class _CodexLine(msgspec.Struct, gc=False):
    type: Any = None
    payload: _Payload | None = None


_decode_codex = msgspec.json.Decoder(_CodexLine).decode

# Most lines of a rollout are such; a listing needs only their type and ids.
_BULKY = codex_items.CALLS | codex_items.OUTPUTS


class _CodexScan:
    """Gather the steps of a conversation as an import does, from lines without large fields."""

    def __init__(self) -> None:
        self._rollout: list[RolloutLine] = []

    def take(self, line: bytes) -> None:
        try:
            fields = _decode_codex(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            fields = _CodexLine()
        payload = fields.payload
        if payload is not None and fields.type == "response_item" and _is_bulky(payload.type):
            light = {
                key: value
                for key in _Payload.__struct_fields__
                if (value := getattr(payload, key)) is not None
            }
            self._rollout.append(RolloutLine("response_item", light, None, {}))
            return
        record = _decode(line)
        if record:
            self._rollout.append(read_line(record))

    def finish(self, path: str) -> _Findings:
        """What was found, when all lines were taken."""
        found = _Findings()
        metas = [line for line in self._rollout if line.kind == "session_meta"]
        meta = metas[0].payload if metas else {}
        found.session_id = get_text(meta, "id")
        times = [read_time(meta.get("timestamp")), *(read_time(m.timestamp) for m in metas)]
        found.created_ms = next((time for time in times if time is not None), None)
        gatherer = Gatherer(self._rollout, get_text(meta, "model_provider") or "openai")
        steps = gatherer.gather()
        found.title = gatherer.title
        found.first_message = next(typed_prompts(steps), None)
        cwds = [
            get_text(line.payload, "cwd") for line in self._rollout if line.kind == "turn_context"
        ]
        found.cwd = get_text(meta, "cwd") or next(filter(None, cwds), None) or told_cwd(steps)
        found.count = count_messages(steps)
        if get_object(meta, "history_base"):
            with contextlib.suppress(SessionTreeError):
                # The history of the rollout it continues comes first.
                found.count = read_source(path, agent="codex").transcript.report.messages
        return found


def _is_bulky(kind: object) -> bool:
    return isinstance(kind, str) and kind in _BULKY


def _decode(line: bytes) -> dict[str, Any]:
    try:
        value = codec.decode(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
