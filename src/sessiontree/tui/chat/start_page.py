"""The start page of an empty session: name, recent sessions, what other agents left, keys.

`look_around` reads the facts in the caller's thread; `draw_start` lays them out. Never writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sessiontree import clock
from sessiontree._version import __version__
from sessiontree.discovery.listing import SessionInfo
from sessiontree.discovery.paths import belongs_to
from sessiontree.discovery.sources import count_sessions
from sessiontree.scope import Scope
from sessiontree.text.words import format_time_ago
from sessiontree.tui import safe_text
from sessiontree.tui.pickers.session_actions import Breadth, SessionShelf
from sessiontree.tui.pickers.session_rows import name_of, short_path

RECENT = 5
"""Sessions to show; a small terminal shows three."""
_HEADINGS = {
    "project": "Recent in this project",
    "here": "Recent in this project, of all agents",
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

    breadth: Literal[Breadth, "here"] = "project"
    """Whose sessions these are; ``here``: this project's, of all agents."""
    recent: tuple[Recent, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.recent and not self.counts


def look_around(scope: Scope, open_path: str | None) -> Surroundings:
    """Find recent sessions, of this project if it has any; and count those of other agents."""
    shelf = SessionShelf(scope)
    counts = _count_others(scope)

    def draw(breadth: Literal[Breadth, "here"], found: list[SessionInfo]) -> Surroundings:
        now = clock.now()
        recent = tuple(_recent(info, breadth, shelf, now) for info in found[:RECENT])
        return Surroundings(breadth, recent, counts)

    def glance(breadth: Breadth) -> list[SessionInfo]:
        return [info for info in shelf.glance(breadth) if info.path != open_path]

    if found := glance("project"):
        return draw("project", found)
    of_all_agents = glance("agents") if counts else []
    is_here = belongs_to(scope.cwd)
    if found := [info for info in of_all_agents if info.cwd and is_here(info.cwd)]:
        return draw("here", found)
    if found := glance("all"):
        return draw("all", found)
    return draw("agents", of_all_agents)


def _recent(info: SessionInfo, breadth: str, shelf: SessionShelf, now: datetime) -> Recent:
    place = shelf.scope.agent_of(info) if breadth in ("here", "agents") else ""
    if breadth in ("all", "agents"):
        place = f"{place} · {short_path(info.cwd)}" if place else short_path(info.cwd)
    return Recent(name_of(info), place, format_time_ago(info.modified, now))


def _count_others(scope: Scope) -> tuple[tuple[str, int], ...]:
    """How many sessions other agents have here, the busiest first."""
    if scope.files is None or scope.session_dir is not None:
        return ()
    return tuple(count_sessions(but=scope.profile.name))


def draw_start(
    project: str, around: Surroundings | None, most: int = RECENT, *, is_looking: bool = True
) -> str:
    """The lines of the start page; ``around`` is None until it is known, or if it can't be.

    In a session's line a tab is between its name, which gets the room that there is, and the rest.
    """
    lines = [f"Sessiontree {__version__}", f"New session in {project}.", ""]
    if around is not None:
        lines += [*_draw_found(around, most), ""]
    elif is_looking:
        lines += ["Looking for earlier sessions…", ""]
    return "\n".join([*lines, KEYS])


def _draw_found(around: Surroundings, most: int) -> list[str]:
    if around.is_empty:
        return ["No sessions yet: /demo adds three samples."]
    lines = []
    if around.recent:
        lines = [_HEADINGS[around.breadth], *_draw_recent(around.recent[:most])]
    if around.counts:
        counts = ", ".join(f"{count:,} of {agent}" for agent, count in around.counts)
        is_other = around.recent and around.breadth in ("project", "all")
        words = "Also found" if is_other else "Found"
        lines.append(f"{words}: {counts}. /resume lists them (Tab: all agents)")
    return lines


def _draw_recent(recent: Sequence[Recent]) -> list[str]:
    rests = [(each.age, safe_text.one_line(each.place)) for each in recent]
    return [
        f"  {safe_text.one_line(each.name)}\t{' · '.join(part for part in rest if part)}"
        for each, rest in zip(recent, rests, strict=True)
    ]
