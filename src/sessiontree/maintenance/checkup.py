"""Check everything a profile keeps, and repair what can be repaired.

``check_profile`` only reads. It reports damage, drafts, leftovers, missing blobs and a stale
catalogue as findings, and each finding knows whether it can be repaired. ``repair_findings``
repairs those, each after copying its file to ``<agent dir>/backups/<time>/`` (under the path that
the file has below the agent folder). So a crash during a repair leaves the file as it was, or the
repaired file and its backup. A repaired session keeps its mtime: it must not become the newest.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import msgspec

from sessiontree.clock import Clock, now_ms
from sessiontree.discovery import catalogue, paths
from sessiontree.discovery.catalogue import survey
from sessiontree.discovery.drafts import find_drafts
from sessiontree.discovery.heads import read_head
from sessiontree.discovery.recent import list_session_files
from sessiontree.discovery.talked import set_time
from sessiontree.errors import NotASessionError, PersistenceError, SessionTreeError
from sessiontree.history.damage import is_damage
from sessiontree.history.database import HistoryDatabase
from sessiontree.history.file import READ_PATIENCE_S
from sessiontree.maintenance.gc import find_leftovers
from sessiontree.maintenance.secrets import (
    find_regular_files,
    search_document,
    search_file,
    search_name,
)
from sessiontree.model import codec
from sessiontree.model.entries import Entry
from sessiontree.model.header import CURRENT_VERSION, get_version
from sessiontree.model.ids import format_timestamp
from sessiontree.profiles import Profile
from sessiontree.storage import sqlite
from sessiontree.storage.base import SessionStorage, read_chunks
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.regular import open_for_reading
from sessiontree.stores.files.document import SessionDocument
from sessiontree.stores.files.opening import make_blob_store
from sessiontree.stores.files.reader import load_document, require_session
from sessiontree.stores.files.references import references_in
from sessiontree.stores.files.store import FileStore
from sessiontree.stores.files.strays import find_home
from sessiontree.stores.files.trash import list_trash

Kind = Literal[
    "damaged", "no header", "unreadable", "missing blob", "damaged blob", "catalogue", "history",
    "secret", "draft", "leftover", "set aside", "other version", "not private", "stray folder",
    "lost parent", "empty message", "not searched", "not a session", "same session",
]  # fmt: skip
_PROBLEMS = frozenset(
    (
        "damaged",
        "no header",
        "unreadable",
        "missing blob",
        "damaged blob",
        "catalogue",
        "history",
        "same session",
    )
)
_REPAIRABLE = frozenset(
    ("damaged", "no header", "damaged blob", "catalogue", "history", "not private")
)
_ORPHAN = re.compile(r"has no parent .*; now a root$", re.DOTALL)
_ASIDE = re.compile(r"\.jsonl(?:\.rejected|\.corrupt-.+)$")
Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation about one path."""

    kind: Kind
    path: str
    text: str

    @property
    def is_problem(self) -> bool:
        return self.kind in _PROBLEMS

    @property
    def can_be_repaired(self) -> bool:
        return self.kind in _REPAIRABLE


@dataclass(slots=True)
class Checkup:
    """The number of sessions that were checked, and the findings."""

    sessions: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def problems(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.is_problem]


def check_profile(
    profile: Profile,
    *,
    session_dir: str | None = None,
    deep: bool = False,
    secrets: bool = False,
    on_progress: Progress | None = None,
) -> Checkup:
    """Check all sessions of a profile, or those of one folder.

    ``deep`` also reads every blob and compares it with its hash; ``secrets`` searches the sessions
    and their artifacts for passwords and keys.
    """
    storage = FileSessionStorage()
    folders = [session_dir] if session_dir else paths.list_session_folders(profile, storage)
    files = [found.path for folder in folders for found in list_session_files(storage, folder)]
    checkup = Checkup(sessions=len(files))
    for done, path in enumerate(sorted(files), 1):
        checkup.findings += _check_session(path, profile, storage, deep, secrets)
        if on_progress is not None:
            on_progress(done, len(files))
    for folder in folders:
        checkup.findings += _check_beside(folder)
    checkup.findings += _check_twins(files, storage)
    checkup.findings += _check_drafts(profile, session_dir)
    checkup.findings += _check_catalogue(folders, storage)
    if session_dir is None:
        checkup.findings += _check_rest(profile)
    return checkup


# -- one session -----------------------------------------------------------------------------------


def _check_session(
    path: str, profile: Profile, storage: SessionStorage, deep: bool, secrets: bool
) -> Iterator[Finding]:
    yield from _check_file(path, profile, storage, deep, secrets)
    if secrets:
        yield from _check_artifacts(paths.artifacts_dir(path), storage)


