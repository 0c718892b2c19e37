"""Embed untrusted text in a Markdown document so that it can't break out of its place. Pure.

Users and models mostly write Markdown, which is kept as Markdown if it is self-contained. Text that
could swallow or imitate what follows (an open fence, an unfinished list) becomes a block quote,
whose end the exporter controls. HTML is escaped, and links may lead to web pages, mail addresses
and relative paths only: opening the document in a browser runs nothing.
"""

from __future__ import annotations

import re

from sessiontree.text.escaping import strip_terminal

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BREAK = re.compile("\r\n?|\u2028|\u2029|\x85|\v|\f")

_FENCE = re.compile(r"( *)(`{3,}|~{3,})(.*)")
_FENCE_ELSEWHERE = re.compile(r"[\s>]*(?:(?:[-*+]|\d{1,9}[.)])[\s>]*)*(?:`{3,}|~{3,})")
_TAG = re.compile(r"<(?=[A-Za-z/!?])(?!(?:https?://|mailto:)[^\s<>]*>)")
# Where a link leads: a scheme can also be spelled with entities and backslashes.
_TARGET = r"[ \t]*(?:https?://|mailto:|[/?#)]|[^\s:&\\<>/?#()]+(?:[/?#)\s]|$))"
_LINK = re.compile(rf"\](?=\((?!{_TARGET})|:(?!{_TARGET}))")
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)")
_HEADING = re.compile(r"( {0,3})(#{1,6})(?=[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_DEEPER = 2


def clean(text: str) -> str:
    """The text without terminal sequences; other control characters become U+FFFD."""
    if text.isprintable():  # printable text has no breaks either: most lines need only this check
        return text
    return _CONTROL.sub("\ufffd", _BREAK.sub("\n", strip_terminal(text)))


def contain(text: str) -> str:
    """Return self-contained Markdown: headings two levels down, or the whole text quoted."""
    cleaned = clean(text).strip("\n")
    kept = _keep_markdown(cleaned)
    if kept is not None:
        return kept
    return fence(cleaned) if _TAG.search(cleaned) or _LINK.search(cleaned) else quote(cleaned)


def quote(text: str) -> str:
    """The text as a block quote."""
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def fence(text: str, language: str = "") -> str:
    """The text as a code block whose fence nothing in it can close."""
    cleaned = clean(text).rstrip("\n")
    longest = max((len(run) for run in re.findall("`+", cleaned)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{cleaned}\n{ticks}"


def inline(text: str) -> str:
    """Return the text in one line, with all Markdown syntax escaped."""
    line = " ".join(clean(text).split())
    return re.sub(r"([\\`*_\[\]<>#|~&$!])", r"\\\1", line)


def code(text: str) -> str:
    """The text in one line as a code span."""
    line = " ".join(clean(text).split()) or " "
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def _keep_markdown(text: str) -> str | None:
    """Move the text's headings down; None if what follows the text might become part of it."""
    out: list[str] = []
    prose: list[int] = []
    fence_open: tuple[int, str] | None = None
    for line in text.split("\n"):
        if fence_open is not None:
            indent, mark = fence_open
            if indent and line.strip() and len(line) - len(line.lstrip(" ")) < indent:
                return None  # the list item that holds the fence ends here, and the fence with it
            if _closes_fence(line, mark):
                fence_open = None
            out.append(line)
            continue
        opening = _FENCE.match(line)
        if opening and len(opening[1]) <= 3:
            if opening[2][0] != "`" or "`" not in opening[3]:
                fence_open = (len(opening[1]), opening[2])
            else:
                prose.append(len(out))
            out.append(line)
            continue
        if "\t" in line[: len(line) - len(line.lstrip())] and _FENCE_ELSEWHERE.match(line):
            return None
        if _FENCE_ELSEWHERE.match(line):
            return None
        out += _without_heading(line, out[-1] if out else "")
        prose.append(len(out) - 1)
    if fence_open is not None:
        if fence_open[0]:
            return None
        out.append(fence_open[1])
    # A code span that continues on another line hides what is code: then escape everywhere.
    are_whole = all(_has_whole_spans(out[at]) for at in prose)
    for at in prose:
        out[at] = _disarm_around_code(out[at]) if are_whole else _disarm(out[at])
    return "\n".join(out)


def _closes_fence(line: str, mark: str) -> bool:
    closing = _FENCE.fullmatch(line)
    return (
        closing is not None
        and len(closing[1]) <= 3
        and closing[2][0] == mark[0]
        and len(closing[2]) >= len(mark)
        and not closing[3].strip()
    )


def _has_whole_spans(line: str) -> bool:
    return "\\`" not in line and "`" not in _CODE_SPAN.sub("", line)


def _disarm_around_code(line: str) -> str:
    done = 0
    pieces = []
    for span in _CODE_SPAN.finditer(line):
        pieces += [_disarm(line[done : span.start()]), span[0]]
        done = span.end()
    return "".join([*pieces, _disarm(line[done:])])


def _disarm(text: str) -> str:
    """Escape tags and links to other schemes, so that a browser shows them as text."""
    return _LINK.sub("&#93;", _TAG.sub("&lt;", text))


def _without_heading(line: str, before: str) -> list[str]:
    """Move a heading two levels down; keep an underline from making the line before one."""
    heading = _HEADING.match(line)
    if heading:
        level = min(6, len(heading[2]) + _DEEPER)
        return [f"{heading[1]}{'#' * level}{line[heading.end() :]}"]
    underline = _UNDERLINE.match(line)
    if underline and before.strip():
        return [f"\\{line.lstrip()}"] if underline[1][0] == "=" else ["", line]
    return [line]
