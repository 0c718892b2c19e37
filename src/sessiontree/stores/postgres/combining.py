"""Send the appends of several threads in one statement, where there are too few connections.

**No thread waits for company.** As long as there is a connection for each, every thread sends its
own statement at once. Where threads would wait for a connection they stand in a queue instead: one
that finds enough of them takes the queue, sends it as one statement (``st_append_each``) and hands
out the answers. A transaction, a round trip and a wait for the disk are then paid once for all.

**Only what is plain is combined**: one entry, behind the last one that was read, to a session of
its own. The statement leaves out each session that is locked, or not as its writer has read it; so
it waits for no lock, and cannot be part of a deadlock. A thread that was left out sends its own
statement, and so does each of them if the statement failed: an error reaches only the thread that
caused it. The ids of the entries make them once, whatever was carried out.

A sender that gets no answer for a while loses its turn to the first who waits for it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from sessiontree.stores.postgres import statements
from sessiontree.stores.postgres.spelling import spell_array

if TYPE_CHECKING:
    from sessiontree.stores.postgres.database import Database

_T = TypeVar("_T")

MOST_TOGETHER = 128
MOST_BYTES = 1 << 16
"""A longer line is sent alone."""

_FEW = 8
"""So many are worth a statement while others are under way."""
_FORGOTTEN = 0.1
_STUCK_S = 0.05
_LEAST_REST, _LONGEST_REST = 16, 1_024

Answer = tuple[int, int]
"""The session's head and its revision behind the entry."""


@dataclass(frozen=True, slots=True)
class PlainAppend:
    """The parameters of one append, in the order of ``st_append_each``'s."""

    sid: int
    known: int
    last: str
    epoch: int
    header_revision: int
    id: str
    parent: str | None
    kind: str
    time: str
    line: bytes
    messages: int
    is_answered: bool
    status: str
    first_message: str | None
    said: str | None


Send = Callable[[Sequence[PlainAppend]], Sequence[tuple[int, int, int]]]
"""Sends a statement for all of them: session, head and revision of those that it appended."""


@dataclass(slots=True, eq=False)
class _Turn:
    """One thread's append, and what became of it."""

    wanted: PlainAppend
    ready: threading.Lock = field(default_factory=threading.Lock)
    is_inside: bool = False
    is_taken: bool = False
    lane: object | None = None
    """The right to send, once it is this thread's turn."""
    answer: Answer | None = None