def _check_file(
    path: str, profile: Profile, storage: SessionStorage, deep: bool, secrets: bool
) -> Iterator[Finding]:
    try:
        document = load_document(storage, path, make_blob_store(profile, path, storage))
    except NotASessionError as error:
        yield _judge_headerless(path, error, FileStore(storage, profile))
        if secrets:
            yield from _search_file(path, storage)
        return
    except (OSError, PersistenceError) as error:
        yield Finding("unreadable", path, _reason(error))
        return
    if document is None:
        return
    try:
        yield from _judge(document)
        yield from _check_messages(document)
        yield from _check_blobs(path, profile, storage, deep)
        yield from _check_privacy(path, profile)
        if secrets and (text := search_document(document)):
            yield Finding("secret", path, text)
    except (OSError, PersistenceError) as error:
        # Another program has just truncated the file, or the disk is failing.
        yield Finding("unreadable", path, _reason(error))
    finally:
        document.payloads.reader.close()


def _judge_headerless(path: str, error: NotASessionError, store: FileStore) -> Finding:
    if error.is_damaged:
        home = find_home(store, path)
        if home is not None:
            text = f"holds lines of a session that was moved; they can be brought to {home}"
            return Finding("no header", path, text)
        return Finding("no header", path, "has no valid header; what can be read can be recovered")
    if paths.parse_session_file_name(os.path.basename(path)) is not None:
        return Finding("unreadable", path, "is called like a session, but nothing of one is in it")
    return Finding("not a session", path, f"{error.reason}; it is left alone")


def _judge(document: SessionDocument) -> Iterator[Finding]:
    path = document.path
    skipped = len(document.skipped)
    if skipped:
        first = document.skipped[0]
        text = f"{_count(skipped, 'damaged line')}, the first is line {first.line}: {first.reason}"
        yield Finding("damaged", path, text)
    orphans, fixable = [], []
    for warning in document.warnings:
        if _ORPHAN.search(warning.reason):
            orphans.append(str(warning))
        elif not warning.reason.startswith(("skipped:", "version ")):
            fixable.append(str(warning))
    if fixable:
        yield Finding("damaged", path, _first_of(fixable))
    if orphans:
        # The lines are intact; a repair has no parent to give them.
        yield Finding("lost parent", path, _first_of(orphans))
    if not skipped and not fixable and not document.has_final_newline:
        yield Finding("damaged", path, "its last line has no end")
    if document.is_migrated:
        yield Finding("other version", path, "an older version; upgraded when it is next opened")
    elif get_version(document.header) > CURRENT_VERSION:
        yield Finding("other version", path, "a newer version than this program knows")


def _first_of(texts: list[str]) -> str:
    return texts[0] + (f" (and {len(texts) - 1} more)" if len(texts) > 1 else "")


class _Body(msgspec.Struct, gc=False):
    message: msgspec.Raw = msgspec.Raw()


_decode_body = msgspec.json.Decoder(_Body).decode


def _check_messages(document: SessionDocument) -> Iterator[Finding]:
    """Find entries of type ``message`` without a message; every agent ignores them."""
    empty = [
        entry
        for entry in document.tree.entries
        if entry.type == "message" and not _has_message(entry)
    ]
    if empty:
        texts = [f"entry {entry.id} is a message without content" for entry in empty]
        if empty[0].source is not None:
            texts[0] = f"line {_line_of(empty[0], document)}: {texts[0]}"
        yield Finding("empty message", document.path, _first_of(texts))


def _has_message(entry: Entry) -> bool:
    line = entry.raw()
    if line is None:
        return isinstance(entry.data.get("message"), dict)
    try:
        return bytes(memoryview(_decode_body(line).message)[:1]) == b"{"
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return isinstance(codec.decode(line).get("message"), dict)


def _line_of(entry: Entry, document: SessionDocument) -> int:
    before = read_chunks(document.payloads.reader, 0, entry.offset)
    return 1 + sum(chunk.count(b"\n") for chunk in before)


def _check_blobs(
    path: str, profile: Profile, storage: SessionStorage, deep: bool
) -> Iterator[Finding]:
    stores = [profile.blobs_dir, os.path.join(path, "..", "..", "..", "blobs")]
    missing = []
    for digest in sorted(references_in(path)):
        found = [
            blob
            for store in stores
            if storage.exists(blob := os.path.normpath(os.path.join(store, digest)))
        ]
        if not found:
            missing.append(digest)
        elif deep and not _has_hash(found[0], digest):
            yield Finding("damaged blob", found[0], f"is not what {os.path.basename(path)} stored")
    if missing:
        text = f"{_count(len(missing), 'image or long text')} missing from the blob store"
        yield Finding("missing blob", path, f"{text}: {', '.join(d[:12] for d in missing[:3])}")


