"""Profiles: where an agent keeps its files, and which dialect it writes.

Owns the table of profiles (docs/discovery.md) and the environment variables that override it. Reads
the environment on each call (a test or a program may change it); touches no file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from sessiontree.errors import SessionTreeError

Dialect = Literal["omp", "pi"]

DEFAULT_PROFILE = "sessiontree"
PROFILE_VARIABLE = "SESSIONTREE_PROFILE"
SESSION_DIR_VARIABLE = "PI_CODING_AGENT_SESSION_DIR"
_WITH_SESSION_DIR = ("pi", "omp")

_FOLDERS: Mapping[str, tuple[str, Dialect, str]] = {
    "sessiontree": (".sessiontree", "omp", "SESSIONTREE_AGENT_DIR"),
    "omp": (".omp", "omp", "PI_CODING_AGENT_DIR"),
    "xcsh": (".xcsh", "omp", "PI_CODING_AGENT_DIR"),
    "pi": (".pi", "pi", "PI_CODING_AGENT_DIR"),
}

PROFILE_NAMES = tuple(_FOLDERS)


class UnknownProfileError(SessionTreeError, ValueError):
    """No profile of that name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f'Unknown profile "{name}"; choose one of {", ".join(PROFILE_NAMES)}')


@dataclass(frozen=True, slots=True)
class Profile:
    """One agent's folders and dialect."""

    name: str
    agent_dir: str
    dialect: Dialect
    session_dir: str | None = None
    """The one folder that all its sessions are in, if the environment names one."""

    @property
    def sessions_dir(self) -> str:
        return os.path.join(self.agent_dir, "sessions")

    @property
    def blobs_dir(self) -> str:
        return os.path.join(self.agent_dir, "blobs")

    @property
    def terminal_sessions_dir(self) -> str:
        return os.path.join(self.agent_dir, "terminal-sessions")

    @property
    def history_path(self) -> str:
        return os.path.join(self.agent_dir, "history.db")

    @property
    def trash_dir(self) -> str:
        return os.path.join(self.agent_dir, "trash")

    @property
    def finds_home_relative_folders(self) -> bool:
        """Whether sessions may also lie under living omp's home-relative folder names."""
        return self.name in ("omp", "xcsh")


def get_profile(name: str | Profile | None = None) -> Profile:
    """The profile of this name; by default the environment's, else ``sessiontree``.

    Raises UnknownProfileError. ``PI_CODING_AGENT_DIR`` and ``PI_CODING_AGENT_SESSION_DIR`` count
    only for a profile other than the default one, and the latter not for xcsh, which has no such.
    """
    if isinstance(name, Profile):
        return name
    chosen = name or os.environ.get(PROFILE_VARIABLE) or DEFAULT_PROFILE
    if chosen not in _FOLDERS:
        raise UnknownProfileError(chosen)
    folder, dialect, variable = _FOLDERS[chosen]
    override = os.environ.get(variable)
    agent_dir = os.path.expanduser(override) if override else _home_folder(folder)
    folder_of_all = os.environ.get(SESSION_DIR_VARIABLE) if chosen in _WITH_SESSION_DIR else None
    session_dir = os.path.abspath(os.path.expanduser(folder_of_all)) if folder_of_all else None
    return Profile(chosen, os.path.abspath(agent_dir), dialect, session_dir)


def list_profiles() -> list[Profile]:
    """Every profile, the default one first.

    An override names one agent's folder, so it applies only to the profile that the environment
    chose; the others stay in their own homes.
    """
    chosen = os.environ.get(PROFILE_VARIABLE) or DEFAULT_PROFILE
    made = []
    for name, (folder, dialect, variable) in _FOLDERS.items():
        if name in (chosen, DEFAULT_PROFILE):
            made.append(get_profile(name))
        elif not os.environ.get(variable):
            made.append(replace(get_profile(name), session_dir=None))
        else:
            made.append(Profile(name, _home_folder(folder), dialect))
    return made


def _home_folder(folder: str) -> str:
    return os.path.join(os.path.expanduser("~"), folder, "agent")
