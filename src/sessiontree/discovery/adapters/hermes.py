"""Hermes Agent: ``~/.hermes/state.db``, sessions in SQLite; each profile has a database of its own.

Checked with the database that version 0.19.0 (schema 22) makes; of older ones, columns may be
absent. Before the database there were JSONL files, which are not read.

Rows of ``messages`` are OpenAI's messages. They are never deleted: those that a compaction replaced
are ``compacted``, those that the user took back are not ``active``. When the context is compressed,
older versions continue in a new session instead, whose parent ended with ``compression``.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from sessiontree.discovery.adapters.places import list_folders
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
    column_names,
    decode_column,
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
from sessiontree.model import codec
from sessiontree.storage.foreign_sqlite import Tables

_SESSION_COLUMNS = (
    *("id", "source", "model", "model_config", "parent_session_id", "started_at", "ended_at"),
    *("end_reason", "cwd", "title", "billing_provider", "rewind_count", "actual_cost_usd"),
    *("estimated_cost_usd",),
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
    *("reasoning_tokens",),
)
_MESSAGE_COLUMNS = (
    *("id", "role", "content", "tool_call_id", "tool_calls", "tool_name", "timestamp"),
    *("finish_reason", "reasoning", "reasoning_content", "observed", "active", "compacted"),
)
_USAGE = "session_model_usage"
_JSON_CONTENT = "\x00json:"
_SUMMARIES = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]")


class Hermes(RowAgent):
    """Sessions of Hermes Agent."""

    name = "hermes"
    title = "Hermes Agent"
    file_names = ("state.db",)
    tables: Tables = {  # noqa: RUF012 - a Mapping has no way to change it
        "sessions": frozenset(("id", "source", "started_at", "parent_session_id")),
        "messages": frozenset(("id", "session_id", "role", "content", "timestamp")),
    }

    def find_databases(self, home: str, *, use_environment: bool) -> Iterable[str]:
        given = os.environ.get("HERMES_HOME") if use_environment else None
        base = given or os.path.join(home, ".hermes")
        if os.path.basename(os.path.dirname(base)) == "profiles":
            base = os.path.dirname(os.path.dirname(base))
        for folder in (base, *list_folders(os.path.join(base, "profiles"))):
            yield os.path.join(folder, "state.db")

    def list_rows(self, database: sqlite3.Connection, only: str | None) -> Iterator[SessionRow]:
        by_id, by_session = ("", "") if only is None else ("WHERE id = ?", "WHERE session_id = ?")
        given = () if only is None else (only,)
        present = column_names(database, "messages")
        # Each message has one of four states; their sum tells when one changes.
        state = "+".join(
            f"total({name} * id)" for name in ("active", "compacted") if name in present
        )
        counts = {}
        for session, *numbers in database.execute(
            f"SELECT session_id, count(*), max(id), max(timestamp), {state or 0} FROM messages"
            f" {by_session} GROUP BY session_id",
            given,
        ):
            counts[session] = numbers
        rows = list(
            select_rows(database, f"SELECT {_columns(database)} FROM sessions {by_id}", given)
        )
        ended = _ends(database)
        for row in rows:
            session = row.get("id")
            if isinstance(session, str):
                numbers = counts.get(session, [])
                times = [row.get("started_at"), row.get("ended_at"), *numbers[2:3]]
                yield SessionRow(
                    session, max(map(as_ms, times)), (*row.values(), *numbers), _owner(row, ended)
                )

    def records(self, database: sqlite3.Connection, session_id: str) -> Iterator[WireRecord]:
        session: WireRecord = {}
        for row in select_rows(
            database, f"SELECT {_columns(database)} FROM sessions WHERE id = ?", (session_id,)
        ):
            owner = _owner(row, _ends(database))
            session = {**row, "model_config": decode_column(row, "model_config")}
            yield {**session, "type": "session", "$owner": owner}
        yield from _sums(database, session_id, session)
        model = spell_model(session.get("billing_provider"), session.get("model"))
        yield from _messages(database, session_id, model)

    def take_head(self, record: WireRecord, head: Head) -> None:
        if record.get("type") == "session":
            head.cwd = get_text(record, "cwd")
            head.title = get_text(record, "title")
            head.title_source = "auto"
            head.started = record.get("started_at")
            head.owner = get_text(record, "$owner")
            if head.owner is None:
                head.parent = get_text(record, "parent_session_id")

    def turns(self, record: WireRecord) -> Iterator[Turn]:
        match record.get("type"):
            case "session":
                return
            case "rewind":
                yield Turn(role="rewind", after=get_text(record, "to"))
            case "usage":
                yield _used(record)
            case _:
                yield from _message(record)

    def resume_command(self, path: str, session_id: str) -> list[str] | None:
        profile = os.path.dirname(os.path.dirname(path))
        if os.path.basename(os.path.dirname(profile)) == "profiles":
            return ["hermes", "--profile", os.path.basename(profile), "--resume", session_id]
        return ["hermes", "--resume", session_id]


# -- rows ------------------------------------------------------------------------------------------


def _columns(database: sqlite3.Connection) -> str:
    present = column_names(database, "sessions")
    return ", ".join(name for name in _SESSION_COLUMNS if name in present)


def _ends(database: sqlite3.Connection) -> dict[object, object]:
    """The ways in which a session that another one continues has ended."""
    if "end_reason" not in column_names(database, "sessions"):
        return {}
    return dict(
        database.execute(
            "SELECT id, end_reason FROM sessions WHERE end_reason IN ('compression', 'branched')"
        ).fetchall()
    )


def _owner(row: WireRecord, ended: dict[object, object]) -> str | None:
    """The session that a subagent works for; a branch or a continuation has none."""
    parent = get_text(row, "parent_session_id")
    config = decode_column(row, "model_config")
    is_branch = isinstance(config, dict) and config.get("_branched_from") is not None
    return None if is_branch or parent in ended else parent


def _messages(
    database: sqlite3.Connection, session_id: str, model: str | None
) -> Iterator[WireRecord]:
    """The messages in order, with what became of them."""
    present = column_names(database, "messages")
    names = ", ".join(name for name in _MESSAGE_COLUMNS if name in present)
    taken_back: str | None = None
    was_compacted = False
    for row in select_rows(
        database, f"SELECT {names} FROM messages WHERE session_id = ? ORDER BY id", (session_id,)
    ):
        made = {**row, "id": str(row.get("id")), "tool_calls": decode_column(row, "tool_calls")}
        made["content"] = _decode_content(row.get("content"))
        is_gone = row.get("active") == 0
        if is_gone and not row.get("compacted"):
            taken_back = taken_back or made["id"]
        elif taken_back is not None:
            yield {"type": "rewind", "to": taken_back}
            taken_back = None
        if was_compacted and not is_gone:
            made["$compaction"] = True
        was_compacted = is_gone and bool(row.get("compacted"))
        yield {**{key: each for key, each in made.items() if each is not None}, "$model": model}
    if taken_back is not None:
        yield {"type": "rewind", "to": taken_back}


def _decode_content(content: object) -> object:
    if isinstance(content, str) and content.startswith(_JSON_CONTENT):
        try:
            return codec.decode(content[len(_JSON_CONTENT) :].encode("utf-8", "surrogatepass"))
        except ValueError:
            return content
    return content


def _sums(
    database: sqlite3.Connection, session_id: str, session: WireRecord
) -> Iterator[WireRecord]:
    """The usage of the session: by model, or for older versions in all."""
    found = []
    if {"session_id", "model"} <= column_names(database, _USAGE):
        rows = select_rows(
            database, f"SELECT * FROM {_USAGE} WHERE session_id = ? ORDER BY rowid", (session_id,)
        )
        for row in rows:
            names = [row.get(key) for key in ("model", "billing_provider", "task")]
            found.append({**row, "id": f"usage {' '.join(map(str, names))}"})
    for row in found or [{**session, "id": "usage"}]:
        time = row.get("last_seen") or session.get("ended_at") or session.get("started_at")
        yield {**row, "type": "usage", "timestamp": time}


# -- what they say ---------------------------------------------------------------------------------


def _used(row: WireRecord) -> Turn:
    usage = usage_of(
        row,
        input_key="input_tokens",
        output_key="output_tokens",
        read_key="cache_read_tokens",
        write_key="cache_write_tokens",
        reasoning_key="reasoning_tokens",
        cost=row.get("actual_cost_usd") or row.get("estimated_cost_usd"),
    )
    name, time = get_text(row, "id") or "", row.get("timestamp")
    if not (usage["totalTokens"] or usage["cost"]["total"]):
        return Turn(role="mark", id=name, time=time)
    model = spell_model(row.get("billing_provider"), row.get("model"))
    kind = get_text(row, "task") or "session"
    return Turn(role="usage", id=name, time=time, name=kind, model=model, usage=usage)


def _message(row: WireRecord) -> Iterator[Turn]:
    name, time = get_text(row, "id") or "", row.get("timestamp")
    blocks, notes = _blocks(row.get("content"))
    said = " ".join(block["text"] for block in blocks if block["type"] == "text")
    if row.get("$compaction") is True:
        is_summary = said.startswith(_SUMMARIES)
        yield Turn(role="compaction", id=name, time=time, blocks=blocks if is_summary else [])
        if is_summary:
            return
    role = row.get("role")
    if role == "user" and row.get("observed"):
        yield Turn(role="context", id=name, time=time, name="observed", blocks=blocks)
    elif said.startswith(_SUMMARIES) and role in ("user", "assistant"):
        yield Turn(role="context", id=name, time=time, name="summary", blocks=blocks)
    elif role == "user":
        yield Turn(role="user", id=name, time=time, blocks=blocks)
    elif role == "assistant":
        yield _answer(row, blocks, name, time)
    elif role == "tool":
        yield Turn(
            role="toolResult",
            id=name,
            time=time,
            blocks=blocks,
            call_id=get_text(row, "tool_call_id") or "",
            name=get_text(row, "tool_name") or "",
        )
    else:
        known = role if isinstance(role, str) and role else "record"
        yield Turn(role="note", id=name, time=time, name=known, data=row)
    if notes:
        yield Turn(role="note", id=name, time=time, name="parts", data=notes)


def _answer(row: WireRecord, said: list[WireRecord], name: str, time: object) -> Turn:
    thought = get_text(row, "reasoning_content") or get_text(row, "reasoning")
    blocks = [thinking_block(thought)] if thought is not None else []
    blocks += said
    calls = [each for each in get_list(row, "tool_calls") if isinstance(each, dict)]
    for call in calls:
        function = get_object(call, "function")
        arguments = decode_column(function, "arguments")
        blocks.append(call_block(call.get("id"), function.get("name"), arguments))
    stop = "length" if row.get("finish_reason") == "length" else "stop"
    return Turn(
        role="assistant",
        id=name,
        time=time,
        blocks=blocks,
        model=get_text(row, "$model"),
        stop="toolUse" if calls else stop,
    )


def _blocks(content: object) -> tuple[list[WireRecord], list[Any]]:
    """A message's text and images, and the parts that are neither."""
    if isinstance(content, str):
        return ([text_block(content)] if content else []), []
    blocks: list[WireRecord] = []
    others: list[Any] = []
    for part in content if isinstance(content, list) else [content] if content else []:
        held = part if isinstance(part, dict) else {}
        text = get_text(held, "text")
        url = get_text(get_object(held, "image_url"), "url") or ""
        image = data_url_block(url, url[5:].partition(";")[0])
        if text is not None:
            blocks.append(text_block(text))
        elif image is not None:
            blocks.append(image)
        else:
            others.append(part)
    return blocks, others
