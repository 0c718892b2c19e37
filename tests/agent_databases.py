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
