"""Select the sessions in question: a project's or all, of some agents or of every one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec

from sessiontree.discovery.adapters import Agents
from sessiontree.discovery.adapters.base import AgentAdapter, Places
from sessiontree.discovery.adapters.tree import TreeAgent
from sessiontree.discovery.heads import read_head
from sessiontree.discovery.paths import belongs_to, list_session_folders, session_folders
from sessiontree.discovery.recent import list_session_files
from sessiontree.discovery.sources import Source, find_sources
from sessiontree.profiles import Profile, get_profile, list_profiles
from sessiontree.storage.base import FileStat, SessionStorage
from sessiontree.storage.file import FileSessionStorage

Belongs = Callable[[str], bool]


class Selection(msgspec.Struct):
    """The sessions in question, and everything in their folders.

    A session is a file, and sometimes parts: files of their own, such as a subagent's transcript.
    """

    files: list[FileStat] = msgspec.field(default_factory=list)
    """The sessions' own files, without parts."""
    by_folder: dict[str, list[FileStat]] = msgspec.field(default_factory=dict)
    """All session files of the folders, chosen or not, parts included."""
    owners: dict[str, Source] = msgspec.field(default_factory=dict)
    parts: dict[str, str] = msgspec.field(default_factory=dict)
    """The session of each part, by their paths."""
    unreadable: list[tuple[str, str]] = msgspec.field(default_factory=list)
    """Folders and databases that could not be read, and why."""
    _chosen: dict[str, list[FileStat]] = msgspec.field(default_factory=dict)
    _indexed: dict[str, dict[str, FileStat]] = msgspec.field(default_factory=dict)
    _parts_of: dict[str, list[FileStat]] | None = None

    def add(
        self, folder: str, owner: Source, listed: list[FileStat], chosen: list[FileStat]
    ) -> None:
        """Add a folder with all its session files, and those of them that are in question."""
        self.by_folder[folder] = listed
        self.owners[folder] = owner
        self._chosen[folder] = chosen
        self.files += chosen

    def find(self, path: str) -> FileStat | None:
        """The session's file of this name, if it is in question; few of many are asked for."""
        folder = os.path.dirname(path)
        if folder not in self._indexed:
            self._indexed[folder] = {stat.path: stat for stat in self._chosen.get(folder, ())}
        return self._indexed[folder].get(path)

    def session_of(self, path: str) -> str:
        """The session that a file is, or is a part of."""
        return self.parts.get(path, path)

    def pieces_of(self, stat: FileStat) -> list[FileStat]:
        """A session's file and its parts."""
        if not self.parts:
            return [stat]
        if self._parts_of is None:
            self._parts_of = {}
            for listed in self.by_folder.values():
                for part in listed:
                    main = self.parts.get(part.path)
                    if main is not None:
                        self._parts_of.setdefault(main, []).append(part)
        return [stat, *self._parts_of.get(stat.path, ())]

    @property
    def sources(self) -> list[Source]:
        """The agents that have folders here, each once."""
        return list({id(source): source for source in self.owners.values()}.values())

    def source_of(self, path: str) -> Source:
        return self.owners[os.path.dirname(path)]

    def adapter_of(self, path: str) -> AgentAdapter:
        """The adapter that reads this file."""
        return self.owners[os.path.dirname(path)].adapter


def select_sessions(
    cwd: str | os.PathLike[str] | None,
    profile: str | Profile | None,
    storage: SessionStorage,
    folders: Sequence[str] | None = None,
    agents: Agents = None,
) -> Selection:
    """Select the sessions of a project (or all) of a profile or some agents, or of these folders.

    Raises UnknownAgentError, UnknownProfileError.
    """
    if folders is not None:
        return _in_folders(folders, get_profile(profile), storage)
    selection = Selection()
    belongs = belongs_to(cwd) if cwd is not None else None
    for source in _find_sources(cwd, profile, storage, agents):
        selection.unreadable += source.places.unreadable
        chooser = _chooser(source, belongs)
        parts = source.places.parts
        selection.parts |= parts
        for folder, found in source.places.folders.items():
            if folder not in selection.by_folder:  # two agents may share one folder
                mains = [stat for stat in found if stat.path not in parts] if parts else found
                selection.add(folder, source, found, list(filter(chooser, mains)))
    return selection


def _find_sources(
    cwd: str | os.PathLike[str] | None,
    profile: str | Profile | None,
    storage: SessionStorage,
    agents: Agents,
) -> list[Source]:
    if profile is None and isinstance(storage, FileSessionStorage):
        if cwd is None:
            return find_sources(agents)
        # Of pi's family, a project's folders are known by their names.
        return [
            _find_own(source.adapter.profile(), cwd, storage)
            if isinstance(source.adapter, TreeAgent)
            else source
            for source in find_sources(agents)
        ]
    profiles = [get_profile(profile)] if profile is not None else list_profiles()
    return [_find_own(each, cwd, storage) for each in profiles]


def _find_own(
    profile: Profile, cwd: str | os.PathLike[str] | None, storage: SessionStorage
) -> Source:
    places = Places()
    for folder in (
        session_folders(profile, cwd) if cwd is not None else _list_dirs(storage, profile)
    ):
        places.folders[folder] = list_session_files(storage, folder)
    return Source(TreeAgent(profile.name, profile=profile), places, storage)


def _chooser(source: Source, belongs: Belongs | None) -> Callable[[FileStat], bool]:
    """A test of whether a session is in question."""
    if belongs is None:
        return lambda _: True
    if source.adapter.is_own:
        return lambda stat: _is_of(stat, belongs, source.storage)
    # Another agent's session that names no folder is of no project.
    found = source.survey().found
    near = {stat.path for stat, summary in found if summary.cwd and belongs(summary.cwd)}
    return lambda stat: stat.path in near


def _in_folders(folders: Sequence[str], owner: Profile, storage: SessionStorage) -> Selection:
    selection = Selection()
    source = Source(TreeAgent(owner.name, profile=owner), Places(), storage)
    for folder in folders:
        found = list_session_files(storage, folder)
        source.places.folders[folder] = found
        selection.add(folder, source, found, found)
    return selection


def _is_of(stat: FileStat, belongs: Belongs, storage: SessionStorage) -> bool:
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
