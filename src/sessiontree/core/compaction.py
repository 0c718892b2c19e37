"""Decide when to compact a conversation, where to cut it, and what to summarise.

Works on a path (root to leaf) of entries. The runtime calls a model for the summary and saves it;
`summaries` words the request.

The rules (pi's, since users know them):

- compact when the estimate exceeds the model's window minus a reserve; keep about the last
  ``keep_recent_tokens``;
- a cut is made before a user, assistant, bash, custom or summary message, never before a tool's
  result and never between a tool call and its result;
- a cut inside a turn also summarises that turn's beginning, apart from the rest;
- a second compaction starts where the first began to keep, and carries its summary on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sessiontree.core.archive import has_history, history_text, summary_text
from sessiontree.core.context import ContextBuilder, context_edits, edit_message, find_kept
from sessiontree.core.summaries import FileLists, files_touched, message_text
from sessiontree.core.usage import (
    ContextEstimate,
    blocks_of,
    estimate_context,
    estimate_message,
    estimate_text,
    usage_of,
)
from sessiontree.errors import SessionTreeError
from sessiontree.model.entries import Entry
from sessiontree.model.messages import WireMessage, as_text


class CompactionError(SessionTreeError):
    """Nothing was compacted; the message gives the reason."""


class AlreadyCompactedError(CompactionError):
    """There is no message since the last compaction."""

    def __init__(self) -> None:
        super().__init__("Already compacted")


class NothingToCompactError(CompactionError):
    """A compaction would keep the whole conversation."""

    def __init__(self) -> None:
        super().__init__("Nothing to compact (session too small)")


class CompactionCancelledError(CompactionError):
    """The user or a hook cancelled the compaction."""

    def __init__(self) -> None:
        super().__init__("Compaction cancelled")


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """Settings: the moment to compact, and the amount to keep."""

    enabled: bool = True
    """Whether it happens by itself; on request it always does."""
    reserve_tokens: int = 16_384
    keep_recent_tokens: int = 20_000

    def scaled_to(self, window: int) -> CompactionSettings:
        """The same for a window so small that these would leave no room in it."""
        reserve = min(self.reserve_tokens, window // 2)
        keep = min(self.keep_recent_tokens, (window - reserve) // 2)
        return replace(self, reserve_tokens=reserve, keep_recent_tokens=keep)

    @property
    def summary_tokens(self) -> int:
        """Return the maximum length of a summary in tokens."""
        return max(256, self.reserve_tokens * 4 // 5)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """A compaction to do: summarise ``messages`` and ``turn_prefix``, keep the rest."""

    first_kept_entry_id: str
    tokens_before: int
    messages: tuple[WireMessage, ...]
    turn_prefix: tuple[WireMessage, ...]
    """The beginning of the turn that the cut is in; empty if it is between two turns."""
    entry_ids: tuple[str, ...]
    previous_summary: str | None
    files: FileLists


@dataclass(frozen=True, slots=True)
class BranchPlan:
    """The messages left behind by moving to another place in the tree."""

    common_ancestor_id: str | None
    entry_ids: tuple[str, ...]
    """All entries that are left, root side first."""
    messages: tuple[WireMessage, ...]
    """The newest of their messages that fit the summariser, in order."""
    files: FileLists


# --- thresholds -------------------------------------------------------------------------------


def should_compact(tokens: int, window: int, settings: CompactionSettings) -> bool:
    """Whether a context of this size needs automatic compaction."""
    fitted = settings.scaled_to(window)
    return settings.enabled and tokens > window - fitted.reserve_tokens


def estimate_path(
    path: Sequence[Entry], messages: Sequence[WireMessage] | None = None
) -> ContextEstimate:
    """Estimate the context's size at the end of this path; pass ``messages`` if already built."""
    if messages is None:
        messages = ContextBuilder(path).build().messages
    cut = _latest(path, "compaction")
    if cut is None or _latest(path, "reset_boundary", cut) is not None:
        return estimate_context(messages)
    edits = context_edits(path[find_kept(path, cut) :])
    after = sum(1 for entry in path[cut + 1 :] if _as_edited(entry, edits) is not None)
    return estimate_context(messages, trust_from=len(messages) - after)


