"""The start page of an empty session: name, recent sessions, what other agents left, keys.

`look_around` reads the facts in the caller's thread; `draw_start` lays them out. Never writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sessiontree import clock
from sessiontree._version import __version__
from sessiontree.discovery.listing import SessionInfo
from sessiontree.discovery.sources import find_sources
from sessiontree.scope import Scope
from sessiontree.text.words import format_time_ago
from sessiontree.tui import safe_text
from sessiontree.tui.pickers.session_actions import Breadth, SessionShelf
from sessiontree.tui.pickers.session_rows import name_of, short_path

RECENT = 5
"""Sessions to show; a small terminal shows three."""
_NAME_WIDTH = 48
_HEADINGS: dict[Breadth, str] = {
    "project": "Recent in this project",
    "all": "Recent in other projects",
    "agents": "Recent, of all agents",
}
KEYS = "Type a prompt · / commands · /resume earlier sessions · F1 help"


@dataclass(frozen=True, slots=True)
class Recent:
    """One session to go back to: its name, where or whose it is, and how long ago."""

    name: str
    place: str
    age: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The sessions found: the latest ones, and how many each agent has."""

    breadth: Breadth = "project"
    recent: tuple[Recent, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.recent and not self.counts


def look_around(scope: Scope, open_path: str | None) -> Surroundings:
    """Find recent sessions, of this project if it has any; and count those of other agents."""
    shelf = SessionShelf(scope)
    counts = _count_others(scope)
    breadths: tuple[Breadth, ...] = ("project", "all", "agents")
    for breadth in breadths[: 3 if counts else 2]:
        found = [info for info in shelf.glance(breadth) if info.path != open_path]
        if found:
            now = clock.now()
            recent = tuple(_recent(info, breadth, shelf, now) for info in found[:RECENT])
            return Surroundings(breadth, recent, counts)
    return Surroundings(counts=counts)


def _recent(info: SessionInfo, breadth: Breadth, shelf: SessionShelf, now: datetime) -> Recent:
    place = "" if breadth == "project" else short_path(info.cwd)
    if breadth == "agents":
        place = f"{shelf.scope.agent_of(info)} · {place}"
    return Recent(name_of(info), place, format_time_ago(info.modified, now))


def _count_others(scope: Scope) -> tuple[tuple[str, int], ...]:
    """How many sessions other agents have here, the busiest first."""
    if scope.files is None or scope.session_dir is not None:
        return ()
    found = [
        (source.adapter.title, sum(1 for _ in source.places.files()) - len(source.places.parts))
        for source in find_sources("all")
        if source.adapter.name != scope.profile.name
    ]
    return tuple(sorted((each for each in found if each[1] > 0), key=lambda each: -each[1]))


def draw_start(project: str, around: Surroundings | None, most: int = RECENT) -> str:
    """The lines of the start page; ``around`` is None until it is known."""
    lines = [f"Sessiontree {__version__}", f"New session in {project}."]
    if around is not None:
        lines += ["", *_draw_found(around, most)]
    return "\n".join([*lines, "", KEYS])


def _draw_found(around: Surroundings, most: int) -> list[str]:
    if around.is_empty:
        return ["No sessions yet: /demo adds three samples."]
    lines = []
    if around.recent:
        lines = [_HEADINGS[around.breadth], *_draw_recent(around.recent[:most])]
    if around.counts:
        counts = ", ".join(f"{count:,} of {agent}" for agent, count in around.counts)
        words = "Also found" if around.recent and around.breadth != "agents" else "Found"
        lines.append(f"{words}: {counts}. /resume lists them (Tab: all agents)")
    return lines


def _draw_recent(recent: Sequence[Recent]) -> list[str]:
    width = min(_NAME_WIDTH, max(len(each.name) for each in recent))
    return [
        f"  {safe_text.fill(safe_text.one_line(each.name), width)}  "
        + " · ".join(part for part in (each.age, safe_text.one_line(each.place)) if part)
        for each in recent
    ]
