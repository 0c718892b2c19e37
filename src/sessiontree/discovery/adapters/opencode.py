"""OpenCode: ``~/.local/share/opencode/opencode.db``, sessions in SQLite.

A session has messages, a message has parts (text, reasoning, a call of a tool with its result, a
file). One line here is one message with its parts. An answer in several steps (``step-start``)
becomes as many answers, each with its own tokens. Subagents' sessions name their parent; they are
parts of it here. ``/undo`` sets ``revert``: the messages from there on stay, off the path.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from sessiontree.discovery.adapters.records import (
    WireRecord,
    get_list,
    get_object,
    get_text,
)
from sessiontree.discovery.adapters.rows import (
    RowAgent,
    SessionRow,
    as_ms,
    decode_column,
    row_id,
    row_path,
    select_rows,
)
from sessiontree.discovery.adapters.turns import (
    Head,
    Turn,
    call_block,
    data_url_block,
    spell_model,
    text_block,
    thinking_block,
    usage_of,
)
from sessiontree.storage.base import SessionStorage
from sessiontree.storage.foreign_sqlite import Tables, read_database

_SILENT = frozenset(("step-start", "step-finish", "snapshot", "patch"))
"""Parts that say how the work was done, not what was said."""
_STOPS = {"length": "length", "content-filter": "error", "error": "error"}
_MOST_PARTS = 500
_UNNAMED = re.compile(r"(New|Child) session - \d{4}-\d\d-\d\dT")


class OpenCode(RowAgent):
    """Sessions of OpenCode."""

    name = "opencode"
    title = "OpenCode"
    file_names = ("opencode.db",)
    tables: Tables = {  # noqa: RUF012 - a Mapping has no way to change it
        "session": frozenset(
            ("id", "parent_id", "directory", "title", "revert", "time_created", "time_updated")
        ),
        "message": frozenset(("id", "session_id", "time_created", "time_updated", "data")),
        "part": frozenset(("id", "message_id", "session_id", "time_updated", "data")),
    }

    def find_databases(self, home: str, *, use_environment: bool) -> Iterable[str]:
        data = os.path.join(home, ".local", "share")
        given = ""
        if use_environment:
            data = os.environ.get("XDG_DATA_HOME") or data
            given = os.environ.get("OPENCODE_DB") or ""
        folder = os.path.join(data, "opencode")
        if given and given != ":memory:":
            yield os.path.join(folder, given)
        yield os.path.join(folder, "opencode.db")

    def has_row(self, path: str) -> bool:
        file = os.path.dirname(path)
        return super().has_row(path) or file == os.environ.get("OPENCODE_DB")

    def list_rows(self, database: sqlite3.Connection, only: str | None) -> Iterator[SessionRow]:
        by_id, by_session = ("", "") if only is None else ("WHERE id = ?", "WHERE session_id = ?")
        given = () if only is None else (only,)
        counts: dict[str, list[object]] = {}
        times: dict[str, int] = {}
        for table in ("message", "part"):
            for session, count, last, latest, total in database.execute(
                "SELECT session_id, count(*), max(rowid), max(time_updated),"
                f" CAST(total(time_updated) AS TEXT) FROM {table} {by_session}"
                " GROUP BY session_id",
                given,
            ):
                counts.setdefault(session, []).extend((table, count, last, latest, total))
                times[session] = max(times.get(session, 0), as_ms(latest))
        for row in select_rows(
            database,
            "SELECT id, parent_id, directory, title, revert, time_created, time_updated"
            f" FROM session {by_id}",
            given,
        ):
            session = row.get("id")
            if not isinstance(session, str):
                continue
            yield SessionRow(
                session,
                max(as_ms(row.get("time_updated")), times.get(session, 0)),
                (*row.values(), *counts.get(session, ())),
                get_text(row, "parent_id"),
            )

    def records(self, database: sqlite3.Connection, session_id: str) -> Iterator[WireRecord]:
        reverted: object = None
        for row in select_rows(
            database,
            "SELECT id, parent_id, directory, title, revert, time_created"
            " FROM session WHERE id = ?",
            (session_id,),
        ):
            reverted = decode_column(row, "revert")
            yield {**row, "type": "session", "revert": reverted}
        parts: dict[str, list[WireRecord]] = {}
        kept: dict[object, object] = {}
        for row in select_rows(
            database,
            "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY message_id, id",
            (session_id,),
        ):
            made = {"id": row.get("id"), "data": decode_column(row, "data")}
            parts.setdefault(str(row.get("message_id")), []).append(made)
            if isinstance(made["data"], dict) and made["data"].get("type") == "compaction":
                kept[row.get("message_id")] = made["data"].get("tail_start_id")
        for row in select_rows(
            database,
            "SELECT id, time_created, data FROM message WHERE session_id = ?"
            " ORDER BY time_created, id",
            (session_id,),
        ):
            made = {**row, "type": "message", "data": decode_column(row, "data")}
            asked = made["data"].get("parentID") if isinstance(made["data"], dict) else None
            if isinstance(asked, str) and kept.get(asked) is not None:
                made["tail_start_id"] = kept[asked]
            yield {**made, "parts": parts.pop(str(row.get("id")), [])}
        for message_id, left in parts.items():  # of messages that are not there
            yield {"type": "parts", "id": message_id, "parts": left}
        if isinstance(reverted, dict):
            yield {"type": "revert", **reverted}

    def take_head(self, record: WireRecord, head: Head) -> None:
        if record.get("type") == "session":
            head.cwd = get_text(record, "directory")
            title = get_text(record, "title") or ""
            head.title = None if _UNNAMED.match(title) else title or None
            head.title_source = "auto"
            head.started = record.get("time_created")
            head.owner = get_text(record, "parent_id")

    def turns(self, record: WireRecord) -> Iterator[Turn]:
        kind = record.get("type")
        if kind == "session":
            return
        if kind == "revert":
            yield Turn(role="rewind", after=get_text(record, "messageID"))
            return
        data = record.get("data")
        if kind != "message" or not isinstance(data, dict):
            yield Turn(role="note", id=_id(record), name="message", data=record)
        elif data.get("role") == "user":
            yield from _Prompt(record, data).turns()
        elif data.get("role") == "assistant":
            yield from _Answer(record, data).turns()
        else:
            yield Turn(role="note", id=_id(record), name="message", data=record)

    def find_parts(self, path: str, head: Head, storage: SessionStorage) -> Sequence[str]:
        del storage
        file, own = os.path.dirname(path), head.id or row_id(path)

        def read(database: sqlite3.Connection) -> list[str]:
            found = database.execute(
                "WITH RECURSIVE below(id) AS (SELECT :own UNION"
                " SELECT session.id FROM session JOIN below ON session.parent_id = below.id)"
                " SELECT id FROM below WHERE id <> :own ORDER BY id LIMIT :most",
                {"own": own, "most": _MOST_PARTS},
            )
            return [str(row[0]) for row in found]

        try:
            return [row_path(file, each) for each in read_database(file, self.tables, read)]
        except OSError:
            return ()

    def resume_command(self, path: str, session_id: str) -> list[str] | None:
        del path
        return ["opencode", "--session", session_id]


def _id(record: WireRecord) -> str:
    return get_text(record, "id") or ""


def _parts(record: WireRecord) -> Iterator[tuple[WireRecord, WireRecord]]:
    """Yield a message's parts, each with its data."""
    for part in get_list(record, "parts"):
        if isinstance(part, dict):
            data = part.get("data")
            yield part, data if isinstance(data, dict) else {}


