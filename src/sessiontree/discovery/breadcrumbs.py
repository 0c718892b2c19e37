"""Read and write breadcrumbs: the last session of each terminal.

This module owns terminal ids (docs/discovery.md#resuming-and-continuing) and the two-line files in
``terminal-sessions``, in the format of omp and xcsh, so that the agents share them. A breadcrumb is
a convenience: writing one never raises, and an invalid one counts as missing.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass

from sessiontree.discovery.paths import (
    SESSION_SUFFIX,
    draft_path,
    same_cwd,
    session_folders,
    session_of_draft,
)
from sessiontree.profiles import Profile
from sessiontree.storage.base import SessionStorage
from sessiontree.storage.file import FileSessionStorage

_MAX_BREADCRUMB_BYTES = 64 * 1024
_MOST_LEVELS = 8
_MOST_LOOKED_AT = 1_000
_IDENTITY = "cwdstat "
_FRESH = "fresh"
_PATH_SEPARATORS = re.compile(r"[/\\]")

# Multiplexers before the emulators around them: their panes are what the user sees as terminals.
_VARIABLES = (
    ("tmux", "TMUX_PANE"),
    ("cmux", "CMUX_SURFACE_ID"),
    ("kitty", "KITTY_WINDOW_ID"),
    ("wezterm", "WEZTERM_PANE"),
    ("apple", "TERM_SESSION_ID"),
    ("wt", "WT_SESSION"),
)


def terminal_id(env: Mapping[str, str] | None = None, stdin_fd: int = 0) -> str | None:
    """Return this terminal's id (``pts-3``, ``tmux-%4``); None if it can't be determined."""
    return _tty_id(stdin_fd) or _id_from_environment(os.environ if env is None else env)


@dataclass(frozen=True, slots=True)
class Breadcrumb:
    """A terminal's last session: the project's folder, the session's file, and the time.

    ``identity`` is the folder's device and inode at that time, None if not recorded.
    ``is_fresh`` means that the session was new and had no file yet, as after omp's ``/new``.
    ``address`` is what the breadcrumb says, ``URL#REF`` if the session is in no file.
    """

    cwd: str
    session_file: str
    time_ns: int
    identity: tuple[int, int] | None = None
    is_fresh: bool = False
    address: str = ""


def write_breadcrumb(
    profile: Profile,
    cwd: str | os.PathLike[str],
    session_file: str | os.PathLike[str],
    *,
    terminal: str | None = None,
    storage: SessionStorage | None = None,
    is_path: bool = True,
) -> None:
    """Record ``session_file`` as this terminal's session. Best effort: never raises.

    For a session in no file, which is not ``is_path``, it is the address in its store.
    """
    terminal = terminal or terminal_id()
    if terminal is None:
        return
    store: SessionStorage = storage or FileSessionStorage()
    path = os.path.join(profile.terminal_sessions_dir, terminal)
    where = os.fspath(session_file)
    lines = (os.path.abspath(cwd), os.path.abspath(where) if is_path else where)
    with contextlib.suppress(OSError, ValueError):
        if any("\n" in line or "\r" in line for line in lines):
            # Two lines can't hold it, and the old breadcrumb would lead to another session.
            store.unlink(path)
            _forget_identity(store, path)
            return
        content = b"".join(os.fsencode(line) + b"\n" for line in lines)
        store.ensure_dir(profile.terminal_sessions_dir)
        _note_identity(store, path, lines[0])
        # whole or not at all for readers, but not synced: losing it to a power cut costs nothing
        store.write_atomic(path, content, durable=False)


def read_breadcrumb(
    profile: Profile,
    cwd: str | os.PathLike[str],
    *,
    terminal: str | None = None,
    storage: SessionStorage | None = None,
) -> str | None:
    """Return this terminal's last session if it is of this folder and can be opened, else None.

    A draft counts as a session. If omp has renamed the session's folder since,
    it is found under the new name; a file in another session's artifacts means that session.
    """
    store: SessionStorage = storage or FileSessionStorage()
    crumb = load_breadcrumb(profile, terminal=terminal, storage=store)
    if crumb is None or not same_cwd(crumb.cwd, cwd):
        return None
    return _find_file(profile, crumb, store)


def began_new_session(
    profile: Profile,
    cwd: str | os.PathLike[str],
    session_dir: str | None = None,
    *,
    terminal: str | None = None,
    storage: SessionStorage | None = None,
) -> bool:
    """Whether this terminal's last session here was a new one that was never written.

    Continuing the session before it would undo the user's choice of a new one.
    """
    store: SessionStorage = storage or FileSessionStorage()
    crumb = load_breadcrumb(profile, terminal=terminal, storage=store)
    if crumb is None or not crumb.is_fresh or not same_cwd(crumb.cwd, cwd):
        return False
    if session_dir is not None and not same_cwd(os.path.dirname(crumb.session_file), session_dir):
        return False
    return _find_file(profile, crumb, store) is None


def read_moved_breadcrumb(
    profile: Profile,
    cwd: str | os.PathLike[str],
    *,
    terminal: str | None = None,
    storage: SessionStorage | None = None,
) -> tuple[str, str] | None:
    """Return file and old cwd of this terminal's last session if its project is now this folder.

    That the old folder is gone proves nothing, since it may have been deleted, or lie on a disk
    that is not mounted. This folder must be the same directory, by device and inode. A new
    directory may be given the inode of a deleted one, so it must also have been there, or something
    in it, before the breadcrumb was left.
    """
    store: SessionStorage = storage or FileSessionStorage()
    crumb = load_breadcrumb(profile, terminal=terminal, storage=store)
    if crumb is None or crumb.identity is None or os.path.lexists(crumb.cwd):
        return None
    if _identity(cwd) != crumb.identity or not _was_there(cwd, crumb.time_ns):
        return None
    found = _find_file(profile, crumb, store)
    return (found, crumb.cwd) if found is not None else None


def load_breadcrumb(
    profile: Profile, *, terminal: str | None = None, storage: SessionStorage | None = None
) -> Breadcrumb | None:
    """Read this terminal's breadcrumb without following it; None if it is missing or invalid."""
    terminal = terminal or terminal_id()
    if terminal is None:
        return None
    store: SessionStorage = storage or FileSessionStorage()
    path = os.path.join(profile.terminal_sessions_dir, terminal)
    with contextlib.suppress(OSError, ValueError):
        time_ns = store.stat(path).mtime_ns
        lines = _read_lines(store, path)
        if len(lines) < 2 or not lines[0] or not lines[1]:
            return None
        cwd, session_file = lines[:2]
        identity = _parse_identity(lines[2:]) or _read_identity(store, path, cwd)
        path_of_session = os.path.join(cwd, session_file)
        is_fresh = _FRESH in lines[2:]
        return Breadcrumb(cwd, path_of_session, time_ns, identity, is_fresh, session_file)
    return None


