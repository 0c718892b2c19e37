"""One entry of a session as an HTML article. Pure; what it returns is complete and safe markup.

An article is what a page shows of an entry; entries that only change settings have a line, those
that only programs read have none. Thinking, tool calls and their results are folded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sessiontree.core.described import (
    describe_call,
    describe_image,
    describe_result,
    describe_size,
    describe_state,
    describe_system,
    diff_of,
)
from sessiontree.core.llm import system_text
from sessiontree.core.usage import usage_of_entry
from sessiontree.export.html import markup
from sessiontree.export.html.code import Colours, draw_change, draw_diff, language_of
from sessiontree.export.html.prose import Prose
from sessiontree.model.entries import WireEntry
from sessiontree.model.messages import answered_by, as_text, text_of

_LINE_STATES = frozenset(("model_change", "thinking_level_change", "mode_change", "context_edit"))
_LINE_CHARACTERS = 90
_FOLD_PX = 34
_SUMMARY_CHARACTERS = 300
_MOST_LEVELS = 20
# Names of several agents for a tool's file, what it replaces, by what, and what it writes.
_PATHS = ("path", "file_path", "filePath")
_OLD = ("oldText", "old_string", "oldString", "old_str")
_NEW = ("newText", "new_string", "newString", "new_str")
_CONTENT = ("content", "file_text")
_PATCHES = ("patch", "input", "diff")
_INSERTED, _DELETED = '<span class="ins">', '<span class="del">'


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an article: its entry's number and id, its time, and its label."""

    number: int
    entry_id: str
    timestamp: str
    label: str | None = None


