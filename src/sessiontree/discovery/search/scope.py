"""Select the session files to search: a project's or all, of one profile or of every one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sessiontree.discovery.heads import read_head
from sessiontree.discovery.paths import belongs_to, list_session_folders, session_folders
from sessiontree.discovery.recent import list_session_files
from sessiontree.profiles import Profile, get_profile, list_profiles
from sessiontree.storage.base import FileStat, SessionStorage


@dataclass(slots=True)
class SearchScope:
    """The files to search, all session files of their folders, and each folder's profile."""

    files: list[FileStat] = field(default_factory=list)
    by_folder: dict[str, list[FileStat]] = field(default_factory=dict)
    owners: dict[str, Profile] = field(default_factory=dict)
    _chosen: dict[str, list[FileStat]] = field(default_factory=dict)
    _indexed: dict[str, dict[str, FileStat]] = field(default_factory=dict)

    def add(
        self, folder: str, owner: Profile, listed: list[FileStat], chosen: list[FileStat]
    ) -> None:
        """Add a folder with all its session files, and those of them to search."""
        self.by_folder[folder] = listed
        self.owners[folder] = owner
        self._chosen[folder] = chosen
        self.files += chosen

    def find(self, path: str) -> FileStat | None:
        """The file of this name, if it is in question. Few of many are ever asked for."""
        folder = os.path.dirname(path)
        if folder not in self._indexed:
            self._indexed[folder] = {stat.path: stat for stat in self._chosen.get(folder, ())}
        return self._indexed[folder].get(path)

    def profile_of(self, path: str) -> Profile:
        return self.owners[os.path.dirname(path)]


def find_scope(
    cwd: str | os.PathLike[str] | None,
    profile: str | Profile | None,
    storage: SessionStorage,
    folders: Sequence[str] | None = None,
) -> SearchScope:
    """Select the sessions of a project (or all) of a profile (or all), or of these folders."""
    if folders is not None:
        return _in_folders(folders, get_profile(profile), storage)
    scope = SearchScope()
    belongs = belongs_to(cwd) if cwd is not None else None
    for each in [get_profile(profile)] if profile is not None else list_profiles():
        folders = session_folders(each, cwd) if cwd is not None else _list_dirs(storage, each)
        for folder in folders:
            if folder in scope.by_folder:
                continue  # two profiles may share one agent folder
            found = chosen = list_session_files(storage, folder)
            if belongs is not None:
                chosen = [stat for stat in found if _is_of(stat, belongs, storage)]
            scope.add(folder, each, found, chosen)
    return scope


def _in_folders(folders: Sequence[str], owner: Profile, storage: SessionStorage) -> SearchScope:
    scope = SearchScope()
    for folder in folders:
        found = list_session_files(storage, folder)
        scope.add(folder, owner, found, found)
    return scope


def _is_of(stat: FileStat, belongs: Callable[[str], bool], storage: SessionStorage) -> bool:
    try:
        head = read_head(storage, stat.path)
    except OSError:
        return False
    return head is None or belongs(head.cwd)


def _list_dirs(storage: SessionStorage, profile: Profile) -> list[str]:
    try:
        return list_session_folders(profile, storage)
    except OSError:
        return []
