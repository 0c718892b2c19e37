"""Describe an agent to discovery: where its sessions are, and how to read them where they lie.

An adapter is a stateless object; the catalogue, the index and the listings ask it and keep what it
answers. Four rules hold for every adapter:

- **It only reads.** Nothing of another agent's is ever written, not even a lock or a time.
- **A session is lines.** Listing, index and search read a session as lines at offsets, through the
  reader that ``open`` returns. Most agents write JSONL, so that reader is the file's. An adapter
  for rows of a database returns a reader that spells each row as a line, under a path of its own
  (``…/opencode.db/ses_1``), and a ``FileStat`` that changes whenever the session does.
- **Odd data never fails.** A line that is damaged, strange or hostile counts as far as it can be
  read. Only OSError may be raised: the file cannot be read.
- **Reading again gives the same.** What ``read`` returns depends on the session's bytes alone, and
  reading on from a ``known`` state gives what reading everything would.

Some sessions have parts: files of their own that belong to a session (a subagent's transcript).
They are read and indexed like sessions, but listed, counted and found as their session.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from sessiontree.discovery.catalogue.summary import Summary
from sessiontree.storage.base import FileStat, SessionStorage, SessionStorageReader
from sessiontree.storage.file import FileSessionStorage

if TYPE_CHECKING:
    from sessiontree.discovery.search.texts import SaidText

StrPath = str | os.PathLike[str]

GetSummaries = Callable[[Sequence[FileStat]], dict[str, Summary]]
"""Gives the catalogue's summaries of files, by their paths."""


class Answer(msgspec.Struct, array_like=True, gc=False):
    """What one call of a model used, and the names by which copies of it are recognized.

    ``key`` names it wherever it is copied to: a hash of the provider's ids, 0 without any.
    ``twins`` name it among sessions that are related. ``model`` is a position in
    ``Answers.models``, and ``input`` leaves out what was read from the provider's cache.
    """

    key: int
    twins: tuple[int, ...]
    time_ms: int | None
    model: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float = 0.0
    reasoning: int = 0
    cache_write_1h: int = 0
    is_answer: bool = True
    """Whether it is an answer of the model, rather than a summary or another paid call."""
    is_inherited: bool = False
    """Whether it looks copied from a session that may no longer exist."""


class Answers(msgspec.Struct, array_like=True, gc=False):
    """All paid calls of one file, in order, and the names of their models."""

    models: list[str] = msgspec.field(default_factory=list)
    rows: list[Answer] = msgspec.field(default_factory=list)

    def model_no(self, name: str) -> int:
        """Return the position of a model's name, adding it if it is new."""
        try:
            return self.models.index(name)
        except ValueError:
            self.models.append(name)
            return len(self.models) - 1


class Reading(msgspec.Struct):
    """What reading a file gave: its summary, its paid calls, and how to read on from its end.

    ``answers`` is None if the adapter reads them only when asked (``read_answers``). ``state`` is
    the adapter's own note of what it has seen; the catalogue keeps it and hands it back.
    """

    summary: Summary
    answers: Answers | None = None
    state: bytes = b""


class Places(msgspec.Struct):
    """Where an agent's sessions are now: every file, by its folder.

    ``parts`` maps a part's path to its session's. ``titles`` are names that the agent keeps
    elsewhere, by session id.
    """

    folders: dict[str, list[FileStat]] = msgspec.field(default_factory=dict)
    parts: dict[str, str] = msgspec.field(default_factory=dict)
    titles: dict[str, str] = msgspec.field(default_factory=dict)
    unreadable: list[tuple[str, str]] = msgspec.field(default_factory=list)
    """Folders that could not be listed, and why."""

    def files(self) -> Iterator[FileStat]:
        """Every file, parts included."""
        for found in self.folders.values():
            yield from found


class AgentAdapter:
    """One agent's sessions. Subclass it, and register an object of the class.

    Required: ``name``, ``title``, ``find``, ``read``, ``texts_of_line``. The rest has defaults.
    """

    name: str
    """What users type and JSON holds: ``claude-code``."""
    title: str
    """What the agent calls itself: ``Claude Code``."""
    is_own = False
    """Whether Sessiontree opens its sessions for writing (pi's family)."""
    converter: str | None = None
    """The function that converts a session for show, export and import, as ``module:function``.

    ``importers.foreign`` calls it with the path and a reader of files; see ``docs/importing.md``.
    """
    can_read_on = True
    """Whether ``read`` can go on from a ``known`` reading; without, a grown file is read whole."""

    # -- where its sessions are ----------------------------------------------------------------

    def find(self, home: StrPath | None, summaries: GetSummaries) -> Places:
        """Find all sessions of this user by the names of files, opening none.

        ``home`` is another home folder; without it the agent's environment variables count.
        """
        raise NotImplementedError

    def is_session(self, path: str, first_lines: Sequence[bytes]) -> bool:
        """Whether this agent wrote a file, by its name and its first lines."""
        raise NotImplementedError

    def open(self, path: str, storage: SessionStorage) -> SessionStorageReader:
        """Open a session to read its lines. Raises OSError."""
        return storage.open_reader(path)

    # -- what is in one ------------------------------------------------------------------------

    def read(self, reader: SessionStorageReader, path: str, known: Reading | None) -> Reading:
        """Summarize a session up to ``reader.stat().size``.

        ``known`` is the reading of its first ``known.summary.end`` bytes, which are whole lines
        and have not changed.
        """
        raise NotImplementedError

    def read_answers(
        self, reader: SessionStorageReader, path: str, known: Reading | None
    ) -> Answers:
        """Read a session's paid calls; only for adapters whose ``read`` leaves them out."""
        raise NotImplementedError

    def texts_of_line(self, line: bytes, offset: int, *, include_tools: bool) -> Iterator[SaidText]:
        """Yield what one line says, with the agent's own record id as ``entry_id``."""
        raise NotImplementedError

    def is_silent(self, data: bytes, start: int, end: int) -> bool:
        """Whether a line certainly says nothing but tool output: then it need not be decoded."""
        del data, start, end
        return False

    def drop_repeated(self, texts: Iterator[SaidText]) -> Iterator[SaidText]:
        """Leave out texts that the agent writes twice; lines come forwards or backwards."""
        return texts

    # -- what can be done with one -------------------------------------------------------------

    def resume_command(self, path: str, session_id: str) -> list[str] | None:
        """Return the command that continues the session in its own agent, in its project."""
        del path, session_id
        return None

    def spell_resume(self, path: str, session_id: str, cwd: str | None) -> str | None:
        """Return that command for a shell, to be run in any folder."""
        command = self.resume_command(path, session_id)
        if command is None:
            return None
        spelled = shlex.join(command)
        return f"cd {shlex.quote(cwd)} && {spelled}" if cwd else spelled

    def __repr__(self) -> str:
        return f"<adapter {self.name}>"


def make_key(*parts: object) -> int:
    """Hash some values to 63 bits: the same in every process; 0 is kept for "none"."""
    from hashlib import blake2b

    seed = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(seed, digest_size=8).digest()) >> 1 or 1


def twin_of(time_ms: int | None, *counts: int) -> int:
    """Name an answer by when it was given and what it used: copies and imports keep both."""
    return make_key(time_ms, *counts)


def stat_files(folder: str, suffix: str) -> list[FileStat]:
    """List the files of a folder. Raises OSError, but not for a folder that does not exist."""
    return FileSessionStorage().list_files(folder, suffix)


def text_or_none(value: Any) -> str | None:
    """The value if it is a text that is not empty."""
    return value if isinstance(value, str) and value else None
