"""Claude Code transcripts: what a year of using it leaves behind.

Owns their shape: answers in parts of one ``message.id``, calls with results that are there twice
(in the content and as ``toolUseResult``), thinking with a signature, notes in between, a subagent
now and then. ``used`` counts what was paid for, each answer once.
"""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.bank import Bank

_EXCHANGES = (2, 60)
_PROSE = (60, 2_000)
_OUTPUT = (300, 12_000)
_SUBAGENT_EVERY = 33


class Transcript:
    """One file, record by record."""

    def __init__(self, seed: int, cwd: str, start_s: float, banks: tuple[Bank, Bank]) -> None:
        self.r = random.Random(seed)
        self.id = self._uuid()
        self.lines: list[bytes] = []
        self.used: Counter[str] = Counter()
        self._prose, self._output = banks
        self._cwd = cwd
        self._now_s = start_s
        self._parent: str | None = None

    def exchange(self, prompt: str = "", answer: str = "", output: str = "") -> None:
        """A prompt, some calls, an answer; each with these words, if there are any."""
        asked = self._text(self._prose, _PROSE, prompt)
        self._record("user", message={"role": "user", "content": asked})
        for number in range(self.r.randint(1 if output else 0, 5)):
            self._call("" if number else output)
        self._answer([{"type": "text", "text": self._text(self._prose, _PROSE, answer)}])
        self.lines.append(b'{"type":"last-prompt","lastPrompt":"..."}')

    def fork(self) -> tuple[list[bytes], str]:
        """The same records in a session with another id, which is returned too."""
        made = str(uuid.UUID(int=uuid.UUID(self.id).int ^ 1))
        return [line.replace(self.id.encode(), made.encode()) for line in self.lines], made

    def subagent(self) -> list[bytes]:
        """A subagent's own transcript."""
        main, self.lines, parent, self._parent = self.lines, [], self._parent, None
        side = {"isSidechain": True, "agentId": "a1b2c3d"}
        self._record("user", **side, message={"role": "user", "content": "Explore the code"})
        for _ in range(4):
            self._answer([{"type": "text", "text": self._text(self._prose, _PROSE)}], **side)
        made, self.lines, self._parent = self.lines, main, parent
        return made

    def _call(self, word: str) -> None:
        call_id = f"toolu_{self.r.getrandbits(88):022x}"
        thought: dict[str, Any] = {"type": "thinking", "thinking": self._text(self._prose, _PROSE)}
        called: dict[str, Any] = {
            "type": "tool_use",
            "id": call_id,
            "name": "Bash",
            "input": {"command": "make"},
        }
        parts = [{**thought, "signature": f"{self.r.getrandbits(1_600):x}"}, called]
        self._answer(parts[self.r.randint(0, 1) :])
        text = self._text(self._output, _OUTPUT, word)
        content = [{"type": "tool_result", "tool_use_id": call_id, "content": text}]
        details = {"stdout": text, "stderr": "", "interrupted": False}
        self._record("user", message={"role": "user", "content": content}, toolUseResult=details)

    def _answer(self, parts: list[dict[str, Any]], **more: Any) -> None:
        message_id = f"msg_{self.r.getrandbits(88):022x}"
        usage = {
            "input_tokens": self.r.randint(1, 40),
            "output_tokens": self.r.randint(20, 2_500),
            "cache_read_input_tokens": self.r.randint(5_000, 150_000),
            "cache_creation_input_tokens": self.r.randint(0, 8_000),
        }
        self.used.update(usage)
        request_id = f"req_{self.r.getrandbits(80):020x}"
        who = {"type": "message", "role": "assistant"}
        body = {**who, "id": message_id, "model": "claude-sonnet-4-5"}
        for number, part in enumerate(parts, 1):
            # The parts that come first were written while the answer was still being counted.
            is_last = number == len(parts)
            counted = usage if is_last else {**usage, "output_tokens": usage["output_tokens"] // 3}
            message = {**body, "usage": counted, "content": [part]}
            self._record("assistant", **more, requestId=request_id, message=message)

    def _record(self, kind: str, **fields: Any) -> None:
        self._now_s += self.r.random() * 9
        made = self._uuid()
        stamp = f"2026-03-{1 + int(self._now_s // 86_400) % 28:02d}T{self._clock()}Z"
        base = {"type": kind, "uuid": made, "parentUuid": self._parent, "timestamp": stamp}
        place = {"cwd": self._cwd, "sessionId": self.id, "version": "2.1.207", "gitBranch": "main"}
        line = {"isSidechain": False, "userType": "external", **base, **place, **fields}
        self.lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode())
        self._parent = made

    def _clock(self) -> str:
        second = int(self._now_s) % 86_400
        part = int(self._now_s * 1_000) % 1_000
        return f"{second // 3_600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{part:03d}"

    def _text(self, bank: Bank, size: tuple[int, int], word: str = "") -> str:
        return str(json.loads(b'"' + bank.draw(self.r, *size) + b'"')) + (word and f" {word}.")

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self.r.getrandbits(128), version=4))


def write_transcripts(
    home: Path, sessions: int, projects: list[str], banks: tuple[Bank, Bank]
) -> None:
    """A home folder with this many sessions of Claude Code, spread over the projects."""
    for number in range(sessions):
        cwd = projects[number % len(projects)]
        name = "".join(char if char.isalnum() else "-" for char in cwd)
        folder = home / ".claude" / "projects" / name
        folder.mkdir(parents=True, exist_ok=True)
        made = Transcript(number, cwd, 1_800.0 * number, banks)
        low, high = _EXCHANGES
        for _ in range(int(low * (high / low) ** made.r.random())):
            made.exchange()
        _write(folder / f"{made.id}.jsonl", made.lines)
        if number % _SUBAGENT_EVERY == 0:
            _write(folder / made.id / "subagents" / "agent-a1b2c3d.jsonl", made.subagent())


def _write(path: Path, lines: list[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(lines) + b"\n")