def forget_session(
    profile: Profile, session_file: str, *, storage: SessionStorage | None = None
) -> None:
    """Remove every terminal's breadcrumb that names a session. Best effort: never raises."""
    store: SessionStorage = storage or FileSessionStorage()
    with contextlib.suppress(OSError):
        for name in store.list_names(profile.terminal_sessions_dir):
            if name.startswith("."):
                continue  # goes with its breadcrumb
            crumb = load_breadcrumb(profile, terminal=name, storage=store)
            if crumb is not None and crumb.session_file == session_file:
                path = os.path.join(profile.terminal_sessions_dir, name)
                with contextlib.suppress(OSError):
                    store.unlink(path)
                    _forget_identity(store, path)


def _find_file(profile: Profile, crumb: Breadcrumb, storage: SessionStorage) -> str | None:
    """Return the session file that a breadcrumb names, if it can be opened."""
    folder, name = os.path.split(crumb.session_file)
    folders = [folder]
    if os.path.dirname(folder) == profile.sessions_dir:
        folders += session_folders(profile, crumb.cwd)
    with contextlib.suppress(OSError, ValueError):
        for path in (os.path.join(each, name) for each in folders):
            if _can_be_opened(storage, path):
                return _root_session(storage, path)
            if not storage.exists(path) and _can_be_opened(storage, draft_path(path)):
                return path
    return None


