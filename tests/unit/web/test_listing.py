"""The list of sessions: which, in what order, and how they look."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sessiontree.serving.sessions import Hit, Row
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


def names(filters: Filters, *rows: Row) -> list[str]:
    found = listing.find(Served(*rows), filters, 0, NOW)  # type: ignore[arg-type]
    return [item.row.id for item in found.items]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, ["a", "b", "c"]),
        ({"agent": "codex"}, ["b"]),
        ({"project": "/other"}, ["b"]),
        ({"is": "named"}, ["a", "b"]),
        ({"is": "error"}, ["c"]),
        ({"is": "forked"}, ["b"]),
        ({"date": "1"}, ["a"]),
        ({"date": "7"}, ["a", "b"]),
        ({"date": "2026-02-26"}, ["a", "b"]),
        ({"agent": "codex", "is": "error"}, []),
        ({"sort": "oldest"}, ["c", "b", "a"]),
        ({"sort": "longest"}, ["b", "a", "c"]),
        ({"is": "nonsense", "date": "nonsense", "sort": "nonsense"}, ["a", "b", "c"]),
    ],
)
def test_filters(filters: dict[str, str], found: list[str]) -> None:
    rows = (
        row("a"),
        row("b", agent="codex", cwd="/other", parent="a", message_count=9,
            modified=NOW - timedelta(days=2)),
        row("c", is_named=False, status="error", message_count=1,
            modified=NOW - timedelta(days=40)),
    )  # fmt: skip
    assert names(Filters.read(filters), *rows) == found


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
    found = listing.find(Served(*rows), Filters(sort="threaded"), 0, NOW)  # type: ignore[arg-type]
    assert [(item.row.id, item.depth) for item in found.items] == [
        ("alone", 0), ("root", 0), ("fork", 1), ("deep", 2), ("self", 0), ("ring1", 0),
        ("ring2", 1),
    ]  # fmt: skip


def test_long_lists_come_in_parts() -> None:
    rows = [row(f"n{number}") for number in range(130)]
    parts = [listing.find(Served(*rows), Filters(), start, NOW) for start in (0, 60, 120)]  # type: ignore[arg-type]
    assert [len(part.items) for part in parts] == [60, 60, 10]
    assert [part.next_start for part in parts] == [60, 120, None]
    drawn = listing.draw_rows(FRAME, parts[0], Filters(agent="pi"), NOW)
    assert drawn.endswith('<a href="/r/?agent=pi&amp;start=60">Show more</a></li>')


def test_an_address_means_the_same_filters_again() -> None:
    given = {"q": "a b", "project": "/x y", "date": "7", "role": "user", "is": "named",
             "sort": "oldest", "tools": "1", "agent": "pi"}  # fmt: skip
    filters = Filters.read(given)
    from urllib.parse import parse_qsl

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
