"""The chat's link to its live session: reads the session and hands the results to a view.

Reads the conversation's end when the session opens or changes as a whole, follows the session's
events, and reads earlier parts on demand. Knows no widget; it calls a `LinkView`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

from sessiontree.errors import SessionTreeError
from sessiontree.tui.chat.event_state import Narrator
from sessiontree.tui.chat.footer import read_cost, read_figures
from sessiontree.tui.chat.session_reading import WINDOW, read_before, read_end
from sessiontree.tui.chat.todos import Todo, load_todos, read_todos
from sessiontree.tui.pickers.session_rows import count_text
from sessiontree.user_hooks import UserHooks

if TYPE_CHECKING:
    from sessiontree.agents import AgentChoice, MakeAgent
    from sessiontree.runtime.agent_session import AgentSession
    from sessiontree.session.manager import SessionManager
    from sessiontree.stores.base import SessionStore, Watch
    from sessiontree.tui.chat.confirm import Confirmer
    from sessiontree.tui.chat.footer import FooterFacts
    from sessiontree.tui.transcript.blocks import Block

# A store may miss a change, and a todo list is not part of the session: look unasked, too.
_LOOK_S = 1.0
# However fast somebody writes, the chat looks only so often.
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A live session and facts about its agent."""

    session: AgentSession
    is_offline: bool = False
    reason: str = ""
    """The reason for this agent, shown to the user."""
    make_agent: MakeAgent | None = None
    """Make the agent for another model; None if this one takes any."""
    hooks: UserHooks = field(default_factory=UserHooks)


OpenSession: TypeAlias = "Callable[[Confirmer], Awaitable[OpenedSession]]"
"""Open the session; the confirmer answers the agent's questions."""


class LinkView(Protocol):
    """The view of a session."""

    def show_conversation(self, blocks: list[Block], earlier: str) -> None:
        """Show this conversation; ``earlier`` describes what is above it."""

    def prepend_conversation(self, blocks: list[Block], earlier: str) -> None:
        """Add blocks above those shown."""

    def show_facts(self, facts: FooterFacts) -> None:
        """Show these figures."""

    def show_todos(self, todos: list[Todo]) -> None:
        """Show this todo list."""

    def say(self, text: str, *, is_bad: bool = False) -> None:
        """Show one line to the user."""