class Articles:
    """Makes the articles of one page."""

    def __init__(self, *, thinking: bool = True, tools: bool = True) -> None:
        self._thinking = thinking
        self._tools = tools
        self._colours = Colours()
        self._prose = Prose(self._colours)
        self._files: dict[str, str] = {}

    def make(self, place: Place, data: WireEntry) -> str:
        """The article; empty if there is nothing to show."""
        match data.get("type"):
            case "message":
                message = data.get("message")
                return self._message(place, data, message) if isinstance(message, dict) else ""
            case "custom_message":
                if data.get("display") is False:
                    return ""
                return self._said(place, "note", as_text(data.get("customType")) or "Note", data)
            case "compaction":
                return self._summary(place, data, "Compaction")
            case "branch_summary":
                return self._summary(place, data, "Branch summary")
            case "reset_boundary":
                return _line(place, "The context was cleared here.")
            case str(kind) if kind in _LINE_STATES:
                state = describe_state(kind, data)
                return _line(place, f"{state[0].capitalize()}: {state[1]}") if state else ""
            case _:
                return ""

    def note_calls(self, message: Mapping[str, Any]) -> None:
        """Remember which files the calls of an answer are about, whose results come later."""
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "toolCall":
                self._note_call(block)

    # -- messages ------------------------------------------------------------------------------

    def _message(self, place: Place, data: WireEntry, message: Mapping[str, Any]) -> str:
        match message.get("role"):
            case "user":
                return self._said(place, "user", "You", message)
            case "assistant":
                return self._answer(place, data, message)
            case "toolResult":
                return self._result(place, message) if self._tools else ""
            case "bashExecution":
                return self._command(place, message)
            case "system":
                return self._system(place, message)
            case other:
                name = as_text(message.get("customType")) or as_text(other) or "Message"
                return self._said(place, "note", name, message)

    def _said(self, place: Place, kind: str, who: str, message: Mapping[str, Any]) -> str:
        body = "".join(self._blocks(message.get("content"))) or _nothing("(empty)")
        return _article(place, kind, _heading(place, who) + body)

    def _answer(self, place: Place, data: WireEntry, message: Mapping[str, Any]) -> str:
        content = message.get("content")
        body = "".join(self._blocks(content))
        error = as_text(message.get("errorMessage"))
        if message.get("stopReason") == "error" or error:
            body += f'<p class="failed">Error: {markup.text(error or "unknown")}</p>'
        elif message.get("stopReason") == "aborted":
            body += _nothing("(stopped by the user)")
        if not body:
            return ""
        if not text_of(content).strip():  # nothing but calls: they need no name above them
            return _article(place, "calls", _label(place) + body)
        facts = answered_by(message)
        used = usage_of_entry(data)
        if used is not None and used.total_tokens:
            facts.append(f"{used.total_tokens:,} tokens")
        if used is not None and used.cost:
            facts.append(f"${used.cost:.4f}" if used.cost < 0.01 else f"${used.cost:.2f}")
        return _article(place, "assistant", _heading(place, "Agent", facts) + body)

    def _blocks(self, content: object) -> Iterator[str]:
        if isinstance(content, str):
            yield self._prose.render(content) if content.strip() else ""
            return
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict):
                yield self._block(block)

    def _block(self, block: Mapping[str, Any]) -> str:
        match block.get("type"):
            case "text":
                text = as_text(block.get("text"))
                return self._prose.render(text) if text.strip() else ""
            case "thinking":
                text = as_text(block.get("thinking"))
                if not self._thinking or not text.strip():
                    return ""
                return _folded("thinking", "Thinking", "", self._prose.render(text))
            case "toolCall":
                return self._call(block) if self._tools else ""
            case "image":
                return _image(block)
            case other:
                return _nothing(f"({as_text(other) or 'unknown block'})")

    # -- tools ---------------------------------------------------------------------------------

    def _call(self, call: Mapping[str, Any]) -> str:
        name = as_text(call.get("name")) or "tool"
        arguments = call.get("arguments")
        if not isinstance(arguments, dict):
            arguments = {}
        about = describe_call(name, arguments)
        path = self._note_call(call)
        size = describe_size(name, arguments)
        given = self._arguments(name, arguments, path)
        facts = (about, f"({size})" if size else "", _count_changes(given))
        return _folded("call", name, " ".join(filter(None, facts)), given)

    def _note_call(self, call: Mapping[str, Any]) -> str:
        """Remember the file that a call is about; its path."""
        arguments = call.get("arguments")
        call_id = as_text(call.get("id"))
        path = _first(arguments, _PATHS) if isinstance(arguments, dict) else ""
        if call_id and path:
            self._files[call_id] = path
        return path

    def _arguments(self, name: str, arguments: Mapping[str, Any], path: str) -> str:
        """Draw a call's arguments: an edit as a difference, a file in colours, the rest as JSON."""
        changes = list(_changes(arguments))
        if changes:
            return "".join(
                f'<pre class="diff" tabindex="0">{draw_change(*one)}</pre>' for one in changes
            )
        patch = _first(arguments, _PATCHES)
        if "patch" in name and patch:
            return f'<pre class="diff" tabindex="0">{draw_diff(patch)}</pre>'
        content = _first(arguments, _CONTENT)
        if path and content:
            return self._pre(content, language_of(path))
        if list(arguments) == ["command"] and isinstance(arguments["command"], str):
            return self._pre(arguments["command"], "bash")
        return self._pre(*_spell(arguments)) if arguments else ""

    def _result(self, place: Place, message: Mapping[str, Any]) -> str:
        failed = message.get("isError") is True
        name = "Failed" if failed else "Result"
        diff = diff_of(message)
        content = message.get("content")
        text = text_of(content, "\n")
        if diff is not None:
            body = f'<pre class="diff" tabindex="0">{draw_diff(diff)}</pre>'
        else:
            path = self._files.get(as_text(message.get("toolCallId")), "")
            body = self._pre(text, language_of(path)) if text.strip() else ""
        body += "".join(_image(block) for block in _images(content))
        about = describe_result(message)
        return _article(
            place,
            "result failed" if failed else "result",
            _label(place)
            + _folded(
                "output", name, _count_changes(body) or about, body or _nothing("(no output)")
            ),
        )

    def _command(self, place: Place, message: Mapping[str, Any]) -> str:
        body = f'<pre tabindex="0">$ {markup.text(as_text(message.get("command")))}</pre>'
        output = as_text(message.get("output"))
        if output.strip():
            body += _folded("output", "Output", describe_result({"content": output}),
                            self._pre(output, ""))  # fmt: skip
        code = message.get("exitCode")
        if message.get("cancelled"):
            body += _nothing("(cancelled)")
        elif isinstance(code, int) and code:
            body += f'<p class="failed">Exit code {code}</p>'
        return _article(place, "user", _heading(place, "Command") + body)

    def _system(self, place: Place, message: Mapping[str, Any]) -> str:
        text = system_text(message)
        if not text.strip():
            return ""
        about = describe_system(message)
        return _article(place, "state", _folded("system", "System", about, self._pre(text, "")))

    def _summary(self, place: Place, data: WireEntry, name: str) -> str:
        before = data.get("tokensBefore")
        facts = [f"{before:,} tokens summarised"] if type(before) is int else []
        body = self._prose.render(as_text(data.get("summary"))) or _nothing("(empty)")
        return _article(place, "summary", _heading(place, name, facts) + body)

    def _pre(self, text: str, language: str) -> str:
        return f'<pre tabindex="0">{self._colours.paint(text, language)}</pre>'


