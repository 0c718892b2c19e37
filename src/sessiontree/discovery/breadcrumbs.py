"""Terminal breadcrumbs: which session this terminal worked on last.

Owns SPEC §10's terminal ids and the two-line files under ``terminal-sessions``, spelled as omp
and xcsh spell them, so that the agents share them. Breadcrumbs are a convenience: writing one
never raises, and one that does not hold is as good as none.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping

from sessiontree.discovery.paths import SESSION_SUFFIX, draft_path, same_cwd, session_of_draft
from sessiontree.profiles import Profile
from sessiontree.storage.base import SessionStorage
from sessiontree.storage.file import FileSessionStorage

_MAX_BREADCRUMB_BYTES = 64 * 1024
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
    """The name of this terminal (``pts-3``, ``tmux-%4``); None when there is none to tell."""
    return _tty_id(stdin_fd) or _id_from_environment(os.environ if env is None else env)


def write_breadcrumb(
    profile: Profile,
    cwd: str | os.PathLike[str],
    session_file: str | os.PathLike[str],
    *,
    terminal: str | None = None,
    storage: SessionStorage | None = None,
) -> None:
    """Remember that this terminal now works on ``session_file``. Best effort: never raises."""
    terminal = terminal or terminal_id()
    if terminal is None:
        return
    store: SessionStorage = storage or FileSessionStorage()
    path = os.path.join(profile.terminal_sessions_dir, terminal)
    lines = (os.path.abspath(cwd), os.path.abspath(session_file))
    with contextlib.suppress(OSError, ValueError):
        if any("\n" in line or "\r" in line for line in lines):
            # Two lines can not hold it; the old crumb would lead to another session.
            store.unlink(path)
            return
        content = b"".join(os.fsencode(line) + b"\n" for line in lines)
        store.ensure_dir(profile.terminal_sessions_dir)
        # whole or not at all for readers, but not synced: losing it to a power cut costs nothing
        store.write_atomic(path, content, durable=False)


def read_breadcrumb(
    profile: Profile,
    cwd: str | os.PathLike[str],
    *,
    terminal: str | None = None,
    storage: SessionStorage | None = None,
) -> str | None:
    """This terminal's last session if it was in this folder and can still be opened, else None.

    A session that so far exists as a draft counts as there.
    """
    terminal = terminal or terminal_id()
    if terminal is None:
        return None
    store: SessionStorage = storage or FileSessionStorage()
    try:
        content = store.read_prefix(
            os.path.join(profile.terminal_sessions_dir, terminal), _MAX_BREADCRUMB_BYTES
        )
        lines = content.split(b"\n")
        if len(lines) < 2:
            return None
        recorded_cwd, recorded_file = (os.fsdecode(line.rstrip(b"\r")) for line in lines[:2])
        if not recorded_cwd or not recorded_file or not same_cwd(recorded_cwd, cwd):
            return None
        session_file = os.path.join(recorded_cwd, recorded_file)
        if _can_be_opened(store, session_file):
            return session_file
        if not store.exists(session_file) and _can_be_opened(store, draft_path(session_file)):
            return session_file
    except (OSError, ValueError):
        pass
    return None


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