def _has_hash(path: str, digest: str) -> bool:
    made = hashlib.sha256()
    try:
        with open_for_reading(path) as file:
            while chunk := file.read(1 << 20):
                made.update(chunk)
    except OSError:
        return False
    return made.hexdigest() == digest


def _check_privacy(path: str, profile: Profile) -> Iterator[Finding]:
    """Check our own profile only: other agents choose the permissions of their sessions."""
    if profile.name != "sessiontree" or os.name != "posix":
        return
    with contextlib.suppress(OSError):
        if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            yield Finding("not private", path, "other users of this machine may read it")


# -- secrets ---------------------------------------------------------------------------------------


def _check_artifacts(folder: str, storage: SessionStorage) -> Iterator[Finding]:
    others: list[str] = []
    unread: list[Finding] = []

    def note_unread(path: str, error: OSError) -> None:
        unread.append(Finding("unreadable", path, _reason(error)))

    for path in find_regular_files(folder, others.append, note_unread):
        shown, in_name = search_name(folder, path)
        if in_name is not None:
            yield Finding("secret", shown, in_name)
        yield from _search_file(path, storage, shown)
    yield from unread
    if others:
        # One finding for all of them: a folder can hold thousands of links.
        text = _first_of(["a link, a pipe or a device: not looked into for secrets"] * len(others))
        yield Finding("not searched", others[0], text)


def _search_file(path: str, storage: SessionStorage, shown: str | None = None) -> Iterator[Finding]:
    try:
        text = search_file(storage, path)
    except FileNotFoundError:
        return
    except OSError as error:
        yield Finding("unreadable", shown or path, _reason(error))
        return
    if text is not None:
        yield Finding("secret", shown or path, text)


# -- other files -----------------------------------------------------------------------------------


def _check_beside(folder: str) -> Iterator[Finding]:
    """Find copies that repairs set aside, and artifact folders without a session."""
    try:
        names = set(os.listdir(folder))
    except OSError as error:
        yield Finding("unreadable", folder, _reason(error))
        return
    for name in sorted(names):
        path = os.path.join(folder, name)
        if _ASIDE.search(name):
            yield Finding("set aside", path, "kept by a repair; remove it when you don't need it")
        elif paths.parse_session_file_name(f"{name}.jsonl") and os.path.isdir(path):
            session = f"{name}.jsonl"
            if session not in names and f".{session}.draft" not in names:
                yield Finding("stray folder", path, "artifacts of a session that is not there")


def _check_twins(files: list[str], storage: SessionStorage) -> Iterator[Finding]:
    """Find files with the same session id.

    They appear when another program goes on writing to the path that a session was moved from.
    """
    seen: dict[str, str] = {}
    for path in sorted(files):
        with contextlib.suppress(OSError):
            head = read_head(storage, path)
            if head is None or not head.session_id:
                continue
            first = seen.setdefault(head.session_id, path)
            if first != path and not os.path.samefile(first, path):
                text = f"has the same session id as {first}: look at both, and remove one"
                yield Finding("same session", path, text)


def _check_drafts(profile: Profile, session_dir: str | None) -> Iterator[Finding]:
    for draft in find_drafts(session_dir=session_dir, profile=profile):
        prompt = " ".join((draft.first_message or "(no prompt)").split())[:60]
        yield Finding("draft", draft.path, f"never answered: {prompt}")


def _check_catalogue(folders: list[str], storage: FileSessionStorage) -> Iterator[Finding]:
    """Compare the catalogue's summaries with those read from the files."""
    files = [found for folder in folders for found in list_session_files(storage, folder)]
    remembered = {found.path: summary for found, summary in survey(files, storage).found}
    read = {found.path: summary for found, summary in survey(files, _uncached(storage)).found}
    wrong = [path for path, summary in read.items() if remembered.get(path) != summary]
    if wrong:
        text = f"says something else than the files: {_count(len(wrong), 'session')}"
        yield Finding("catalogue", wrong[0], text)


class _Uncached:
    """Hide the storage's type from the catalogue, so that ``survey`` reads every file."""

    def __init__(self, storage: FileSessionStorage) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


def _uncached(storage: FileSessionStorage) -> SessionStorage:
    return cast("SessionStorage", _Uncached(storage))


def _check_rest(profile: Profile) -> Iterator[Finding]:
    with contextlib.suppress(PersistenceError):
        for piece in find_leftovers(profile):
            yield Finding("leftover", piece.path, f"{piece.kind}; sessiontree gc removes it")
    known = {item.folder for item in list_trash(profile)}
    for folder in FileSessionStorage().list_dirs(profile.trash_dir):
        if folder not in known:
            yield Finding("stray folder", folder, "in the trash, but nothing says what it was")
    yield from _check_history(profile.history_path)


