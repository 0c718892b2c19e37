"""What a change to a file looks like before it is made.

Owns the text that a user confirms and that ``edit`` keeps in its details. Works on strings only,
in time that does not grow with the square of anything.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

_MAX_CHARACTERS = 8_000
_MAX_DIFFED_CHARACTERS = 200_000
_MAX_DIFFED_LINES = 2_000
_MAX_HUNKS = 20
_CONTEXT_LINES = 3
_CONTEXT_CHARACTERS = 1_000


def cut_preview(text: str) -> str:
    """The text, or its beginning and a note of how much is missing."""
    if len(text) <= _MAX_CHARACTERS:
        return text
    return f"{text[:_MAX_CHARACTERS]}\n[… {len(text) - _MAX_CHARACTERS} more characters …]"


def whole_diff(before: str, after: str) -> str:
    """A unified diff of two texts; of large ones, where that would take long, the later text."""
    if max(len(before), len(after)) > _MAX_DIFFED_CHARACTERS:
        return after
    old, new = before.split("\n"), after.split("\n")
    if max(len(old), len(new)) > _MAX_DIFFED_LINES:
        return after
    return "\n".join(difflib.unified_diff(old, new, "before", "after", lineterm=""))


def replacement_diff(path: str, text: str, places: Sequence[int], old: str, new: str) -> str:
    """A unified diff of replacing ``old`` by ``new`` at the places, whatever the file's size."""
    hunks = [_hunk(text, place, old, new) for place in places[:_MAX_HUNKS]]
    if len(places) > _MAX_HUNKS:
        hunks.append(f"[… {len(places) - _MAX_HUNKS} more replacements …]")
    made = "\n".join([f"--- {path}", f"+++ {path}", *hunks])
    # Without the stand-ins for bytes that are not UTF-8: they cannot be saved as JSON.
    return made.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _hunk(text: str, place: int, old: str, new: str) -> str:
    start = text.rfind("\n", 0, place) + 1
    end = text.find("\n", place + len(old))
    end = len(text) if end < 0 else end
    passage = text[start:end]
    changed = passage[: place - start] + new + passage[place - start + len(old) :]
    before = text[max(0, start - _CONTEXT_CHARACTERS) : start].split("\n")[:-1]
    after = text[end + 1 : end + 1 + _CONTEXT_CHARACTERS].split("\n") if end < len(text) else []
    lines = [f"@@ line {text.count(chr(10), 0, start) + 1} @@"]
    lines += [f" {line}" for line in before[-_CONTEXT_LINES:]]
    lines += [f"-{line}" for line in passage.split("\n")]
    lines += [f"+{line}" for line in changed.split("\n")]
    lines += [f" {line}" for line in after[:_CONTEXT_LINES]]
    return cut_preview("\n".join(line.rstrip("\r") for line in lines))
