"""Store the prompts that the user typed, for recall and search across sessions.

``HistoryStorage`` is a queue in front of ``history.db``: ``add`` returns at once,
a background thread writes, and a prompt can be recalled from the moment it was added. It serves
recall only; session files serve replay. It must not know about sessions.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from sessiontree.clock import SecondsClock, now_s
from sessiontree.errors import PersistenceError
from sessiontree.history.database import HistoryDatabase
from sessiontree.history.tables import HistoryEntry
from sessiontree.logs import get_logger
from sessiontree.profiles import Profile, get_profile
from sessiontree.text.escaping import one_line

__all__ = ["HistoryEntry", "HistoryStorage"]

_log = get_logger(__name__)
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"[^\W_]+")
_RETRY_S = 1.0
# Closing waits for it: long enough that one failure costs no prompt, and not long for a lost disk.
_LAST_TRIES = 3
_LAST_PAUSE_S = 0.1
# A disk that stays full must not eat the memory of a program that runs for weeks.
_MOST_WAITING = 10_000


class HistoryStorage:
    """The prompts of one ``history.db``, shared by all programs that use the file."""

    def __init__(self, path: str | os.PathLike[str], *, clock: SecondsClock = now_s) -> None:
        self.path = os.path.abspath(path)
        self._clock = clock
        self._reader = HistoryDatabase(self.path)
        self._reading = threading.Lock()
        self._writer = _Writer(self.path)
        # At interpreter exit too: what was added before must be on disk.
        self._drain = weakref.finalize(self, self._writer.stop, 2.0)

    @classmethod
    def for_profile(cls, profile: str | Profile | None = None) -> Self:
        """The history of this profile."""
        return cls(get_profile(profile).history_path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def error(self) -> PersistenceError | None:
        """The error of the latest write, if it failed; the prompts wait for the next attempt."""
        return self._writer.error

    @property
    def loss(self) -> str | None:
        """One line about the prompts that were still not written when it was closed."""
        return self._writer.loss

    def add(self, prompt: str, cwd: str | os.PathLike[str] | None = None) -> None:
        """Add a prompt. Returns at once and never fails; blank prompts are ignored."""
        if not prompt.strip():
            return
        folder = None if cwd is None else _writable(os.fspath(cwd))
        self._writer.put(HistoryEntry(None, _writable(prompt), int(self._clock()), folder))

    def recent(
        self, limit: int = 100, cwd: str | os.PathLike[str] | None = None
    ) -> list[HistoryEntry]:
        """Return the newest prompts first, of one folder if given. Raises PersistenceError."""
        folder = None if cwd is None else _writable(os.fspath(cwd))
        with self._reading, self._writer.waiting() as waiting:
            found = _of_folder(waiting, folder)
            found += self._reader.select_recent(limit, folder)
        return found[: max(0, limit)]

    def search(
        self, query: str, limit: int = 100, cwd: str | os.PathLike[str] | None = None
    ) -> list[HistoryEntry]:
        """Prompts that match: those with the very text first, then newest first.

        Any text is a query and nothing in it is an operator: every word must be there, at the
        beginning of a word or else inside one ("go mit" finds "go back to that commit"). A blank
        query gives the newest prompts. Raises PersistenceError.
        """
        wanted = _Query(_writable(query))
        if not wanted.terms:
            return self.recent(limit, cwd)
        folder = None if cwd is None else _writable(os.fspath(cwd))
        with self._reading, self._writer.waiting() as waiting:
            new = _of_folder(waiting, folder)
            found = [entry for entry in new if wanted.is_in(entry.prompt)]
            found += self._reader.select_containing([wanted.text], limit, folder)
            found += [entry for entry in new if wanted.has_terms(entry.prompt)]
            found += self._words(wanted, wanted.symbols, limit, folder)
            found += self._reader.select_containing(wanted.terms, limit, folder)
            if not found and wanted.symbols:
                found = [entry for entry in new if wanted.has_words(entry.prompt)]
                found += self._words(wanted, [], limit, folder)
        return _distinct(found)[: max(0, limit)]

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until all added prompts are written; return whether they are."""
        return self._writer.drain(timeout_s)

    def close(self, timeout_s: float = 10.0) -> None:
        """Write the waiting prompts, then close the file. Failures are logged."""
        self._drain.detach()
        self._writer.stop(timeout_s)
        with self._reading:
            self._reader.close()

    def _words(
        self, wanted: _Query, needles: list[str], limit: int, folder: str | None
    ) -> list[HistoryEntry]:
        if wanted.expression is None:
            return self._reader.select_containing(wanted.terms, limit, folder)
        return self._reader.select_words(wanted.expression, needles, limit, folder)


class _Query:
    """A user's query, split into words; it has no syntax."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        # Quotes around words are how people mark phrases; the words are what they look for.
        terms = [term.strip("\"'") or term for term in self.text.split()]
        self.terms = terms
        self.symbols = [term for term in terms if not term.isalnum()]
        worded = [term for term in terms if any(map(str.isalnum, term))]
        phrases = ['"' + term.replace('"', '""').replace("\0", " ") + '"' for term in worded]
        self.expression = " ".join(f"{phrase} *" for phrase in phrases) or None

    def is_in(self, prompt: str) -> bool:
        return self.text.casefold() in prompt.casefold()

    def has_terms(self, prompt: str) -> bool:
        return _holds_all(prompt, self.terms)

    def has_words(self, prompt: str) -> bool:
        """Whether the prompt has the query's words, whatever stands between or around them."""
        words = _WORD.findall(self.text)
        return bool(words) and _holds_all(prompt, words)