_OVERFLOW = re.compile(
    r"(?:prompt|input) is too long"
    r"|context[ _](?:length|window)[ _]exceeded"
    r"|exceed\w* (?:the |its |this )?(?:\w+(?:'s)? ){0,3}context"
    r"|maximum (?:context|prompt|input) length"
    r"|input token count.*exceeds"
    r"|(?:too many|exceed\w* (?:the )?(?:limit|maximum) (?:number )?of) (?:input )?tokens"
    r"|reduce the length of the (?:messages|prompt)"
    r"|request_too_large"
    r"|greater than the context",
    re.IGNORECASE,
)
_RATE_LIMIT = re.compile(r"rate.?limit|too many requests|per minute|throttl", re.IGNORECASE)


def is_context_overflow(message: Mapping[str, Any], window: int) -> bool:
    """Whether this answer shows that the conversation no longer fits the model.

    Some providers return an error, others silently cut the input: then the tokens they
    counted exceed the window.
    """
    if message.get("role") != "assistant":
        return False
    if message.get("stopReason") == "error":
        text = message.get("errorMessage")
        if not isinstance(text, str) or _RATE_LIMIT.search(text):
            return False
        return _OVERFLOW.search(text) is not None
    used = usage_of(message)
    if used is None or message.get("stopReason") == "aborted":
        return False
    return used.input + used.cache_read + used.cache_write > window


# --- compaction -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Item:
    entry: Entry
    message: WireMessage

    @property
    def role(self) -> object:
        return self.message.get("role")


def plan_compaction(path: Sequence[Entry], settings: CompactionSettings) -> CompactionPlan:
    """Plan a compaction at the end of this path.

    Raises AlreadyCompactedError, NothingToCompactError.
    """
    start, previous = _open_span(path)
    if previous is not None and all(message_of(entry) is None for entry in path[previous + 1 :]):
        raise AlreadyCompactedError
    edits = context_edits(path[start:])
    items = [
        _Item(entry, message)
        for entry in path[start:]
        if entry.type != "compaction" and (message := _as_edited(entry, edits)) is not None
    ]
    cut = _cut_point(items, settings.keep_recent_tokens)
    if cut == 0:
        raise NothingToCompactError
    turn = _turn_start(items, cut)
    earlier = path[previous] if previous is not None else None
    summarised = [item.message for item in items[:cut]]
    return CompactionPlan(
        first_kept_entry_id=items[cut].entry.id,
        tokens_before=estimate_path(path).tokens,
        messages=(*_history_of(earlier), *summarised[:turn]),
        turn_prefix=tuple(summarised[turn:]),
        entry_ids=tuple(item.entry.id for item in items[:cut]),
        previous_summary=_summary_of(earlier),
        files=files_touched(summarised)
        | _files_of(item.entry for item in items[:cut])
        | (_files_of([earlier]) if earlier is not None else FileLists()),
    )


def _open_span(path: Sequence[Entry]) -> tuple[int, int | None]:
    """Return the start of the uncompacted part, and the compaction before it."""
    boundary = _latest(path, "reset_boundary")
    floor = 0 if boundary is None else boundary + 1
    previous = _latest(path, "compaction", floor - 1)
    return (floor, None) if previous is None else (find_kept(path, previous), previous)


def _latest(path: Sequence[Entry], kind: str, after: int = -1) -> int | None:
    for index in range(len(path) - 1, after, -1):
        if path[index].type == kind:
            return index
    return None


def message_of(entry: Entry) -> WireMessage | None:
    """Return the message that an entry adds to a context by itself; None without one."""
    if entry.type == "message":
        message = entry.data.get("message")
        return message if isinstance(message, dict) else None
    if entry.type in ("custom_message", "branch_summary", "compaction"):
        # of a compaction, take the summary: the prompt that it saved comes before it
        messages = ContextBuilder([entry]).build().messages
        return messages[-1] if messages else None
    return None


def _as_edited(entry: Entry, edits: Mapping[str, Any]) -> WireMessage | None:
    """Return an entry's message as the model sees it now; None if missing or removed."""
    message = message_of(entry)
    if message is None or entry.id not in edits:
        return message
    return edit_message(message, edits[entry.id])


