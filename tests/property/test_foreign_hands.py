"""Two sessions on one file, and programs that know no lock: append, rewrite, leave out, delete.

Whatever comes in whatever order: nothing acknowledged is lost or doubled, what nobody changed keeps
its bytes, and what is in memory is what a fresh opening reads.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.samples import SESSION_ID, assistant, chain, header, message, slot, user, write

from sessiontree import SessionManager

Step = tuple[str, int, int]
OURS = ("append", "append", "label", "rename", "edit", "branch", "look", "flush")
THEIRS = ("write_line", "replace", "leave_out", "delete", "slot")


class World:
    """The file, the two sessions, and what is known of every line."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "session.jsonl"
        talk = chain(user("1"), assistant("2"), user("3"), assistant("4"))
        spaced = (json.dumps(each).encode() + b"\n" for each in talk)
        write(self.file, header(future={"a": 1.0}), *spaced)
        self.sessions = [SessionManager.open(self.file) for _ in range(2)]
        self.lines: dict[str, bytes] = {}
        self.edited: set[str] = set()
        self.made = {each["id"] for each in talk}
        self.count = 0
        self.note()

    def read(self) -> list[bytes]:
        return self.file.read_bytes().splitlines() if self.file.exists() else []

    def entries(self) -> list[tuple[str, bytes]]:
        found = [(json.loads(line), line) for line in self.read()]
        return [(wire["id"], line) for wire, line in found if "parentId" in wire]

    def note(self) -> None:
        for entry_id, line in self.entries():
            self.lines.setdefault(entry_id, line)

    def put(self, lines: list[bytes]) -> None:
        other = self.file.with_suffix(".other")
        other.write_bytes(b"".join(line + b"\n" for line in lines))
        os.replace(other, self.file)

    def step(self, name: str, who: int, number: int) -> None:
        self.count += 1
        session = self.sessions[who]
        chosen = session.get_entries()[number % len(session.get_entries())]
        steps: dict[str, Callable[[], object]] = {
            "append": lambda: self.made.add(session.append_message(assistant(f"m{self.count}"))),
            "label": lambda: self.made.add(session.append_label_change(chosen.id, f"{number}")),
            "rename": lambda: session.set_session_name(f"name {self.count}"),
            "edit": lambda: self.edit(session, chosen.id),
            "branch": lambda: session.branch(chosen.id),
            "look": lambda: (
                session.refresh(),
                session.get_tree(),
                session.build_session_context(),
            ),
            "flush": session.flush,
            "write_line": self.write_line,
            "replace": lambda: self.put(self.read()),
            "leave_out": lambda: self.leave_out(number),
            "delete": lambda: self.file.unlink(missing_ok=True),
            "slot": self.toggle_slot,
        }
        if name in OURS or self.file.exists():
            steps[name]()
        self.note()

    def look(self, session: SessionManager) -> None:
        session.refresh()
        session.get_tree()
        session.build_session_context()

    def edit(self, session: SessionManager, entry_id: str) -> None:
        entry = session.get_entry(entry_id)
        if entry is not None and entry.type == "message":
            entry.data["message"]["content"] = text = f"edited {self.count}"
            self.edited.add(entry_id)
            session.rewrite_entries()
            is_told = any("changed by another" in str(each) for each in session.warnings)
            assert is_told or text.encode() in dict(self.entries())[entry_id]

    def write_line(self) -> None:
        made = message(f"f{self.count}", self.entries()[-1][0] if self.entries() else None)
        with self.file.open("ab") as out:
            out.write(json.dumps(made).encode() + b"\n")

    def leave_out(self, number: int) -> None:
        lines = self.read()
        self.put([line for at, line in enumerate(lines) if at < 2 or (number + at) % 3])

    def toggle_slot(self) -> None:
        lines = self.read()
        has_slot = json.loads(lines[0])["type"] == "title"
        self.put(lines[1:] if has_slot else [slot("Theirs").rstrip(b"\n"), *lines])

    def settle(self) -> None:
        for session in self.sessions:
            self.made.add(session.append_custom_entry("end"))
        for session in self.sessions:
            session.refresh()


def check(world: World) -> None:
    found = world.entries()
    ids = [entry_id for entry_id, _ in found]
    assert len(ids) == len(set(ids))
    assert world.made <= set(ids)
    kept = {entry_id for entry_id, line in found if world.lines.get(entry_id, line) == line}
    assert set(ids) - kept <= world.edited
    fresh = SessionManager.open(world.file)
    assert (fresh.session_id, fresh.header["future"]) == (SESSION_ID, {"a": 1.0})  # type: ignore[typeddict-item]
    for session in world.sessions:
        assert parents(session) == parents(fresh)
        assert session.session_name == fresh.session_name
        assert [session.get_label(each) for each in ids] == [fresh.get_label(each) for each in ids]
        for entry in session.get_entries():
            assert session.get_entry(entry.id) is entry
            children = session.get_children(entry.id)
            assert all(session.get_entry(child.id) is child for child in children)


def parents(session: SessionManager) -> dict[str, str | None]:
    return {entry.id: entry.parent_id for entry in session.get_entries()}


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.sampled_from(OURS + THEIRS), st.integers(0, 1), st.integers(0, 30)),
        min_size=3,
        max_size=25,
    )
)
def test_nothing_is_lost_doubled_or_told_differently(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        for step in steps:
            world.step(*step)
        world.settle()
        check(world)
