"""The list of sessions: filters, order, and the rows as HTML. Pure but for ``find``.

The filters are those of the picker (``discovery.search.filters``): they may be typed into the
query, and the form's choices are turned into them. They come from the address of the page, so that
a filtered list can be bookmarked and the browser's back button works.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import urlencode

from sessiontree.discovery.adapters import agent_names
from sessiontree.discovery.search.filters import parse_filters
from sessiontree.discovery.search.hits import IndexProgress
from sessiontree.export.html.document import shorten_home
from sessiontree.export.html.markup import attribute, text
from sessiontree.export.html.markup import clean as clean_text
from sessiontree.serving.filtered_search import FilterError
from sessiontree.serving.sessions import Hit, Row, ServedSessions
from sessiontree.text.words import format_short_age, shorten, to_local
from sessiontree.web.frame import Frame

PAGE = 60
"""Sessions to show at once; more come as the reader scrolls."""
HITS = 20
"""The same for a search, which reads each session for its snippet."""
_PLACEHOLDER = "Search messages ( / ), or filter: agent:pi date:7d is:named"
_TITLE_CHARACTERS = 300
_MOST_PROJECTS = 200
SORTS = {
    "": "newest first",
    "threaded": "forks below their session",
    "longest": "most messages first",
    "oldest": "oldest first",
}
ROLES = {"": "by anybody", "user": "by you", "assistant": "by the agent", "tool": "by tools"}
STATES = {
    "": "any state",
    "named": "named",
    "fork": "forked",
    "interrupted": "no answer yet",
    "error": "ended with an error",
    "stopped": "stopped",
    "damaged": "damaged",
}
DATES = {
    "": "any time",
    "today": "today",
    "yesterday": "yesterday",
    "7d": "last 7 days",
    "30d": "last 30 days",
    "1y": "last year",
}
_BADGES = {
    "interrupted": "no answer yet",
    "error": "failed",
    "aborted": "stopped",
    "damaged": "damaged",
}
_BEGUN = re.compile(r"(?:^|(?<=\s))[A-Za-z]{1,2}\Z")
"""The first letters of a word, which say too little to search for."""
_FILTERS = {"agent": "agent", "project": "dir", "date": "date", "role": "role", "is": "is",
            "model": "model"}  # fmt: skip
"""The fields of the form, and the filters of a query that they stand for."""


@dataclass(frozen=True, slots=True)
class Filters:
    """The reader's choices, and words with filters as the picker knows them."""

    query: str = ""
    chosen: tuple[tuple[str, str], ...] = ()
    """The fields of the form that are set, and their values."""
    sort: str = ""
    with_tools: bool = False

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Filters:
        """Those of an address."""
        sort = given.get("sort", "")
        return cls(
            given.get("q", "").strip()[:1_000],
            tuple((name, given[name][:1_000]) for name in _FILTERS if given.get(name)),
            sort if sort in SORTS else "",
            given.get("tools") == "1",
        )

    def get(self, name: str) -> str:
        """The value of a field."""
        return dict(self.chosen).get(name, "")

    def address(self, **more: str) -> str:
        """The query of an address that means the same."""
        tools = {"tools": "1"} if self.with_tools else {}
        named = {"q": self.query, **dict(self.chosen), "sort": self.sort, **tools, **more}
        return urlencode({name: value for name, value in named.items() if value})

    @property
    def is_narrow(self) -> bool:
        """Whether anything but the order is chosen."""
        return bool(self.query or self.chosen)

    @property
    def words(self) -> str:
        """The words to search in texts."""
        return parse_filters(self.query, agent_names()).words

    @property
    def whole(self) -> str:
        """The query with the choices as filters."""
        spelled = (
            f'{_FILTERS[name]}:"{value.replace(chr(34), "")}"' for name, value in self.chosen
        )
        return " ".join((*spelled, self.query)).strip()


@dataclass(frozen=True, slots=True)
class Item:
    """A row of the list; ``hit`` is there if something was searched, ``depth`` if threaded."""

    row: Row
    hit: Hit | None = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """A part of the list. ``total`` is None if not all were looked at."""

    items: Sequence[Item]
    start: int
    total: int | None
    indexing: IndexProgress | None = None
    problem: str = ""
    """The problem with a filter, in one line."""
    meant: str | None = None
    """A query that finds something, if this one finds nothing."""

    @property
    def next_start(self) -> int | None:
        """The beginning of the next part; None if this is the last."""
        end = self.start + len(self.items)
        is_more = len(self.items) >= HITS if self.total is None else end < self.total
        return end if is_more else None


