"""Add up what sessions used: each paid call of a model once, however many files hold it.

``count_usage`` takes sessions with their paid calls (``catalogue.answers``) and makes a
``UsageTable``: sums by session, model and day, which ``group`` puts together in any way.

**What is a copy.** A row with a key is named by its provider (message id and request id), so it is
the same answer wherever it stands: in a fork, a resumed session, a subagent's transcript, another
agent's folder. Of two different counts for one key the one with more output is right: the other was
written while the answer was still coming. Rows without a key have twins, names made of their time
and counts; those are believed only among related sessions (``families``), and never twice within
one session: what stands there twice was given twice.

**Where it counts.** In the session that was begun first, because an answer was paid for where it
was given; one that says it was made of another comes after it.

**Money.** A transcript's own cost counts as it is. Where a call has tokens and no cost, the cost
is estimated by list prices (``prices``) and kept apart in ``Sums.estimated``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import msgspec

from sessiontree.core.gc import with_paused_gc
from sessiontree.discovery.catalogue import OnProgress, PaidAnswers, Unreadable
from sessiontree.discovery.catalogue.answers import Answer, Answers
from sessiontree.discovery.catalogue.summary import Summary
from sessiontree.discovery.families import Families, Kin, kin_of
from sessiontree.discovery.prices import Estimate, find_estimate, keep_found
from sessiontree.discovery.selection import Selection
from sessiontree.discovery.sources import Source
from sessiontree.storage.base import FileStat
from sessiontree.text.words import to_local, to_moment

Dimension = Literal["session", "model", "project", "day", "agent"]
UNKNOWN_DAY = "?"
_QUARTER_MS = 900_000
"""Time zones differ by quarters of an hour, so one quarter is never on two days."""


class Sums(msgspec.Struct):
    """The sums of some paid calls. ``cost`` is from transcripts, ``estimated`` comes on top."""

    answers: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    """How much of ``output`` was thought."""
    cache_write_1h: int = 0
    """How much of ``cache_write`` is kept for an hour."""
    cost: float = 0.0
    estimated: float = 0.0
    unpriced: int = 0
    """Tokens without any known price."""

    @property
    def total_tokens(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write

    @property
    def total_cost(self) -> float:
        """Dollars, estimates included."""
        return self.cost + self.estimated

    def add(self, other: Sums) -> None:
        """Add other sums to these."""
        for name in _FIELDS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_FIELDS = Sums.__struct_fields__


class UsedSession(msgspec.Struct):
    """A session in the table. ``ref`` is its path, or its name in its store."""

    id: str
    ref: str
    agent: str
    cwd: str
    title: str
    """Its name, else its first prompt; untrusted, and of any length."""
    created: datetime
    modified: datetime


class Cell(msgspec.Struct):
    """The sums of one session, model and day: counted here, or in an earlier session (copied)."""

    own: Sums = msgspec.field(default_factory=Sums)
    copied: Sums = msgspec.field(default_factory=Sums)


class UsageRow(msgspec.Struct):
    """One row of a grouped table. ``key`` has a value for each dimension that was asked for.

    ``sums`` are what was paid for; of sessions alone they also hold ``copied``, the part that
    is counted in another row, too. ``session`` is set if sessions were asked for.
    """

    key: tuple[str, ...]
    sums: Sums
    copied: Sums
    session: UsedSession | None = None


class UsageTable(msgspec.Struct):
    """Everything that was used, by session, model and day."""

    sessions: list[UsedSession] = msgspec.field(default_factory=list)
    cells: dict[tuple[int, str, str], Cell] = msgspec.field(default_factory=dict)
    """By the session's position in ``sessions``, ``provider/model``, and local day."""
    total: Sums = msgspec.field(default_factory=Sums)
    copies: int = 0
    """Answers that were met again in a copy, and not counted."""
    unreadable: list[Unreadable] = msgspec.field(default_factory=list)

    def group(self, *by: Dimension) -> list[UsageRow]:
        """Sum up by one dimension or several.

        By day alone, newest first; by session alone, last used first; else the dearest first.
        """
        rows: dict[tuple[str, ...], UsageRow] = {}
        is_by_session = by == ("session",)
        for (no, model, day), cell in self.cells.items():
            session = self.sessions[no]
            if not is_by_session and not _has_any(cell.own):
                continue
            values = {"model": model, "day": day, "session": session.id}
            values |= {"project": session.cwd or "?", "agent": session.agent}
            key = tuple(values[each] for each in by)
            row = rows.get(key)
            if row is None:
                of = session if "session" in by else None
                row = rows[key] = UsageRow(key, Sums(), Sums(), of)
            row.sums.add(cell.own)
            if is_by_session:
                row.sums.add(cell.copied)
                row.copied.add(cell.copied)
        return _in_order(rows.values(), by)


