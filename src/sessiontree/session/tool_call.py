"""Give a recorded tool call other arguments, in memory and where the session is kept."""

from __future__ import annotations

import re
from typing import Any

from sessiontree.core.tree import SessionTree
from sessiontree.model.entries import Entry
from sessiontree.session.live import LiveSession

_PLAIN_ID = re.compile(r"[0-9A-Za-z_-]+")


def rewrite_tool_call(session: LiveSession, tool_call_id: str, arguments: dict[str, Any]) -> bool:
    """Replace the arguments of a recorded tool call; whether there was one."""
    session.log.check()
    if _find_call(session.tree, tool_call_id) is None:
        return False
    return session.log.settle(lambda: _rewrite_held(session, tool_call_id, arguments))


def _rewrite_held(session: LiveSession, tool_call_id: str, arguments: dict[str, Any]) -> bool:
    found = _find_call(session.tree, tool_call_id)  # the file may have been another one
    if found is None:
        return False
    entry, call = found
    before = call.get("arguments")
    try:
        call["arguments"] = arguments
        session.rewrite(find_changes=True)
    except Exception:
        call["arguments"] = before
        raise
    except BaseException:
        entry.release()  # interrupted: the file tells which they are
        raise
    return True


def _find_call(tree: SessionTree, tool_call_id: str) -> tuple[Entry, dict[str, Any]] | None:
    """The latest tool call of this id, as its message has it, and the entry of that."""
    # a plain id stands in its line unchanged; any other may be escaped there
    needle = tool_call_id.encode() if _PLAIN_ID.fullmatch(tool_call_id) else b""
    for entry in reversed(tree.entries):
        if entry.type != "message":
            continue
        raw = entry.raw()
        if raw is not None and needle not in raw and not entry.is_loaded:
            continue
        message = entry.data.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if (
                isinstance(block, dict)
                and block.get("type") == "toolCall"
                and block.get("id") == tool_call_id
            ):
                return entry, block
    return None