def find(served: ServedSessions, filters: Filters, start: int, *, with_meant: bool = True) -> Found:
    """The part of the list that begins there.

    The last word of the query may still be being typed. ``with_meant``: say what a query that finds
    nothing may have meant, which takes longer.
    """
    try:
        if not filters.words:
            rows = served.find_all(filters.whole) if filters.is_narrow else served.list()
            items = _in_order([*rows], filters.sort)
            return Found(items[start : start + PAGE], start, len(items))
        hits = served.search_filtered(
            filters.whole,
            include_tools=filters.with_tools,
            limit=start + HITS,
            is_typing=filters.query[-1:].isalnum(),
            with_meant=with_meant,
        )
    except FilterError as error:
        return Found((), 0, 0, problem=str(error))
    begun = _BEGUN.search(filters.query)
    if begun and not hits.hits and not hits.meant:
        shorter = replace(filters, query=filters.query[: begun.start()].rstrip())
        return find(served, shorter, start, with_meant=with_meant)
    items = [Item(hit.row, hit) for hit in hits.hits[start:]]
    return Found(items, start, hits.total, hits.indexing, meant=hits.meant)


def _in_order(rows: list[Row], sort: str) -> list[Item]:
    match sort:
        case "longest":
            rows.sort(key=lambda row: row.message_count, reverse=True)
        case "oldest":
            rows.reverse()
        case "threaded":
            return _threaded(rows)
    return [Item(row) for row in rows]


def _threaded(rows: Sequence[Row]) -> list[Item]:
    """Each session, and below it those that were forked from it; a circle is cut."""
    by_name = {name: row.key for row in rows for name in (row.ref, row.id)}
    below: dict[str | None, list[Row]] = {}
    for row in rows:
        parent = by_name.get(row.parent)
        below.setdefault(parent if parent != row.key else None, []).append(row)
    made: list[Item] = []
    placed: set[str] = set()
    for root in (*below.get(None, ()), *rows):
        stack = [(root, 0)]
        while stack:
            row, depth = stack.pop()
            if row.key not in placed:
                placed.add(row.key)
                made.append(Item(row, None, depth))
                stack += [(child, depth + 1) for child in reversed(below.get(row.key, []))]
    return made


# -- the rows as HTML --------------------------------------------------------------------------


def draw_rows(frame: Frame, found: Found, filters: Filters, now: datetime) -> str:
    """List items, and a link to the next part if there is one."""
    drawn = "".join(
        _draw(frame, item, now, with_agent=not filters.get("agent")) for item in found.items
    )
    if found.next_start is None:
        return drawn
    rest = filters.address(start=str(found.next_start))
    return f'{drawn}<li class="more"><a href="{frame.url(f"?{rest}")}">Show more</a></li>'


def _draw(frame: Frame, item: Item, now: datetime, *, with_agent: bool) -> str:
    row, hit = item.row, item.hit
    anchor = f"#m-{hit.entry_id}" if hit is not None and hit.entry_id else ""
    name = title_of(row)
    kind = "" if row.is_named else " unnamed"
    told = _BADGES.get(row.status)
    badge = f'<span class="badge {row.status}">{told}</span>' if told else ""
    facts = [
        f'<span class="agent">{text(row.agent)}</span>' if with_agent else "",
        draw_project(row.cwd),
        badge,
        f'<span class="count">{count(row.message_count, "message")}</span>',
        time_of(row.modified, now),
    ]
    depth = f' data-depth="{min(item.depth, 6)}"' if item.depth else ""
    return (
        f'<li class="session"{depth}><a class="name{kind}" dir="auto" '
        f'href="{frame.url(f"s/{row.key}{anchor}")}">{text(name)}</a>'
        f"{draw_snippet(hit) if hit is not None else ''}"
        f'<p class="facts">{"".join(facts)}</p></li>\n'
    )


def draw_snippet(hit: Hit) -> str:
    """Draw a hit with marks; nothing if it is the name, which stands above it."""
    if not hit.entry_id or not hit.snippet:
        return ""
    pieces: list[str] = []
    at = 0
    for begin, end in hit.marks:
        if begin >= at:
            pieces.append(text(hit.snippet[at:begin]))
            pieces.append(f"<mark>{text(hit.snippet[begin:end])}</mark>")
            at = end
    pieces.append(text(hit.snippet[at:]))
    who = {"user": "You", "assistant": "Agent"}.get(hit.role, hit.role.capitalize())
    return f'<p class="snippet" dir="auto"><b>{text(who)}</b> {"".join(pieces)}</p>'


def title_of(row: Row) -> str:
    """Its name, else its first prompt, in one line."""
    line = " ".join(clean_text(row.title[: _TITLE_CHARACTERS * 4]).split())
    return shorten(line, _TITLE_CHARACTERS) or row.id


def draw_project(cwd: str) -> str:
    """A project's folder; the whole path is the tooltip."""
    shown = text(short_project(cwd))
    return f'<span class="project" dir="ltr" title="{attribute(cwd)}">{shown}</span>'


def short_project(cwd: str) -> str:
    """A project's folder, with the home folder as ``~``."""
    return shorten_home(cwd) if cwd else "no project"


def time_of(moment: datetime, now: datetime) -> str:
    """The short time; the whole time is in the attribute and the tooltip."""
    local = to_local(moment)
    return (
        f'<time datetime="{moment:%Y-%m-%dT%H:%M:%SZ}" title="{local:%Y-%m-%d %H:%M}">'
        f"{format_short_age(moment, now)}</time>"
    )