class Combiner:
    """Combines the appends of one process to one database, as one tenant."""

    def __init__(self, send: Send, size: int) -> None:
        """``size`` is how many statements may be under way at the same time."""
        self._send = send
        self._size = size
        self._lock = threading.Lock()
        self._lanes: set[object] = set()
        self._waiting: deque[_Turn] = deque()
        self._inside = 0
        self._peak = 0.0
        """How many were here at the same time; what is long ago counts less and less."""
        self._rest = self._last_rest = 0

    def append(self, wanted: PlainAppend, alone: Callable[[bool], _T]) -> Answer | _T:
        """Append together with others who are there, or ``alone``; what came back.

        ``alone`` hears whether the entry may be there already. What it raises is raised.
        """
        turn = _Turn(wanted)
        batch = [turn]
        try:
            if self._may_send(turn):
                if turn.lane is not None:
                    self._take_waiting(batch)
                if len(batch) == 1:
                    return alone(False)
                self._send_all(batch)
        finally:
            try:
                self._leave(turn, batch)
            except BaseException:  # Ctrl-C: let no thread wait for ever
                self._leave(turn, batch)
                raise
        return turn.answer if turn.answer is not None else alone(True)

    def _may_send(self, turn: _Turn) -> bool:
        """Wait until this thread may send; False if another has sent its entry."""
        with self._lock:
            turn.is_inside = True
            self._inside += 1
            self._peak = max(self._inside, self._peak - _FORGOTTEN)
            if self._rest > 0:
                self._rest -= 1
                return True
            if self._peak <= self._size:
                return True
            is_worth = len(self._waiting) + 1 >= max(_FEW, self._peak / 2)
            if not self._lanes or (is_worth and len(self._lanes) < self._size):
                self._open_lane(turn)
                return True
            turn.ready.acquire()
            self._waiting.append(turn)
        self._wait(turn)
        return turn.lane is not None

    def _open_lane(self, turn: _Turn) -> None:
        turn.lane = object()
        self._lanes.add(turn.lane)

    def _wait(self, turn: _Turn) -> None:
        """Wait until the entry was sent by another, or may be sent by this thread."""
        while not turn.ready.acquire(timeout=_STUCK_S):
            with self._lock:
                if not turn.is_taken and turn.lane is None:
                    # the sender waits for a lock, or for an answer that will not come
                    self._lanes.clear()
                    self._open_lane(turn)
                    self._waiting.remove(turn)
                    return

    def _take_waiting(self, batch: list[_Turn]) -> None:
        """Take those who wait, each session once."""
        if not self._waiting:
            return
        with self._lock:
            sids = {turn.wanted.sid for turn in batch}
            for turn in [*self._waiting]:
                if len(batch) < MOST_TOGETHER and turn.wanted.sid not in sids:
                    sids.add(turn.wanted.sid)
                    batch.append(turn)
                    turn.is_taken = True
            self._waiting = deque(turn for turn in self._waiting if not turn.is_taken)

    def _send_all(self, batch: Sequence[_Turn]) -> None:
        """Send one statement for all; who gets no answer by it sends its own."""
        turns = {turn.wanted.sid: turn for turn in batch}
        try:
            for sid, head, revision in self._send([turn.wanted for turn in batch]):
                turns[sid].answer = head, revision
            self._last_rest = 0
        except Exception:  # told to the thread that caused it, when each sends its own
            self._last_rest = min(max(2 * self._last_rest, _LEAST_REST), _LONGEST_REST)
            self._rest = self._last_rest

    def _leave(self, turn: _Turn, batch: Sequence[_Turn]) -> None:
        """Let the next one send, and those go on who were waiting for this."""
        with self._lock:
            if turn.is_inside:
                turn.is_inside = False
                self._inside -= 1
            if turn.lane is None and not turn.is_taken and turn in self._waiting:
                self._waiting.remove(turn)
            if turn.lane in self._lanes:
                self._lanes.discard(turn.lane)
                if self._waiting:
                    following = self._waiting.popleft()
                    self._open_lane(following)
                    following.ready.release()
        for other in batch[1:]:
            if other.ready.locked():
                other.ready.release()


def combine(database: Database, wanted: PlainAppend, alone: Callable[[bool], _T]) -> Answer | _T:
    """Append together with the other threads of this process that use a database as this tenant."""
    pool, tenant = database.pool, database.address.tenant
    pool.follow_process()
    found = pool.combiners.get(tenant)
    if found is None:

        def send(batch: Sequence[PlainAppend]) -> Sequence[tuple[int, int, int]]:
            with database.connection() as connection:
                statement = statements.append_each(tenant, _columns_of(batch))
                return database.send(connection, [statement])[0]

        found = pool.combiners.setdefault(tenant, Combiner(send, pool.size))
    return found.append(wanted, alone)


def _columns_of(batch: Sequence[PlainAppend]) -> tuple[str | list[bytes], ...]:
    """The parameters of a statement for several."""
    return (
        _spell_numbers([each.sid for each in batch]),
        _spell_numbers([each.known for each in batch]),
        spell_array([each.last for each in batch]),
        _spell_numbers([each.epoch for each in batch]),
        _spell_numbers([each.header_revision for each in batch]),
        spell_array([each.id for each in batch]),
        spell_array([each.parent for each in batch]),
        spell_array([each.kind for each in batch]),
        spell_array([each.time for each in batch]),
        [each.line for each in batch],
        _spell_numbers([each.messages for each in batch]),
        _spell_numbers([each.is_answered for each in batch]),
        spell_array([each.status for each in batch]),
        spell_array([each.first_message for each in batch]),
        spell_array([each.said for each in batch]),
    )


def _spell_numbers(numbers: Sequence[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"
