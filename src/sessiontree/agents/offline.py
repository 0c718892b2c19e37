"""The offline agent: follows a few rules, without key, network or model.

Owns the rules. It keeps the whole contract of an agent (streaming, tools with confirmation, aborts,
summaries), so that everything around it can be used and tried without a provider. Its answers are
recorded as ``offline/offline`` at no cost, whatever model the session names.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

from sessiontree.agents.offline_notes import is_summary_request, write_notes
from sessiontree.agents.toolbox_agent import ToolboxAgent
from sessiontree.agents.tools.toolbox import Toolbox
from sessiontree.agents.workplace import EnterProject
from sessiontree.core.usage import estimate_message, estimate_text
from sessiontree.model.messages import text_of
from sessiontree.runtime.agent_base import Draft, Request
from sessiontree.runtime.events import Message
from sessiontree.runtime.models import Model

OFFLINE_MODEL = Model("offline", "offline", name="Offline agent", context_window=128_000)

SIGNATURE = "— offline agent (no model)"

_SHOWN_LINES = 40
_CHUNK = re.compile(r"\s*\S+\s*")

Arguments = Mapping[str, Any]
_RULES: tuple[tuple[re.Pattern[str], str, Callable[[re.Match[str]], Arguments]], ...] = (
    (
        re.compile(r"(?:run|bash)\s*:\s*(?P<command>.+)", re.IGNORECASE | re.DOTALL),
        "bash",
        lambda found: {"command": found["command"].strip()},
    ),
    (
        re.compile(r"todo\s*:\s*(?P<tasks>.+)", re.IGNORECASE | re.DOTALL),
        "todo",
        lambda found: {"todos": _tasks(found["tasks"])},
    ),
    (
        re.compile(r"write\s+(?P<path>\S+)\s*\n(?P<content>.*)", re.IGNORECASE | re.DOTALL),
        "write",
        lambda found: {"path": found["path"], "content": found["content"]},
    ),
    (
        re.compile(
            r"replace\s+(?P<old>.+?)\s+with\s+(?P<new>.+?)\s+in\s+(?P<path>\S+)", re.IGNORECASE
        ),
        "edit",
        lambda found: {"path": found["path"], "oldText": found["old"], "newText": found["new"]},
    ),
    (
        re.compile(r"(?:read|show|cat)\s+(?:the\s+file\s+)?(?P<path>\S+)", re.IGNORECASE),
        "read",
        lambda found: {"path": _unquoted(found["path"].removeprefix("@"))},  # as `@` completes it
    ),
    (
        re.compile(
            r"(?:grep|search\s+for)\s+(?P<pattern>.+?)(?:\s+in\s+(?P<path>\S+))?",
            re.IGNORECASE,
        ),
        "grep",
        lambda found: {
            "pattern": _unquoted(found["pattern"]),
            "literal": True,
            **({"path": found["path"]} if found["path"] else {}),
        },
    ),
    (
        re.compile(
            r"(?:ls|list(?:\s+(?:the\s+)?files)?)(?:\s+(?:in\s+)?(?P<path>\S+))?", re.IGNORECASE
        ),
        "ls",
        lambda found: {"path": found["path"] or "."},
    ),
)

_HELP = """\
I'm the **offline agent**. I don't use a model, so I can't understand your prompt, but I can run \
these commands:

- `list` or `list FOLDER`
- `read FILE`
- `grep TEXT` or `grep TEXT in FOLDER`
- `run: COMMAND` (asks you first)
- `todo: FIRST; SECOND` (shows a list of tasks)
- `write FILE` and the content on the lines below (asks you first)
- `replace OLD with NEW in FILE` (asks you first)

Sessions, branches and search work as they do with a model. To use a model, set a provider's key \
(`ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, `GOOGLE_API_KEY`, …) and start again."""


class OfflineAgent(ToolboxAgent):
    """Answers by rules. ``delay_s`` is the pause after each word, for a natural pace."""

    def __init__(
        self,
        toolbox: Toolbox | None = None,
        *,
        delay_s: float = 0.0,
        clock_ms: Callable[[], int] | None = None,
        cwd: str | None = None,
        enter: EnterProject | None = None,
    ) -> None:
        super().__init__(toolbox, clock_ms=clock_ms, cwd=cwd, enter=enter)
        self.model = OFFLINE_MODEL
        self._delay_s = delay_s

    async def respond(self, draft: Draft, request: Request) -> None:
        """Write the answer that the rules give to the last message."""
        last = request.messages[-1] if request.messages else {"role": "user", "content": ""}
        if last.get("role") == "toolResult":
            await self._say(draft, _report(last))
        elif not request.tools and is_summary_request(text_of(last.get("content"), "\n")):
            notes = write_notes(text_of(last.get("content"), "\n"))
            await self._say(draft, notes[: 4 * (request.max_tokens or len(notes))])
        else:
            await self._follow_rules(draft, request, text_of(last.get("content"), "\n").strip())
        self._count(draft, request)

    async def _follow_rules(self, draft: Draft, request: Request, prompt: str) -> None:
        for pattern, tool, arguments in _RULES:
            found = pattern.fullmatch(prompt)
            if found is not None and tool in request.tools:
                await self._say(draft, f"Offline agent: calling `{tool}`.")
                await draft.add_tool_call(tool, arguments(found))
                return
        await self._say(draft, f"{_HELP}\n\n{SIGNATURE}")

    async def _say(self, draft: Draft, text: str) -> None:
        for piece in _CHUNK.findall(text):
            await draft.add_text(piece)
            # Also without a pause: an abort must find its way in between two words.
            await asyncio.sleep(self._delay_s)

    def _count(self, draft: Draft, request: Request) -> None:
        asked = sum(estimate_message(message) for message in request.messages)
        draft.set_usage(
            asked + estimate_text(request.system or ""), estimate_message(draft.message)
        )

    def _new_answer(self) -> Message:
        message = super()._new_answer()
        message.update(provider=OFFLINE_MODEL.provider, model=OFFLINE_MODEL.id)
        return message

    def _price(self, message: Message) -> None:
        """Return no price: no model was asked, whatever model the session names."""


def _tasks(text: str) -> list[dict[str, str]]:
    """Tasks, one between two semicolons; the first is under way."""
    named = [task.strip() for task in text.split(";") if task.strip()]
    states = ["in_progress", *["pending"] * len(named)]
    return [{"content": task, "status": state} for task, state in zip(named, states, strict=False)]


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`":
        return text[1:-1]
    return text


def _report(result: Message) -> str:
    """Describe a tool's result in a few words."""
    name = result.get("toolName", "the tool")
    text = text_of(result.get("content"), "\n")
    if result.get("isError"):
        return f"`{name}` failed:\n\n{_quoted(text)}\n\n{SIGNATURE}"
    return f"`{name}` gave:\n\n{_quoted(text)}\n\n{SIGNATURE}"


def _quoted(text: str) -> str:
    lines = text.split("\n")
    shown = "\n".join(lines[:_SHOWN_LINES])
    # A fence longer than any in the text, so that the text cannot end it.
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    more = f"\n({len(lines) - _SHOWN_LINES} more lines)" if len(lines) > _SHOWN_LINES else ""
    return f"{fence}\n{shown}\n{fence}{more}"
