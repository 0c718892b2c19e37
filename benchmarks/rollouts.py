"""Rollouts of Codex: what a year of using it leaves behind.

Owns their shape: each item of the conversation, the event that shows it on the screen, and running
totals of the tokens. ``tokens`` counts what was paid for.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any

from benchmarks.bank import Bank

_PROSE = (60, 2_000)
_OUTPUT = (600, 16_000)
_WINDOW = 272_000


class Rollout:
    """One file, line by line."""

    def __init__(self, seed: int, cwd: str, start_s: float, banks: tuple[Bank, Bank]) -> None:
        self.r = random.Random(seed)
        self._now_s = self._start_s = start_s
        when = int(start_s * 1_000)
        text = f"{when:012x}7{self.r.getrandbits(12):03x}8{self.r.getrandbits(60):015x}"
        self.id = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        self.lines: list[bytes] = []
        self.tokens = 0
        self._totals = [0, 0, 0, 0]
        self._prose, self._output = banks
        self._cwd = cwd
        self._turn = 0
        meta = {"id": self.id, "timestamp": self._clock(), "cwd": cwd, "originator": "codex_cli_rs"}
        self._line("session_meta", {**meta, "cli_version": "0.128.0", "model_provider": "openai"})
        context = f"<environment_context>\n  <cwd>{cwd}</cwd>\n</environment_context>"
        self._item("message", role="user", content=[{"type": "input_text", "text": context}])

    @property
    def file_name(self) -> str:
        """Where Codex keeps it, below its folder of sessions."""
        start = datetime.fromtimestamp(self._start_s, UTC)
        return f"{start:%Y/%m/%d}/rollout-{start:%Y-%m-%dT%H-%M-%S}-{self.id}.jsonl"

    @property
    def last_s(self) -> float:
        return self._now_s

    def exchange(self, prompt: str = "", answer: str = "", output: str = "") -> None:
        """A prompt, some calls, an answer; each with these words, if there are any."""
        self._turn += 1
        asked = self._text(self._prose, _PROSE, prompt)
        place = {"cwd": self._cwd, "approval_policy": "on-request", "model": "gpt-5-codex"}
        self._line("turn_context", {"turn_id": f"t{self._turn}", **place})
        self._item("message", role="user", content=[{"type": "input_text", "text": asked}])
        self._line("event_msg", {"type": "user_message", "message": asked, "images": []})
        for number in range(self.r.randint(1 if output else 0, 5)):
            self._call("" if number else output)
        said = self._text(self._prose, _PROSE, answer)
        self._item("message", role="assistant", content=[{"type": "output_text", "text": said}])
        self._line("event_msg", {"type": "agent_message", "message": said})
        self._count()

    def _call(self, word: str) -> None:
        call_id = f"call_{self.r.getrandbits(80):020x}"
        self._item("reasoning", summary=[], encrypted_content=f"{self.r.getrandbits(3_200):x}")
        arguments = json.dumps({"command": "make", "workdir": self._cwd})
        self._item("function_call", name="shell_command", arguments=arguments, call_id=call_id)
        self._count()
        printed = self._text(self._output, _OUTPUT, word)
        self._item("function_call_output", call_id=call_id, output=printed)

    def _count(self) -> None:
        given, written = self.r.randint(6_000, 150_000), self.r.randint(20, 2_500)
        last = [given, int(given * self.r.random()), written, written // 3]
        self._totals = [before + now for before, now in zip(self._totals, last, strict=True)]
        self.tokens += given + written
        totals, now = _spell(self._totals), _spell(last)
        info = {
            "total_token_usage": totals,
            "last_token_usage": now,
            "model_context_window": _WINDOW,
        }
        self._line("event_msg", {"type": "token_count", "info": info, "rate_limits": None})

    def _item(self, kind: str, **fields: Any) -> None:
        self._line("response_item", {"type": kind, **fields})

    def _line(self, kind: str, payload: dict[str, Any]) -> None:
        self._now_s += 0.2 + self.r.random() * 4
        line = {"timestamp": self._clock(), "type": kind, "payload": payload}
        self.lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode())

    def _clock(self) -> str:
        now = datetime.fromtimestamp(int(self._now_s * 1_000) / 1_000, UTC)
        return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _text(self, bank: Bank, size: tuple[int, int], word: str = "") -> str:
        return str(json.loads(b'"' + bank.draw(self.r, *size) + b'"')) + (word and f" {word}.")


def _spell(counts: list[int]) -> dict[str, Any]:
    names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
    named = dict(zip(names, counts, strict=True))
    return {**named, "total_tokens": counts[0] + counts[2]}
