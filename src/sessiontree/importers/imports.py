"""Import foreign sessions, one or all. ``target`` writes them; the source is only read."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from sessiontree import clock
from sessiontree.errors import NotASessionError, PersistenceError, SessionTreeError
from sessiontree.importers.foreign import Agent, read_source
from sessiontree.importers.foreign_listing import find_foreign_files
from sessiontree.importers.target import ImportReport, ImportTarget, bring_in
from sessiontree.profiles import Profile
from sessiontree.stores import Storage, choose_store

__all__ = ["ImportAllReport", "ImportReport", "import_all", "import_session"]

_NO_MESSAGE = "holds no message"


@dataclass(slots=True)
class ImportAllReport:
    """The result of importing many sessions; a failure does not stop the others.

    ``empty`` counts the files without a message. ``skipped`` lists the files without a session,
    ``failed`` those that could not be read or written, each with an error that names the file.
    """

    imported: list[ImportReport] = field(default_factory=list)
    empty: int = 0
    skipped: list[NotASessionError] = field(default_factory=list)
    failed: list[SessionTreeError] = field(default_factory=list)


def import_session(
    path: str | os.PathLike[str],
    *,
    agent: Agent | None = None,
    profile: str | Profile | None = None,
    cwd: str | os.PathLike[str] | None = None,
    storage: Storage | None = None,
    session_dir: str | os.PathLike[str] | None = None,
    now_ms: int | None = None,
) -> ImportReport:
    """Import the session of another agent at this path, or update its earlier import.

    ``storage`` is where it goes: a storage of bytes, a store or its URL.

    Raises NotASessionError for any other file, PersistenceError if reading or writing fails.
    """
    source = read_source(path, agent=agent)
    target = ImportTarget(
        choose_store(storage, profile, session_dir),
        os.path.abspath(cwd) if cwd is not None else source.transcript.cwd or os.getcwd(),
        now_ms if now_ms is not None else clock.now_ms(),
    )
    if not source.transcript.report.messages:
        raise NotASessionError(source.path, _NO_MESSAGE)
    try:
        return bring_in(source, target)
    except OSError as error:
        where = (
            error.filename if isinstance(error.filename, str) else target.store.profile.agent_dir
        )
        raise PersistenceError.from_os_error(where, error) from error
    except ValueError as error:
        # A recorded folder that no file can be named after: a NUL, half a surrogate pair.
        raise PersistenceError(
            source.path, f"cannot be stored: no file can have its names ({error})"
        ) from error


def import_all(
    agent: Agent | None = None,
    *,
    home: str | os.PathLike[str] | None = None,
    profile: str | Profile | None = None,
    storage: Storage | None = None,
    session_dir: str | os.PathLike[str] | None = None,
    on_progress: Callable[[int, int, str], object] | None = None,
) -> ImportAllReport:
    """Import every session found, oldest first, each into its own project.

    ``on_progress`` is called after each file with the number done, the total, and the file's
    path.
    """
    found = find_foreign_files(agent, home)
    report = ImportAllReport()
    for index, (whose, stat) in enumerate(found, 1):
        path = stat.path
        try:
            report.imported.append(
                import_session(
                    path,
                    agent=whose,
                    profile=profile,
                    storage=storage,
                    session_dir=session_dir,
                )
            )
        except NotASessionError as error:
            if error.reason == _NO_MESSAGE:
                report.empty += 1
            else:
                report.skipped.append(error)
        except SessionTreeError as error:
            report.failed.append(error)
        if on_progress is not None:
            on_progress(index, len(found), path)
    return report