def _has_tokens(row: Answer) -> bool:
    return bool(row.input or row.output or row.cache_read or row.cache_write or row.cost)


def _has_any(sums: Sums) -> bool:
    return bool(sums.answers or sums.total_tokens or sums.cost)


def _in_order(rows: Iterable[UsageRow], by: tuple[Dimension, ...]) -> list[UsageRow]:
    if by == ("session",):
        return sorted(rows, key=_last_used, reverse=True)
    if by[:1] == ("day",):
        return sorted(rows, key=lambda row: (row.key[0], row.sums.total_cost), reverse=True)
    return sorted(rows, key=lambda row: (row.sums.total_cost, row.sums.total_tokens), reverse=True)


def _last_used(row: UsageRow) -> datetime:
    assert row.session is not None
    return row.session.modified


@dataclass(slots=True)
class PaidSession:
    """A session with its paid calls and those of its parts, ready to be counted."""

    session: UsedSession
    kin: Kin
    answers: Iterable[Answers]


@with_paused_gc
def count_usage(
    sessions: Sequence[PaidSession],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    is_estimating: bool = True,
) -> UsageTable:
    """Add up the paid calls of these sessions, each once; see the top of this module.

    ``since`` and ``until`` bound the calls' own times; a call without a time is within none.
    """
    order = sorted(
        sessions, key=lambda each: (each.session.created, each.kin.is_made, each.session.ref)
    )
    counter = _Counter(
        Families([each.kin for each in order]), _to_ms(since), _to_ms(until), is_estimating
    )
    for each in order:
        counter.count(each)
    keep_found()
    table = counter.table
    for cell in table.cells.values():
        table.total.add(cell.own)
    return table


class _Counter:
    """Counts sessions one after the other, those begun first before the others."""

    def __init__(
        self, families: Families, since_ms: int | None, until_ms: int | None, is_estimating: bool
    ) -> None:
        self.table = UsageTable()
        self._families = families
        self._since_ms, self._until_ms = since_ms, until_ms
        self._is_bounded = since_ms is not None or until_ms is not None
        self._price = _Pricing() if is_estimating else None
        self._days: dict[int, str] = {}
        self._keyed: dict[int, tuple[Answer, str, str, Cell]] = {}
        """For each key, the usage that was counted, its session and model, and its place."""
        self._twins: dict[tuple[str, str], dict[int, str]] = {}
        """For each family, the sessions in which its answers were counted, by their twins."""

    def count(self, paid: PaidSession) -> None:
        """Add up one session."""
        table = self.table
        no = len(table.sessions)
        table.sessions.append(paid.session)
        session_id = paid.session.id
        is_alone = self._families.is_alone(paid.kin)
        known = {} if is_alone else self._twins.setdefault(self._families.of(paid.kin), {})
        own: dict[int, str] = {}
        for answers in paid.answers:
            for row in answers.rows:
                if self._is_bounded and not self._is_within(row.time_ms):
                    continue
                if paid.kin.is_made and not _has_tokens(row):
                    continue  # what an import leaves of an answer that it knows to be a copy
                model, day = answers.models[row.model], self._day(row.time_ms)
                before = self._first_of(row, known, is_alone)
                if before is None:
                    cell = self._cell(no, model, day)
                    self._put(cell.own, row, model, day)
                    if row.key:
                        self._keyed[row.key] = (row, session_id, model, cell)
                else:
                    table.copies += row.is_answer
                    if before != session_id:  # a file that was copied by hand is one session
                        self._put(self._cell(no, model, day).copied, row, model, day)
                if not is_alone:
                    own.update((twin, session_id) for twin in row.twins)
        for twin, name in own.items():
            known.setdefault(twin, name)

    def _first_of(self, row: Answer, known: dict[int, str], is_alone: bool) -> str | None:
        """The session in which this answer was counted already."""
        if row.key:
            found = self._keyed.get(row.key)
            if found is not None:
                self._correct(row, *found)
                return found[1]
        if not is_alone:
            for twin in row.twins:
                if twin in known:
                    return known[twin]
        return "" if row.is_inherited else None

    def _correct(
        self, row: Answer, counted: Answer, session_id: str, model: str, cell: Cell
    ) -> None:
        """Count the difference, if the answer was still coming when it was written first."""
        if row.output <= counted.output:
            return
        day = self._day(counted.time_ms)
        self._put(cell.own, counted, model, day, -1)
        self._put(cell.own, row, model, day)
        self._keyed[row.key] = (row, session_id, model, cell)

    def _cell(self, no: int, model: str, day: str) -> Cell:
        key = (no, model, day)
        cell = self.table.cells.get(key)
        if cell is None:
            cell = self.table.cells[key] = Cell()
        return cell

    def _put(self, sums: Sums, row: Answer, model: str, day: str, sign: int = 1) -> None:
        sums.answers += sign * row.is_answer
        sums.input += sign * row.input
        sums.output += sign * row.output
        sums.cache_read += sign * row.cache_read
        sums.cache_write += sign * row.cache_write
        sums.reasoning += sign * row.reasoning
        sums.cache_write_1h += sign * row.cache_write_1h
        if row.cost:
            sums.cost += sign * row.cost
        elif self._price is not None:
            price = self._price.of(row, model, day)
            if price is not None:
                sums.estimated += sign * price
            else:
                sums.unpriced += sign * (row.input + row.output + row.cache_read + row.cache_write)

    def _is_within(self, time_ms: int | None) -> bool:
        if time_ms is None:
            return False
        is_late = self._until_ms is not None and time_ms >= self._until_ms
        return not is_late and (self._since_ms is None or time_ms >= self._since_ms)

    def _day(self, time_ms: int | None) -> str:
        if time_ms is None:
            return UNKNOWN_DAY
        quarter = time_ms // _QUARTER_MS
        day = self._days.get(quarter)
        if day is None:
            moment = to_local(to_moment(quarter * _QUARTER_MS * 1_000_000))
            day = self._days[quarter] = f"{moment:%Y-%m-%d}"
        return day


