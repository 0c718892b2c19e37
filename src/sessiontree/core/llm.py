"""From a built context to what a model provider takes: user, assistant and tool messages only.

The texts are pi's to the byte, so that a session continued here prompts a model as it did there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sessiontree.model.messages import WireMessage

_COMPACTED = "The conversation history before this point was compacted into the following summary:"
_CAME_BACK = "The following is a summary of a branch that this conversation came back from:"
NO_RESULT = "No result: the tool call was interrupted before it finished."


def convert_to_llm(messages: Iterable[WireMessage], *, repair: bool = False) -> list[WireMessage]:
    """The messages with the extended roles turned into user messages; unknown roles are dropped.

    ``repair`` also makes tool calls and results match: a call without a result gets a synthetic
    error result, a result without its call is dropped.
    """
    converted = [made for message in messages if (made := _convert(message)) is not None]
    return _match_tool_results(converted) if repair else converted


def _convert(message: WireMessage) -> WireMessage | None:
    role = message.get("role")
    match role:
        case "user" | "assistant" | "toolResult":
            return message
        case "bashExecution":
            if message.get("excludeFromContext"):
                return None
            return _user(bash_text(message), message)
        case "custom":
            return _user(message.get("content"), message)
        case "branchSummary":
            return _user(f"{_CAME_BACK}\n\n<summary>\n{_summary(message)}</summary>", message)
        case "compactionSummary":
            return _user(f"{_COMPACTED}\n\n<summary>\n{_summary(message)}\n</summary>", message)
    return None


def _summary(message: WireMessage) -> str:
    return _text(message.get("summary"))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _user(content: object, message: WireMessage) -> WireMessage:
    blocks = content if isinstance(content, list) else [{"type": "text", "text": _text(content)}]
    return {"role": "user", "content": blocks, "timestamp": message.get("timestamp", 0)}


def bash_text(message: WireMessage) -> str:
    """A command that the user ran, as the model reads it."""
    text = f"Ran `{_text(message.get('command'))}`\n"
    output = _text(message.get("output"))
    text += f"```\n{output}\n```" if output else "(no output)"
    code = message.get("exitCode")
    if isinstance(code, float) and code.is_integer():
        code = int(code)
    if message.get("cancelled"):
        text += "\n\n(command cancelled)"
    elif isinstance(code, int | float | str) and code != 0:
        text += f"\n\nCommand exited with code {code}"
    full_output = _text(message.get("fullOutputPath"))
    if message.get("truncated") and full_output:
        text += f"\n\n[Output truncated. Full output: {full_output}]"
    return text


def _match_tool_results(messages: list[WireMessage]) -> list[WireMessage]:
    """Each call directly followed by its result; what belongs to no call is left out.

    Some providers use the same call ids in every turn, so a result belongs to the last call of
    its id before it that has none yet.
    """
    waiting: dict[str, list[_Call]] = {}
    calls_of: dict[int, list[_Call]] = {}
    for index, message in enumerate(messages):
        if message.get("role") == "assistant":
            calls_of[index] = [_Call(block) for block in _tool_calls(message)]
            for call in calls_of[index]:
                waiting.setdefault(call.block["id"], []).append(call)
        elif message.get("role") == "toolResult":
            open_calls = waiting.get(_text(message.get("toolCallId")))
            if open_calls:
                open_calls.pop().answer(index, message)
    repaired: list[WireMessage] = []
    for index, message in enumerate(messages):
        if message.get("role") != "toolResult":
            repaired.append(message)
        calls = calls_of.get(index, [])
        answered = [call for call in calls if call.result is not None]
        repaired += [call.result for call in sorted(answered, key=_Call.at) if call.result]
        repaired += [
            _synthetic_result(call.block, message) for call in calls if call.result is None
        ]
    return repaired


class _Call:
    """A tool call and, once found, its result and where that stood."""

    __slots__ = ("block", "index", "result")

    def __init__(self, block: dict[str, Any]) -> None:
        self.block = block
        self.index = 0
        self.result: WireMessage | None = None

    def answer(self, index: int, result: WireMessage) -> None:
        self.index = index
        self.result = result

    def at(self) -> int:
        return self.index


def _tool_calls(message: WireMessage) -> list[dict[str, Any]]:
    content = message.get("content")
    return [
        block
        for block in (content if isinstance(content, list) else ())
        if isinstance(block, dict)
        and block.get("type") == "toolCall"
        and isinstance(block.get("id"), str)
    ]


def _synthetic_result(call: dict[str, Any], message: WireMessage) -> WireMessage:
    return {
        "role": "toolResult",
        "toolCallId": call["id"],
        "toolName": call.get("name", ""),
        "content": [{"type": "text", "text": NO_RESULT}],
        "isError": True,
        "timestamp": message.get("timestamp", 0),
    }
