"""Mending what a checkup found. Whatever is changed is copied to a backup first.

Backups lie in ``<agent dir>/backups/<time>/``, with the paths they had below the agent folder. A
mended session keeps its time, so that it does not become the newest by being mended.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field

from sessiontree.clock import Clock, now_ms
from sessiontree.discovery import catalogue
from sessiontree.discovery.talked import set_time
from sessiontree.errors import SessionTreeError
from sessiontree.history.database import HistoryDatabase
from sessiontree.maintenance.checkup import Finding
from sessiontree.model.ids import format_timestamp
from sessiontree.profiles import Profile
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.regular import open_for_reading
from sessiontree.stores.files.reader import require_session
from sessiontree.stores.files.store import FileStore

_CHUNK = 1 << 20


@dataclass(slots=True)
class RepairReport:
    """What was mended, what could not be, and where the backups are (None if there was no need)."""

    backup_dir: str | None = None
    repaired: list[Finding] = field(default_factory=list)
    failed: list[tuple[Finding, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """One for each file that was recovered: what of it, and where the damaged one is."""


def repair_findings(
    findings: Iterable[Finding], profile: Profile, *, clock: Clock = now_ms
) -> RepairReport:
    """Mend what can be mended; one that fails does not stop the others."""
    report = RepairReport()
    stamp = format_timestamp(clock()).replace(":", "-").replace(".", "-")
    backup = _Backup(profile, os.path.join(profile.agent_dir, "backups", stamp))
    mended: set[tuple[str, str]] = set()
    for finding in findings:
        if not finding.can_be_repaired:
            continue
        try:
            # Several findings about one session are mended by writing it once.
            if (finding.kind, finding.path) not in mended:
                report.warnings += _repair(finding, profile, backup)
            mended.add((finding.kind, finding.path))
            report.repaired.append(finding)
        except (SessionTreeError, OSError, sqlite3.Error, UnicodeDecodeError) as error:
            report.failed.append((finding, str(error)))
    report.backup_dir = backup.folder if backup.is_used else None
    return report


def _repair(finding: Finding, profile: Profile, backup: _Backup) -> list[str]:
    match finding.kind:
        case "no header":
            require_session(FileSessionStorage(), finding.path)  # it may be another file by now
            backup.keep(finding.path)
            return _rewrite(finding.path, profile)[:1]  # which names both files
        case "damaged":
            backup.keep(finding.path)
            _rewrite(finding.path, profile)
        case "damaged blob":
            # Whoever stores the same content again can then do so.
            if os.path.lexists(finding.path):
                backup.keep(finding.path, follow_link=False)
                os.unlink(finding.path)
        case "not private":
            os.chmod(finding.path, 0o600)
        case "catalogue":
            catalogue.forget_process_memory()
            for companion in ("", "-wal", "-shm", "-journal"):
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
    """Read the session as well as can be and write it anew; damaged lines go to ``.rejected``.

    Gives what there was to warn of.
    """
    times = os.stat(path)
    storage = FileSessionStorage()
    # Not through a SessionManager: that would make this the session its terminal continues.
    log = FileStore(storage, profile).open(path)
    try:
        log.rewrite()
        log.flush()
    finally:
        log.close()
    set_time(storage, path, times.st_mtime_ns)
    return [str(warning) for warning in log.warnings]


class _Backup:
    """A folder that comes into being with the first file it keeps."""

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