def _check_history(path: str) -> Iterator[Finding]:
    if not os.path.exists(path):
        return
    try:
        connection = sqlite.connect(path, READ_PATIENCE_S)
        try:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            connection.close()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if sqlite.error_code(error) in sqlite.BUSY_CODES:
            yield Finding("not searched", path, "in use by another program")
            return
        verdict = str(error) if is_damage(error) else "ok"
    if verdict != "ok":
        yield Finding("history", path, f"the prompt history is damaged: {verdict}")


def _reason(error: OSError | PersistenceError) -> str:
    if isinstance(error, PersistenceError):
        return error.reason
    return error.strerror or str(error)


def _count(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


_CHUNK = 1 << 20


@dataclass(slots=True)
class RepairReport:
    """The repairs, the failures, and the folder of the backups (None without any)."""

    backup_dir: str | None = None
    repaired: list[Finding] = field(default_factory=list)
    failed: list[tuple[Finding, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """One for each recovered file: what was recovered, and the path of the damaged file."""


def repair_findings(
    findings: Sequence[Finding],
    profile: Profile,
    *,
    clock: Clock = now_ms,
    on_progress: Callable[[int, int], object] | None = None,
) -> RepairReport:
    """Repair what can be repaired; a failure does not stop the other repairs.

    ``on_progress`` is called with the findings handled so far and their number.
    """
    report = RepairReport()
    stamp = format_timestamp(clock()).replace(":", "-").replace(".", "-")
    backup = _Backup(profile, os.path.join(profile.agent_dir, "backups", stamp))
    done: set[tuple[str, str]] = set()
    for number, finding in enumerate(findings):
        if on_progress is not None:
            on_progress(number, len(findings))
        if not finding.can_be_repaired:
            continue
        try:
            # One rewrite repairs all findings of a kind about one session.
            if (finding.kind, finding.path) not in done:
                report.warnings += _repair(finding, profile, backup)
            done.add((finding.kind, finding.path))
            report.repaired.append(finding)
        except (SessionTreeError, OSError, sqlite3.Error, UnicodeDecodeError) as error:
            report.failed.append((finding, str(error)))
    report.backup_dir = backup.folder if backup.is_used else None
    return report


def _repair(finding: Finding, profile: Profile, backup: _Backup) -> list[str]:
    match finding.kind:
        case "no header":
            # The file may have been replaced since the checkup.
            require_session(FileSessionStorage(), finding.path)
            backup.keep(finding.path)
            return _rewrite(finding.path, profile)[:1]  # the warning that names both files
        case "damaged":
            backup.keep(finding.path)
            _rewrite(finding.path, profile)
        case "damaged blob":
            # The next session that stores this content writes the blob again.
            if os.path.lexists(finding.path):
                backup.keep(finding.path, follow_link=False)
                os.unlink(finding.path)
        case "not private":
            os.chmod(finding.path, 0o600)
        case "catalogue":
            catalogue.forget_process_memory()
            for companion in ("", *sqlite.COMPANIONS):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(catalogue.SCHEMA.path + companion)
        case "history":
            backup.keep(finding.path)
            database = HistoryDatabase(finding.path)
            database.rebuild()
            database.close()
        case _:
            pass
    return []


def _rewrite(path: str, profile: Profile) -> list[str]:
    """Rewrite the session from what is readable; return the warnings.

    Damaged lines go to ``.rejected``.
    """
    times = os.stat(path)
    storage = FileSessionStorage()
    # A SessionManager would write a breadcrumb: this terminal's -c would then open this session.
    log = FileStore(storage, profile).open(path)
    try:
        log.rewrite()
        log.flush()
    finally:
        log.close()
    set_time(storage, path, times.st_mtime_ns)
    return [str(warning) for warning in log.warnings]


class _Backup:
    """The backup folder of one repair run; created with the first file kept."""

    def __init__(self, profile: Profile, folder: str) -> None:
        self.folder = folder
        self.is_used = False
        self._root = profile.agent_dir

    def keep(self, path: str, *, follow_link: bool = True) -> None:
        """Copy a file to the backup, or the link to it. OSError for what is not a regular file."""
        below = os.path.relpath(path, self._root)
        if below.startswith(".."):
            below = os.path.join("elsewhere", os.path.abspath(path).lstrip("/\\").replace(":", ""))
        target = os.path.join(self.folder, below)
        storage = FileSessionStorage()
        storage.ensure_dir(os.path.dirname(target))
        if os.path.islink(path) and not follow_link:
            os.symlink(os.readlink(path), target)
        else:
            with open_for_reading(path) as file:
                storage.write_atomic(target, iter(lambda: file.read(_CHUNK), b""))
                times = os.fstat(file.fileno())
            set_time(storage, target, times.st_mtime_ns)
        self.is_used = True
