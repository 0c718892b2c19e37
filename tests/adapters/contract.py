"""What every adapter must do, whatever its framework: one suite, run over every kind of store.

A test module gives it a ``Driver``, which speaks to the adapter as the framework would, and two
subclasses see to the stores::

    class Driver:
        def __init__(self, url: str, scope: str | None = None) -> None: ...
        async def add(self, session_id: str, text: str) -> None:     # a user's message
        async def answer(self, session_id: str, text: str) -> None:  # a model's, of 10 + 2 tokens
        async def texts(self, session_id: str) -> list[str]:         # the text of each message
        async def close(self) -> None: ...

    class TestFooOnFiles(AsyncAdapterOnFiles):
        driver = Driver

    class TestFooInMemory(AdapterContract):
        driver = Driver

``tests/postgres/test_adapters.py`` runs ``SharedAdapterContract`` on PostgreSQL. Other processes
import the driver by its module and name, so it must stand at the top of a module below ``tests``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import threading
import time
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests import processes

from sessiontree import SessionManager, open_store
from sessiontree.stores.files.store import FileStore

_WRITER = """
import asyncio, importlib, sys

module, name, url, session_id, mark, count = sys.argv[1:]
driver = getattr(importlib.import_module(module), name)(url)

async def write():
    await driver.texts(session_id)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(count)):
        await driver.add(session_id, f"{mark}{number}")
        print(f"{mark}{number}", flush=True)
    await driver.close()

asyncio.run(write())
"""


class Driver(Protocol):
    """An adapter as its framework uses it, brought down to texts."""

    def __init__(self, url: Any, scope: str | None = None) -> None: ...

    async def add(self, session_id: str, text: str) -> None:
        """Save a user's message."""

    async def answer(self, session_id: str, text: str) -> None:
        """Save a model's answer, which took 10 tokens of input and 2 of output."""

    async def texts(self, session_id: str) -> list[str]:
        """The text of each message of the conversation, oldest first."""

    async def close(self) -> None:
        """Let go of what is open."""


