"""Read a foreign session from disk and convert it in memory. Never writes.

A session may consist of several files: Claude Code's subagent transcripts, or the rollout that a
Codex session continues. ``foreign_listing`` finds sessions.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module

from sessiontree.core.context import SessionContext, build_session_context
from sessiontree.core.gc import with_paused_gc
from sessiontree.core.tree import SessionTree, SessionTreeNode, plant
from sessiontree.discovery.adapters import get_adapter, get_adapters
from sessiontree.discovery.adapters.base import AgentAdapter
from sessiontree.discovery.adapters.places import (
    codex_home_of,
    find_rollout,
    find_sidechains,
    is_subagent,
    meta_of_sidechain,
    read_thread_names,
    session_id_of,
)
from sessiontree.discovery.adapters.records import (
    RecordList,
    WireRecord,
    get_object,
    get_text,
    read_records,
    spell_time,
)
from sessiontree.discovery.kept import kept_agent, open_session
from sessiontree.errors import NotASessionError, PersistenceError
from sessiontree.importers.claude_code import Sidechain, convert_claude_code
from sessiontree.importers.codex import convert_codex
from sessiontree.importers.codex_forks import count_burst, count_copied, find_parent
from sessiontree.importers.transcript import ConversionReport, Transcript
from sessiontree.model.entries import Entry
from sessiontree.model.header import Header, make_header
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.regular import open_for_reading

Agent = str
"""The name of an agent's adapter, such as ``claude-code``."""

Converter = Callable[[str, "RecordList", "SourceFiles"], Transcript]
"""Converts the session at a path from its records; it may read further files."""

_READABLE_FROM_THE_END = ("claude-code", "codex")
"""Agents that write a record a line, and change none afterwards."""
_MAX_ANCESTORS = 50
_PROBE_BYTES = 1 << 20
# One document, not lines: some of its lines would pass for those of a session.
_JSON_EXPORT = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"format"\s*:\s*"sessiontree\.session"')


@dataclass(slots=True)
class ForeignSource:
    """One session read from disk, and the hash of all its files.

    ``size`` and ``own_hash`` describe the file at ``path`` alone.
    """

    agent: Agent
    path: str
    transcript: Transcript
    content_hash: str
    size: int = 0
    own_hash: str = ""
    files: list[str] = field(default_factory=list)


class ForeignDocument:
    """A foreign session in memory, with the read methods of a ``SessionManager``.

    Use it to show, search and export; it cannot write.
    """

    def __init__(self, source: ForeignSource) -> None:
        self.source = source
        self.transcript = source.transcript
        self.path = source.path
        self.agent: Agent = source.agent
        self.report: ConversionReport = source.transcript.report

    @cached_property
    def tree(self) -> SessionTree:
        """The entries as a tree with the foreign conversation's leaf."""
        tree, _ = plant(Entry.from_wire(entry) for entry in self.transcript.entries)
        tree.leaf_id = self.transcript.leaf_id
        return tree

    @property
    def header(self) -> Header:
        """The header that an import of this session would get."""
        made = make_header(
            self.transcript.session_id,
            spell_time(self.transcript.started_ms),
            self.transcript.cwd or "",
            parent_session=self.transcript.parent_session,
        )
        if self.transcript.title is not None:
            made["title"] = self.transcript.title
        return made

    @property
    def title(self) -> str | None:
        return self.transcript.title

    @property
    def session_name(self) -> str | None:
        return self.transcript.title

    @property
    def session_id(self) -> str:
        return self.transcript.session_id

    @property
    def session_file(self) -> str:
        return self.path

    @property
    def cwd(self) -> str:
        return self.transcript.cwd or ""

    @property
    def leaf_id(self) -> str | None:
        return self.transcript.leaf_id

    @property
    def warnings(self) -> list[str]:
        """One line for each thing that could not be mapped."""
        return self.report.lines()

    def get_entries(self) -> list[Entry]:
        """All entries, in order."""
        return list(self.tree.entries)

    def get_entry(self, entry_id: str) -> Entry | None:
        return self.tree.by_id.get(entry_id)

    def get_branch(self, from_id: str | None = None) -> list[Entry]:
        """The entries from the root to ``from_id``, by default to the leaf."""
        return self.tree.path(from_id if from_id is not None else self.leaf_id)

    def get_tree(self) -> list[SessionTreeNode]:
        return self.tree.nodes()

    def get_children(self, parent_id: str | None) -> list[Entry]:
        return self.tree.children(parent_id)

    def get_label(self, entry_id: str) -> str | None:
        found = self.tree.labels().get(entry_id)
        return found[0] if found is not None else None

    def build_session_context(self) -> SessionContext:
        """Build the context that the model saw last."""
        return build_session_context(self.tree.entries, self.leaf_id, self.tree.by_id)


