"""Convert Codex's response items: content, reasoning, tool calls, outputs, usage.

Items are those of OpenAI's Responses API as Codex stores them. ``read_line`` brings the lines of
both rollout formats into one form.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sessiontree.discovery.adapters.records import (
    WireRecord,
    get_count,
    get_list,
    get_object,
    get_text,
    make_usage,
)
from sessiontree.model import codec

API = "openai-responses"

CALLS = frozenset(("function_call", "custom_tool_call", "local_shell_call"))
OUTPUTS = frozenset(("function_call_output", "custom_tool_call_output"))
WEB_SEARCH = "web_search_call"
ITEMS = CALLS | OUTPUTS | {"message", "reasoning", WEB_SEARCH}

_ITEM_ROLES = {"UserMessage": "user", "AgentMessage": "assistant"}
_EVENT_ROLES = {"user_message": "user", "agent_message": "assistant"}
_CONTEXT_TAGS = frozenset(("skill", "permissions instructions", "app-context", "instructions"))
_CONTEXT_HEADS = ("# AGENTS.md instructions", "<INSTRUCTIONS>")
_LONGEST_TAG = 40


def convert_content(content: object) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return the text and image blocks of a message or an output, and all other blocks."""
    if isinstance(content, str):
        return ([{"type": "text", "text": content}] if content else []), []
    blocks: list[dict[str, Any]] = []
    left_over: list[Any] = []
    for block in content if isinstance(content, list) else []:
        made = _convert_block(block)
        if made is None:
            left_over.append(block)
        else:
            blocks.append(made)
    return blocks, left_over


def _convert_block(block: object) -> dict[str, Any] | None:
    if not isinstance(block, dict):
        return None
    if isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    url = get_text(block, "image_url") or get_text(get_object(block, "image_url"), "url")
    if url is not None:
        return convert_image(url)
    return None


def convert_image(url: str) -> dict[str, Any]:
    """Convert an image with a data URL; of any other image return its URL as text."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return {"type": "image", "data": data, "mimeType": head[5:-7] or "image/png"}
    return {"type": "text", "text": f"[image: {url}]"}


def convert_reasoning(item: WireRecord, provider: str) -> dict[str, Any] | None:
    """Make a thinking block. It keeps encrypted reasoning only if OpenAI itself can read it.

    The signature is the whole item, as it goes back to the provider.
    """
    texts = reasoning_texts(item)
    made: dict[str, Any] = {"type": "thinking", "thinking": "\n\n".join(texts)}
    if get_text(item, "encrypted_content") and provider == "openai":
        made["thinkingSignature"] = codec.encode(item).decode("utf-8")
    return made if texts or "thinkingSignature" in made else None


def reasoning_texts(item: WireRecord) -> list[str]:
    """Return the unencrypted paragraphs of a reasoning item."""
    return [
        text
        for key in ("summary", "content")
        for part in get_list(item, key)
        if isinstance(part, dict) and (text := get_text(part, "text"))
    ]


def convert_search(item: WireRecord, call_id: str) -> dict[str, Any]:
    """Convert a web search, which the provider ran, to a tool call."""
    action = {key: value for key, value in get_object(item, "action").items() if key != "type"}
    kind = get_text(get_object(item, "action"), "type") or "search"
    name = "web_search" if kind in ("search", "other") else f"web_{kind}"
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": action}


def search_text(item: WireRecord) -> str:
    """Return the search terms, or the page that was opened."""
    action = get_object(item, "action")
    words = [action.get(key) for key in ("query", "url", "pattern")]
    words += get_list(action, "queries")
    return " ".join(word for word in words if isinstance(word, str)) or "?"


def convert_call(item: WireRecord) -> dict[str, Any] | None:
    """Convert a tool call; None without an id, since no result could name it."""
    call_id = get_text(item, "call_id") or get_text(item, "id")
    if call_id is None:
        return None
    match item.get("type"):
        case "local_shell_call":
            name: str | None = "local_shell"
            arguments: object = item.get("action")
        case "custom_tool_call":
            name, arguments = get_text(item, "name"), item.get("input")
        case _:
            name, arguments = get_text(item, "name"), _parse(item.get("arguments"))
    if not isinstance(arguments, dict):
        arguments = {} if arguments is None else {"input": arguments}
    return {"type": "toolCall", "id": call_id, "name": name or "unknown", "arguments": arguments}


def convert_output(item: WireRecord) -> tuple[list[dict[str, Any]], list[Any], bool | None]:
    """Return a tool output's content, the blocks left over, and whether it reports failure."""
    output = item.get("output")
    is_error: bool | None = None
    if isinstance(output, dict):
        success = output.get("success")
        is_error = not success if isinstance(success, bool) else None
        if "content" in output:
            output = output["content"]
        else:
            output = codec.encode(output).decode("utf-8")
    blocks, left_over = convert_content(output)
    if is_error is None and isinstance(output, str):
        is_error = _exit_failed(output)
    return blocks, left_over, is_error


def _exit_failed(output: str) -> bool | None:
    """Read the exit code from the JSON text that older versions give as output."""
    if not output.startswith('{"output":') or len(output) > 1_000_000:
        return None
    parsed = _parse(output)
    code = get_object(parsed, "metadata").get("exit_code") if isinstance(parsed, dict) else None
    return code != 0 if isinstance(code, int) else None


