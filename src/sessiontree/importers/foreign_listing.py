"""Finding the sessions of other agents, and saying what is in them without converting them.

A listing decodes a handful of fields of each line and passes over the rest, so that years of
sessions take seconds. Nothing is cached and nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from sessiontree.errors import AmbiguousSessionError, SessionNotFoundError
from sessiontree.importers import claude_content, codex_items, foreign_places
from sessiontree.importers.foreign import AGENTS, Agent
from sessiontree.importers.records import get_list, get_object, get_text, read_time
from sessiontree.model import codec
from sessiontree.storage.regular import open_for_reading

_CHUNK_BYTES = 1 << 20
_TITLE_KEYS = {"custom-title": "customTitle", "agent-name": "agentName", "ai-title": "aiTitle"}
_TITLE_RANKS = {"custom-title": 3, "agent-name": 2, "ai-title": 1, "summary": 0}


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
        """What to call it in a list."""
        return self.title or self.first_message or self.id


class _MessageFields(msgspec.Struct, gc=False):
    id: Any = None
    role: Any = None


class _PayloadFields(msgspec.Struct, gc=False):
    type: Any = None
    role: Any = None


class _Fields(msgspec.Struct, gc=False):
    """What a listing wants of any line of either agent."""

    type: Any = None
    isSidechain: Any = None  # noqa: N815 - the key in the file
    isMeta: Any = None  # noqa: N815
    message: _MessageFields | None = None
    payload: _PayloadFields | None = None
    role: Any = None


_decode_fields = msgspec.json.Decoder(_Fields).decode


def find_foreign_sessions(
    agent: Agent | None = None,
    home: str | os.PathLike[str] | None = None,
    *,
    on_progress: Callable[[int, int], object] | None = None,
) -> list[ForeignSession]:
    """Every Claude Code and Codex session of this user, newest first.

    ``home`` stands for another home folder; without it the agents' own variables count. Sessions
    without a message are left out, and so are files that cannot be read.
    """
    where = os.fspath(home) if home is not None else None
    paths: list[tuple[Agent, str]] = []
    for each in AGENTS if agent is None else (agent,):
        files = foreign_places.claude_files if each == "claude-code" else foreign_places.codex_files
        paths += [(each, path) for path in files(where)]
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


def resolve_foreign(
    value: str, agent: Agent | None = None, home: str | os.PathLike[str] | None = None
) -> ForeignSession:
    """The session of this path, id or beginning of an id.

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
    """What a listing says of one file; None if it cannot be read."""
    scan: _ClaudeScan | _CodexScan = _ClaudeScan() if agent == "claude-code" else _CodexScan()
    try:
        with open_for_reading(path) as file:
            stat = os.fstat(file.fileno())
            for line in _lines(lambda: file.read(_CHUNK_BYTES)):
                fields = _read_fields(line)
                if fields is not None:
                    scan.take(fields, line)
    except OSError:
        return None
    session_id = scan.session_id or foreign_places.session_id_of(path) or os.path.basename(path)
    if agent == "claude-code":
        session_id = foreign_places.session_id_of(path) or session_id
    return ForeignSession(
        agent,
        path,
        session_id,
        scan.cwd,
        scan.title or (thread_names or {}).get(session_id),
        scan.first_message,
        scan.count,
        _moment(scan.created_ms),
        datetime.fromtimestamp(max(0, stat.st_mtime), UTC),
        stat.st_size,
    )


def _moment(time_ms: int | None) -> datetime | None:
    return datetime.fromtimestamp(time_ms / 1000, UTC) if time_ms is not None else None


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


def _read_fields(line: bytes) -> _Fields | None:
    """The fields a listing wants; None for a line that is no record."""
    if not line.strip():
        return None
    try:
        return _decode_fields(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    record = _decode(line)
    message, payload = record.get("message"), record.get("payload")
    return _Fields(
        record.get("type"),
        record.get("isSidechain"),
        record.get("isMeta"),
        _MessageFields(message.get("id"), message.get("role"))
        if isinstance(message, dict)
        else None,
        _PayloadFields(payload.get("type"), payload.get("role"))
        if isinstance(payload, dict)
        else None,
        record.get("role"),
    )


class _Findings:
    """What is known of a file so far."""

    def __init__(self) -> None:
        self.session_id: str | None = None
        self.cwd: str | None = None
        self.title: str | None = None
        self.first_message: str | None = None
        self.created_ms: int | None = None
        self.count = 0


class _ClaudeScan(_Findings):
    def __init__(self) -> None:
        super().__init__()
        self._answers: set[str] = set()
        self._title_rank = -1

    def take(self, fields: _Fields, line: bytes) -> None:
        kind = fields.type
        if isinstance(kind, str) and kind in _TITLE_RANKS:
            self._take_title(kind, _decode(line))
        if kind not in ("user", "assistant") or fields.isSidechain is True:
            return
        if self.cwd is None or self.created_ms is None:
            record = _decode(line)
            self.cwd = self.cwd or get_text(record, "cwd")
            self.session_id = self.session_id or get_text(record, "sessionId")
            if self.created_ms is None:
                self.created_ms = read_time(record.get("timestamp"))
        if fields.isMeta is True or fields.message is None:
            return
        answer = fields.message.id
        if kind == "assistant" and isinstance(answer, str):
            self.count += answer not in self._answers
            self._answers.add(answer)
            return
        self.count += 1
        if kind == "user" and self.first_message is None:
            text = claude_content.plain_text(get_object(_decode(line), "message").get("content"))
            if text.strip() and not claude_content.is_command_markup(text):
                self.first_message = text

    def _take_title(self, kind: str, record: dict[str, Any]) -> None:
        title = get_text(record, _TITLE_KEYS.get(kind, "summary"))
        if title is not None and _TITLE_RANKS[kind] >= self._title_rank:
            self._title_rank = _TITLE_RANKS[kind]
            self.title = title


class _CodexScan(_Findings):
    def take(self, fields: _Fields, line: bytes) -> None:
        kind = fields.type
        if kind == "session_meta" or (kind is None and self.session_id is None):
            self._take_meta(_decode(line))
            return
        if kind == "event_msg" and fields.payload is not None:
            if fields.payload.type == "thread_name_updated":
                name = get_text(get_object(_decode(line), "payload"), "thread_name")
                self.title = name or self.title
            return
        item: object = fields
        if kind == "response_item":
            item = fields.payload
        name = getattr(item, "type", None)
        if isinstance(name, str) and name in codex_items.OUTPUTS:
            self.count += 1
        elif name == "message":
            self._take_message(getattr(item, "role", None), line)

    def _take_meta(self, record: dict[str, Any]) -> None:
        meta = get_object(record, "payload") or record
        if self.session_id is None and get_text(meta, "id"):
            self.session_id = get_text(meta, "id")
            self.cwd = get_text(meta, "cwd")
            self.created_ms = read_time(meta.get("timestamp")) or read_time(record.get("timestamp"))

    def _take_message(self, role: object, line: bytes) -> None:
        if role == "assistant":
            self.count += 1
        elif role == "user":
            record = _decode(line)
            content = get_list(get_object(record, "payload") or record, "content")
            texts = [
                block["text"]
                for block in codex_items.convert_content(content)[0]
                if "text" in block
            ]
            typed = [text for text in texts if not codex_items.is_context(text)]
            if self.cwd is None:
                self.cwd = next(filter(None, map(codex_items.context_cwd, texts)), None)
            if typed or not texts:
                self.count += 1
            if typed and self.first_message is None:
                self.first_message = "\n".join(typed)


def _decode(line: bytes) -> dict[str, Any]:
    try:
        value = codec.decode(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