class _Pricing:
    """Estimates the price of a call; the price list is read for the first call that needs it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Estimate | None] = {}

    def of(self, row: Answer, model: str, day: str) -> float | None:
        """Dollars; None without a price."""
        key = (model, day)
        if key in self._known:
            estimate = self._known[key]
        else:
            estimate = self._known[key] = find_estimate(model, day)
        if estimate is None:
            return None
        return estimate(row.input, row.output, row.cache_read, row.cache_write, row.cache_write_1h)


def read_paid_sessions(
    selected: Selection, on_progress: OnProgress | None = None
) -> tuple[list[PaidSession], list[Unreadable]]:
    """Read the paid calls of selected session files; and the files that could not be read.

    Only what has changed is read; a part's calls are its session's.
    """
    unreadable: list[Unreadable] = []
    made: list[PaidSession] = []
    progress = _Progress(selected, on_progress)
    for source in selected.sources:
        unreadable += [Unreadable(*each) for each in source.places.unreadable]
        surveyed = source.survey(progress.step())
        unreadable += surveyed.unreadable
        paid = source.survey_answers(progress.step())
        for stat, summary in surveyed.found:
            if selected.find(stat.path) is None:
                continue
            if summary.is_headless:
                unreadable.append(Unreadable(stat.path, "no session header"))
                continue
            found = [each.path for each in selected.pieces_of(stat) if paid.models(each.path)]
            if found:
                made.append(_make_paid(source, stat, summary, _Unpacking(paid, found)))
    return made, unreadable


class _Unpacking:
    """The paid calls of a session's files; unpacked each time they are walked through."""

    def __init__(self, paid: PaidAnswers, paths: Sequence[str]) -> None:
        self._paid = paid
        self._paths = paths

    def __iter__(self) -> Iterator[Answers]:
        return (self._paid[path] for path in self._paths)


def _make_paid(
    source: Source, stat: FileStat, summary: Summary, answers: Iterable[Answers]
) -> PaidSession:
    info = source.make_info(stat, summary)
    session = UsedSession(
        info.id,
        info.path,
        info.agent,
        info.cwd,
        info.title or info.first_message,
        info.created,
        info.modified,
    )
    return PaidSession(session, kin_of(summary, info.id, is_own=source.adapter.is_own), answers)


class _Progress:
    """One progress over two walks through each agent's files."""

    def __init__(self, selected: Selection, on_progress: OnProgress | None) -> None:
        self._steps = self._starts(selected)
        self._total = 2 * sum(map(_count_files, selected.sources))
        self._tell = on_progress

    def step(self) -> OnProgress | None:
        """The progress of the next walk."""
        start, tell, total = next(self._steps), self._tell, self._total
        return None if tell is None else lambda done, _: tell(start + done, total)

    @staticmethod
    def _starts(selected: Selection) -> Iterator[int]:
        start = 0
        for source in selected.sources:
            for _ in range(2):
                yield start
                start += _count_files(source)


def _count_files(source: Source) -> int:
    return sum(map(len, source.places.folders.values()))


def _to_ms(moment: datetime | None) -> int | None:
    return int(moment.astimezone(UTC).timestamp() * 1000) if moment is not None else None
