"""Databases of other agents for tests, in the layouts that those agents make."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

Record = dict[str, Any]
START_MS = 1_767_258_000_000  # 2026-01-01 09:00

_OPENCODE = """
CREATE TABLE `project` (`id` text PRIMARY KEY, `worktree` text NOT NULL);
CREATE TABLE `session` (
  `id` text PRIMARY KEY, `project_id` text NOT NULL, `workspace_id` text, `parent_id` text,
  `slug` text NOT NULL, `directory` text NOT NULL, `path` text, `title` text NOT NULL,
  `version` text NOT NULL, `share_url` text, `summary_additions` integer,
  `summary_deletions` integer, `summary_files` integer, `summary_diffs` text, `metadata` text,
  `cost` real DEFAULT 0 NOT NULL, `tokens_input` integer DEFAULT 0 NOT NULL,
  `tokens_output` integer DEFAULT 0 NOT NULL, `tokens_reasoning` integer DEFAULT 0 NOT NULL,
  `tokens_cache_read` integer DEFAULT 0 NOT NULL, `tokens_cache_write` integer DEFAULT 0 NOT NULL,
  `revert` text, `permission` text, `agent` text, `model` text, `time_created` integer NOT NULL,
  `time_updated` integer NOT NULL, `time_compacting` integer, `time_archived` integer,
  CONSTRAINT `fk_s` FOREIGN KEY (`project_id`) REFERENCES `project`(`id`) ON DELETE CASCADE
);
CREATE TABLE `message` (
  `id` text PRIMARY KEY, `session_id` text NOT NULL, `time_created` integer NOT NULL,
  `time_updated` integer NOT NULL, `data` text NOT NULL,
  CONSTRAINT `fk_m` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
);
CREATE TABLE `part` (
  `id` text PRIMARY KEY, `message_id` text NOT NULL, `session_id` text NOT NULL,
  `time_created` integer NOT NULL, `time_updated` integer NOT NULL, `data` text NOT NULL,
  CONSTRAINT `fk_p` FOREIGN KEY (`message_id`) REFERENCES `message`(`id`) ON DELETE CASCADE
);
CREATE INDEX `message_session_time_created_id_idx` ON `message` (`session_id`,`time_created`,`id`);
CREATE INDEX `part_message_id_id_idx` ON `part` (`message_id`,`id`);
CREATE INDEX `part_session_idx` ON `part` (`session_id`);
CREATE INDEX `session_parent_idx` ON `session` (`parent_id`);
"""


_GOOSE = """
CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at TIMESTAMP);
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '',
  user_set_name BOOLEAN DEFAULT FALSE, session_type TEXT NOT NULL DEFAULT 'user',
  working_dir TEXT NOT NULL, created_at TIMESTAMP, updated_at TIMESTAMP,
  extension_data TEXT DEFAULT '{}', accumulated_input_tokens INTEGER,
  accumulated_output_tokens INTEGER, accumulated_cache_read_tokens INTEGER,
  accumulated_cache_write_tokens INTEGER, accumulated_cost REAL, provider_name TEXT,
  model_config_json TEXT, goose_mode TEXT NOT NULL DEFAULT 'auto', parent_session_id TEXT
);
CREATE TABLE messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT,
  session_id TEXT NOT NULL REFERENCES sessions(id), role TEXT NOT NULL,
  content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL, timestamp TIMESTAMP,
  tokens INTEGER, metadata_json TEXT
);
CREATE INDEX idx_messages_session ON messages(session_id);
"""
_GOOSE_LEDGER = """
CREATE TABLE usage_ledger (
  id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
  created_timestamp INTEGER NOT NULL, model TEXT, input_tokens INTEGER, output_tokens INTEGER,
  total_tokens INTEGER, cache_read_tokens INTEGER, cache_write_tokens INTEGER, cost REAL,
  cost_source TEXT, is_compaction INTEGER DEFAULT 0
);
"""
_HERMES = """
CREATE TABLE schema_version (version INTEGER NOT NULL);
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, source TEXT NOT NULL, model TEXT, model_config TEXT, system_prompt TEXT,
  parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
  message_count INTEGER DEFAULT 0, input_tokens INTEGER DEFAULT 0,
  output_tokens INTEGER DEFAULT 0, cache_read_tokens INTEGER DEFAULT 0,
  cache_write_tokens INTEGER DEFAULT 0, reasoning_tokens INTEGER DEFAULT 0, cwd TEXT,
  billing_provider TEXT, estimated_cost_usd REAL, actual_cost_usd REAL, title TEXT,
  rewind_count INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL,
  content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL,
  token_count INTEGER, finish_reason TEXT, reasoning TEXT, reasoning_content TEXT,
  observed INTEGER DEFAULT 0, active INTEGER NOT NULL DEFAULT 1,
  compacted INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE session_model_usage (
  session_id TEXT NOT NULL, model TEXT NOT NULL, billing_provider TEXT NOT NULL DEFAULT '',
  task TEXT NOT NULL DEFAULT '', api_call_count INTEGER NOT NULL DEFAULT 0,
  input_tokens INTEGER NOT NULL DEFAULT 0, output_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0, cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens INTEGER NOT NULL DEFAULT 0, actual_cost_usd REAL NOT NULL DEFAULT 0,
  last_seen REAL
);
"""


class Database:
    """A database that its agent has open, in WAL mode as they all use it."""

    def __init__(self, path: Path, schema: str) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        if is_new:
            self.connection.executescript(schema)

    def insert(self, table: str, **fields: Any) -> None:
        names, marks = ", ".join(fields), ", ".join("?" * len(fields))
        self.run(f"INSERT INTO {table} ({names}) VALUES ({marks})", *fields.values())

    def run(self, sql: str, *arguments: Any) -> None:
        self.connection.execute(sql, arguments)

    def close(self) -> None:
        """As its agent does at its end: the log goes into the file."""
        self.connection.close()


class OpenCodeDatabase(Database):
    """OpenCode's ``opencode.db``."""

    def __init__(self, home: Path, path: Path | None = None) -> None:
        super().__init__(path or home / ".local/share/opencode/opencode.db", _OPENCODE)
        self._at_ms = START_MS
        self._count = 0
        self.run("INSERT OR IGNORE INTO project VALUES ('global', '/')")

    def session(self, session_id: str, **fields: Any) -> str:
        self._at_ms += 1000
        made = {
            "id": session_id,
            "project_id": "global",
            "slug": "quiet-fox",
            "directory": "/srv/shop",
            "title": f"New session - 2026-01-01T09:00:0{len(session_id) % 10}.000Z",
            "version": "1.18.0",
            "time_created": self._at_ms,
            "time_updated": self._at_ms,
        }
        self.insert("session", **{**made, **fields})
        return session_id

    def message(self, session_id: str, data: Record, *parts: Record) -> str:
        self._at_ms += 1000
        self._count += 1
        name = f"msg_{self._count:04}"
        times = {"time_created": self._at_ms, "time_updated": self._at_ms}
        self.insert("message", id=name, session_id=session_id, data=json.dumps(data), **times)
        for number, part in enumerate(parts):
            self.insert(
                "part",
                id=f"prt_{self._count:04}_{number:03}",
                message_id=name,
                session_id=session_id,
                data=json.dumps(part),
                **times,
            )
        return name

    def prompt(self, session_id: str, text: str, *parts: Record) -> str:
        model = {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"}
        data = {"role": "user", "time": {"created": self._at_ms}, "agent": "build", "model": model}
        return self.message(session_id, data, {"type": "text", "text": text}, *parts)

    def answer(self, session_id: str, *parts: Record, **fields: Any) -> str:
        data = {
            "role": "assistant",
            "parentID": f"msg_{self._count:04}",
            "providerID": "anthropic",
            "modelID": "claude-sonnet-4-5",
            "mode": "build",
            "agent": "build",
            "path": {"cwd": "/srv/shop", "root": "/srv/shop"},
            "time": {"created": self._at_ms, "completed": self._at_ms + 500},
            "cost": 0.25,
            "tokens": opencode_tokens(),
            "finish": "stop",
        }
        return self.message(session_id, {**data, **fields}, *parts)


class GooseDatabase(Database):
    """Goose's ``sessions.db``, of schema 15 or of an older one without a ledger."""

    def __init__(self, home: Path, *, has_ledger: bool = True) -> None:
        path = home / ".local/share/goose/sessions/sessions.db"
        super().__init__(path, _GOOSE + (_GOOSE_LEDGER if has_ledger else ""))
        found = self.connection.execute("SELECT max(created_timestamp) FROM messages").fetchone()
        self._at_s = found[0] or START_MS // 1000

    def session(self, session_id: str, **fields: Any) -> str:
        made = {
            "id": session_id,
            "name": "CLI Session",
            "working_dir": "/srv/shop",
            "created_at": "2026-01-01 09:00:00",
            "updated_at": "2026-01-01 09:00:00",
            "provider_name": "anthropic",
            "model_config_json": json.dumps({"model_name": "claude-sonnet-4-5"}),
        }
        self.insert("sessions", **{**made, **fields})
        return session_id

    def message(self, session_id: str, role: str, *content: Record, **metadata: Any) -> str:
        self._at_s += 1
        name = f"msg_{self._at_s}"
        shown = {"userVisible": True, "agentVisible": True, **metadata}
        self.insert(
            "messages",
            message_id=name,
            session_id=session_id,
            role=role,
            content_json=json.dumps(content),
            created_timestamp=self._at_s,
            metadata_json=json.dumps(shown),
        )
        return name

    def say(self, session_id: str, role: str, text: str, **metadata: Any) -> str:
        return self.message(session_id, role, {"type": "text", "text": text}, **metadata)

    def used(self, session_id: str, **fields: Any) -> None:
        made = {
            "session_id": session_id,
            "created_timestamp": self._at_s,
            "model": "claude-sonnet-4-5",
            "input_tokens": 440,
            "output_tokens": 20,
            "cache_read_tokens": 300,
            "cache_write_tokens": 40,
            "cost": 0.25,
            "cost_source": "provider_reported",
        }
        self.insert("usage_ledger", **{**made, **fields})


def goose_call(call_id: str, tool: str, **arguments: Any) -> Record:
    asked = {"name": tool, "arguments": arguments}
    return {
        "type": "toolRequest",
        "id": call_id,
        "toolCall": {"status": "success", "value": asked},
    }


def goose_result(call_id: str, *contents: Record, **fields: Any) -> Record:
    value = {"content": list(contents), "isError": False, **fields}
    return {
        "type": "toolResponse",
        "id": call_id,
        "toolResult": {"status": "success", "value": value},
    }


class HermesDatabase(Database):
    """Hermes Agent's ``state.db``."""

    def __init__(self, home: Path, profile: str | None = None) -> None:
        base = home / ".hermes"
        folder = base if profile is None else base / "profiles" / profile
        super().__init__(folder / "state.db", _HERMES)
        found = self.connection.execute("SELECT max(timestamp) FROM messages").fetchone()
        self._at_s = found[0] or START_MS / 1000

    def session(self, session_id: str, **fields: Any) -> str:
        made = {
            "id": session_id,
            "source": "cli",
            "model": "claude-sonnet-4-5",
            "billing_provider": "anthropic",
            "started_at": START_MS / 1000,
            "cwd": "/srv/shop",
        }
        self.insert("sessions", **{**made, **fields})
        return session_id

    def message(self, session_id: str, role: str, content: str | None, **fields: Any) -> int:
        self._at_s += 1.5
        row = {"session_id": session_id, "role": role, "content": content}
        self.insert("messages", **row, timestamp=self._at_s, **fields)
        return int(self.connection.execute("SELECT max(id) FROM messages").fetchone()[0])

    def used(self, session_id: str, **fields: Any) -> None:
        made = {
            "session_id": session_id,
            "model": "claude-sonnet-4-5",
            "billing_provider": "anthropic",
            "input_tokens": 200,
            "output_tokens": 40,
            "cache_read_tokens": 600,
            "cache_write_tokens": 80,
            "reasoning_tokens": 10,
            "last_seen": self._at_s,
        }
        self.insert("session_model_usage", **{**made, **fields})


def hermes_call(call_id: str, tool: str, **arguments: Any) -> str:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return json.dumps([{"id": call_id, "type": "function", "function": function}])


def opencode_tokens(input_: int = 100, output: int = 20) -> Record:
    return {
        "input": input_,
        "output": output,
        "reasoning": 5,
        "cache": {"read": 300, "write": 40},
    }


def opencode_call(tool: str, arguments: Record, output: str, call_id: str = "call_1") -> Record:
    state = {
        "status": "completed",
        "input": arguments,
        "output": output,
        "title": tool,
        "metadata": {"exit": 0},
        "time": {"start": START_MS, "end": START_MS + 10},
    }
    return {"type": "tool", "callID": call_id, "tool": tool, "state": state}


def opencode_step(reason: str = "stop", **tokens: int) -> list[Record]:
    return [
        {"type": "step-start", "snapshot": "abc"},
        {
            "type": "step-finish",
            "reason": reason,
            "cost": 0.125,
            "tokens": opencode_tokens(**tokens),
        },
    ]