class AdapterContract:
    """On any store. By default it is in memory."""

    driver: type[Driver]
    session_scope: str | None = None
    """The scope of the driver's sessions, where the adapter gives them one."""

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        """Where this test's sessions are."""
        return f"memory:{tmp_path}"

    def make(self, url: Any, scope: str | None = None) -> Driver:
        return self.driver(url, scope)

    async def test_what_was_said_is_there_again(self, url: str) -> None:
        first = self.make(url)
        await first.add("s", "one")
        await first.answer("s", "two")
        await first.close()
        second = self.make(url)
        assert await second.texts("s") == ["one", "two"]
        assert await second.texts("another") == []
        await second.close()

    async def test_two_that_are_open_see_each_other(self, url: str) -> None:
        one, two = self.make(url), self.make(url)
        await one.add("s", "a")
        await two.add("s", "b")
        await one.add("s", "c")
        assert await one.texts("s") == await two.texts("s") == ["a", "b", "c"]
        await one.close()
        await two.close()

    async def test_ids_that_no_file_could_have_are_kept_apart(self, url: str) -> None:
        driver = self.make(url)
        keys = ["user/1:a b", "user/1:a  b", "../etc", "Straße", "x" * 300]
        for key in keys:
            await driver.add(key, key)
        for key in keys:
            assert await driver.texts(key) == [key]
        await driver.close()

    async def test_scopes_do_not_see_each_other(self, url: str) -> None:
        none, anna, ben = self.make(url), self.make(url, "anna"), self.make(url, "ben")
        await none.add("s", "nobody's")
        await anna.add("s", "anna's")
        assert await ben.texts("s") == []
        assert await anna.texts("s") == ["anna's"]
        assert await none.texts("s") == ["nobody's"]
        for each in (none, anna, ben):
            await each.close()

    async def test_calls_at_the_same_time_lose_nothing(self, url: str) -> None:
        driver = self.make(url)
        await driver.add("s", "first")
        await asyncio.gather(*(driver.add("s", str(number)) for number in range(8)))
        assert sorted(await driver.texts("s")) == sorted(["first", *map(str, range(8))])
        await driver.close()

    async def test_everybody_can_read_the_conversation(self, url: str) -> None:
        driver = self.make(url)
        await driver.add("s", "is the kettle on?")
        await driver.answer("s", "It whistles.")
        await driver.close()
        store = open_store(url)
        ref = store.locate("s", scope=self.session_scope)
        assert ref is not None
        with SessionManager.open(ref, storage=store) as session:
            messages = session.build_session_context().messages
            assert session.header.get("harness")
        assert [message["role"] for message in messages] == ["user", "assistant"]
        assert "kettle" in json.dumps(messages[0])
        assert "whistles" in json.dumps(messages[1])
        assert [info.id for info in store.list(scope=self.session_scope)] == ["s"]

    async def test_an_entry_that_others_appended_does_no_harm(self, url: str) -> None:
        driver = self.make(url)
        await driver.add("s", "before")
        store = open_store(url)
        ref = store.locate("s", scope=self.session_scope)
        assert ref is not None
        with SessionManager.open(ref, storage=store) as other:
            other.append_custom_entry("somebody.else", {"x": [1, None, "y"]})
            other.append_label_change(other.get_entries()[0].id, "here")
        await driver.add("s", "after")
        assert await driver.texts("s") == ["before", "after"]
        await driver.close()

    async def test_a_broken_record_is_left_out_with_a_warning(
        self, url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        driver = self.make(url)
        for text in ("one", "two", "three"):
            await driver.answer("s", text)
        await driver.close()
        store = open_store(url)
        ref = store.locate("s", scope=self.session_scope)
        assert ref is not None
        with SessionManager.open(ref, storage=store) as session:
            entry = next(each for each in session.get_entries() if "two" in json.dumps(each.data))
            entry.data["native"] = {key: {"$": "/nowhere"} for key in entry.data["native"]}
            session.rewrite_entries()
        again = self.make(url)
        with caplog.at_level(logging.WARNING):
            assert await again.texts("s") == ["one", "three"]
        assert entry.id in caplog.text
        await again.answer("s", "four")
        assert await again.texts("s") == ["one", "three", "four"]
        await again.close()


class SharedAdapterContract(AdapterContract):
    """On a store that other processes write to as well, and the command reads."""

    def start(self, url: str, session_id: str, marks: str, count: int) -> list[Any]:
        """A process for each mark, which writes that often as soon as it is told to."""
        module, name = self.driver.__module__, self.driver.__qualname__
        started = [
            processes.start(_WRITER, module, name, url, session_id, mark, count) for mark in marks
        ]
        for process in started:
            processes.wait_for(process, "ready")
        return started

    async def test_writers_in_several_processes_lose_nothing(self, url: str) -> None:
        driver = self.make(url)
        await driver.add("s", "start")
        writers = self.start(url, "s", "xy", 12)
        for writer in writers:
            print("go", file=writer.stdin, flush=True)
        for number in range(12):
            await driver.add("s", f"z{number}")
        for writer in writers:
            _, errors = await asyncio.to_thread(writer.communicate)
            assert writer.returncode == 0, errors
        texts = await driver.texts("s")
        for mark in "xyz":
            found = [text for text in texts if text.startswith(mark)]
            assert found == [f"{mark}{number}" for number in range(12)]
        assert len(texts) == 37
        await driver.close()

    async def test_a_killed_process_loses_nothing_that_was_acknowledged(self, url: str) -> None:
        (writer,) = self.start(url, "s", "k", 10_000)
        print("go", file=writer.stdin, flush=True)
        assert writer.stdout is not None
        acknowledged = [writer.stdout.readline().strip() for _ in range(5)]
        writer.send_signal(signal.SIGKILL)
        # communicate() would pass over the lines that readline() has taken into its buffer
        rest = writer.stdout.read()
        writer.communicate()
        # the last line may be torn
        acknowledged += [line for line in rest.split("\n")[:-1] if line]
        driver = self.make(url)
        texts = await driver.texts("s")
        assert texts[: len(acknowledged)] == acknowledged
        assert len(texts) <= len(acknowledged) + 1
        await driver.add("s", "and on")
        assert await driver.texts("s") == [*texts, "and on"]
        await driver.close()

    async def test_the_command_shows_finds_exports_and_counts_it(
        self, url: str, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        driver = self.make(url)
        await driver.add("s", "is the kettle on?")
        await driver.answer("s", "It whistles.")
        await driver.close()
        monkeypatch.setenv("SESSIONTREE_STORE", url)
        for command in ("show", "tree"):
            shown = await asyncio.to_thread(_command, command, "s")
            assert "kettle" in shown
            assert "whistles" in shown
        assert "whistles" in await asyncio.to_thread(_command, "search", "whistles")
        await asyncio.to_thread(_command, "export", "s", "-o", str(tmp_path / "s.md"))
        assert "kettle" in (tmp_path / "s.md").read_text(encoding="utf-8")
        (row,) = json.loads(await asyncio.to_thread(_command, "usage", "s", "--json"))
        assert (row["input"], row["output"]) == (10, 2)


class AdapterOnFiles(SharedAdapterContract):
    """On files."""

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"file:{tmp_path / 'agent'}"

    async def test_a_broken_line_is_no_reason_to_stop(self, url: str, tmp_path: Path) -> None:
        driver = self.make(url)
        await driver.add("s", "before")
        await driver.answer("s", "answered")
        await driver.close()
        (file,) = (tmp_path / "agent").rglob("*_s.jsonl")
        with file.open("ab") as lines:
            lines.write(b'{"type":"message","id":"\xff","mess\n')
        again = self.make(url)
        await again.add("s", "after")
        assert await again.texts("s") == ["before", "answered", "after"]
        await again.close()


class AsyncAdapterOnFiles(AdapterOnFiles):
    """On files, for a framework whose protocol is asynchronous."""

    async def test_the_event_loop_never_waits_for_the_disk(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        driver = self.make(url)
        await driver.add("s", "quick")
        is_waiting, may_go_on = threading.Event(), threading.Event()
        loop_thread = threading.get_ident()
        exists = FileStore.exists

        def slow_exists(self: FileStore, ref: str) -> bool:
            assert threading.get_ident() != loop_thread, "the event loop waits for the disk"
            is_waiting.set()
            assert may_go_on.wait(30)
            return exists(self, ref)

        monkeypatch.setattr(FileStore, "exists", slow_exists)
        task = asyncio.create_task(driver.add("s", "slow"))
        ticks = 0
        deadline = time.monotonic() + 30
        while not (is_waiting.is_set() and ticks > 5):
            await asyncio.sleep(0.001)
            ticks += is_waiting.is_set()
            assert time.monotonic() < deadline
        assert not task.done()
        may_go_on.set()
        await task
        assert await driver.texts("s") == ["quick", "slow"]
        await driver.close()

    async def test_the_event_loop_never_waits_for_an_adapter_that_is_dropped(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        driver = self.make(url)
        await driver.add("s", "said")
        loop_thread, threads, is_closing = threading.get_ident(), set(), threading.Event()
        flush = SessionManager.flush

        def noting_flush(self: SessionManager) -> None:
            threads.add(threading.get_ident())
            is_closing.set()
            flush(self)

        monkeypatch.setattr(SessionManager, "flush", noting_flush)
        del driver
        assert await asyncio.to_thread(is_closing.wait, 30)
        assert loop_thread not in threads


def _command(*arguments: str) -> str:
    code = "import sys; from sessiontree.cli.main import run; sys.exit(run())"
    return processes.run(code, *arguments)
