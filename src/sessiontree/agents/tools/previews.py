"""Previews of changes to files, for the user to approve.

Owns the text that a user confirms, which is whole, and the one that ``edit`` keeps in its details,
which is cut. Works on strings only, in time that does not grow with the square of anything.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from sessiontree.agents.tools.base import PreviewKind, ToolError

_MAX_DIFFED_CHARACTERS = 200_000
_MAX_DIFFED_LINES = 2_000
_CONTEXT_LINES = 3
_CONTEXT_CHARACTERS = 1_000
_MAX_SHOWN_CHARACTERS = 20_000_000
_MAX_KEPT_CHARACTERS = 8_000
_MAX_KEPT_HUNKS = 20


def whole_diff(before: str, after: str) -> tuple[str, PreviewKind]:
    """A unified diff of two texts; of large ones, where that would take long, the later text."""
    if max(len(before), len(after)) > _MAX_DIFFED_CHARACTERS:
        return after, "content"
    if _has_only_crlf(before) and _has_only_crlf(after):
        before, after = before.replace("\r\n", "\n"), after.replace("\r\n", "\n")
    old, new = before.split("\n"), after.split("\n")
    if max(len(old), len(new)) > _MAX_DIFFED_LINES:
        return after, "content"
    diff = "\n".join(difflib.unified_diff(old, new, "before", "after", lineterm=""))
    return (diff, "diff") if diff else ("(the content does not change)", "text")


class Replacement:
    """A unified diff of replacing ``old`` by ``new`` at the places, whatever the file's size."""

    def __init__(self, path: str, text: str, places: Sequence[int], old: str, new: str) -> None:
        self._path = path
        self._text = text
        self._places = places
        self._old = old
        self._new = new
        self._has_crlf = _has_only_crlf(text)

    def whole(self) -> str:
        """Every replacement. Raises ToolError if they are more than anybody could look through."""
        shown = [f"--- {self._path}", f"+++ {self._path}"]
        size = 0
        for hunk in self._hunks(self._places):
            size += len(hunk)
            if size > _MAX_SHOWN_CHARACTERS:
                raise ToolError(
                    f"{self._path}: {len(self._places)} replacements are too many to be shown to "
                    "the user; make oldText longer, or edit one part after the other"
                )
            shown.append(hunk)
        return "\n".join(shown)

    def kept(self) -> str:
        """The first replacements, for the session."""
        hunks = [_cut(hunk) for hunk in self._hunks(self._places[:_MAX_KEPT_HUNKS])]
        if len(self._places) > _MAX_KEPT_HUNKS:
            hunks.append(f"[… {len(self._places) - _MAX_KEPT_HUNKS} more replacements …]")
        made = _cut("\n".join([f"--- {self._path}", f"+++ {self._path}", *hunks]))
        # Without the stand-ins for bytes that are not UTF-8: they cannot be saved as JSON.
        return made.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def _hunks(self, places: Sequence[int]) -> Iterator[str]:
        line, counted = 1, 0
        for place in places:
            line += self._text.count("\n", counted, place)
            counted = place
            yield self._hunk(place, line)

    def _hunk(self, place: int, line: int) -> str:
        text, old, new = self._text, self._old, self._new
        start = text.rfind("\n", 0, place) + 1
        end = text.find("\n", place + len(old))
        end = len(text) if end < 0 else end
        head, tail = _last(text, start, place), _first(text, place + len(old), end)
        before = text[max(0, start - _CONTEXT_CHARACTERS) : start].split("\n")[:-1]
        after = text[end + 1 : end + 1 + _CONTEXT_CHARACTERS].split("\n") if end < len(text) else []
        lines = [f"@@ line {line} @@"]
        lines += [f" {one}" for one in before[-_CONTEXT_LINES:]]
        lines += [f"-{one}" for one in f"{head}{old}{tail}".split("\n")]
        lines += [f"+{one}" for one in f"{head}{new}{tail}".split("\n")]
        lines += [f" {one}" for one in after[:_CONTEXT_LINES]]
        if self._has_crlf:
            lines = [one.removesuffix("\r") for one in lines]
        return "\n".join(lines)


def _last(text: str, start: int, end: int) -> str:
    """The rest of the line before a replacement: it stays, so of a long one the end is enough."""
    left_out = end - start - _CONTEXT_CHARACTERS
    if left_out <= 0:
        return text[start:end]
    return f"[… {left_out} characters …]{text[end - _CONTEXT_CHARACTERS : end]}"


def _first(text: str, start: int, end: int) -> str:
    left_out = end - start - _CONTEXT_CHARACTERS
    if left_out <= 0:
        return text[start:end]
    return f"{text[start : start + _CONTEXT_CHARACTERS]}[… {left_out} characters …]"


def _cut(text: str) -> str:
    if len(text) <= _MAX_KEPT_CHARACTERS:
        return text
    left_out = len(text) - _MAX_KEPT_CHARACTERS
    return f"{text[:_MAX_KEPT_CHARACTERS]}\n[… {left_out} more characters …]"


def _has_only_crlf(text: str) -> bool:
    """Whether every line ends with CR LF, and no CR stands anywhere else."""
    return "\r\n" in text and text.count("\r\n") == text.count("\n") == text.count("\r")