def _parse(text: object) -> object:
    if not isinstance(text, str):
        return text
    try:
        return codec.decode(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return text


def read_usage(counts: WireRecord) -> dict[str, Any]:
    """Convert OpenAI's token counts, whose input includes cached tokens."""
    cached = get_count(counts, "cached_input_tokens")
    return make_usage(
        max(0, get_count(counts, "input_tokens") - cached),
        get_count(counts, "output_tokens"),
        cached,
        get_count(counts, "cache_write_input_tokens"),
    )


def is_context(text: str) -> bool:
    """Whether Codex itself wrote this user message: environment or instructions."""
    stripped = text.strip()
    if stripped.startswith(_CONTEXT_HEADS):
        return True
    close = stripped.find(">", 1, _LONGEST_TAG + 2)
    if not stripped.startswith("<") or close < 0:
        return False
    tag = stripped[1:close]
    if not (tag in _CONTEXT_TAGS or ("_" in tag and tag.replace("_", "").isalpha())):
        return False
    return stripped.endswith(f"</{tag}>")


def context_cwd(text: str) -> str | None:
    """Return the working folder in Codex's context message, for files that name none elsewhere."""
    if not text.lstrip().startswith("<environment_context>"):
        return None
    for opening, closing in (("<cwd>", "</cwd>"), ("Current working directory: ", "\n")):
        start = text.find(opening)
        end = text.find(closing, start + len(opening)) if start >= 0 else -1
        found = text[start + len(opening) : end].strip() if end >= 0 else ""
        if found:
            return found
    return None


def shell_command(text: str) -> dict[str, Any] | None:
    """The command that a user ran with ``!``, and what it printed."""
    stripped = text.strip()
    if not stripped.startswith("<user_shell_command>"):
        return None
    command = _between(stripped, "<command>\n", "\n</command>")
    result = _between(stripped, "<result>\n", "\n</result>")
    if command is None or result is None:
        return None
    head, _, output = result.partition("Output:\n")
    message: dict[str, Any] = {
        "role": "bashExecution",
        "command": command,
        "output": output,
        "cancelled": False,
        "truncated": False,
    }
    code = head.partition("Exit code: ")[2].partition("\n")[0].strip()
    if code.lstrip("-").isdecimal() and len(code) < 12:
        message["exitCode"] = int(code)
    return message


def _between(text: str, opening: str, closing: str) -> str | None:
    start = text.find(opening)
    end = text.rfind(closing)
    return text[start + len(opening) : end] if start >= 0 and start + len(opening) <= end else None


def as_item(event: WireRecord) -> WireRecord | None:
    """Return the item that a display event shows (``shown_by``: its type); None for others."""
    kind = get_text(event, "type") or ""
    made = _shown(kind, event)
    return {**made, "shown_by": kind} if made is not None else None


def _shown(kind: str, event: WireRecord) -> WireRecord | None:
    if kind == "item_completed":
        return _shown_item(get_object(event, "item"))
    if kind == "web_search_end":
        action = get_object(event, "action") or {"type": "search", "query": event.get("query")}
        return {"type": WEB_SEARCH, "id": event.get("call_id"), "action": action}
    text = get_text(event, "message") or get_text(event, "text")
    role = _EVENT_ROLES.get(kind)
    if role == "user":
        return _shown_prompt(event)
    if text is None:
        return None
    if kind in ("agent_reasoning", "agent_reasoning_raw_content"):
        return {"type": "reasoning", "summary": [{"text": text}]}
    return {"type": "message", "role": role, "content": text} if role is not None else None


def _shown_item(item: WireRecord) -> WireRecord | None:
    role = _ITEM_ROLES.get(get_text(item, "type") or "")
    if role is not None:
        return {"type": "message", "role": role, "content": item.get("content")}
    if item.get("type") == "Reasoning":
        texts = [text for text in get_list(item, "summary_text") if isinstance(text, str)]
        return {"type": "reasoning", "summary": [{"text": text} for text in texts]}
    return None


def _shown_prompt(event: WireRecord) -> WireRecord | None:
    text = get_text(event, "message")
    content: list[WireRecord] = [{"type": "input_text", "text": text}] if text is not None else []
    urls = (url for url in get_list(event, "images") if isinstance(url, str))
    content += ({"type": "input_image", "image_url": url} for url in urls)
    return {"type": "message", "role": "user", "content": content} if content else None


class RolloutLine(msgspec.Struct):
    """A record of either rollout format: its kind and payload."""

    kind: str
    payload: WireRecord
    timestamp: object
    record: WireRecord


def read_line(record: WireRecord) -> RolloutLine:
    """Read a record of either rollout format."""
    kind = get_text(record, "type")
    timestamp = record.get("timestamp")
    payload = record.get("payload")
    if kind is not None and isinstance(payload, dict):
        return RolloutLine(kind, payload, timestamp, record)
    if kind is None and get_text(record, "id") and "timestamp" in record:
        return RolloutLine("session_meta", record, timestamp, record)
    if kind in ITEMS:
        return RolloutLine("response_item", record, timestamp, record)
    return RolloutLine(kind or get_text(record, "record_type") or "unknown", {}, timestamp, record)


def find_endings(lines: list[RolloutLine]) -> dict[str, WireRecord]:
    """Map each tool call to the event that reports its end."""
    found = {}
    for line in lines:
        ending = ending_of(line.payload) if line.kind == "event_msg" else None
        if ending is not None:
            found[ending[0]] = ending[1]
    return found


def ending_of(event: WireRecord) -> tuple[str, WireRecord] | None:
    """Return the id of the call that this event ends, and its data; None for other events."""
    kind = get_text(event, "type") or ""
    if kind == "item_completed":
        item = get_object(event, "item")
        call_id = get_text(item, "id")
        return (call_id, item) if call_id is not None else None
    call_id = get_text(event, "call_id")
    if call_id is None or not kind.endswith("_end"):
        return None
    return call_id, event


def has_failed(ending: WireRecord | None) -> bool:
    """Whether a call failed."""
    if ending is None:
        return False
    code = ending.get("exit_code")
    return (isinstance(code, int) and code != 0) or ending.get("success") is False
