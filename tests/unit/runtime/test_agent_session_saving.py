"""When the disk fails: nothing is lost silently, and everything is saved once it can be."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from sessiontree.discovery.breadcrumbs import read_breadcrumb
from sessiontree.errors import NotASessionError, PersistenceError
from sessiontree.profiles import Profile
from sessiontree.runtime import events
from sessiontree.session.manager import SessionManager
from sessiontree.storage.base import SessionStorageWriter, StrPath
from sessiontree.storage.file import FileSessionStorage
from sessiontree.testing.scripted_agent import Reply, ScriptedAgent

from .rig import DEAR, THINKER, live, picture, saved, texts


class FullDisk(FileSessionStorage):
    """A disk that can run full."""

    def __init__(self) -> None:
        self.is_full = False

    def open_writer(self, path: StrPath, *, create: bool = True) -> SessionStorageWriter:
        writer: Any = super().open_writer(path, create=create)
        write_line = writer.write_line

        def guarded(line: bytes) -> int:
            if self.is_full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return int(write_line(line))

        writer.write_line = guarded
        return writer  # type: ignore[no-any-return]


async def test_messages_that_could_not_be_saved_are_saved_after_recovery(tmp_path: Path) -> None:
    disk = FullDisk()
    agent = ScriptedAgent(["one", "two", "three"])
    async with live(agent, tmp_path, storage=disk) as session:
        await session.prompt("a")
        heard: list[Any] = []
        session.subscribe(heard.append)
        disk.is_full = True
        await session.prompt("b")
        assert texts(session.messages)[-1] == ("assistant", "two")
        assert session.unsaved == 2
        failures = [e for e in heard if isinstance(e, events.PersistenceFailed)]
        assert [e.pending for e in failures] == [1, 2]
        assert "No space left" in str(failures[0].error)
        assert saved(session.session_file) == [("user", "a"), ("assistant", "one")]
        with pytest.raises(PersistenceError):
            await session.recover()
        assert session.unsaved == 2
        disk.is_full = False
        await session.recover()
        assert session.unsaved == 0
        assert heard[-1] == events.PersistenceRestored(2)
        assert saved(session.session_file) == texts(session.messages)


async def test_the_next_prompt_tries_again_by_itself(tmp_path: Path) -> None:
    disk = FullDisk()
    async with live(ScriptedAgent(["one", "two", "three"]), tmp_path, storage=disk) as session:
        await session.prompt("a")
        disk.is_full = True
        await session.prompt("b")
        disk.is_full = False
        await session.prompt("c")
        assert session.unsaved == 0
        assert saved(session.session_file) == texts(session.messages)
        assert len(session.messages) == 6


async def test_the_very_first_message_can_fail_and_be_saved_later(tmp_path: Path) -> None:
    disk = FullDisk()
    async with live(ScriptedAgent(["one"]), tmp_path, storage=disk) as session:
        disk.is_full = True
        await session.prompt("a")
        assert session.unsaved == 2
        disk.is_full = False
        await session.recover()
        assert saved(session.session_file) == [("user", "a"), ("assistant", "one")]


async def test_a_session_with_unsaved_messages_is_not_left(tmp_path: Path) -> None:
    disk = FullDisk()
    async with live(ScriptedAgent(["one", "two"]), tmp_path, storage=disk) as session:
        await session.prompt("a")
        disk.is_full = True
        await session.prompt("b")
        before = picture(session)
        with pytest.raises(PersistenceError):
            await session.new_session()
        assert picture(session) == before
        disk.is_full = False
        await session.recover()
        assert await session.new_session()


async def test_state_that_can_not_be_saved_is_not_taken_on(tmp_path: Path) -> None:
    disk = FullDisk()
    async with live(ScriptedAgent(), tmp_path, storage=disk) as session:
        await session.prompt("a")
        disk.is_full = True
        with pytest.raises(PersistenceError):
            await session.set_model(DEAR)
        with pytest.raises(PersistenceError):
            await session.set_thinking_level("high")
        with pytest.raises(PersistenceError):
            await session.set_mode("plan")
        assert (session.model, session.thinking_level) == (THINKER, "medium")
        assert (session.mode.name, session.agent.mode) == ("none", "none")
        disk.is_full = False
        await session.recover()


async def test_closing_saves_what_it_can_and_raises_what_it_can_not(tmp_path: Path) -> None:
    disk = FullDisk()
    async with live(ScriptedAgent(["one", "two"]), tmp_path, storage=disk) as session:
        await session.prompt("a")
        disk.is_full = True
        await session.prompt("b")
        path = session.session_file
        with pytest.raises(PersistenceError, match="No space left"):
            await session.aclose()
    assert saved(path) == [("user", "a"), ("assistant", "one")]
    disk.is_full = False
    async with live(ScriptedAgent(["one", "two"]), tmp_path, storage=disk) as session:
        await session.prompt("a")
        disk.is_full = True
        await session.prompt("b")
        path = session.session_file
        disk.is_full = False
    assert len(saved(path)) == 4


async def test_a_message_that_no_file_can_hold_is_saved_in_a_plain_form(tmp_path: Path) -> None:
    class Odd(ScriptedAgent):
        def _tool_result(self, *args: Any) -> dict[str, Any]:
            return {**super()._tool_result(*args), "details": {"when": object()}}

    async def done(arguments: Any, progress: Any) -> str:
        return "ok"

    agent = Odd([Reply("", tool_calls=[("t", {})]), "end"], tools={"t": done})
    async with live(agent, tmp_path) as session:
        await session.prompt("go")
        assert session.unsaved == 0
        assert saved(session.session_file) == texts(session.messages)


async def test_a_cancelled_prompt_saves_nothing_twice_and_loses_nothing(tmp_path: Path) -> None:
    agent = ScriptedAgent(["one", "two"])
    async with live(agent, tmp_path) as session:
        for turns in range(12):
            run = asyncio.create_task(session.prompt("a"))
            for _ in range(turns):
                await asyncio.sleep(0)
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
            await agent.wait_idle()
            await session.stats()
            assert session.unsaved == 0
            kept = await session.read(lambda m: m.build_session_context().messages)
            assert kept == list(session.messages)


async def test_a_failed_switch_leaves_the_terminals_breadcrumb_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX_PANE", "%7")
    monkeypatch.setattr("sessiontree.discovery.breadcrumbs._tty_id", lambda fd: None)
    profile = Profile("sessiontree", str(tmp_path / "agent"), "omp")
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    async with live(ScriptedAgent(), tmp_path, profile=profile) as session:
        await session.prompt("hi")
        assert read_breadcrumb(profile, tmp_path) == session.session_file
        with pytest.raises(NotASessionError):
            await session.switch_session(other)
        await session.stats()
        assert read_breadcrumb(profile, tmp_path) == session.session_file


async def test_lines_of_another_process_are_taken_in_and_nothing_is_lost(tmp_path: Path) -> None:
    async with live(ScriptedAgent(["one", "two"]), tmp_path) as session:
        await session.prompt("a")
        with SessionManager.open(str(session.session_file)) as other:
            other.append_message({"role": "user", "content": "from the side", "timestamp": 1})
        await session.prompt("b")
        with SessionManager.open(str(session.session_file)) as reader:
            everything = [
                texts([e.data["message"]])[0][1]
                for e in reader.get_entries()
                if e.type == "message"
            ]
        assert everything == ["a", "one", "from the side", "b", "two"]
        assert [text for _, text in texts(session.messages)] == ["a", "one", "b", "two"]