class _Prompt:
    """The content of a user's message, and what OpenCode added to it."""

    def __init__(self, record: WireRecord, data: WireRecord) -> None:
        self._record = record
        self._data = data

    def turns(self) -> Iterator[Turn]:
        name, time = _id(self._record), self._record.get("time_created")
        typed: list[WireRecord] = []
        added: list[WireRecord] = []
        notes: list[Turn] = []
        for part, data in _parts(self._record):
            kind, text = data.get("type"), data.get("text")
            if kind == "text" and isinstance(text, str):
                is_added = data.get("synthetic") is True or data.get("ignored") is True
                (added if is_added else typed).append(text_block(text))
            elif (image := data_url_block(data.get("url"), data.get("mime"))) is not None:
                typed.append(image)
            else:
                notes.append(Turn(role="note", id=name, time=time, name=_kind(data), data=part))
        if added:
            yield Turn(role="context", id=name, time=time, name="context", blocks=added)
        yield from notes
        if typed:
            yield Turn(role="user", id=name, time=time, blocks=typed)


class _Answer:
    """The steps of an answer, each with the results of its calls."""

    def __init__(self, record: WireRecord, data: WireRecord) -> None:
        self._name = _id(record)
        self._record = record
        self._data = data
        self._time = record.get("time_created")
        self._model = spell_model(data.get("providerID"), data.get("modelID"))
        self._blocks: list[WireRecord] = []
        self._results: list[Turn] = []
        self._notes: list[Turn] = []
        self._answers = 0

    def turns(self) -> Iterator[Turn]:
        parts = list(_parts(self._record))
        has_steps = any(data.get("type") == "step-finish" for _, data in parts)
        for part, data in parts:
            if data.get("type") == "step-finish":
                yield from self._close(_usage(data), _stop(data.get("reason")))
            else:
                self._take(part, data)
        if self._blocks or get_object(self._data, "error") or not self._answers:
            usage = None if has_steps else _usage(self._data)
            yield from self._close(usage, _stop(self._data.get("finish")))
        yield from self._rest()

    def _take(self, part: WireRecord, data: WireRecord) -> None:
        kind, text = data.get("type"), data.get("text")
        if kind == "text" and isinstance(text, str):
            self._blocks.append(text_block(text))
        elif kind == "reasoning" and isinstance(text, str):
            anthropic = get_object(get_object(data, "metadata"), "anthropic")
            self._blocks.append(thinking_block(text, anthropic.get("signature")))
        elif kind == "tool":
            self._take_call(data)
        elif kind not in _SILENT:
            self._notes.append(
                Turn(role="note", id=self._name, time=self._time, name=_kind(data), data=part)
            )

    def _take_call(self, data: WireRecord) -> None:
        state = get_object(data, "state")
        call = call_block(data.get("callID"), data.get("tool"), state.get("input"))
        self._blocks.append(call)
        status = state.get("status")
        if status not in ("completed", "error"):
            return
        printed = get_text(state, "output" if status == "completed" else "error") or ""
        blocks = [text_block(printed)]
        for file in get_list(state, "attachments"):
            held = file if isinstance(file, dict) else {}
            image = data_url_block(held.get("url"), held.get("mime"))
            if image is not None:
                blocks.append(image)
        self._results.append(
            Turn(
                role="toolResult",
                id=self._name,
                time=get_object(state, "time").get("end") or self._time,
                blocks=blocks,
                call_id=call["id"],
                name=call["name"],
                is_error=status == "error",
                data=state.get("metadata") or None,
            )
        )

    def _close(self, usage: WireRecord | None, stop: str) -> Iterator[Turn]:
        error = get_object(self._data, "error")
        said = get_text(get_object(error, "data"), "message") or get_text(error, "name")
        has_calls = any(block["type"] == "toolCall" for block in self._blocks)
        if error:
            stop = "aborted" if error.get("name") == "MessageAbortedError" else "error"
        self._answers += 1
        # The answer to "What did we do so far?" replaces what came before.
        is_summary = self._data.get("summary") is True and not has_calls and not error
        yield Turn(
            role="compaction" if is_summary else "assistant",
            id=self._name,
            time=self._time,
            blocks=self._blocks,
            model=self._model,
            usage=usage,
            stop="toolUse" if has_calls and stop == "stop" else stop,
            error=said if error else None,
            kept=get_text(self._record, "tail_start_id"),
        )
        self._blocks = []
        yield from self._rest()

    def _rest(self) -> Iterator[Turn]:
        yield from self._results
        yield from self._notes
        self._results, self._notes = [], []


def _usage(data: WireRecord) -> WireRecord | None:
    """The tokens of a step or a message, and its cost in dollars."""
    tokens = get_object(data, "tokens")
    if not tokens:
        return None
    cache = get_object(tokens, "cache")
    return usage_of(
        {**tokens, "read": cache.get("read"), "write": cache.get("write")},
        input_key="input",
        output_key="output",
        read_key="read",
        write_key="write",
        reasoning_key="reasoning",
        cost=data.get("cost"),
        output_holds_reasoning=False,
    )


def _stop(reason: object) -> str:
    return _STOPS.get(reason, "stop") if isinstance(reason, str) else "stop"


def _kind(data: WireRecord) -> str:
    return get_text(data, "type") or "part"