def _cut_point(items: Sequence[_Item], keep_tokens: int) -> int:
    """Return the index of the first item to keep; 0 to keep all."""
    allowed = _allowed_cuts(items)
    kept = 0
    for index in range(len(items) - 1, -1, -1):
        kept += estimate_message(items[index].message)
        if kept < keep_tokens:
            continue
        after = next((i for i in range(index, len(items)) if allowed[i]), None)
        if after is not None:
            return after
        # The tail is tool results alone: keep their call with them, even if that is too much.
        return next((i for i in range(index - 1, -1, -1) if allowed[i]), 0)
    return 0


# Tuples, not sets: what a file says is a role need not be hashable.
_CUT_ROLES = ("user", "assistant", "bashExecution", "custom", "branchSummary", "compactionSummary")
_TURN_ROLES = ("user", "bashExecution", "custom", "branchSummary")


def _allowed_cuts(items: Sequence[_Item]) -> list[bool]:
    """For each item, whether the kept part may begin with it."""
    last_result = [-1] * len(items)
    calls: dict[str, int] = {}
    for index, item in enumerate(items):
        if item.role == "assistant":
            calls.update(
                (as_text(call.get("id")), index) for call in blocks_of(item.message, "toolCall")
            )
        elif item.role == "toolResult":
            call = calls.get(as_text(item.message.get("toolCallId")))
            if call is not None:
                last_result[call] = index
    allowed = []
    open_until = -1
    for index, item in enumerate(items):
        allowed.append(item.role in _CUT_ROLES and index > open_until)
        open_until = max(open_until, last_result[index])
    return allowed


def _turn_start(items: Sequence[_Item], cut: int) -> int:
    """Where the turn that is cut begins; ``cut`` itself if the cut is between two turns."""
    if items[cut].role in _TURN_ROLES:
        return cut
    for index in range(cut - 1, -1, -1):
        if items[index].role in _TURN_ROLES:
            return index
    return cut


def _summary_of(entry: Entry | None) -> str | None:
    """Return an earlier compaction's summary, unless it only introduces the history it carries."""
    if entry is None or has_history(entry.data):
        return None
    return summary_text(entry.data) or None


def _history_of(entry: Entry | None) -> list[WireMessage]:
    """The history that an earlier compaction carries, in pieces that a summariser can be given."""
    text = "" if entry is None else history_text(entry.data)
    pieces = range(0, len(text), _PIECE_CHARACTERS)
    return [
        {"role": "compactionSummary", "summary": text[start : start + _PIECE_CHARACTERS]}
        for start in pieces
    ]


_PIECE_CHARACTERS = 16_000


def _files_of(entries: Any) -> FileLists:
    """Collect the files listed by these entries' summaries, except those of extensions."""
    files = FileLists()
    for entry in entries:
        if entry.type not in ("compaction", "branch_summary"):
            continue
        data = entry.data
        if not data.get("fromExtension") and not data.get("fromHook"):
            files = files | FileLists.from_details(data.get("details"))
    return files


# --- branches ---------------------------------------------------------------------------------


def common_ancestor(old_path: Sequence[Entry], new_path: Sequence[Entry]) -> str | None:
    """Return the last entry that two paths from the root share."""
    shared = None
    for old, new in zip(old_path, new_path, strict=False):
        if old.id != new.id:
            break
        shared = old.id
    return shared


def plan_branch_summary(
    old_path: Sequence[Entry], new_path: Sequence[Entry], budget_tokens: int
) -> BranchPlan:
    """Plan a summary of what a move from the end of one path to that of another leaves behind.

    Messages are chosen from the newest back, as long as they fit ``budget_tokens`` as the
    summariser reads them; the newest is always among them.
    """
    ancestor = common_ancestor(old_path, new_path)
    shared = 0
    if ancestor is not None:
        shared = next(i for i, entry in enumerate(old_path) if entry.id == ancestor) + 1
    left = old_path[shared:]
    chosen: list[WireMessage] = []
    room = budget_tokens
    for entry in reversed(left):
        message = message_of(entry)
        if message is None:
            continue
        room -= estimate_text(message_text(message)) + 1
        if room < 0 and chosen:
            break
        chosen.append(message)
    chosen.reverse()
    every = [m for entry in left if (m := message_of(entry)) is not None]
    return BranchPlan(
        common_ancestor_id=ancestor,
        entry_ids=tuple(entry.id for entry in left),
        messages=tuple(chosen),
        files=files_touched(every) | _files_of(left),
    )
