"""Convert a context to a provider's messages: system, user, assistant and tool.

The texts are pi's to the byte, so that a session continued here prompts a model as it did there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sessiontree.model.messages import WireMessage, as_text, text_of

_COMPACTED = "The conversation history before this point was compacted into the following summary:"
_CAME_BACK = "The following is a summary of a branch that this conversation came back from:"
NO_RESULT = "No result: the tool call was interrupted before it finished."


def convert_to_llm(messages: Iterable[WireMessage], *, repair: bool = False) -> list[WireMessage]:
    """Convert extended roles to user messages; drop unknown roles.

    System messages become one at the head. ``repair`` also makes tool calls and results match: a
    call without a result gets a synthetic error result, a result without its call is dropped.
    """
    systems: list[WireMessage] = []
    converted: list[WireMessage] = []
    for message in messages:
        if message.get("role") == "system":
            systems.append(message)
        elif (made := _convert(message)) is not None:
            converted.append(made)
    if repair:
        converted = _match_tool_results(converted)
    system = merge_system_messages(systems)
    return converted if system is None else [system, *converted]


def merge_system_messages(messages: Iterable[WireMessage]) -> WireMessage | None:
    """Merge system messages into one with the resulting prompt and tools; None without any.

    The first holds the prompt; each later one appends ``content``, replaces ``sections`` by name
    (``null`` removes one), and adds or removes tools.
    """
    content: list[str] = []
    sections: dict[str, Any] = {}
    tools: dict[str, Any] = {}
    timestamp: Any = None
    is_empty = True
    for message in messages:
        if message.get("role") != "system":
            continue
        is_empty = False
        timestamp = message.get("timestamp") if timestamp is None else timestamp
        content.append(text_of(message.get("content"), "\n"))
        _patch_sections(sections, message.get("sections"))
        for tool in _named(message.get("toolsRemoved")):
            tools.pop(tool["name"], None)
        tools |= {tool["name"]: tool for tool in _named(message.get("toolsAdded"))}
    if is_empty:
        return None
    merged: WireMessage = {"role": "system", "content": "\n\n".join(filter(None, content))}
    if sections:
        merged["sections"] = sections
    if tools:
        merged["toolsAdded"] = list(tools.values())
    merged["timestamp"] = 0 if timestamp is None else timestamp
    return merged


def system_text(message: Mapping[str, Any]) -> str:
    """Return a system message's prompt: its content, then its sections."""
    sections = message.get("sections")
    parts = [text_of(message.get("content"), "\n")]
    parts += sections.values() if isinstance(sections, dict) else ()
    return "\n\n".join(part for part in parts if isinstance(part, str) and part)


def _patch_sections(sections: dict[str, Any], patch: object) -> None:
    for name, text in patch.items() if isinstance(patch, dict) else ():
        if text is None:
            sections.pop(name, None)
        else:
            sections[name] = text


def _named(tools: object) -> list[dict[str, Any]]:
    return [
        tool
        for tool in (tools if isinstance(tools, list) else ())
        if isinstance(tool, dict) and isinstance(tool.get("name"), str)
    ]


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
            blocks = message.get("blocks")
            if isinstance(blocks, list) and blocks:
                # Here the summary is the lead-in to the history that follows it.
                return _user([{"type": "text", "text": _summary(message)}, *blocks], message)
            return _user(f"{_COMPACTED}\n\n<summary>\n{_summary(message)}\n</summary>", message)
    return None


def _summary(message: WireMessage) -> str:
    return as_text(message.get("summary"))


def _user(content: object, message: WireMessage) -> WireMessage:
    blocks = content if isinstance(content, list) else [{"type": "text", "text": as_text(content)}]
    return {"role": "user", "content": blocks, "timestamp": message.get("timestamp", 0)}


def bash_text(message: WireMessage) -> str:
    """Return the text in which the model sees a command that the user ran."""
    text = f"Ran `{as_text(message.get('command'))}`\n"
    output = as_text(message.get("output"))
    text += f"```\n{output}\n```" if output else "(no output)"
    code = message.get("exitCode")
    if isinstance(code, float) and code.is_integer():
        code = int(code)
    if message.get("cancelled"):
        text += "\n\n(command cancelled)"
    elif isinstance(code, int | float | str) and code != 0:
        text += f"\n\nCommand exited with code {code}"
    full_output = as_text(message.get("fullOutputPath"))
    if message.get("truncated") and full_output:
        text += f"\n\n[Output truncated. Full output: {full_output}]"
    return text


def _match_tool_results(messages: list[WireMessage]) -> list[WireMessage]:
    """Put each result right after its call; drop results without a call.

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
            open_calls = waiting.get(as_text(message.get("toolCallId")))
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
    """A tool call and, once found, its result and that one's position."""

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