class SessionLink:
    """One live session and the part of its conversation that is shown."""

    def __init__(self, view: LinkView) -> None:
        self.narrator = Narrator(time.monotonic)
        self._view = view
        self._opened: OpenedSession | None = None
        self._start = 0
        self._cost: float | None = None
        self._reloading = asyncio.Lock()
        self._figuring = asyncio.Lock()
        self._extending = asyncio.Lock()
        self._is_polling = False
        self._has_todos = False
        """Whether the conversation itself has a todo list."""

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    @property
    def opened(self) -> OpenedSession:
        """The opened session. Raises SessionTreeError until it is open."""
        if self._opened is None:
            raise SessionTreeError("The session is still being opened")
        return self._opened

    @property
    def session(self) -> AgentSession:
        return self.opened.session

    @property
    def is_busy(self) -> bool:
        """Whether a read is in progress whose result will be shown."""
        return self._reloading.locked() or self._figuring.locked()

    @property
    def has_earlier(self) -> bool:
        """Whether the path has entries above those shown."""
        return self._start > 0

    async def open(self, open_session: OpenSession, confirmer: Confirmer) -> None:
        """Open the session and show it. Raises what opening raises."""
        self._opened = await open_session(confirmer)
        self.session.subscribe(self.narrator.hear)
        await self.reload()

    def note_agent(self, choice: AgentChoice) -> None:
        """Note which agent answers from now on."""
        self._opened = replace(self.opened, is_offline=choice.is_offline, reason=choice.reason)

    # -- the conversation ------------------------------------------------------------------------

    async def reload(self) -> None:
        """Read the conversation again and show its end."""
        narrator = self.narrator
        async with self._reloading:
            narrator.hold()
            try:
                part = await self.session.read(read_end)
            except BaseException:
                narrator.release()
                raise
            self._start = part.start
            if not self.session.is_running:
                narrator.running_since, narrator.activity = None, ""
                part.conversation.stop_waiting()
            narrator.install(part.conversation, part.ids)
            self._view.show_conversation(part.conversation.blocks, _earlier_text(part.start))
            await self._read_todos()
            self._cost = None
            narrator.has_new_figures = True

    async def reach(self, entry_id: str) -> bool:
        """Load enough to show an entry; return whether it is on the active path."""

        def find(manager: SessionManager) -> int | None:
            path = manager.get_branch()
            return next((n for n, entry in enumerate(path) if entry.id == entry_id), None)

        # A reload in progress would show the end again: let it finish first.
        async with self._reloading:
            place = await self.session.read(find)
        if place is None:
            return False
        if place < self._start:
            await self.extend(place)
        return True

    async def extend(self, first: int | None = None) -> None:
        """Show earlier entries, at least back to the path's entry number ``first``."""
        async with self._extending:
            conversation, end = self.narrator.conversation, self._start
            if not end:
                return
            window = WINDOW if first is None else max(WINDOW, end - first)
            part = await self.session.read(lambda manager: read_before(manager, end, window))
            if conversation is not self.narrator.conversation:
                return  # reloaded meanwhile: other entries are above now
            part.conversation.stop_waiting(conversation)
            self._start = part.start
            conversation.blocks[:0] = part.conversation.blocks
            earlier = _earlier_text(part.start)
            self._view.prepend_conversation(part.conversation.blocks, earlier)

    # -- around it -------------------------------------------------------------------------------

    def take_todos(self) -> None:
        """Show the todo list that the agent has just written, if it did."""
        said, self.narrator.todos = self.narrator.todos, None
        if said is not None:
            self._has_todos = True
            self._view.show_todos(said)

    async def _read_todos(self) -> None:
        said = await self.session.read(read_todos)
        self._has_todos = said is not None
        self._view.show_todos(said if said is not None else self._kept_todos())

    def _kept_todos(self) -> list[Todo]:
        return load_todos(self.session.manager.artifacts_dir)

    async def refresh_figures(self) -> None:
        """Show the session's figures; the cost follows once it is added up."""
        async with self._figuring:
            await self._tell_figures()
            if self._cost is None:
                spent = self.narrator.cost
                self._cost = await read_cost(self.session)
                # Costs that arose while it was added up are counted on top from now on.
                self.narrator.cost -= spent
                await self._tell_figures()

    async def _tell_figures(self) -> None:
        cost = (self._cost or 0.0) + self.narrator.cost
        is_offline = self.opened.is_offline
        self._view.show_facts(await read_figures(self.session, cost, is_offline=is_offline))

    async def changes(self) -> AsyncIterator[None]:
        """Yield as soon as somebody has written to the session, and now and then unasked.

        Follows the session that is open: after a switch another one.
        """
        watched: tuple[SessionStore, str] | None = None
        watch: Watch | None = None
        try:
            while True:
                manager = self.session.manager
                place = manager.store, manager.ref
                if watch is not None and watched != place:
                    watch.close()
                    watch = None
                try:
                    if watch is None:
                        watch = await asyncio.to_thread(manager.store.watch, manager.ref)
                        watched = place  # what came before this is looked for now
                    else:
                        await asyncio.to_thread(watch.wait, _LOOK_S)
                except SessionTreeError:  # whatever is wrong with the store, looking will tell
                    watched = None
                    await asyncio.sleep(_LOOK_S)
                yield
                await asyncio.sleep(_PAUSE_S)
        finally:
            if watch is not None:
                watch.close()

    async def look_for_others(self) -> None:
        """Show what other processes appended to the session."""
        if self._is_polling:
            return
        self._is_polling = True
        try:
            count = await self.session.catch_up()
        except SessionTreeError as error:
            self._view.say(str(error), is_bad=True)
            return
        finally:
            self._is_polling = False
        if not self._has_todos:
            self._view.show_todos(self._kept_todos())
        if count:
            self._view.say(f"{count_text(count, 'entry')} came from another process")


def _earlier_text(count: int) -> str:
    return f"{count_text(count, 'earlier entry')} · PageUp or a click shows more" if count else ""
