"""The list of sessions: which, in what order, and how they look."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast
from urllib.parse import parse_qsl

import pytest

from sessiontree.serving.sessions import Hit, Row, ServedSessions
from sessiontree.web import listing
from sessiontree.web.access import Visitor
from sessiontree.web.frame import Frame
from sessiontree.web.listing import Filters, Found, Item

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
FRAME = Frame("/r", Visitor("", True, "token"))


def row(name: str, **fields: object) -> Row:
    made: dict[str, object] = {
        "key": f"key{name}", "agent": "pi", "ref": f"/s/{name}.jsonl", "id": name, "cwd": "/work",
        "title": name, "is_named": True, "message_count": 2, "created": NOW, "modified": NOW,
        "size": 10, **fields,
    }  # fmt: skip
    return Row(**made)  # type: ignore[arg-type]


class Served:
    """What a listing asks a server for."""

    def __init__(self, *rows: Row) -> None:
        self._rows = rows

    def list(self) -> tuple[Row, ...]:
        return self._rows


def found_in(filters: Filters, *rows: Row, start: int = 0) -> Found:
    return listing.find(cast("ServedSessions", Served(*rows)), filters, start)


@pytest.mark.parametrize(
    ("sort", "found"),
    [
        ("", ["a", "b", "c"]),
        ("oldest", ["c", "b", "a"]),
        ("longest", ["b", "a", "c"]),
        ("nonsense", ["a", "b", "c"]),
    ],
)
def test_orders(sort: str, found: list[str]) -> None:
    rows = (row("a"), row("b", message_count=9), row("c", message_count=1))
    items = found_in(Filters.read({"sort": sort}), *rows).items
    assert [item.row.id for item in items] == found


def test_choices_become_filters_of_the_query() -> None:
    given = {"q": "zebra is:named", "project": '/work/a "b" c', "date": "7d", "agent": "pi"}
    filters = Filters.read(given)
    assert filters.whole == 'agent:"pi" dir:"/work/a b c" date:"7d" zebra is:named'
    assert filters.words == "zebra"
    assert Filters.read({"agent": ""}) == Filters()


def test_forks_stand_below_their_session_and_a_circle_ends() -> None:
    rows = (
        row("fork", parent="root"),
        row("alone"),
        row("root"),
        row("deep", parent="/s/fork.jsonl"),
        row("ring1", parent="ring2"),
        row("ring2", parent="ring1"),
        row("self", parent="self"),
    )
    found = found_in(Filters(sort="threaded"), *rows)
    assert [(item.row.id, item.depth) for item in found.items] == [
        ("alone", 0), ("root", 0), ("fork", 1), ("deep", 2), ("self", 0), ("ring1", 0),
        ("ring2", 1),
    ]  # fmt: skip


def test_long_lists_come_in_parts() -> None:
    rows = [row(f"n{number}") for number in range(130)]
    parts = [found_in(Filters(), *rows, start=start) for start in (0, 60, 120)]
    assert [len(part.items) for part in parts] == [60, 60, 10]
    assert [part.next_start for part in parts] == [60, 120, None]
    drawn = listing.draw_rows(FRAME, parts[0], Filters.read({"agent": "pi"}), NOW)
    assert drawn.endswith('<a href="/r/?agent=pi&amp;start=60">Show more</a></li>')


def test_an_address_means_the_same_filters_again() -> None:
    given = {"q": "a b", "project": "/x y", "date": "7d", "role": "user", "is": "named",
             "sort": "oldest", "tools": "1", "agent": "pi"}  # fmt: skip
    filters = Filters.read(given)
    assert dict(parse_qsl(filters.address())) == given
    assert Filters.read(dict(parse_qsl(filters.address()))) == filters


def test_what_was_found_is_marked_and_nothing_of_it_is_markup() -> None:
    text = "<b>x</b> token & more"
    hit = Hit(row("a"), "e1", "user", NOW, text, ((9, 14),))
    drawn = listing.draw_snippet(hit)
    assert "&lt;b&gt;x&lt;/b&gt; <mark>token</mark> &amp; more" in drawn
    page = listing.draw_rows(FRAME, Found([Item(hit.row, hit)], 0, 1), Filters(), NOW)
    assert 'href="/r/s/keya#m-e1"' in page


def test_a_title_is_one_line_without_tricks() -> None:
    assert listing.title_of(row("a", title="one\ntwo \x1b[31mred\u202e")) == "one two red\\u202e"
    assert listing.title_of(row("a", title=" \n ")) == "a"
    assert len(listing.title_of(row("a", title="x" * 9_000))) == 300
