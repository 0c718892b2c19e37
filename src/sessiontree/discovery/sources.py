"""Find the sessions of several agents at once: each agent's places, and its catalogue.

The one meaning of "all agents": every agent that has an adapter. Listings, searches, ``usage`` and
the picker ask here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from sessiontree.discovery.adapters import Agents, agent_names, get_adapters, is_absent
from sessiontree.discovery.adapters.base import AgentAdapter, GetSummaries, Places
from sessiontree.discovery.catalogue import (
    OnProgress,
    PaidAnswers,
    Survey,
    survey,
    survey_answers,
)
from sessiontree.discovery.catalogue.summary import Summary
from sessiontree.discovery.kept import is_keeping
from sessiontree.discovery.listing import SessionInfo, make_session_info
from sessiontree.profiles import Dialect
from sessiontree.storage.base import FileStat, SessionStorage
from sessiontree.storage.file import FileSessionStorage


class Source(msgspec.Struct, eq=False):
    """One agent's sessions on this machine."""

    adapter: AgentAdapter
    places: Places
    storage: SessionStorage = msgspec.field(default_factory=FileSessionStorage)

    def survey(self, on_progress: OnProgress | None = None) -> Survey:
        """Summarize all files, parts included, reading only what has changed."""
        files = list(self.places.files())
        return survey(files, self.storage, on_progress, adapter=self.adapter)

    def survey_some(self, files: Sequence[FileStat]) -> Survey:
        """Summarize some of the files."""
        return survey(files, self.storage, is_complete=False, adapter=self.adapter)

    @property
    def dialect(self) -> Dialect:
        return self.adapter.dialect

    def title(self, summary: Summary) -> str | None:
        """The name of a session: in its file, else where the agent keeps it."""
        named = summary.title(self.dialect)
        return named or self.places.titles.get(summary.session_id or "")

    def make_info(self, stat: FileStat, summary: Summary) -> SessionInfo:
        """Make a listing's line of one session."""
        made = make_session_info(stat, summary, self.dialect, self.storage, adapter=self.adapter)
        made.title = self.title(summary)
        made.is_kept = stat.path in self.places.kept
        return made

    def survey_answers(self, on_progress: OnProgress | None = None) -> PaidAnswers:
        """Return what was paid for in each file, by path, reading only what has changed."""
        files = list(self.places.files())
        return survey_answers(files, self.storage, self.adapter, on_progress)


def survey_sources(
    sources: Sequence[Source], on_progress: OnProgress | None = None
) -> Iterator[tuple[Source, Survey]]:
    """Summarize the files of several agents, with one progress for all."""
    total = sum(len(found) for source in sources for found in source.places.folders.values())
    before = 0
    for source in sources:
        yield source, source.survey(_shifted(on_progress, before, total))
        before += sum(map(len, source.places.folders.values()))


def _shifted(on_progress: OnProgress | None, before: int, total: int) -> OnProgress | None:
    if on_progress is None:
        return None
    return lambda done, _: on_progress(before + done, total)


def find_sources(
    agents: Agents = "all",
    home: str | os.PathLike[str] | None = None,
    *,
    with_kept: bool = True,
) -> list[Source]:
    """Find the sessions of some agents or of all, also kept ones that are gone.

    With another ``home`` or without ``with_kept``, just those that are there. Of all agents, those
    that this user does not have may be left out. Raises UnknownAgentError. Two agents may share a
    folder; then it is the first one's.
    """
    kept: Mapping[str, list[str]] = {}
    if with_kept and home is None and is_keeping():
        from sessiontree.discovery.kept.reading import add_kept, kept_sessions

        kept = kept_sessions()
    made: list[Source] = []
    taken: set[str] = set()
    if agents in (None, "all") and home is None:
        agents = [name for name in agent_names() if name in kept or not is_absent(name)]
    for adapter in get_adapters(agents):
        places = adapter.find(home, _summaries(adapter))
        for folder in taken.intersection(places.folders):
            del places.folders[folder]
        taken.update(places.folders)
        made.append(Source(adapter, places))
    if kept:
        add_kept(((source.adapter, source.places) for source in made), kept)
    return made


def _summaries(adapter: AgentAdapter) -> GetSummaries:
    def read(files: Sequence[FileStat]) -> dict[str, Summary]:
        made = survey(files, FileSessionStorage(), is_complete=False, adapter=adapter)
        return {stat.path: summary for stat, summary in made.found}

    return read


def count_sessions(*, but: str) -> list[tuple[str, int]]:
    """Count the session files of each agent ``but`` one, by title; the busiest agent first.

    Looks at names only, so that it is quick with thousands of files.
    """
    found = [
        (source.adapter.title, sum(1 for _ in source.places.files()) - len(source.places.parts))
        for source in find_sources("all")
        if source.adapter.name != but
    ]
    return sorted((each for each in found if each[1] > 0), key=lambda each: -each[1])
