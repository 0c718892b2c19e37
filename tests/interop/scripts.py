"""Random sessions as scripts: what an agent does, step by step, without ids or times.

Owns the choice of steps; a script is plain JSON that a peer (driver.mjs) or we (ours.py) play. A
step refers to an entry by the number of the step that made it.
"""

from __future__ import annotations

import base64
import random
from dataclasses import dataclass, field
from typing import Any, Literal

Dialect = Literal["pi", "omp"]
Writer = Literal["pi", "old-pi", "omp"]
"""Whose entry types a script may use."""
Step = dict[str, Any]


def dialect_of(writer: Writer) -> Dialect:
    """The profile whose sessions this agent writes."""
    return "omp" if writer == "omp" else "pi"


FIRST_MESSAGE_MS = 1_760_000_000_000
_WORDS = ["the", "parser", "reads", "a", "line", "and", "keeps", "what", "it", "cannot", "tell"]
_ODD = [
    "naïve café",
    "日本語テキスト",
    "🚀🧪",
    'quotes " and \\ backslash',
    "tab\tand\nnew\r\nlines",
    "\u2028line\u2029separators",
    "\x00\x1b[31mcontrol\x7f\x85",
    "</script><!-- -->",
    "e\u0301 combined",
    "\ud83d half a pair",
    "\udc00",
    '{"type":"message","id":"deadbeef"}',
]
_LEVELS = ["off", "minimal", "low", "medium", "high", "xhigh"]
_MODELS = [("anthropic", "claude-sonnet-4-5"), ("openai", "gpt-5.2"), ("google", "gemini/3-pro")]