# -- pieces --------------------------------------------------------------------------------------


def _article(place: Place, kind: str, body: str) -> str:
    anchor = markup.attribute(markup.anchor(place.entry_id, place.number))
    return f'<article class="{kind}" id="{anchor}" data-i="{place.number}">{body}</article>\n'


def _line(place: Place, text: str) -> str:
    return _article(place, "state", f"<p>{markup.text(_shorten(text))}</p>{_label(place)}")


def _heading(place: Place, who: str, facts: list[str] | None = None) -> str:
    anchor = markup.attribute(markup.anchor(place.entry_id, place.number))
    about = " · ".join(markup.text(fact) for fact in facts or () if fact)
    return (
        f'<h2><a href="#{anchor}">{markup.text(who)}</a> {_time(place.timestamp)}'
        f"{f' <small>{about}</small>' if about else ''}{_label(place)}</h2>"
    )


def _label(place: Place) -> str:
    return f' <mark class="label">{markup.text(place.label)}</mark>' if place.label else ""


def _time(timestamp: str) -> str:
    """As the session has it, but for ``T`` and ``Z``; the page's script shows it as local time."""
    if len(timestamp) < 16 or not timestamp[:4].isdigit():
        return ""
    shown = f"{timestamp[:10]} {timestamp[11:16]}"
    return f'<time datetime="{markup.attribute(timestamp)}">{markup.text(shown)} UTC</time>'


def _folded(kind: str, name: str, about: str, body: str) -> str:
    told = markup.text(_shorten(about))
    return (
        f'<details class="{kind}"><summary><b>{markup.text(name)}</b>'
        f"{f' <code>{told}</code>' if told else ''}</summary>{body}</details>"
    )


def _nothing(text: str) -> str:
    return f'<p class="nothing">{markup.text(text)}</p>'


def _count_changes(drawn: str) -> str:
    """The lines that a drawn difference puts in and takes out, such as ``+3 −1``."""
    if not drawn.startswith('<pre class="diff"'):
        return ""
    return f"+{drawn.count(_INSERTED)} −{drawn.count(_DELETED)}"


def _image(block: Mapping[str, Any]) -> str:
    about = markup.text(describe_image(block))
    url = markup.image_url(as_text(block.get("data")), as_text(block.get("mimeType")))
    if url is None:
        return f'<p class="nothing">[{about}]</p>'
    alt = markup.attribute(describe_image(block))
    return (
        f'<figure><img src="{url}" alt="{alt}" loading="lazy">'
        f"<figcaption>{about}</figcaption></figure>"
    )


def _images(content: object) -> Iterator[Mapping[str, Any]]:
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "image":
            yield block


def _shorten(text: str) -> str:
    line = " ".join(text[: _SUMMARY_CHARACTERS * 2].split())
    return line if len(line) <= _SUMMARY_CHARACTERS else line[: _SUMMARY_CHARACTERS - 1] + "…"


