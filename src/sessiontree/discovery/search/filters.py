"""Parse the filters in a query: ``agent: dir: date: role: model: is: in:``. Pure.

One parser for the picker, ``/search`` and ``sessiontree search``. A filter is a word of its own:
its key, a colon and a value, or several values with commas between them, of which one must hold.
A minus before it excludes what it names. All filters of a query must hold. What is left over is
the query's ``words``.

A key without a value is neither a filter nor a word: it is being typed. In quotes everything is
text (``"dir:x"``), and so is everything after ``re:``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from sessiontree.text.words import to_local

if TYPE_CHECKING:
    from sessiontree.discovery.listing import SessionInfo

ReadModels = Callable[["SessionInfo"], Sequence[str]]
"""Gives the models that answered in a session."""

KEYS = ("agent", "dir", "date", "role", "model", "is", "in")
ROLES = {"user": "user", "you": "user", "assistant": "assistant", "agent": "assistant"}
ROLES |= {"model": "assistant", "tool": "tool", "tools": "tool"}
STATES = ("named", "fork", "interrupted", "error", "stopped", "damaged")
DAYS = ("today", "yesterday", "7d", "30d")
_STATUSES = {"interrupted": "interrupted", "error": "error", "stopped": "aborted"}
_STATUSES |= {"damaged": "damaged"}

_PART = re.compile(
    r"(?P<text>-?\"[^\"]*\"?)"
    rf"|(?P<minus>-)?(?P<key>(?i:{'|'.join(KEYS)})):(?P<value>\"[^\"]*\"?\S*|\S*)"
    r"|(?P<word>\S+)"
)
_SPAN = re.compile(r"(\d{1,5})([dwmy])")
_DAY = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_DATE_HELP = "use today, yesterday, 7d, 2w, 2026-01, 2026-01-31, or a range: 2026-01..2026-03"


class Filter(msgspec.Struct, frozen=True):
    """One filter: any of its values must hold, or with ``is_not`` none."""

    key: str
    values: tuple[str, ...]
    is_not: bool = False


class Filters(msgspec.Struct, frozen=True):
    """A query taken apart: its ``words``, and what else must hold.

    ``problem`` says in one line what is wrong with a filter.
    """

    words: str
    filters: tuple[Filter, ...] = ()
    problem: str | None = None

    @property
    def is_empty(self) -> bool:
        return not self.filters and self.problem is None

    def values_of(self, key: str) -> tuple[str, ...]:
        """The values of this key that are wanted, not excluded."""
        chosen = (each for each in self.filters if each.key == key and not each.is_not)
        return tuple(value for each in chosen for value in each.values)

    @property
    def role(self) -> str | None:
        """The role whose words count: ``user``, ``assistant`` or ``tool``."""
        named = self.values_of("role")
        return ROLES[named[0]] if named else None

    @property
    def in_tools(self) -> bool:
        """Whether calls of tools and their output are searched, too."""
        return "tools" in self.values_of("in")

    @property
    def agents(self) -> tuple[str, ...] | None:
        """The names of the agents that are wanted; None if any will do."""
        return self.values_of("agent") or None

    @property
    def is_about_sessions(self) -> bool:
        """Whether any filter looks at the session rather than at its text."""
        return any(each.key not in ("role", "in") for each in self.filters)

    def accepts(
        self, info: SessionInfo, agent: str, today: date, read_models: ReadModels | None = None
    ) -> bool:
        """Whether a session is one of those that the filters leave. ``agent`` is its agent's name.

        Without ``read_models`` filters for models hold for no session.
        """
        return all(
            any(_holds(each.key, value, info, agent, today, read_models) for value in each.values)
            is not each.is_not
            for each in self.filters
        )


def parse_filters(text: str, agent_names: Sequence[str] = ()) -> Filters:
    """Take a query apart. Any text is a query; a bad filter becomes the ``problem``.

    A beginning of one of ``agent_names`` stands for that agent.
    """
    words: list[str] = []
    filters: list[Filter] = []
    problem: str | None = None
    for part in _PART.finditer(text):
        if part["key"] is None:
            if part["word"] is not None and part["word"].startswith("re:") and not words:
                words.append(text[part.start() :])
                break
            words.append(part[0])
            continue
        key, quoted = part["key"].casefold(), part["value"].startswith('"')
        raw = part["value"].strip('"')
        values = [raw] if quoted else raw.split(",")
        try:
            read = [_read(key, value, agent_names) for value in values if value.strip()]
        except ValueError as error:
            problem = problem or str(error)
            continue
        if read:
            filters.append(Filter(key, tuple(read), part["minus"] is not None))
    filters.sort(key=lambda each: each.key == "model")  # what may read the session comes last
    return Filters(" ".join(words).strip(), tuple(filters), problem)


def complete(text: str, values: Mapping[str, Sequence[str]]) -> list[str]:
    """The queries that this one could become: its last word completed to a filter.

    ``values`` are those to offer for a key. Empty if the last word doesn't begin a filter.
    """
    head, _, word = text.rpartition(" ")
    before = f"{head} " if head else ""
    minus = "-" if word.startswith("-") else ""
    key, colon, value = word.removeprefix("-").partition(":")
    key = key.casefold()
    if not colon:
        found = [each for each in KEYS if key and each.startswith(key)]
        return [f"{before}{minus}{each}:" for each in found]
    if key not in KEYS:
        return []
    done, comma, last = value.rpartition(",")
    offered = values.get(key, ())
    fitting = [each for each in offered if each.casefold().startswith(last.casefold())]
    return [f"{before}{minus}{key}:{done}{comma}{_quoted(each)} " for each in fitting]


def _quoted(value: str) -> str:
    return f'"{value}"' if any(letter.isspace() for letter in value) else value


# -- one filter ----------------------------------------------------------------------------------


def _read(key: str, value: str, agent_names: Sequence[str]) -> str:
    """Check a value and spell it as it is compared. Raises ValueError with what to do."""
    match key:
        case "agent":
            return _choose(key, value, agent_names)
        case "is":
            return _choose(key, value, STATES)
        case "in":
            return _choose(key, value, ("tools",))
        case "role":
            if value.casefold() not in ROLES:
                raise ValueError(f"role:{value} is unknown: use user, assistant or tool")
            return value.casefold()
        case "date":
            read_days(value, date(2000, 1, 1))
            return value.casefold()
        case _:
            return value


def _choose(key: str, value: str, known: Sequence[str]) -> str:
    folded = value.casefold()
    if folded in known:
        return folded
    begun = [each for each in known if each.startswith(folded)]
    if len(begun) == 1 or (begun and key == "agent"):
        return begun[0]
    raise ValueError(f"{key}:{value} is unknown: use {', '.join(known)}")


def _holds(
    key: str,
    value: str,
    info: SessionInfo,
    agent: str,
    today: date,
    read_models: ReadModels | None,
) -> bool:
    match key:
        case "agent":
            return agent == value
        case "dir":
            return is_in_folder(info.cwd, value)
        case "date":
            first, last = read_days(value, today)
            begun = min(info.created, info.modified)  # a clock may have been off, or a file copied
            return first <= _day(info.modified) and _day(begun) <= last
        case "is":
            return _is(value, info)
        case "model":
            models = read_models(info) if read_models is not None else ()
            return any(value.casefold() in each.casefold() for each in models)
        case _:
            return True  # about the text, not the session: see ``role`` and ``in_tools``


def _is(state: str, info: SessionInfo) -> bool:
    if state == "named":
        return bool(info.title)
    if state == "fork":
        return bool(info.parent_session)
    return info.status == _STATUSES[state]


def is_in_folder(cwd: str, wanted: str) -> bool:
    """Whether a project is the wanted folder or below it; a bare name may be a part of its path."""
    if not wanted.startswith(("/", "~", ".")):
        return wanted.casefold() in cwd.casefold()
    folder = os.path.abspath(os.path.expanduser(wanted))
    return cwd == folder or cwd.startswith(folder.rstrip(os.sep) + os.sep)


def _day(moment: datetime) -> date:
    return to_local(moment).date()


def read_days(value: str, today: date) -> tuple[date, date]:
    """The first and the last day that a value means. Raises ValueError with what to write."""
    folded = value.casefold()
    try:
        if folded.startswith(">"):
            return _one_range(folded.lstrip(">="), today)[0], date.max
        if folded.startswith("<"):
            return date.min, _one_range(folded.lstrip("<="), today)[1]
        first, dots, last = folded.partition("..")
        if not dots:
            return _one_range(folded, today)
        return (
            _one_range(first, today)[0] if first else date.min,
            _one_range(last, today)[1] if last else date.max,
        )
    except (ValueError, OverflowError):
        raise ValueError(f"date:{value} is not a date: {_DATE_HELP}") from None


def _one_range(value: str, today: date) -> tuple[date, date]:
    if value == "today":
        return today, today
    if value == "yesterday":
        before = today - timedelta(days=1)
        return before, before
    span = _SPAN.fullmatch(value)
    if span is not None:
        days = int(span[1]) * {"d": 1, "w": 7, "m": 30, "y": 365}[span[2]]
        return today - timedelta(days=days), today
    named = _DAY.fullmatch(value)
    if named is None:
        raise ValueError(value)
    year, month, day = (int(each) if each else None for each in named.groups())
    assert year is not None
    if day is not None:
        only = date(year, month or 1, day)
        return only, only
    if month is not None:
        after = date(year + month // 12, month % 12 + 1, 1)
        return date(year, month, 1), after - timedelta(days=1)
    return date(year, 1, 1), date(year, 12, 31)
