"""A session as one HTML file: the conversation, the tree beside it, and no network.

How 20 MB open in an instant: the articles lie in ``<noscript>`` elements, which a browser with
scripts reads as plain text. The page's script turns them into elements as they come into view.
Without scripts the same articles are the page: the active path, from top to bottom.

``markup`` says why nothing of a session can run. The head of the file is written first, and last
what only the whole session tells (usage, redactions, outline): nothing but the outline is kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from sessiontree.core.tree_entries import Digester
from sessiontree.export.html import markup, outline
from sessiontree.export.html.entries import Articles, Place, estimate_height
from sessiontree.export.html.outline import Outline, Row
from sessiontree.export.html.usage import UsageTable
from sessiontree.export.view import SessionView
from sessiontree.model.entries import Entry
from sessiontree.model.messages import text_of
from sessiontree.text.words import clean_line, make_name

if TYPE_CHECKING:  # it compiles many patterns: only who redacts needs them
    from sessiontree.export.redact import Redactor

_BLOCK_ENTRIES = 40
_BLOCK_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True)
class HtmlOptions:
    """Options: the parts to include in the page."""

    thinking: bool = True
    tools: bool = True


def render_html(
    view: SessionView,
    *,
    options: HtmlOptions | None = None,
    redactor: Redactor | None = None,
) -> Iterator[str]:
    """The page in pieces. Secrets are replaced if there is a redactor, and the page says how many.

    ``view.path`` is the branch that the page opens with; it holds all others, too.
    """
    page = _Page(view, options or HtmlOptions(), redactor)
    yield page.head()
    yield from page.blocks()
    yield page.foot()


@cache
def asset(name: str) -> str:
    """A script or style sheet of the pages."""
    return resources.files("sessiontree.export.html").joinpath("assets", name).read_text("utf-8")


class _Page:
    def __init__(self, view: SessionView, options: HtmlOptions, redactor: Redactor | None) -> None:
        self._view = view
        self._redactor = redactor
        self._articles = Articles(thinking=options.thinking, tools=options.tools)
        self._digester = Digester()
        self._outline = Outline(view.tree)
        self._usage = UsageTable()
        self._rows: list[Row] = []
        self._messages = 0
        self._block = 0

    def head(self) -> str:
        title = title_of(self._view, self._shown)
        style, script = asset("talk.css"), asset("talk.js")
        facts = [self._shown(shorten_home(self._view.cwd)), started(self._view.timestamp)]
        return "".join(
            (
                '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n',
                '<meta http-equiv="Content-Security-Policy" content="',
                f'{markup.attribute(markup.policy(script, style))}">\n',
                '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
                '<meta name="referrer" content="no-referrer">\n',
                '<meta name="color-scheme" content="light dark">\n',
                '<meta name="generator" content="Sessiontree">\n',
                f"<title>{markup.text(title)}</title>\n<style>{style}</style></head>\n<body>\n",
                frame_top(title, facts),
                '<main id="talk" tabindex="-1">\n',
            )
        )

    def blocks(self) -> Iterator[str]:
        """The articles in the order of the file, some in each block; a block is on one branch."""
        entries = self._view.tree.entries
        outline.number_all(self._outline, entries)
        active = {entry.id for entry in self._view.path}
        block: list[str] = []
        size = 0
        is_active = True
        for entry in entries:
            if block and (
                len(block) >= _BLOCK_ENTRIES
                or size > _BLOCK_CHARACTERS
                or (entry.id in active) != is_active
            ):
                yield _block(block, is_active)
                block, size = [], 0
                self._block += 1
            is_active = entry.id in active
            article = self._entry(entry)
            if article:
                block.append(article)
                size += len(article)
        if block:
            yield _block(block, is_active)

    def _entry(self, entry: Entry) -> str:
        data = entry.decode()
        label = self._outline.label(entry)
        entry_id = entry.id
        if self._redactor is not None:
            data = self._redactor.redact_value(data)
            label = self._redactor.redact_text(label) if label else None
            entry_id = self._redactor.redact_name(entry_id)
        number = self._outline.number(entry)
        article = self._articles.make(Place(number, entry_id, entry.timestamp, label), data)
        digest = self._digester.digest_data(entry, data)
        height = estimate_height(article)
        self._rows.append(self._outline.row(entry, entry_id, digest, height, label, self._block))
        self._usage.add(data)
        self._messages += entry.type == "message"
        return article

    def foot(self) -> str:
        leaf = self._outline.number(self._view.path[-1]) if self._view.path else -1
        facts = outline.facts_of(self._rows, leaf)
        return "".join(
            (
                "</main>\n",
                frame_bottom(self._messages, self._usage, self._redactor),
                '<script type="application/json" id="outline">',
                f"{markup.json_block(facts)}</script>\n",
                f"<script>{asset('talk.js')}</script>\n</body></html>\n",
            )
        )

    def _shown(self, text: str) -> str:
        return self._redactor.redact_text(text) if self._redactor is not None else text


def _block(articles: list[str], is_active: bool) -> str:
    kind = "" if is_active else ' class="other"'
    return f"<noscript{kind}>\n{''.join(articles)}</noscript>\n"


# -- the frame, which the viewer's pages share -----------------------------------------------------


def frame_top(title: str, facts: list[str], tools: str = "", lead: str = "") -> str:
    """The bar on top and the tree beside the conversation.

    ``lead`` and ``tools`` are markup for the bar: before the title, and behind it.
    """
    told = " · ".join(markup.text(fact) for fact in facts if fact)
    return (
        '<a class="skip" href="#talk">Skip to the conversation</a>\n'
        f'<header id="bar">\n{lead}'
        '<button type="button" id="show-tree" aria-expanded="false" '
        'aria-controls="side" hidden>Tree</button>\n'
        f'<div class="title"><h1 dir="auto">{markup.text(title)}</h1><p>{told}</p></div>\n{tools}'
        '<div class="tools" id="tools" hidden>'
        '<label class="find"><span class="hidden">Search this session</span>'
        '<input type="search" id="find" placeholder="Search ( / )" autocomplete="off" '
        'spellcheck="false"></label>'
        '<button type="button" id="fold" aria-pressed="false">Unfold all</button>'
        '<button type="button" id="theme" aria-label="Switch between light and dark">◐</button>'
        "</div></header>\n"
        '<nav id="side" aria-label="Tree of the session" hidden>\n'
        '<div class="modes"><label><input type="checkbox" id="with-tools"> Tools and settings'
        '</label><output id="found" for="find"></output></div>\n'
        '<div id="rows" tabindex="0" role="group" aria-label="Entries"></div>\n</nav>\n'
        '<div id="banner" role="status" hidden></div>\n'
    )


def frame_bottom(
    messages: int, usage: UsageTable, redactor: Redactor | None, *, is_alone: bool = True
) -> str:
    """Below the conversation: tokens and cost, and what was redacted."""
    used = usage.total
    count = "1 message" if messages == 1 else f"{messages:,} messages"
    parts = [count, f"{used.total_tokens:,} tokens" if used.total_tokens else ""]
    parts.append(f"${used.cost:,.2f}" if used.cost else "")
    redacted = _redacted(redactor) if redactor is not None else ""
    alone = "<p>Made by Sessiontree. This page loads nothing from the network.</p>"
    return (
        '<footer id="facts"><h2>Tokens and cost, all branches</h2>'
        f'<p id="sum">{" · ".join(part for part in parts if part)}</p>{usage.render()}'
        f"{redacted}{alone if is_alone else ''}</footer>\n"
    )


def _redacted(redactor: Redactor) -> str:
    total = sum(redactor.counts.values())
    kinds = ", ".join(f"{kind} ({count})" for kind, count in redactor.counts.most_common())
    what = f"1 secret was redacted: {kinds}" if total == 1 else (
        f"{total:,} secrets were redacted: {kinds}" if total else "No secrets were found to redact"
    )  # fmt: skip
    return f'<p id="redacted">{markup.text(what)}. Redaction can miss secrets.</p>'


def title_of(view: SessionView, shown: Callable[[str], str] = str) -> str:
    """The session's name, else its first prompt in short.

    ``shown`` is applied first: of a secret that is cut off nothing is recognized.
    """
    name = clean_line(shown(view.name or ""))
    prompts = (
        shown(text_of(message.get("content")))
        for entry in view.path
        if entry.type == "message" and (message := entry.decode().get("message"))
        if isinstance(message, dict) and message.get("role") == "user"
    )
    return name or next(filter(None, map(make_name, prompts)), "Session")


def shorten_home(path: str) -> str:
    """The path with the home folder as ``~``."""
    home = os.path.expanduser("~").rstrip("/")
    return f"~{path[len(home) :]}" if home and f"{path}/".startswith(f"{home}/") else path


def started(timestamp: str) -> str:
    """The beginning of the session, to the minute."""
    return f"{timestamp[:10]} {timestamp[11:16]} UTC" if len(timestamp) >= 16 else ""
