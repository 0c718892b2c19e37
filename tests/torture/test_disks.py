"""Real disks that fill up or turn read-only under everything that Sessiontree keeps."""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.samples import user
from tests.torture.conftest import Budget
from tests.torture.mounts import SmallDisk, read_only
from tests.torture.operations import answer, picture, talking

from sessiontree import HistoryStorage, PersistenceError, SessionManager, SessionTreeError, search
from sessiontree.discovery.catalogue import forget_process_memory
from sessiontree.discovery.listing import list_sessions
from sessiontree.export.bundle_export import export_bundle, import_bundle
from sessiontree.export.convert import convert_session
from sessiontree.export.documents import render_markdown
from sessiontree.export.view import open_view
from sessiontree.maintenance.checkup import check_profile
from sessiontree.profiles import get_profile
from sessiontree.stores.files.trash import list_trash, move_to_trash, restore

Figures = Callable[[str, float], None]
Act = Callable[[SessionManager, random.Random], object]


@pytest.fixture
def disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], SmallDisk]]:
    """Disks of a given size, one after the other, with the agent's folder on them."""
    made: list[SmallDisk] = []

    def make(size_kb: int) -> SmallDisk:
        folder = Path(os.path.realpath(tmp_path)) / f"disk{len(made)}"
        folder.mkdir()
        made.append(SmallDisk(folder, size_kb, monkeypatch))
        monkeypatch.setenv("SESSIONTREE_AGENT_DIR", str(folder / "agent"))
        monkeypatch.setenv("SESSIONTREE_CACHE_DIR", str(folder / "cache"))
        forget_process_memory()
        return made[-1]

    yield make
    for disk in made:
        disk.remove()


ACTS: list[tuple[int, Act]] = [
    (20, lambda session, rng: session.append_message(user("word " * rng.randint(1, 800)))),
    (20, lambda session, rng: session.append_message(answer("word " * rng.randint(1, 800)))),
    (10, lambda session, rng: session.append_message(picture(rng.getrandbits(20)))),
    (4, lambda session, rng: session.set_session_name(f"name {rng.random()}")),
    (2, lambda session, rng: session.rewrite_entries()),
    (2, lambda session, rng: session.flush()),
    (1, lambda session, rng: session.fork()),
    (1, lambda session, rng: session.move_to(Path(session.cwd).parent / f"p{rng.randint(0, 3)}")),
]


def messages_of(session: SessionManager) -> dict[str, Any]:
    spoken = [entry for entry in session.get_entries() if entry.type == "message"]
    return {entry.id: entry.data["message"] for entry in spoken}


def test_work_goes_on_when_there_is_room_again(
    disks: Callable[[int], SmallDisk], rng: random.Random, budget: Budget, figures: Figures
) -> None:
    weights, acts = zip(*ACTS, strict=True)
    rounds = 0
    while budget.is_left() or rounds == 0:
        rounds += 1
        disk = disks(rng.choice([200, 400, 800]))
        figures("real disks" if disk.is_real else "made-up disks", 1)
        session = talking(disk.folder)
        refusals: list[str] = []
        for _ in range(2_000):
            act = rng.choices(acts, weights)[0]
            before = messages_of(session)
            try:
                act(session, rng)
            except PersistenceError as error:
                refusals.append(str(error))
                with contextlib.suppress(PersistenceError):
                    session.recover()  # if it is still full, that is tried again next time
                after = messages_of(session)
                assert {key: after.get(key) for key in before} == before
            if len(refusals) > 12:
                break
        assert refusals, "the disk never filled up"
        assert all(str(disk.folder) in refusal for refusal in refusals)
        promised = messages_of(session)
        disk.make_room()
        session.recover()
        last = session.append_message(user("room again"))
        session.close()
        for line in Path(str(session.session_file)).read_bytes().splitlines():
            json.loads(line)
        again = SessionManager.open(str(session.session_file))
        found = messages_of(again)
        assert {key: found.get(key) for key in promised} == promised
        assert last in found
        figures("refusals", len(refusals))
        figures("entries kept", len(promised))