def count(number: int, noun: str) -> str:
    """``1 message``, ``2 messages``, ``3 branches``."""
    return f"{number:,} {noun}{'' if number == 1 else 'es' if noun.endswith('ch') else 's'}"


# -- the page ----------------------------------------------------------------------------------


def draw_page(frame: Frame, found: Found, filters: Filters, rows: Sequence[Row],
              now: datetime) -> str:  # fmt: skip
    """The whole page."""
    main = (
        f'<h1 class="hidden">Sessions</h1>{_draw_form(frame, filters, rows)}'
        f'<p id="told" role="status">{tell(found, filters, len(rows))}</p>'
        f'<ol id="sessions">{draw_rows(frame, found, filters, now)}</ol>'
        f'<div id="nothing"{" hidden" if found.items else ""}>{_draw_nothing(filters, rows)}</div>'
    )
    title = f"{filters.query} · Sessions" if filters.query else "Sessions"
    return frame.page(title, main, current="", scripts=("list.js",), classes="list")


def tell(found: Found, filters: Filters, total: int) -> str:
    """The number of sessions that were found, as markup."""
    if found.problem:
        return text(found.problem)
    if found.meant:
        meant = replace(filters, query=found.meant)
        link = f'<a href="?{attribute(meant.address())}">{text(found.meant)}</a>'
        return f"Nothing found. Did you mean {link}?"
    if not filters.is_narrow:
        return count(total, "session")
    many = "many" if found.total is None else f"{found.total:,}"
    told = f"{many} of {count(total, 'session')}"
    if found.indexing is None:
        return told
    return f"{told} · {found.indexing.done:,} of {found.indexing.total:,} indexed so far"


def _draw_nothing(filters: Filters, rows: Sequence[Row]) -> str:
    if not rows:
        return (
            "<h2>No sessions yet</h2><p>Sessions of your agents appear here. "
            "<code>sessiontree demo</code> adds three samples.</p>"
        )
    hint = "" if filters.with_tools or not filters.query else (
        "<p>Tool output is not searched unless you ask for it.</p>"
    )  # fmt: skip
    return f"<h2>Nothing matches</h2><p>Remove a filter, or search for fewer words.</p>{hint}"


def _draw_form(frame: Frame, filters: Filters, rows: Sequence[Row]) -> str:
    agents = {"": "all agents", **{name: name for name in _most(rows, lambda row: row.agent)}}
    projects = {"": "all projects"}
    projects |= {cwd: short_project(cwd) for cwd in _most(rows, lambda row: row.cwd) if cwd}
    tools = " checked" if filters.with_tools else ""
    model = filters.get("model")
    choices = (
        ("agent", "Agent", agents),
        ("project", "Project", projects),
        ("date", "When", DATES),
        ("is", "State", STATES),
        ("role", "Said", ROLES),
    )
    chosen = "".join(_draw_choice(*each, filters.get(each[0])) for each in choices)
    return (
        f'<form id="filters" method="get" action="{frame.url("")}" role="search">'
        '<label class="search"><span class="hidden">Search all sessions</span>'
        f'<input type="search" id="query" name="q" value="{attribute(filters.query)}" '
        f'placeholder="{_PLACEHOLDER}" autocomplete="off" spellcheck="false" '
        'maxlength="1000"></label>'
        f'<button type="submit" class="noscript">Search</button><div class="choices">{chosen}'
        f'<label{_set(model)}><span class="hidden">Model</span><input type="text" name="model" '
        f'value="{attribute(model)}" placeholder="any model" autocomplete="off" spellcheck="false">'
        f"</label>{_draw_choice('sort', 'Order', SORTS, filters.sort, is_off=bool(filters.words))}"
        f'<label class="check"><input type="checkbox" name="tools" value="1"{tools}> '
        "tool output</label>"
        f'<a id="reset" href="{frame.url("")}"{"" if filters.is_narrow else " hidden"}>Clear</a>'
        "</div></form>"
    )


def _draw_choice(
    name: str, label: str, choices: Mapping[str, str], chosen: str, *, is_off: bool = False
) -> str:
    if chosen not in choices:  # of an address that somebody wrote
        choices = {**choices, chosen: short_project(chosen) if name == "project" else chosen}
    options = "".join(
        f'<option value="{attribute(value)}"{" selected" if value == chosen else ""}>'
        f"{text(shown)}</option>"
        for value, shown in choices.items()
    )
    return (
        f'<label{_set(chosen)}><span class="hidden">{label}</span>'
        f'<select name="{name}"{" disabled" if is_off else ""}>{options}</select></label>'
    )


def _set(chosen: str) -> str:
    return ' class="set"' if chosen else ""


def _most(rows: Iterable[Row], of: Callable[[Row], str]) -> list[str]:
    """Sort values by how many sessions have them, the most first."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[of(row)] = counts.get(of(row), 0) + 1
    return sorted(counts, key=lambda name: (-counts[name], name))[:_MOST_PROJECTS]
