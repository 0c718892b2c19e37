"""Describe an agent to discovery: where its sessions are, and how to read them where they lie.

An adapter is a stateless object; the catalogue, the index and the listings ask it and keep what it
answers. Four rules hold for every adapter:

- **It only reads.** Nothing of another agent's is ever written, not even a lock or a time.
- **A session is lines.** Listing, index and search read a session as lines at offsets, through the
  reader that ``open`` returns. Most agents write JSONL, so that reader is the file's. An adapter
  for rows of a database returns a reader that spells each row as a line, under a path of its own
  (``…/opencode.db/ses_1``), and a ``FileStat`` that changes whenever the session does (``rows``).
  An adapter whose files only make sense as a whole returns their result (``interpret``).
  ``turns`` does most of the work for formats whose records can be read one by one.
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
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from sessiontree.discovery.catalogue.answers import Answers, Reading
from sessiontree.discovery.catalogue.summary import Summary
from sessiontree.profiles import Dialect
from sessiontree.storage.base import FileStat, SessionStorage, SessionStorageReader
from sessiontree.storage.descriptors import to_stat

if TYPE_CHECKING:
    from sessiontree.discovery.texts import SaidText

StrPath = str | os.PathLike[str]

GetSummaries = Callable[[Sequence[FileStat]], dict[str, Summary]]
"""Gives the catalogue's summaries of files, by their paths."""


class Places(msgspec.Struct):
    """All session files of an agent, by their folders.

    ``parts`` maps a part's path to its session's. ``titles`` are names that the agent keeps
    elsewhere, by session id.
    """

    folders: dict[str, list[FileStat]] = msgspec.field(default_factory=dict)
    parts: dict[str, str] = msgspec.field(default_factory=dict)
    titles: dict[str, str] = msgspec.field(default_factory=dict)
    unreadable: list[tuple[str, str]] = msgspec.field(default_factory=list)
    """Folders that could not be listed, and why."""
    kept: set[str] = msgspec.field(default_factory=set)
    """Files that are gone, and read from the copy that ``keep`` made (``discovery.kept``)."""

    def files(self) -> Iterator[FileStat]:
        """Every file, parts included."""
        for found in self.folders.values():
            yield from found


