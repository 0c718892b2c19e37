"""Profiles: where an agent keeps its files, and which dialect it writes.

Owns the table of profiles (docs/discovery.md) and the environment variables that override it. Reads
the environment on each call (a test or a program may change it); touches no file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec.structs import replace

from sessiontree.errors import SessionTreeError

Dialect = Literal["omp", "pi"]

DEFAULT_PROFILE = "sessiontree"
PROFILE_VARIABLE = "SESSIONTREE_PROFILE"
SESSION_DIR_VARIABLE = "PI_CODING_AGENT_SESSION_DIR"

_SHARED_VARIABLE = "PI_CODING_AGENT_DIR"
_FOLDERS: Mapping[str, tuple[str, Dialect, str]] = {
    "sessiontree": (".sessiontree", "omp", "SESSIONTREE_AGENT_DIR"),
    "omp": (".omp", "omp", _SHARED_VARIABLE),
    "xcsh": (".xcsh", "omp", _SHARED_VARIABLE),
    "pi": (".pi", "pi", _SHARED_VARIABLE),
    "prime-agent": (".prime", "pi", "PRIME_AGENT_CODING_AGENT_DIR"),
    "omo": (".omo", "pi", "OMO_CODING_AGENT_DIR"),
    "stepcode": (".stepcode", "pi", "STEP_CODING_AGENT_DIR"),
}
_FLAT = ("prime-agent",)
"""Agents with one folder for the sessions of all projects."""
_SESSION_DIRS: Mapping[str, tuple[str, ...]] = {
    "pi": (SESSION_DIR_VARIABLE,),
    "omp": (SESSION_DIR_VARIABLE,),
    "prime-agent": ("PRIME_AGENT_SESSION_DIR", "PRIME_AGENT_CODING_AGENT_SESSION_DIR"),
    "stepcode": ("STEP_CODING_AGENT_SESSION_DIR",),
}
"""The variables that name one folder for the sessions of all projects."""

PROFILE_NAMES = tuple(_FOLDERS)


class UnknownProfileError(SessionTreeError, ValueError):
    """No profile of that name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f'Unknown profile "{name}"; choose one of {", ".join(PROFILE_NAMES)}')


class Profile(msgspec.Struct, frozen=True):
    """One agent's folders and dialect."""

    name: str
    agent_dir: str
    dialect: Dialect
    session_dir: str | None = None
    """The one folder that all its sessions are in: the agent's way, or the environment's wish."""

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
    agent_dir = os.path.abspath(os.path.expanduser(override) if override else _home_folder(folder))
    return Profile(chosen, agent_dir, dialect, _folder_of_all(chosen, agent_dir))


def profile_in(name: str, home: str) -> Profile:
    """A profile in another home folder; the environment does not count."""
    folder, dialect, _ = _FOLDERS[name]
    agent_dir = os.path.join(home, folder, "agent")
    is_flat = name in _FLAT
    return Profile(
        name, agent_dir, dialect, os.path.join(agent_dir, "sessions") if is_flat else None
    )


def _folder_of_all(name: str, agent_dir: str) -> str | None:
    """The folder that all sessions of a profile are in, if there is one."""
    given = next(filter(None, map(os.environ.get, _SESSION_DIRS.get(name, ()))), None)
    if given is not None:
        return os.path.abspath(os.path.expanduser(given))
    return os.path.join(agent_dir, "sessions") if name in _FLAT else None


def short_agent_name(agent: str) -> str:
    """Return what fits a narrow column: ``claude`` for ``claude-code``, ``own`` for ours."""
    return "own" if agent == DEFAULT_PROFILE else agent.partition("-")[0]


def list_profiles() -> list[Profile]:
    """Every profile, the default one first.

    A variable that several agents share names one agent's folder, so it applies only to the profile
    that the environment chose; the others stay in their own homes.
    """
    chosen = os.environ.get(PROFILE_VARIABLE) or DEFAULT_PROFILE
    made = []
    for name, (folder, dialect, variable) in _FOLDERS.items():
        if name in (chosen, DEFAULT_PROFILE) or variable != _SHARED_VARIABLE:
            made.append(get_profile(name))
        elif not os.environ.get(variable):
            made.append(replace(get_profile(name), session_dir=None))
        else:
            made.append(Profile(name, _home_folder(folder), dialect))
    return made


def _home_folder(folder: str) -> str:
    return os.path.join(os.path.expanduser("~"), folder, "agent")
