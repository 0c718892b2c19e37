"""Filters in a query: one parser for the picker, ``/search`` and ``sessiontree search``."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiontree.discovery.listing import SessionInfo
from sessiontree.discovery.search.filters import KEYS, complete, parse_filters, read_days

AGENTS = ("sessiontree", "pi", "claude-code", "codex")
TODAY = date(2026, 3, 15)


def make(**fields: Any) -> SessionInfo:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    known: dict[str, Any] = {
        "path": "/s/x.jsonl",
        "id": "x",
        "cwd": "/srv/shop",
        "title": None,
        "parent_session": None,
        "created": moment,
        "modified": moment,
        "message_count": 2,
        "first_message": "hello",
        "all_messages_text": "",
        "size": 1,
        "status": "complete",
    }
    return SessionInfo(**{**known, **fields})


def holds(query: str, agent: str = "pi", models: tuple[str, ...] = (), **fields: Any) -> bool:
    parsed = parse_filters(query, AGENTS)
    assert parsed.problem is None
    return parsed.accepts(make(**fields), agent, TODAY, lambda _: models)


def test_filters_are_told_from_words() -> None:
    parsed = parse_filters('fix agent:pi "the login" dir:shop -is:named', AGENTS)
    assert parsed.words == 'fix "the login"'
    assert [(each.key, each.values, each.is_not) for each in parsed.filters] == [
        ("agent", ("pi",), False),
        ("dir", ("shop",), False),
        ("is", ("named",), True),
    ]


@pytest.mark.parametrize(
    "text", ['"dir:x"', "re:agent:pi foo", "http://x", "error:", "a:b", "x:dir:y", "std::dir"]
)
def test_what_looks_otherwise_is_text(text: str) -> None:
    assert parse_filters(text, AGENTS).words == text
    assert parse_filters(text, AGENTS).is_empty


def test_a_filter_may_stand_before_a_pattern() -> None:
    parsed = parse_filters("agent:codex re:log(in|out) is:named", AGENTS)
    assert parsed.words == "re:log(in|out) is:named"
    assert parsed.agents == ("codex",)


def test_a_key_that_is_being_typed_filters_nothing() -> None:
    parsed = parse_filters("login agent: is:", AGENTS)
    assert (parsed.words, parsed.is_empty) == ("login", True)


def test_agents_are_known_by_their_beginnings() -> None:
    assert parse_filters("agent:claude", AGENTS).agents == ("claude-code",)
    assert holds("agent:claude,codex", agent="codex")
    assert not holds("-agent:codex", agent="codex")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agent:gpt", "agent:gpt is unknown: use sessiontree, pi, claude-code, codex"),
        ("is:new", "is:new is unknown: use named, fork,"),
        ("role:boss", "role:boss is unknown: use user, assistant or tool"),
        ("date:soon", "date:soon is not a date: use today,"),
        ("date:2026-13", "date:2026-13 is not a date"),
        ("in:names", "in:names is unknown: use tools"),
    ],
)
def test_a_bad_value_is_explained(text: str, said: str) -> None:
    problem = parse_filters(text, AGENTS).problem
    assert problem is not None
    assert problem.startswith(said)


def test_folders() -> None:
    assert holds("dir:SHOP")
    assert holds("dir:/srv", cwd="/srv/shop")
    assert not holds("dir:/srv/sh", cwd="/srv/shop")
    assert holds("dir:.", cwd=str(Path.cwd() / "below"))
    assert holds('dir:"my shop"', cwd="/srv/My Shop")


@pytest.mark.parametrize(
    ("value", "first", "last"),
    [
        ("today", date(2026, 3, 15), date(2026, 3, 15)),
        ("yesterday", date(2026, 3, 14), date(2026, 3, 14)),
        ("7d", date(2026, 3, 8), TODAY),
        ("2w", date(2026, 3, 1), TODAY),
        ("2026", date(2026, 1, 1), date(2026, 12, 31)),
        ("2026-02", date(2026, 2, 1), date(2026, 2, 28)),
        ("2025-12", date(2025, 12, 1), date(2025, 12, 31)),
        ("2026-02-03", date(2026, 2, 3), date(2026, 2, 3)),
        ("2026-01..2026-02", date(2026, 1, 1), date(2026, 2, 28)),
        ("..2026-01", date.min, date(2026, 1, 31)),
        (">2026-01-05", date(2026, 1, 5), date.max),
        ("<2026-01-05", date.min, date(2026, 1, 5)),
    ],
)
def test_dates(value: str, first: date, last: date) -> None:
    assert read_days(value, TODAY) == (first, last)


def test_a_session_counts_for_every_day_it_went_on() -> None:
    born = datetime(2026, 1, 10, 12, tzinfo=UTC)
    ended = datetime(2026, 2, 20, 12, tzinfo=UTC)
    assert holds("date:2026-02-01", created=born, modified=ended)
    assert not holds("date:2026-03", created=born, modified=ended)


def test_states_and_models() -> None:
    assert holds("is:named", title="A")
    assert not holds("is:named")
    assert holds("is:interrupted is:fork", status="interrupted", parent_session="y")
    assert holds("is:stopped", status="aborted")
    assert holds("model:opus", models=("anthropic/claude-Opus-5",))
    assert not holds("model:gpt", models=("anthropic/claude-opus-5",))


def test_what_is_about_the_text() -> None:
    parsed = parse_filters("role:you in:tools x", AGENTS)
    assert (parsed.role, parsed.in_tools, parsed.is_about_sessions) == ("user", True, False)


def test_completions() -> None:
    values = {"agent": AGENTS, "is": ("named",), "dir": ("my shop",)}
    assert complete("login ag", values) == ["login agent:"]
    assert complete("i", values) == ["is:", "in:"]
    assert complete("x -agent:c", values) == ["x -agent:claude-code ", "x -agent:codex "]
    assert complete("agent:pi,co", values) == ["agent:pi,codex "]
    assert complete("dir:my", values) == ['dir:"my shop" ']
    assert complete("login", values) == []
    assert complete("", values) == []


@given(
    st.text(st.characters() | st.sampled_from(':"-, .<>re/'), max_size=40), st.sampled_from(KEYS)
)
def test_any_text_is_a_query(text: str, key: str) -> None:
    for query in (text, f"{key}:{text}", f"-{key}:{text}"):
        parsed = parse_filters(query, AGENTS)
        parsed.accepts(make(), "pi", TODAY, lambda _: ("m",))
        complete(query, {key: ("x",)})