def test_what_surrounds_sessions_fails_cleanly_on_a_full_disk(
    disks: Callable[[int], SmallDisk], rng: random.Random, budget: Budget, figures: Figures
) -> None:
    """Listing, searching, prompts, trash, bundles and copies, with no byte left."""
    rounds = 0
    while budget.is_left() or rounds == 0:
        rounds += 1
        disk = disks(rng.choice([600, 900, 1_500]))
        session = talking(disk.folder)
        session.close()
        file = Path(str(session.session_file))
        content = file.read_bytes()
        export_bundle(file, disk.folder / "b.zip")
        fill(disk.folder, rng.choice([0, 4096, 40_000]))
        listed = list_sessions(disk.folder / "project")
        assert [info.path for info in listed] == [str(file)]
        assert [match.path for match in search("second", profile="sessiontree")] == [str(file)]
        with open_view(file) as view:
            assert "fourth" in "".join(render_markdown(view))
        for attempt in attempts_on(file, disk.folder):
            try:
                attempt()
            except SessionTreeError as error:
                refusal = str(error)
                figures("refused", 1)
            else:
                refusal = ""
            assert not refusal or str(disk.folder) in refusal or "/.pi/" in refusal
            if not file.exists():
                (item,) = list_trash(get_profile())
                restore(item)
            assert file.read_bytes() == content
            assert not list((disk.folder / "agent").rglob("*.tmp"))
        history = HistoryStorage(disk.folder / "agent" / "history.db")
        for number in range(10):
            history.add(f"prompt {number} " + "x" * 1_000)
        assert len(history.recent(50)) == 10, "a prompt that waits can be recalled"
        history.flush(0.5)
        (disk.folder / "filling").unlink()
        disk.make_room()
        assert history.flush(20), "not written when there was room again"
        history.close()
        figures("rounds", 1)


def attempts_on(file: Path, folder: Path) -> list[Callable[[], object]]:
    return [
        lambda: export_bundle(file, folder / "c.zip"),
        lambda: import_bundle(folder / "b.zip"),
        lambda: convert_session(file, "pi"),
        lambda: SessionManager.fork_from(file, folder / "fork"),
        lambda: move_to_trash(file, profile=get_profile()),
    ]


def fill(folder: Path, leave: int) -> None:
    """Take what is left of a disk, but for some bytes."""
    with open(folder / "filling", "wb", buffering=0) as file:
        try:
            file.writelines(bytes(4096) for _ in range(4_000))
        except OSError:
            pass
        file.truncate(max(0, file.tell() - leave))


def test_a_read_only_disk_can_be_looked_at_and_refuses_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figures: Figures
) -> None:
    folder = Path(os.path.realpath(tmp_path)) / "disk"
    folder.mkdir()
    monkeypatch.setenv("SESSIONTREE_AGENT_DIR", str(folder / "agent"))
    monkeypatch.setenv("SESSIONTREE_CACHE_DIR", str(folder / "cache"))
    session = talking(folder)
    session.close()
    file = Path(str(session.session_file))
    content = file.read_bytes()
    open_one = SessionManager.open(file)
    history = HistoryStorage(folder / "agent" / "history.db")
    history.add("before")
    history.flush(5)
    history.close()
    with read_only(folder, monkeypatch) as is_real:
        figures("real mounts", int(is_real))
        assert [info.path for info in list_sessions(folder / "project")] == [str(file)]
        assert [match.path for match in search("second")] == [str(file)]
        assert check_profile(get_profile()).sessions == 1
        assert len(SessionManager.open(file).build_session_context().messages) == 4
        assert len(SessionManager.continue_recent(folder / "project").get_entries()) == 4
        for attempt in (
            lambda: open_one.append_message(user("no")),
            lambda: SessionManager.open(file).set_session_name("no"),
            lambda: SessionManager.open(folder / "new.jsonl"),
            lambda: SessionManager.create(folder / "project").append_message(user("no")),
            lambda: SessionManager.fork_from(file, folder / "project"),
            lambda: move_to_trash(file, profile=get_profile()),
            lambda: export_bundle(file, folder / "b.zip"),
        ):
            with pytest.raises(PersistenceError) as caught:
                attempt()
            assert str(folder) in str(caught.value)
        if is_real:
            history = HistoryStorage(folder / "agent" / "history.db")
            history.add("during")
            assert [entry.prompt for entry in history.recent(5)] == ["during", "before"]
            history.close(1)
    assert file.read_bytes() == content
    open_one.recover()
    open_one.append_message(user("yes"))
    open_one.close()
    assert len(SessionManager.open(file).build_session_context().messages) == 5
