"""A session of each agent that is described by its turns, all of one story, to test them alike.

Someone asks ("Add a price column"), the agent looks (``bash``, whose output says "zebra"), answers
("Done with the walrus"); the session is named or not, and grows by a question and an answer with
the word "narwhal".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.agent_databases import OpenCodeDatabase, opencode_call, opencode_step

PROMPT = "Add a price column"
CWD = "/srv/shop"


@dataclass
class Sample:
    """What is known of the session made, and how it grows."""

    id: str
    path: Path
    grow: Callable[[], None]
    command: list[str]
    roots: list[Path]
    """The agent's files and folders: none of them may change."""
    title: str | None = None
    tokens: tuple[int, int, int, int] | None = None
    """Input, output, read from and written to the cache."""
    model: str | None = None
    messages: int = 4
    kept: list[str] = field(default_factory=list)
    """Kinds of records that an import keeps as custom entries."""


def make_opencode(home: Path) -> Sample:
    database = OpenCodeDatabase(home)
    own = database.session("ses_1", title="Price column")
    database.prompt(own, PROMPT)
    start, finish = opencode_step("tool-calls")
    call = opencode_call("bash", {"command": "ls"}, "shop.py zebra")
    thought = {"type": "reasoning", "text": "First a look.", "time": {"start": 1}}
    said = {"type": "text", "text": "Looking."}
    database.answer(own, start, thought, said, call, finish, {"type": "strange", "x": [1]})
    start, finish = opencode_step()
    database.answer(own, start, {"type": "text", "text": "Done with the walrus."}, finish)
    database.close()

    def grow() -> None:
        again = OpenCodeDatabase(home)
        again.connection.execute("BEGIN")
        again._count, again._at_ms = 50, again._at_ms + 60_000
        again.prompt(own, "And a narwhal?")
        again.answer(own, {"type": "text", "text": "A narwhal, too."})
        again.connection.execute("COMMIT")
        again.close()

    return Sample(
        own,
        database.path / own,
        grow,
        ["opencode", "--session", own],
        [database.path.parent],
        title="Price column",
        tokens=(200, 50, 600, 80),
        model="anthropic/claude-sonnet-4-5",
        kept=["strange"],
    )


KINDS: dict[str, Callable[[Path], Sample]] = {
    "opencode": make_opencode,
}