class AgentAdapter(ABC):
    """One agent's sessions. Subclass it, and register an object of the class.

    Required: ``name``, ``title`` and the abstract methods. The rest has defaults.
    """

    name: str
    """The agent's name for users and in JSON: ``claude-code``."""
    title: str
    """What the agent calls itself: ``Claude Code``."""
    is_own = False
    """Whether Sessiontree opens its sessions for writing (pi's family)."""
    converter: str | None = None
    """The function that converts a session for show, export and import, as ``module:function``.

    ``importers.foreign`` calls it with the path and a reader of files; see ``docs/importing.md``.
    """
    dialect: Dialect = "omp"
    """The dialect that decides where a session's name is looked for first (see
    ``model.dialects``)."""
    can_read_on = True
    """Whether ``read`` can continue a ``known`` reading; without, a grown file is read whole."""
    is_interpreted = False
    """Whether ``interpret`` returns other lines than the file holds."""

    # -- where its sessions are ----------------------------------------------------------------

    @abstractmethod
    def find(self, home: StrPath | None, summaries: GetSummaries) -> Places:
        """Find all sessions of this user by the names of files, opening none.

        ``home`` is another home folder; without it the agent's environment variables count.
        """

    @abstractmethod
    def is_session(self, path: str, records: Sequence[dict[str, Any]]) -> bool:
        """Whether this agent wrote a file, by its name and its first records."""

    def is_document(self, path: str, head: bytes) -> bool:
        """Whether this agent wrote a file that does not hold a record on each line."""
        del path, head
        return False

    def has_row(self, path: str) -> bool:
        """Whether this path names a session in a database of this agent."""
        del path
        return False

    def open(self, path: str, storage: SessionStorage) -> SessionStorageReader:
        """Open a session to read its lines. Raises OSError.

        If listing it doesn't tell their length, ``find`` gives it ``UNKNOWN_SIZE``; the rest of its
        ``FileStat`` is the same in both.
        """
        return self.interpret(path, self.open_verbatim(path, storage))

    def open_verbatim(self, path: str, storage: SessionStorage) -> SessionStorageReader:
        """Open a session as its agent wrote it, for ``keep`` to copy. Raises OSError."""
        return storage.open_reader(path)

    def interpret(self, path: str, reader: SessionStorageReader) -> SessionStorageReader:
        """Make the lines that ``read`` and ``texts_of_line`` take of what the agent wrote.

        Closes ``reader`` if it returns another one. Raises OSError.
        """
        del path
        return reader

    def belongings(self, found: Places) -> dict[str, list[FileStat]]:
        """Find further files that belong to sessions, by their session's path.

        ``keep`` copies them with it: what a tool printed, an artifact. Parts are not among them.
        """
        del found
        return {}

    def removed_names(self) -> set[str]:
        """The file names of sessions that a person removed, and may still restore."""
        return set()

    def retention_days(self, home: StrPath | None = None) -> float | None:
        """Days without a change after which the agent deletes a session; None for never."""
        del home
        return None

    # -- what is in one ------------------------------------------------------------------------

    @abstractmethod
    def read(
        self, reader: SessionStorageReader, path: str, size: int, known: Reading | None
    ) -> Reading:
        """Summarize the first ``size`` bytes of a session.

        ``known`` is the reading of its first ``known.summary.end`` bytes, which are whole lines
        and have not changed.
        """

    def read_answers(
        self, reader: SessionStorageReader, path: str, size: int, known: Answers | None, start: int
    ) -> Answers:
        """Read a session's paid calls, if ``read`` leaves them out because they are rarely needed.

        ``known`` are those before ``start``, and may be added to.
        """
        del reader, path, size, start
        return Answers() if known is None else known

    def read_with_texts(
        self, reader: SessionStorageReader, path: str, size: int
    ) -> Generator[SaidText, None, Reading] | None:
        """Yield all that the lines say, tools included, and return what ``read`` returns of them.

        For an agent where decoding a line once serves both; None for one where reading twice costs
        no more.
        """
        del reader, path, size
        return None

    @abstractmethod
    def texts_of_line(self, line: bytes, offset: int, *, include_tools: bool) -> Iterator[SaidText]:
        """Yield what one line says, with the agent's own record id as ``entry_id``."""

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


def stat_files(folder: str, suffix: str, inside: list[str] | None = None) -> list[FileStat]:
    """List the files of a folder, and add the folders in it to ``inside``.

    Raises OSError, but not for a folder that does not exist.
    A link that leads nowhere is listed, without a size: reading it then says what is wrong. The
    folder's name may come from a transcript, and be one that no folder can have.
    """
    found = []
    try:
        with os.scandir(folder) as listing:
            for item in listing:
                try:
                    if inside is not None and item.is_dir():
                        inside.append(item.path)
                    elif not item.name.endswith(suffix):
                        continue
                    elif item.is_file():
                        found.append(to_stat(item.path, item.stat()))
                    elif item.is_symlink() and not os.path.exists(item.path):
                        found.append(FileStat(item.path, 0, 0, 0))
                except OSError:  # gone since the listing
                    continue
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return []
    return found


def scan_folders(top: str, suffix: str) -> Iterator[tuple[str, list[FileStat] | OSError]]:
    """Yield a folder and those below it that have files, in order, each with its files.

    Links to folders are not followed. Of a folder that can't be listed, the error is given.
    """
    inside: list[str] = []
    found: list[FileStat] | OSError
    try:
        found = stat_files(top, suffix, inside)
    except OSError as error:
        found = error
    if found:
        yield top, found
    for folder in sorted(inside):
        if not os.path.islink(folder):
            yield from scan_folders(folder, suffix)


def find_files_below(folder: str, found: list[FileStat] | None = None) -> list[FileStat]:
    """List the regular files of a folder and of those below it; links are not followed."""
    made: list[FileStat] = [] if found is None else found
    try:
        with os.scandir(folder) as listing:
            for item in sorted(listing, key=lambda item: item.name):
                if item.is_dir(follow_symlinks=False):
                    find_files_below(item.path, made)
                elif item.is_file(follow_symlinks=False):
                    made.append(to_stat(item.path, item.stat(follow_symlinks=False)))
    except OSError:  # gone, or not ours to read
        return made
    return made