@with_paused_gc
def load_foreign(path: str | os.PathLike[str], *, agent: Agent | None = None) -> ForeignDocument:
    """Load the session in another agent's file into memory.

    Raises NotASessionError for any other file, PersistenceError if it can't be read.
    """
    return ForeignDocument(read_source(path, agent=agent))


def load_end(path: str, agent: Agent, size: int) -> ForeignDocument | None:
    """Load what the last ``size`` bytes of a session hold; None if that is all of it, or unknown.

    For a look at a session of many megabytes. What came before is missing, its branches too. Raises
    NotASessionError, PersistenceError.
    """
    if agent not in _READABLE_FROM_THE_END:
        return None
    files = SourceFiles(get_adapter(agent))
    try:
        opened = open_session(files.adapter, path, FileSessionStorage())
        with contextlib.closing(opened) as reader:
            stat = reader.stat()
            if stat.size <= 2 * size:
                return None
            first, line_end, _ = reader.read_at(0, size).partition(b"\n")
            _, _, rest = reader.read_at(stat.size - size, size).partition(b"\n")
    except OSError as error:
        raise PersistenceError.from_os_error(path, error) from error
    files.modified_ms = stat.mtime_ns // 1_000_000
    # Codex says there whose session it is; each record of Claude Code does.
    head = first + line_end if agent == "codex" else b""
    transcript = _converter(files.adapter)(path, read_records(head + rest), files)
    return ForeignDocument(ForeignSource(agent, path, transcript, "", stat.size))


def read_source(path: str | os.PathLike[str], *, agent: Agent | None = None) -> ForeignSource:
    """Read and convert everything that belongs to the session in this file."""
    name = os.path.abspath(os.fspath(path))
    if name.endswith(".zst"):
        raise NotASessionError(name, "a compressed rollout; unpack it with zstd first")
    found = agent or find_agent(name)
    files = SourceFiles(get_adapter(found))
    data = files.read(name, files.adapter)
    _refuse_json_export(name, data)
    records = read_records(data)
    own_hash = files.digest()
    transcript = _converter(files.adapter)(name, records, files)
    return ForeignSource(found, name, transcript, files.digest(), len(data), own_hash, files.paths)


def find_agent(path: str) -> Agent:
    """Find the agent that wrote the session at this path.

    Raises NotASessionError, PersistenceError.
    """
    if os.path.isfile(os.path.dirname(path)):
        for adapter in get_adapters():
            if adapter.has_row(path):
                return adapter.name
    kept = kept_agent(path)
    if kept is not None:
        return kept
    try:
        head = FileSessionStorage().read_prefix(path, _PROBE_BYTES)
    except OSError as error:
        raise PersistenceError.from_os_error(path, error) from error
    _refuse_json_export(path, head)
    for name in foreign_agents():
        if get_adapter(name).is_document(path, head):
            return name
    return detect_agent(path, read_records(head))


def _refuse_json_export(path: str, data: bytes) -> None:
    if _JSON_EXPORT.match(data):
        raise NotASessionError(
            path, "a JSON export, which can't be taken in again; export --bundle writes what can"
        )


def has_grown(path: str, size: int, own_hash: str, agent: Agent) -> bool:
    """Whether a session still begins with what it held when it had this size and hash."""
    try:
        with contextlib.closing(
            open_session(get_adapter(agent), path, FileSessionStorage())
        ) as reader:
            return hashlib.sha256(reader.read_at(0, size)).hexdigest() == own_hash
    except OSError:
        return False


def foreign_agents() -> list[Agent]:
    """The agents whose sessions can be converted, and are not written by Sessiontree."""
    return [each.name for each in get_adapters() if not each.is_own and each.converter]


def _converter(adapter: AgentAdapter) -> Converter:
    """Load the function that converts an agent's sessions."""
    module, _, name = (adapter.converter or "").partition(":")
    made: Converter = getattr(import_module(module), name)
    return made