@dataclass
class ScriptMaker:
    """Makes one session's steps; ``more()`` may be called again to carry the session on.

    Its idea of the leaf only steers the choice of targets; whoever plays the steps knows better.
    """

    seed: int
    writer: Writer
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.r = random.Random(f"{self.seed}/{self.writer}")
        self.parent: dict[int, int | None] = {}
        self.editable: dict[int, str] = {}
        self.leaf: int | None = None
        self.pending: list[tuple[str, str]] = []
        self.clock_ms = FIRST_MESSAGE_MS + self.seed * 1_000_000
        self.calls = 0

    def more(self, length: int) -> list[Step]:
        """About this many further steps; the first batch always holds an answer of the model."""
        start = len(self.steps)
        if start == 0:
            self._opening()
        while len(self.steps) - start < length:
            self._one()
        return self.steps[start:]

    # -- one step -----------------------------------------------------------------------------

    def _opening(self) -> None:
        if self.writer == "pi" and self.r.random() < 0.7:
            self._system()
        if self.r.random() < 0.7:
            self._model()
            self._thinking()
        if self.writer == "omp" and self.r.random() < 0.2:
            self._init()
        self._user()
        self._assistant()

    def _one(self) -> None:
        if self.pending and self.r.random() < 0.92:
            return self._tool_result()
        choices = [
            (14, self._user),
            (16, self._assistant),
            (2, self._bash),
            (2, self._thinking),
            (2, self._model),
            (1.2, self._compaction),
            (2, self._custom),
            (2, self._custom_message),
            (3, self._label),
            (3, self._branch),
            (1.5, self._branch_summary),
            (0.2, self._reset),
            (1, self._name),
        ]
        if self.writer == "omp":
            choices += [
                (1, self._ttsr),
                (1, self._mode),
                (0.5, self._init),
                (0.4, self._reset_boundary),
                (0.5, self._service_tier),
                (0.3, self._credential_pin),
            ]
        if self.writer == "pi":
            choices += [(1, self._system), (3, self._context_edit), (1, self._usage_entry)]
        weights = [weight for weight, _ in choices]
        self.r.choices([make for _, make in choices], weights)[0]()
        return None

    def _entry(self, step: Step) -> int:
        number = len(self.steps)
        self.steps.append(step)
        self.parent[number] = self.leaf
        self.leaf = number
        return number

    def _move(self, step: Step, leaf: int | None) -> None:
        self.steps.append(step)
        self.leaf = leaf
        self.pending = []

    # -- messages -----------------------------------------------------------------------------

    def _message(self, message: Step) -> None:
        self.clock_ms += self.r.randint(1, 60_000)
        made = self._entry({"do": "message", "message": {**message, "timestamp": self.clock_ms}})
        if message["role"] in ("user", "assistant", "toolResult"):
            self.editable[made] = message["role"]

    def _system(self) -> None:
        message: Step = {"role": "system", "content": self.r.choice(["", self.text()])}
        if self.r.random() < 0.2:
            message["content"] = [{"type": "text", "text": self.text()} for _ in range(2)]
        if self.r.random() < 0.8:
            names = self.r.sample(["preamble", "tools", "skills", "cwd"], self.r.randint(1, 3))
            message["sections"] = {
                n: self.r.choice([self.text(), self.text(), None]) for n in names
            }
        if self.r.random() < 0.7:
            tools = self.r.sample(["read", "bash", "edit", "write"], self.r.randint(1, 3))
            message["toolsAdded"] = [
                {"name": n, "description": self.text(), "parameters": {"type": "object"}}
                for n in tools
            ]
        if self.r.random() < 0.3:
            message["toolsRemoved"] = [{"name": self.r.choice(["read", "bash", "never"])}]
        self._message(message)

    def _user(self) -> None:
        if self.r.random() < 0.3:
            content: Any = self.text()
        else:
            content = [{"type": "text", "text": self.text()}]
            if self.r.random() < 0.15:
                content.append(self.image())
        self._message({"role": "user", "content": content})
        self.pending = []

    def _assistant(self) -> None:
        blocks: list[Step] = []
        if self.r.random() < 0.3:
            blocks.append(
                {"type": "thinking", "thinking": self.text(), "thinkingSignature": "c2lnbmVk"}
            )
        if self.r.random() < 0.9:
            blocks.append({"type": "text", "text": self.text()})
        self.pending = []
        for _ in range(self.r.choices([0, 1, 2, 3], [5, 4, 1, 0.5])[0]):
            self.calls += 1
            call = (f"call_{self.seed}_{self.calls}", self.r.choice(["bash", "read", "edit"]))
            self.pending.append(call)
            arguments = {
                "command": self.text(),
                "n": self.r.choice([1, -2, 0.5, 1e300, None, True]),
            }
            blocks.append(
                {"type": "toolCall", "id": call[0], "name": call[1], "arguments": arguments}
            )
        provider, model = self.r.choice(_MODELS)
        stop = "toolUse" if self.pending else "stop"
        if self.r.random() < 0.06:
            stop = self.r.choice(["error", "aborted", "length"])
        elif self.writer == "pi" and stop == "stop" and self.r.random() < 0.05:
            stop = "deferred"
        message: Step = {
            "role": "assistant",
            "content": blocks,
            "api": "anthropic-messages",
            "provider": provider,
            "model": model,
            "usage": self._usage(),
            "stopReason": stop,
        }
        if stop == "error":
            message["errorMessage"] = self.text()
        if self.writer == "pi":
            self._add_new_fields(message)
        self._message(message)

    def _add_new_fields(self, answer: Step) -> None:
        """What an answer may hold since pi 0.86."""
        if self.r.random() < 0.5:
            answer["thinkingLevel"] = self.r.choice(_LEVELS)
        if self.r.random() < 0.3:
            answer["responseModel"] = self.r.choice([answer["model"], "router/physical-1"])
        if self.r.random() < 0.1:
            answer["diagnostics"] = [{"type": "warning", "message": self.text()}]
        if self.r.random() < 0.3:
            answer["usage"] |= {"cacheWrite1h": 1, "reasoning": answer["usage"]["output"] // 2}
        if answer["stopReason"] == "deferred":
            answer["deferred"] = {"provider": answer["provider"], "id": "job-1", "data": {"a": [1]}}

    def _usage(self) -> Step:
        parts = {k: self.r.randint(0, 9000) for k in ("input", "output", "cacheRead", "cacheWrite")}
        cost = {k: round(v * 3e-6, 6) for k, v in parts.items()}
        total = {"totalTokens": sum(parts.values()), "cost": {**cost, "total": sum(cost.values())}}
        return {**parts, **total}

    def _tool_result(self) -> None:
        call_id, name = self.pending.pop(0)
        content: list[Step] = [{"type": "text", "text": self.text()}]
        if self.r.random() < 0.1:
            content.append(self.image())
        result: Step = {
            "role": "toolResult",
            "toolCallId": call_id,
            "toolName": name,
            "content": content,
            "isError": self.r.random() < 0.1,
        }
        if self.r.random() < 0.5:
            result["details"] = {"exitCode": 0, "diff": self.text(), "nested": [[], {}, [None]]}
        if self.writer == "pi" and self.r.random() < 0.2:
            result["usage"] = self._usage()
            call = {"id": "n1", "name": "read", "status": "ok", "durationMs": 3}
            result["nestedCalls"] = {"calls": [call], "complete": True}
        self._message(result)

    def _bash(self) -> None:
        message: Step = {
            "role": "bashExecution",
            "command": self.text(),
            "output": self.r.choice(["", self.text()]),
            "exitCode": self.r.choice([0, 0, 1, 130, None]),
            "cancelled": self.r.random() < 0.2,
            "truncated": False,
        }
        if self.r.random() < 0.2:
            message |= {"truncated": True, "fullOutputPath": "/tmp/out put.log"}
        if self.r.random() < 0.2:
            message["excludeFromContext"] = True
        self._message(message)

    # -- everything else ----------------------------------------------------------------------

    def _thinking(self) -> None:
        self._entry({"do": "thinking", "level": self.r.choice(_LEVELS)})

    def _model(self) -> None:
        provider, model = self.r.choice(_MODELS)
        step: Step = {"do": "model", "provider": provider, "model": model}
        if self.writer == "omp" and self.r.random() < 0.7:
            step["role"] = self.r.choice(["default", "default", "smol", "slow"])
        self._entry(step)

    def _compaction(self) -> None:
        keep = self._anywhere() if self.r.random() < 0.15 else self._on_path()
        if keep is None:
            return
        if self.writer == "pi" and self.r.random() < 0.2:
            keep = -1  # retains nothing
        step: Step = {
            "do": "compaction",
            "summary": self.text(),
            "keep": keep,
            "tokens": self.r.randint(1, 200_000),
        }
        if self.r.random() < 0.5:
            step["details"] = {"readFiles": ["a.py"], "modifiedFiles": []}
        if self.r.random() < 0.3:
            step["extension"] = self.r.random() < 0.5
        if self.writer == "pi" and self.r.random() < 0.5:
            step["usage"] = self._usage()
        if self.writer == "omp":
            if self.r.random() < 0.5:
                step["short"] = "short of it"
            if self.r.random() < 0.3:
                step["preserve"] = {"mine": [1, 2, {"a": self.text()}]}
        self._entry(step)

    def _custom(self) -> None:
        step: Step = {"do": "custom", "kind": self.r.choice(["ext.state", "todo", "é"])}
        if self.r.random() < 0.8:
            step["data"] = self.r.choice([{"a": [1, {"b": self.text()}]}, [], 0, "text", False, {}])
        self._entry(step)

    def _custom_message(self) -> None:
        content: Any = self.text()
        if self.r.random() < 0.5:
            content = [{"type": "text", "text": self.text()}]
            if self.r.random() < 0.4:
                content.append(self.image())
        step: Step = {
            "do": "custom_message",
            "kind": "ext.note",
            "content": content,
            "display": self.r.random() < 0.5,
        }
        if self.r.random() < 0.5:
            step["details"] = {"from": self.text()}
        self.editable[self._entry(step)] = "custom"

    def _label(self) -> None:
        target = self._anywhere()
        if target is None:
            return
        step: Step = {"do": "label", "target": target}
        if self.r.random() < 0.75:
            step["label"] = self.r.choice(
                ["checkpoint", "α", "with space", self.text()[:30] or "x"]
            )
        self._entry(step)

    def _branch(self) -> None:
        target = self._anywhere()
        if target is not None:
            self._move({"do": "branch", "to": target}, target)

    def _reset(self) -> None:
        self._move({"do": "reset"}, None)

    def _branch_summary(self) -> None:
        target = None if self.r.random() < 0.1 else self._anywhere()
        step: Step = {"do": "branch_summary", "to": -1 if target is None else target}
        step["summary"] = "" if self.r.random() < 0.1 else self.text()
        if self.r.random() < 0.4:
            step["details"] = {"readFiles": [], "modifiedFiles": ["b.py"]}
        if self.r.random() < 0.3:
            step["extension"] = self.r.random() < 0.5
        if self.writer == "pi" and self.r.random() < 0.4:
            step["usage"] = self._usage()
        self.leaf = target
        self.pending = []
        self._entry(step)

    def _context_edit(self) -> None:
        """Only of what is on the path: the agent refuses any other. No later step refers to it."""
        targets = [number for number in self._path() if number in self.editable]
        if not targets:
            return
        target = self.r.choice(targets)
        content: Any = self.r.choice([self.text(), [{"type": "text", "text": self.text()}], []])
        replacement = None if self.r.random() < 0.4 else {"content": content}
        self.steps.append({"do": "context_edit", "target": target, "replacement": replacement})

    def _usage_entry(self) -> None:
        provider, model = self.r.choice(_MODELS)
        step: Step = {"do": "usage", "kind": "cache_warm", "provider": provider, "model": model}
        step["usage"] = self._usage()
        if self.r.random() < 0.3:
            step["note"] = self.text()
        self._entry(step)

    def _name(self) -> None:
        # A name is an entry in one dialect only: nothing refers to it, and no leaf is kept.
        name = self.r.choice(
            ["Fix the parser", "  padded  ", "日本語", "a/b: “c”", "long " * self.r.randint(1, 90)]
        )
        self.steps.append({"do": "name", "name": name})

    def _ttsr(self) -> None:
        self._entry(
            {
                "do": "ttsr",
                "rules": self.r.sample(
                    ["no-any", "no-todo", "tests-first", "é"], self.r.randint(1, 3)
                ),
            }
        )

    def _mode(self) -> None:
        step: Step = {"do": "mode", "mode": self.r.choice(["plan", "none", "vibe"])}
        if self.r.random() < 0.5:
            step["data"] = {"planFile": "/tmp/plan.md", "n": 1}
        self._entry(step)

    def _init(self) -> None:
        step: Step = {
            "do": "init",
            "prompt": self.text(),
            "task": self.text(),
            "tools": ["bash", "read"],
        }
        if self.r.random() < 0.5:
            step["schema"] = {"type": "object", "properties": {}}
        self._entry(step)

    def _reset_boundary(self) -> None:
        self._entry({"do": "reset_boundary"})
        self.pending = []

    def _service_tier(self) -> None:
        self._entry(
            {"do": "service_tier", "tier": self.r.choice([None, {"anthropic": "priority"}])}
        )

    def _credential_pin(self) -> None:
        self._entry({"do": "credential_pin", "provider": "anthropic", "hash": "ab" * 32})

    # -- material -----------------------------------------------------------------------------

    def _anywhere(self) -> int | None:
        return self.r.choice(list(self.parent)) if self.parent else None

    def _on_path(self) -> int | None:
        path = self._path()
        return self.r.choice(path) if path else None

    def _path(self) -> list[int]:
        path: list[int] = []
        at = self.leaf
        while at is not None:
            path.append(at)
            at = self.parent.get(at)
        return path

    def text(self) -> str:
        words = [self.r.choice(_WORDS) for _ in range(self.r.randint(1, 12))]
        if self.r.random() < 0.35:
            words.insert(self.r.randrange(len(words) + 1), self.r.choice(_ODD))
        return " ".join(words) * (self.r.randint(50, 400) if self.r.random() < 0.02 else 1)

    def image(self) -> Step:
        size = self.r.choice([10, 300, 767, 768, 769, 5000])
        data = base64.b64encode(self.r.randbytes(size)).decode()
        return {
            "type": "image",
            "data": data,
            "mimeType": self.r.choice(["image/png", "image/jpeg"]),
        }


def make_script(seed: int, writer: Writer) -> list[Step]:
    """The steps of random session number ``seed``."""
    maker = ScriptMaker(seed, writer)
    return maker.more(maker.r.choice([3, 8, 20, 40, 80]))