class _Writer:
    """The queue and the thread that writes it to the database."""

    def __init__(self, path: str) -> None:
        self.error: PersistenceError | None = None
        self.loss: str | None = None
        self._path = path
        self._changed = threading.Condition()
        # Held while a prompt moves from the queue to the database, and while both are read, so
        # that a reader finds it in exactly one of them. Never held by ``put``.
        self._moving = threading.Lock()
        self._waiting: list[HistoryEntry] = []
        self._last_prompt: str | None = None
        self._stopping = False
        self._thread: threading.Thread | None = None

    def put(self, entry: HistoryEntry) -> None:
        with self._changed:
            if entry.prompt == self._last_prompt:
                return
            self._last_prompt = entry.prompt
            self._waiting.append(entry)
            del self._waiting[:-_MOST_WAITING]
            self._stopping = False
            self._start()
            self._changed.notify_all()

    @contextmanager
    def waiting(self) -> Iterator[list[HistoryEntry]]:
        """Return the unwritten prompts, newest first, while holding up the writer."""
        with self._moving:
            with self._changed:
                newest_first = self._waiting[::-1]
            yield newest_first

    def drain(self, timeout_s: float | None) -> bool:
        end = math.inf if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while self._waiting:
                if self._thread is None:  # it gave up, or there never was one
                    self._stopping = False
                    self._start()
                left_s = max(0.0, end - time.monotonic())
                self._changed.wait_for(lambda: not self._waiting, min(left_s, _RETRY_S))
                if not left_s:
                    break
            return not self._waiting

    def stop(self, timeout_s: float) -> None:
        with self._changed:
            self._stopping = True
            self._start()
            self._changed.notify_all()
            thread = self._thread
            is_helpless = thread is None and bool(self._waiting)
        if thread is not None:
            thread.join(timeout_s)
        elif is_helpless:
            self._work(is_final=True)
        with self._changed:
            lost = len(self._waiting)
        if lost:
            count = "1 prompt" if lost == 1 else f"{lost} prompts"
            reason = one_line(str(self.error or f"{self._path} is in use by another program"))
            self.loss = f"{count} could not be saved: {reason}"
            _log.warning("%s could not be saved: %s", count, reason)

    def _start(self) -> None:
        """Start the writing thread if none runs. Call with ``_changed`` held."""
        if self._thread is not None or not self._waiting:
            return
        # A daemon: a database that another process holds must not keep a program from ending.
        # The finalizer of HistoryStorage drains the queue first.
        thread = threading.Thread(target=self._work, name="prompt-history", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has none left; it is tried again
            self.error = PersistenceError(self._path, f"prompt history: {error}")
        else:
            self._thread = thread

    def _work(self, is_final: bool = False) -> None:
        """Write what is put in the queue, until it is stopped; if final, only what waits now."""
        database = HistoryDatabase(self._path)
        is_first, last_tries = True, 0
        try:
            while (batch := self._next_batch(is_final)) is not None:
                last_tries = last_tries + 1 if is_final or self._stopping else 0
                try:
                    self._write(database, batch, _without_repeat(database, batch, is_first))
                    is_first = False
                except Exception as error:
                    # Whatever it is: a thread that ended would leave the prompts waiting for ever.
                    if not isinstance(error, PersistenceError):
                        error = PersistenceError(self._path, f"prompt history: {error!r}")
                    if not self._pause_after(error, last_tries, is_final):
                        return
        finally:
            database.close()

    def _next_batch(self, is_final: bool) -> list[HistoryEntry] | None:
        """All that waits, as soon as something does; None when there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopping or is_final)
            if not self._waiting:
                self._thread = None
                return None
            return list(self._waiting)

    def _write(
        self, database: HistoryDatabase, batch: list[HistoryEntry], rows: list[HistoryEntry]
    ) -> None:
        commit = database.insert(rows)
        with self._moving:
            commit()
            written = set(map(id, batch))
            with self._changed:
                self._waiting = [entry for entry in self._waiting if id(entry) not in written]
                self.error = None
                self._changed.notify_all()

    def _pause_after(self, error: PersistenceError, last_tries: int, is_final: bool) -> bool:
        """Record a failed write and wait a moment; return whether to try again."""
        with self._changed:
            if self.error is None:
                _log.warning("prompt history not written: %s", error)
            self.error = error
            if last_tries >= _LAST_TRIES and (is_final or self._stopping):
                self._thread = None
                return False
            if last_tries:
                self._changed.wait(_LAST_PAUSE_S)
            else:
                self._changed.wait_for(lambda: self._stopping, _RETRY_S)
            return True


def _without_repeat(
    database: HistoryDatabase, batch: list[HistoryEntry], first: bool
) -> list[HistoryEntry]:
    """The batch, without its first prompt if the last run ended with just that in this folder."""
    if first:
        newest = database.select_recent(1, None)
        if newest and (newest[0].prompt, newest[0].cwd) == (batch[0].prompt, batch[0].cwd):
            return batch[1:]
    return batch


def _writable(text: str) -> str:
    """Replace unpaired surrogates, which SQLite can't store."""
    return _SURROGATE.sub("\ufffd", text)


def _holds_all(prompt: str, parts: list[str]) -> bool:
    folded = prompt.casefold()
    return all(part.casefold() in folded for part in parts)


def _of_folder(entries: list[HistoryEntry], folder: str | None) -> list[HistoryEntry]:
    return [entry for entry in entries if folder is None or entry.cwd == folder]


def _distinct(entries: list[HistoryEntry]) -> list[HistoryEntry]:
    return list(dict.fromkeys(entries))