class SourceFiles:
    """Read the files of one session; record their paths and the hash of their content."""

    def __init__(self, adapter: AgentAdapter) -> None:
        self.adapter = adapter
        self.paths: list[str] = []
        self.modified_ms = 0
        self._hash = hashlib.sha256()

    def read(self, path: str, adapter: AgentAdapter | None = None) -> bytes:
        """The whole file, or the lines that the adapter reads under this path; PersistenceError."""
        storage = FileSessionStorage()
        try:
            opened = open_session(adapter, path, storage)
            with contextlib.closing(opened) as reader:
                stat = reader.stat()
                data = reader.read_at(0, stat.size)
                modified_ns = stat.mtime_ns
        except OSError as error:
            raise PersistenceError.from_os_error(path, error) from error
        self.paths.append(path)
        self.modified_ms = max(self.modified_ms, modified_ns // 1_000_000)
        self._hash.update(data)
        return data

    def digest(self) -> str:
        return self._hash.hexdigest()


def detect_agent(path: str, records: RecordList) -> Agent:
    """Detect the agent by the file's first records; NotASessionError if none wrote it."""
    if any(each.get("type") == "session" and "version" in each for each in records.records[:50]):
        raise NotASessionError(path, "a session already; open it instead of importing it")
    for name in foreign_agents():
        if get_adapter(name).is_session(path, records.records[:50]):
            return name
    raise NotASessionError(path, "not a session of an agent that can be imported")


def convert_claude_files(path: str, records: RecordList, files: SourceFiles) -> Transcript:
    session_id = session_id_of(path)
    modified_ms = files.modified_ms
    if is_subagent(path):
        transcript = convert_claude_code(
            records, session_id=session_id, fallback_ms=modified_ms, is_subagent=True
        )
        if transcript.title is None:
            transcript.title = get_text(meta_of_sidechain(path), "description")
            transcript.title_source = "auto"
        return transcript
    sidechains = []
    for chain_path in find_sidechains(path, session_id):
        where = os.path.basename(chain_path)
        try:
            found = read_records(files.read(chain_path))
        except PersistenceError as error:
            records.skipped.append((0, f"{where}: {error.reason}"))
            continue
        records.skipped += [(line, f"{where}: {reason}") for line, reason in found.skipped]
        name = where.removeprefix("agent-").removesuffix(".jsonl")
        sidechains.append(Sidechain(name, found.records, meta_of_sidechain(chain_path)))
    return convert_claude_code(
        records, session_id=session_id, sidechains=sidechains, fallback_ms=modified_ms
    )


def convert_codex_files(path: str, records: RecordList, files: SourceFiles) -> Transcript:
    home = codex_home_of(path)
    modified_ms = files.modified_ms
    own = len(records.records)
    missing = _join_ancestors(records, home, files)
    inherited = len(records.records) - own
    inherited = inherited + 1 if inherited else _count_copied(path, records, home)
    transcript = convert_codex(
        records, session_id=session_id_of(path), fallback_ms=modified_ms, inherited=inherited
    )
    if transcript.title is None and home is not None:
        transcript.title = read_thread_names(home).get(transcript.session_id)
        transcript.title_source = "user" if transcript.title is not None else None
    if missing is not None:
        transcript.report.note(f"the rollout it continues is not there: {missing}")
    return transcript


def _count_copied(path: str, records: RecordList, home: str | None) -> int:
    """Count the first records that a fork copied from its parent rollout."""
    parent = find_parent(records.records)
    if parent is None:
        return 0
    found = find_rollout(home, parent, [path]) if home is not None else None
    if found is None:
        return count_burst(records.records)
    try:
        with open_for_reading(found) as file:
            return count_copied(records.records, read_records(file.read()).records)
    except OSError:
        return count_burst(records.records)


def _join_ancestors(records: RecordList, home: str | None, files: SourceFiles) -> str | None:
    """Put the history that a rollout only refers to before its own.

    Returns the id of the first ancestor that was not found, if any.
    """
    base = _history_base(records.records[:1])
    while base is not None and len(files.paths) <= _MAX_ANCESTORS:
        thread_id = get_text(base, "thread_id") or ""
        found = find_rollout(home, thread_id, files.paths) if home is not None else None
        if found is None:
            return thread_id
        data = files.read(found)
        end = base.get("end_byte_offset")
        if isinstance(end, int) and 0 <= end <= len(data):
            data = data[:end]
        ancestor = read_records(data)
        records.records[1:1] = ancestor.records[1:]
        base = _history_base(ancestor.records[:1])
    return None


def _history_base(first: list[WireRecord]) -> WireRecord | None:
    found = get_object(get_object(first[0], "payload"), "history_base") if first else {}
    return found or None
