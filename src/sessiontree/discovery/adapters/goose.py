"""Goose: ``~/.local/share/goose/sessions/sessions.db``, sessions in SQLite.

Reads the schema's versions 1 to 15, checked with the database that Goose 1.52 makes; newer ones
added columns, and ``usage_ledger`` with what each request used. Before the database there were
files, ``sessions/<session>.jsonl``; Goose takes them into its database when it makes one, so they
are read only where there is none.

A message's content is a list: text, thinking, calls of tools; results of calls have the user's
role. A compaction hides the messages before it from the model (``agentVisible``), and adds a
summary that only the model sees. It writes all messages again: their rows change, their ids stay.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sessiontree.discovery.adapters.base import GetSummaries, Places, StrPath, stat_files
from sessiontree.discovery.adapters.places import SUFFIX
from sessiontree.discovery.adapters.records import (
    WireRecord,
    get_count,
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
    row_id,
    select_rows,
)
from sessiontree.discovery.adapters.turns import (
    Head,
    Turn,
    call_block,
    image_block,
    spell_model,
    text_block,
    thinking_block,
    usage_of,
)
from sessiontree.storage.base import SessionStorage, SessionStorageReader
from sessiontree.storage.foreign_sqlite import Tables

_SESSION_COLUMNS = (
    *("id", "name", "description", "user_set_name", "session_type", "working_dir", "created_at"),
    *("updated_at", "provider_name", "model_config_json", "parent_session_id", "accumulated_cost"),
    *("accumulated_input_tokens", "accumulated_output_tokens"),
    *("accumulated_cache_read_tokens", "accumulated_cache_write_tokens"),
)
_UNNAMED = frozenset(("CLI Session", "New Chat", "New session", "ACP Session", "Terminal Session"))
"""Placeholder names that Goose gives to new sessions."""
_LEDGER = "usage_ledger"


class Goose(RowAgent):
    """Sessions of Goose."""

    name = "goose"
    title = "Goose"
    file_names = ("sessions.db",)
    tables: Tables = {  # noqa: RUF012 - a Mapping has no way to change it
        "sessions": frozenset(("id", "working_dir", "created_at", "updated_at")),
        "messages": frozenset(("id", "session_id", "role", "content_json", "created_timestamp")),
    }

    def find_databases(self, home: str, *, use_environment: bool) -> Iterable[str]:
        yield os.path.join(_folder(home, use_environment=use_environment), "sessions.db")

    def find(self, home: StrPath | None, summaries: GetSummaries) -> Places:
        found = super().find(home, summaries)
        base = os.fspath(home) if home is not None else os.path.expanduser("~")
        folder = _folder(base, use_environment=home is None)
        if not os.path.lexists(os.path.join(folder, "sessions.db")):
            try:
                files = stat_files(folder, SUFFIX)
            except OSError as error:
                found.unreadable.append((folder, error.strerror or str(error)))
                return found
            if files:
                found.folders[folder] = files
        return found

    def is_session(self, path: str, records: Sequence[dict[str, Any]]) -> bool:
        del path
        said = [record for record in records if record.get("role") in ("user", "assistant")]
        is_headed = any("role" not in each and "working_dir" in each for each in records)
        has_created = [
            isinstance(each.get("content"), list) and isinstance(each.get("created"), int)
            for each in said
        ]
        return is_headed and all(has_created)

    def open_verbatim(self, path: str, storage: SessionStorage) -> SessionStorageReader:
        if self.has_row(path):
            return super().open_verbatim(path, storage)
        return storage.open_reader(path)

    def list_rows(self, database: sqlite3.Connection, only: str | None) -> Iterator[SessionRow]:
        by_id, by_session = ("", "") if only is None else ("WHERE id = ?", "WHERE session_id = ?")
        given = () if only is None else (only,)
        counts: dict[object, list[object]] = {}
        times: dict[object, int] = {}
        for table in ("messages", *_ledger_of(database)):
            for session, *numbers in database.execute(
                f"SELECT session_id, count(*), max(id), max(created_timestamp) FROM {table}"
                f" {by_session} GROUP BY session_id",
                given,
            ):
                counts.setdefault(session, []).extend((table, *numbers))
                times[session] = max(times.get(session, 0), as_ms(numbers[-1]))
        for row in select_rows(
            database, f"SELECT {_columns(database)} FROM sessions {by_id}", given
        ):
            session = row.get("id")
            if isinstance(session, str):
                yield SessionRow(
                    session,
                    max(as_ms(row.get("updated_at")), times.get(session, 0)),
                    (*row.values(), *counts.get(session, ())),
                    _owner(row),
                )

    def records(self, database: sqlite3.Connection, session_id: str) -> Iterator[WireRecord]:
        session: WireRecord = {}
        for row in select_rows(
            database, f"SELECT {_columns(database)} FROM sessions WHERE id = ?", (session_id,)
        ):
            session = {**row, "model_config_json": decode_column(row, "model_config_json")}
        provider = session.get("provider_name")
        paid = [{**each, "$provider": provider} for each in _requests(database, session_id)]
        messages = list(_messages(database, session_id, _model_of(session)))
        yield {
            **session,
            "type": "session",
            "$is_itemized": bool(paid or _usage_in(messages)),
        }
        rest = _left_over(paid, messages)
        # Times are in seconds; of one second, an answer stands before what it used.
        yield from sorted([*messages, *rest], key=lambda each: as_ms(each.get("created")))

    def head(self, path: str) -> Head:
        if self.has_row(path):
            return Head(id=row_id(path))
        return Head(id=os.path.basename(path).removesuffix(SUFFIX))

    def take_head(self, record: WireRecord, head: Head) -> None:
        if "role" in record or record.get("type") == "usage":
            return
        head.cwd = get_text(record, "working_dir") or head.cwd
        name = get_text(record, "name") or get_text(record, "description")
        is_users = bool(record.get("user_set_name"))
        if name is not None and (is_users or name not in _UNNAMED):
            head.title, head.title_source = name, "user" if is_users else "auto"
        head.started = record.get("created_at")
        head.owner = _owner(record)
        if head.owner is None:
            head.parent = get_text(record, "parent_session_id")

    def turns(self, record: WireRecord) -> Iterator[Turn]:
        if record.get("type") == "usage":
            yield _request(record)
        elif record.get("type") == "session":
            yield from _sums(record)
        elif "role" in record:
            yield from _Message(record).turns()
        elif "working_dir" not in record:
            yield Turn(role="note", name="record", data=record)

    def find_parts(self, path: str, head: Head, storage: SessionStorage) -> Sequence[str]:
        return super().find_parts(path, head, storage) if self.has_row(path) else ()

    def resume_command(self, path: str, session_id: str) -> list[str] | None:
        del path
        return ["goose", "session", "--resume", "--session-id", session_id]


# -- rows ------------------------------------------------------------------------------------------


def _folder(home: str, *, use_environment: bool) -> str:
    data = os.path.join(home, ".local", "share")
    if use_environment:
        root = os.environ.get("GOOSE_PATH_ROOT")
        if root:
            return os.path.join(root, "data", "sessions")
        data = os.environ.get("XDG_DATA_HOME") or data
    return os.path.join(data, "goose", "sessions")


def _columns(database: sqlite3.Connection) -> str:
    present = column_names(database, "sessions")
    return ", ".join(name for name in _SESSION_COLUMNS if name in present)


def _ledger_of(database: sqlite3.Connection) -> tuple[str, ...]:
    """The table of what requests used, if this version has it."""
    columns = column_names(database, _LEDGER)
    return (_LEDGER,) if {"id", "session_id", "created_timestamp"} <= columns else ()


def _owner(row: WireRecord) -> str | None:
    """The session that a subagent works for."""
    is_part = row.get("session_type") == "sub_agent"
    return get_text(row, "parent_session_id") if is_part else None


def _messages(
    database: sqlite3.Connection, session_id: str, model: str | None
) -> Iterator[WireRecord]:
    present = column_names(database, "messages")
    more = [name for name in ("message_id", "metadata_json") if name in present]
    was_hidden = False
    occurred: Counter[str] = Counter()
    for row in select_rows(
        database,
        f"SELECT {', '.join(['id', 'role', 'content_json', 'created_timestamp', *more])}"
        " FROM messages WHERE session_id = ? ORDER BY created_timestamp, id",
        (session_id,),
    ):
        metadata = decode_column(row, "metadata_json")
        shown = metadata if isinstance(metadata, dict) else {}
        name = get_text(row, "message_id") or str(row.get("id"))
        occurred[name] += 1
        made = {
            "id": f"{name} {occurred[name]}" if occurred[name] > 1 else name,
            "role": row.get("role"),
            "created": row.get("created_timestamp"),
            "content": decode_column(row, "content_json"),
            "metadata": metadata,
            "$model": model,
        }
        is_hidden = shown.get("agentVisible") is False
        is_for_model = shown.get("userVisible") is False and shown.get("turnContext") is not True
        if was_hidden and not is_hidden and is_for_model:
            made["$compaction"] = True
        was_hidden = is_hidden
        yield {key: value for key, value in made.items() if value is not None}


def _requests(database: sqlite3.Connection, session_id: str) -> Iterator[WireRecord]:
    for table in _ledger_of(database):
        for row in select_rows(
            database,
            f"SELECT * FROM {table} WHERE session_id = ? ORDER BY created_timestamp, id",
            (session_id,),
        ):
            created = row.get("created_timestamp")
            yield {**row, "type": "usage", "id": f"usage {row.get('id')}", "created": created}


def _usage_in(messages: list[WireRecord]) -> Counter[tuple[int, ...]]:
    """What the answers themselves say that they used."""
    usages = (get_object(get_object(each, "metadata"), "usage") for each in messages)
    return Counter(
        tuple(get_count(usage, key) for key in ("inputTokens", "outputTokens", "cacheReadTokens"))
        for usage in usages
        if usage
    )


def _left_over(paid: list[WireRecord], messages: list[WireRecord]) -> Iterator[WireRecord]:
    """The requests that no answer mentions: compactions, and those of older versions."""
    told = _usage_in(messages)
    for row in paid:
        key = tuple(
            get_count(row, name) for name in ("input_tokens", "output_tokens", "cache_read_tokens")
        )
        if row.get("is_compaction") or not told[key]:
            yield row
        else:
            told[key] -= 1


def _model_of(session: WireRecord) -> str | None:
    config = get_object(session, "model_config_json")
    return spell_model(session.get("provider_name"), config.get("model_name"))


# -- what they say ---------------------------------------------------------------------------------


def _request(row: WireRecord) -> Turn:
    """The usage of one request to a model."""
    kind = "compaction" if row.get("is_compaction") else "request"
    return Turn(
        role="usage",
        id=get_text(row, "id") or "",
        time=row.get("created"),
        name=kind,
        model=spell_model(row.get("$provider"), row.get("model")),
        usage=_usage(row, cost=row.get("cost")),
    )


def _sums(session: WireRecord) -> Iterator[Turn]:
    """The usage of a session, for versions that store only sums."""
    if session.get("$is_itemized") is True:
        return
    usage = _usage(session, "accumulated_", cost=session.get("accumulated_cost"))
    if usage["totalTokens"] or usage["cost"]["total"]:
        model, time = _model_of(session), session.get("updated_at")
        yield Turn(role="usage", id="usage", time=time, name="session", model=model, usage=usage)


def _usage(row: WireRecord, prefix: str = "", *, cost: object) -> WireRecord:
    return usage_of(
        row,
        input_key=f"{prefix}input_tokens",
        output_key=f"{prefix}output_tokens",
        read_key=f"{prefix}cache_read_tokens",
        write_key=f"{prefix}cache_write_tokens",
        cost=cost,
        input_holds_cache=True,
    )


def _answer_usage(told: WireRecord) -> WireRecord:
    return usage_of(
        told,
        input_key="inputTokens",
        output_key="outputTokens",
        read_key="cacheReadTokens",
        write_key="cacheWriteTokens",
        cost=told.get("cost"),
        input_holds_cache=True,
    )


class _Message:
    """The turns of one message."""

    def __init__(self, record: WireRecord) -> None:
        self._record = record
        self._name = get_text(record, "id") or ""
        self._time = record.get("created")
        self._blocks: list[WireRecord] = []
        self._others: list[Turn] = []

    def turns(self) -> Iterator[Turn]:
        record, shown = self._record, get_object(self._record, "metadata")
        is_user = record.get("role") == "user"
        for item in get_list(record, "content"):
            self._take(item if isinstance(item, dict) else {}, item)
        is_hidden = shown.get("userVisible") is False
        if is_hidden and shown.get("agentVisible") is False:
            yield self._turn(role="note", name="invisible", data=record)
            return
        if record.get("role") not in ("user", "assistant"):
            yield self._turn(role="note", name="record", data=record)
            return
        if self._blocks:
            if record.get("$compaction") is True:
                yield self._turn(role="compaction", blocks=self._blocks)
            elif is_hidden and not any(each["type"] == "toolCall" for each in self._blocks):
                yield self._turn(role="context", name="context", blocks=self._blocks)
            elif is_user:
                yield self._turn(role="user", blocks=self._blocks)
            else:
                yield self._answer(shown)
        yield from self._others

    def _turn(self, **fields: Any) -> Turn:
        return Turn(id=self._name, time=self._time, **fields)

    def _answer(self, shown: WireRecord) -> Turn:
        inference = get_object(shown, "inference")
        told = get_text(inference, "resolvedModel") or get_text(inference, "requestedModel")
        model = spell_model(inference.get("provider"), told) or get_text(self._record, "$model")
        has_calls = any(block["type"] == "toolCall" for block in self._blocks)
        stop = "toolUse" if has_calls else "stop"
        told_usage = get_object(shown, "usage")
        usage = _answer_usage(told_usage) if told_usage else None
        return self._turn(
            role="assistant", blocks=self._blocks, model=model, usage=usage, stop=stop
        )

    def _take(self, item: WireRecord, raw: object) -> None:
        kind, text = item.get("type"), item.get("text")
        if kind == "text" and isinstance(text, str):
            self._blocks.append(text_block(text))
        elif kind == "reasoning" and isinstance(text, str):
            self._blocks.append(thinking_block(text))
        elif kind == "thinking" and isinstance(item.get("thinking"), str):
            signature = get_text(item, "signature")
            self._blocks.append(thinking_block(item["thinking"], signature))
        elif (image := _image(item)) is not None:
            self._blocks.append(image)
        elif kind in ("toolRequest", "frontendToolRequest"):
            call = get_object(item, "toolCall")
            asked = get_object(call, "value")
            arguments = asked.get("arguments") if asked else {"error": call.get("error")}
            self._blocks.append(call_block(item.get("id"), asked.get("name"), arguments))
        elif kind == "toolResponse":
            self._others.append(self._result(item))
        else:
            known = kind if isinstance(kind, str) and kind else "part"
            self._others.append(self._turn(role="note", name=known, data=raw))

    def _result(self, item: WireRecord) -> Turn:
        result = get_object(item, "toolResult")
        value = result.get("value")
        held = value if isinstance(value, dict) else {"content": value}
        contents = [each for each in get_list(held, "content") if isinstance(each, dict)]
        seen = [each for each in contents if "user" not in _audience(each)] or contents
        blocks = [block for each in seen if (block := _printed(each)) is not None]
        error = get_text(result, "error")
        if error is not None:
            blocks.append(text_block(error))
        return self._turn(
            role="toolResult",
            blocks=blocks,
            call_id=get_text(item, "id") or "",
            is_error=error is not None or held.get("isError") is True,
        )


def _audience(content: WireRecord) -> list[Any]:
    """For whom a part of a result is; some are only for the user's eyes."""
    found = get_list(get_object(content, "annotations"), "audience")
    return [] if "assistant" in found else found


def _image(item: WireRecord) -> WireRecord | None:
    data, kind = get_text(item, "data"), get_text(item, "mimeType") or ""
    if item.get("type") != "image" or data is None or not kind.startswith("image/"):
        return None
    return image_block(data, kind)


def _printed(content: WireRecord) -> WireRecord | None:
    text = get_text(content, "text") or get_text(get_object(content, "resource"), "text")
    return text_block(text) if text is not None else _image(content)