def _root_session(storage: SessionStorage, path: str) -> str:
    """The session that a subagent's file in its artifacts belongs to; else the file itself."""
    for _ in range(_MOST_LEVELS):
        parent = os.path.dirname(path) + SESSION_SUFFIX
        if not _can_be_opened(storage, parent):
            break
        path = parent
    return path


# -- which directory it was ------------------------------------------------------------------------
#
# Living omp writes the folder's device and inode as a further line of the breadcrumb. Ours has two
# lines, for every reader there is; the same words are in a hidden file beside it.


def _identity(cwd: str | os.PathLike[str]) -> tuple[int, int] | None:
    try:
        found = os.stat(cwd)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


def _was_there(cwd: str | os.PathLike[str], time_ns: int) -> bool:
    """Whether a folder, or an entry in it, is older than this.

    Entries go by the time of their inode, which cannot be set back as the others can.
    """
    with contextlib.suppress(OSError):
        if os.stat(cwd).st_mtime_ns <= time_ns:
            return True
        with os.scandir(cwd) as listing:
            for item, _ in zip(listing, range(_MOST_LOOKED_AT), strict=False):
                if item.stat(follow_symlinks=False).st_ctime_ns <= time_ns:
                    return True
    return False


def _identity_path(path: str) -> str:
    folder, terminal = os.path.split(path)
    return os.path.join(folder, f".{terminal}.cwd")


def _note_identity(storage: SessionStorage, path: str, cwd: str) -> None:
    found = _identity(cwd)
    if found is None:
        _forget_identity(storage, path)
        return
    content = os.fsencode(cwd) + f"\n{_IDENTITY}{found[0]} {found[1]}\n".encode()
    storage.write_atomic(_identity_path(path), content, durable=False)


def _forget_identity(storage: SessionStorage, path: str) -> None:
    if storage.exists(_identity_path(path)):
        storage.unlink(_identity_path(path))


def _read_identity(storage: SessionStorage, path: str, cwd: str) -> tuple[int, int] | None:
    try:
        lines = _read_lines(storage, _identity_path(path))
    except (OSError, ValueError):
        return None
    # another one, if the program that wrote the breadcrumb knows nothing of this file
    return _parse_identity(lines[1:]) if lines[0] == cwd else None


def _parse_identity(lines: list[str]) -> tuple[int, int] | None:
    for line in lines:
        device, _, inode = line.removeprefix(_IDENTITY).partition(" ")
        if line.startswith(_IDENTITY) and device.isdecimal() and inode.isdecimal():
            return int(device), int(inode)
    return None


def _read_lines(storage: SessionStorage, path: str) -> list[str]:
    content = storage.read_prefix(path, _MAX_BREADCRUMB_BYTES)
    return [os.fsdecode(line.rstrip(b"\r")) for line in content.split(b"\n")]


def _can_be_opened(storage: SessionStorage, path: str) -> bool:
    """Whether this is a file by the name of a session; one that is damaged is salvaged by it."""
    if not (session_of_draft(path) or path).endswith(SESSION_SUFFIX):
        return False
    try:
        storage.stat(path)
    except OSError:
        return False
    return True


def _tty_id(stdin_fd: int) -> str | None:
    try:
        name = os.ttyname(stdin_fd)
    except (OSError, AttributeError):  # no terminal; no such call on Windows
        return None
    if not name.startswith("/dev/"):
        return None
    return _PATH_SEPARATORS.sub("-", name[len("/dev/") :])


def _id_from_environment(env: Mapping[str, str]) -> str | None:
    pane = env.get("ZELLIJ_PANE_ID")
    if pane:
        session = env.get("ZELLIJ_SESSION_NAME")
        return _file_name(f"zellij-{session}-{pane}" if session else f"zellij-{pane}")
    for prefix, variable in _VARIABLES:
        value = env.get(variable)
        if value:
            return _file_name(f"{prefix}-{value}")
    return None


def _file_name(text: str) -> str:
    return _PATH_SEPARATORS.sub("-", text)