def _changes(arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what each edit of a call replaces, and by what."""
    edits = arguments.get("edits")
    for edit in [arguments, *(edits if isinstance(edits, list) else ())]:
        if isinstance(edit, dict):
            old, new = _first(edit, _OLD), _first(edit, _NEW)
            if old or (new and any(name in edit for name in _OLD)):
                yield old, new


def _first(values: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((values[name] for name in names if isinstance(values.get(name), str)), "")


def _spell(arguments: Mapping[str, Any]) -> tuple[str, str]:
    """Arguments as text, and its language; where all are texts they keep their lines."""
    if all(isinstance(value, str) for value in arguments.values()):
        return "\n".join(f"{name}: {value}" for name, value in arguments.items()), ""
    indent = None if _is_deep(arguments) else 2
    try:
        return json.dumps(arguments, ensure_ascii=False, indent=indent), "json"
    except (RecursionError, TypeError, ValueError):
        return "{…}", ""


def _is_deep(value: object) -> bool:
    """Whether it would be mostly indentation: 5 KB of brackets became 2 MB."""
    level = [value]
    for _ in range(_MOST_LEVELS):
        level = [
            inner
            for each in level
            if isinstance(each, (dict, list))
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)


def estimate_height(article: str) -> int:
    """About how high an article will be in pixels, folded: what a page needs before it draws it."""
    if not article:
        return 0
    if '<article class="result' in article[:40] or '<article class="calls' in article[:40]:
        return _FOLD_PX
    shown = article.count("<details") * _FOLD_PX
    open_text = len(article) - _folded_size(article)
    return 60 + shown + (open_text // _LINE_CHARACTERS + article.count("<p>")) * 24


def sketch_height(data: WireEntry) -> int:
    """About the same height, without making the article; 0 if there is none to make."""
    match data.get("type"):
        case "message":
            message = data.get("message")
            return _sketch_message(message) if isinstance(message, dict) else 0
        case "custom_message":
            return 0 if data.get("display") is False else _sketch_content(data.get("content"))
        case "compaction" | "branch_summary":
            return _sketch_text(as_text(data.get("summary")))
        case "reset_boundary":
            return _FOLD_PX
        case str(kind) if kind in _LINE_STATES:
            return _FOLD_PX if describe_state(kind, data) else 0
        case _:
            return 0


def _sketch_message(message: Mapping[str, Any]) -> int:
    content = message.get("content")
    match message.get("role"):
        case "assistant":
            return _sketch_answer(message, content)
        case "toolResult":
            return _FOLD_PX
        case "system":
            return _FOLD_PX if system_text(message).strip() else 0
        case _:
            return _sketch_content(content)


def _sketch_answer(message: Mapping[str, Any], content: object) -> int:
    failed = message.get("stopReason") in ("error", "aborted") or message.get("errorMessage")
    if isinstance(content, str):
        return _sketch_text(content) if content.strip() or failed else 0
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(
        content, list
    ) else []  # fmt: skip
    shown = [block for block in blocks if _is_shown(block)]
    if not shown and not failed:
        return 0
    said = "\n".join(as_text(block.get("text")) for block in shown)
    folded = sum(_FOLD_PX for block in shown if block.get("type") != "text")
    return folded + (_sketch_text(said) if said.strip() or failed else 0)


def _is_shown(block: Mapping[str, Any]) -> bool:
    """Whether a block leaves anything on the page."""
    kind = block.get("type")
    if kind in ("text", "thinking"):
        return bool(as_text(block.get(kind)).strip())
    return True


def _sketch_content(content: object) -> int:
    images = sum(300 for _ in _images(content))
    return _sketch_text(text_of(content)) + images


def _sketch_text(said: str) -> int:
    return 60 + (len(said) // _LINE_CHARACTERS + said.count("\n") + 1) * 24


def _folded_size(article: str) -> int:
    size = at = 0
    while (start := article.find("<details", at)) >= 0:
        end = article.find("</details>", start)
        if end < 0:
            break
        size += end - start
        at = end
    return size
