"""What the screens read of sessions on disk, and what they may import to do so."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.agent_samples import claude_prompt, put_claude, put_codex

from sessiontree import SessionManager
from sessiontree.core.tree_entries import Digester, TreeEntry
from sessiontree.model.entries import Entry
from sessiontree.scope import Scope
from sessiontree.stores.files.store import FileStore
from sessiontree.tui.chat.session_reading import (
    Branches,
    read_before,
    read_branches,
    read_end,
    read_tree,
)
from sessiontree.tui.chat.shell import ShellRun
from sessiontree.tui.palette import DARK
from sessiontree.tui.pickers.session_actions import SessionShelf
from sessiontree.tui.pickers.session_preview import draw_preview, load_preview

from .support import Shop, assistant, call, result, user

PURE = (
    *("safe_text", "fuzzy", "palette"),
    *("chat.command_list", "chat.event_state", "chat.recall", "chat.session_reading"),
    *("chat.shell", "chat.todos"),
    *("pickers.session_actions", "pickers.session_preview", "pickers.session_rows"),
    *("pickers.tree_lines", "pickers.tree_rows"),
    *("transcript.block_lines", "transcript.blocks", "transcript.markdown"),
    "transcript.styled_text",
)


def test_logic_does_not_load_the_screen_library() -> None:
    names = ", ".join(f"sessiontree.tui.{module}" for module in PURE)
    code = f"import sys, {names}; assert 'textual' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_session_picker_loads_neither_what_opens_sessions_nor_what_draws_them() -> None:
    """It is there sooner: a session is opened after it was chosen, previews follow the rows."""
    names = "sessiontree.cli.start, sessiontree.tui.pickers.session_picker"
    slow = {"sessiontree.session.manager", "sessiontree.importers", "markdown_it", "pygments"}
    code = f"import sys, {names}; print(sorted({slow} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


# -- digests -------------------------------------------------------------------------------------


def digest(*messages: dict[str, Any], kind: str = "message") -> list[TreeEntry]:
    digester = Digester()
    entries = [
        Entry.from_wire(
            {"type": kind, "id": f"e{n}", "parentId": None, "timestamp": "t", "message": message}
            if kind == "message"
            else {"type": kind, "id": f"e{n}", "parentId": None, "timestamp": "t", **message}
        )
        for n, message in enumerate(messages)
    ]
    return list(digester.digest_all(entries))


def words(*messages: dict[str, Any], kind: str = "message") -> list[tuple[str, str, str]]:
    return [(one.kind, one.name, one.text) for one in digest(*messages, kind=kind)]


def test_messages_in_a_line_of_the_tree() -> None:
    assert words(
        user("ask"),
        assistant(content=[call("1", "read", path="a.py")]),
        result("1", "read", "text"),
        result("9", "grep", "found it"),
        assistant("answer"),
        assistant("half", stopReason="aborted"),
        assistant("", stopReason="error", errorMessage="no"),
        {"role": "bashExecution", "command": "ls", "exitCode": 1},
        {"role": "unheard-of", "content": "x"},
        {},
    ) == [
        ("user", "you", "ask"),
        ("calls", "assistant", "→ read"),
        ("tool", "read", "a.py"),
        ("tool", "grep", "found it"),
        ("assistant", "assistant", "answer"),
        ("assistant", "assistant", "half (stopped)"),
        ("assistant", "assistant", "(error: no)"),
        ("command", "command", "$ ls"),
        ("note", "unheard-of", "x"),
        ("note", "message", ""),
    ]


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("custom_message", {"customType": "hook", "content": "x"}, ("note", "hook", "x")),
        (
            "compaction",
            {"summary": "s", "shortSummary": "short"},
            ("compaction", "compacted", "short"),
        ),
        ("branch_summary", {"summary": "s"}, ("summary", "branch summary", "s")),
        ("model_change", {"model": "a/b"}, ("state", "model", "a/b")),
        ("model_change", {"provider": "a", "modelId": "b"}, ("state", "model", "a/b")),
        ("thinking_level_change", {"thinkingLevel": None}, ("state", "thinking", "off")),
        ("mode_change", {"mode": "plan"}, ("state", "mode", "plan")),
        ("label", {"targetId": "x"}, ("state", "label", "(cleared)")),
        ("session_info", {"name": "n"}, ("state", "name", "n")),
        ("something_new", {}, ("state", "something_new", "")),
    ],
)
def test_other_entries_in_a_line_of_the_tree(
    kind: str, data: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    assert words(data, kind=kind) == [expected]


def test_choosing_goes_back_before_user_and_custom_messages_only() -> None:
    assert [one.is_prompt for one in digest(user("x"), assistant("y"))] == [True, False]
    assert digest({"customType": "c", "content": "x"}, kind="custom_message")[0].is_prompt
    assert not digest({"role": "custom", "content": "x"})[0].is_prompt


# -- reading a live session ----------------------------------------------------------------------


def talk(manager: SessionManager, count: int) -> None:
    for number in range(count):
        manager.append_message(user(f"prompt {number}"))
        manager.append_message(assistant(f"answer {number}"))


def test_the_end_is_read_first_and_what_is_before_it_on_demand(shop: Shop) -> None:
    manager = shop.create()
    talk(manager, 100)
    end = read_end(manager, 20)
    assert (end.start, end.total) == (180, 200)
    assert [b.text for b in end.conversation.blocks][:2] == ["prompt 90", "answer 90"]
    before = read_before(manager, end.start, 20)
    assert before.conversation.blocks[-1].text == "answer 89"
    assert read_before(manager, 5, 20).start == 0


def test_a_part_begins_with_a_prompt_so_that_no_result_is_without_its_call(shop: Shop) -> None:
    manager = shop.create()
    talk(manager, 1)
    manager.append_message(user("go"))
    for number in range(10):
        manager.append_message(assistant(content=[call(f"c{number}", "ls", path=".")]))
        manager.append_message(result(f"c{number}", "ls", "x"))
    part = read_end(manager, 3)
    assert part.conversation.blocks[0].text == "go"
    assert all(block.status == "done" for block in part.conversation.blocks[1:])


def test_what_a_compaction_hides_is_before_the_end(shop: Shop) -> None:
    manager = shop.create()
    talk(manager, 5)
    kept = manager.get_entries()[6].id
    manager.append_compaction("sum", kept, 1_000)
    talk(manager, 1)
    part = read_end(manager)
    assert part.start == 6
    assert [block.kind for block in part.conversation.blocks][-3:] == [
        "compaction",
        "user",
        "answer",
    ]


def test_what_a_reset_hides_is_before_the_end_too(shop: Shop) -> None:
    manager = shop.create()
    talk(manager, 5)
    with open(str(manager.session_file), "a") as file:
        reset = {"type": "reset_boundary", "id": "r", "parentId": manager.leaf_id, "timestamp": ""}
        file.write(json.dumps(reset) + "\n")
    manager.refresh()
    manager.branch("r")
    talk(manager, 1)
    part = read_end(manager)
    assert part.start == 10
    assert [block.kind for block in part.conversation.blocks] == ["cleared", "user", "answer"]


def test_branches_are_counted_and_ours_is_told(shop: Shop) -> None:
    manager = shop.create()
    assert read_branches(manager) == Branches(0, 1, None, is_empty=True)
    talk(manager, 2)
    assert read_branches(manager) == Branches(1, 1)
    first = manager.get_entries()[1].id
    manager.branch(first)
    assert read_branches(manager) == Branches(0, 1)
    manager.append_thinking_level_change("high")
    assert read_branches(manager) == Branches(0, 1)
    talk(manager, 1)
    assert read_branches(manager) == Branches(2, 2)
    manager.append_label_change(first, "fork")
    assert read_branches(manager) == Branches(2, 2, "fork")


def test_a_branch_keeps_its_number_whoever_speaks_last() -> None:
    manager = SessionManager.in_memory()
    root = manager.append_message(user("one"))
    first = manager.append_message(assistant("first"))
    manager.branch(root)
    manager.append_message(assistant("second"))
    assert read_branches(manager) == Branches(2, 2)
    manager.branch(first)
    assert read_branches(manager) == Branches(1, 2)
    manager.append_message(user("go on"))
    assert read_branches(manager) == Branches(1, 2)


def test_the_tree_is_read_with_its_labels_and_its_leaf(shop: Shop) -> None:
    manager = shop.create()
    talk(manager, 1)
    target = manager.get_entries()[0].id
    manager.append_label_change(target, "start")
    tree = read_tree(manager)
    assert tree.labels[target].text == "start"
    assert tree.leaf_id == manager.leaf_id
    assert len(tree.entries) == 3


# -- previews and the shelf ----------------------------------------------------------------------


def test_a_preview_shows_the_last_messages_and_never_writes(shop: Shop) -> None:
    path = Path(shop.session("first", "second\x1b[2J", "third", "fourth"))
    before = path.read_bytes()
    preview = load_preview(str(path), FileStore(profile=shop.profile))
    lines = [line.plain for line in draw_preview(preview, DARK, 60, 3)]
    assert [line.split(None, 1)[1] for line in lines] == ["second\\x1b[2J", "third", "fourth"]
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"\x00" * 20, b"not json\n", None])
def test_a_preview_of_what_is_no_session_says_why(shop: Shop, content: bytes | None) -> None:
    path = shop.root / "x.jsonl"
    if content is not None:
        path.write_bytes(content)
    preview = load_preview(str(path), FileStore(profile=shop.profile))
    assert preview.problem
    assert len(draw_preview(preview, DARK, 30, 5)) == 1


def test_a_preview_fits_every_box(shop: Shop) -> None:
    preview = load_preview(shop.session("漢字 " * 50, "w" * 500), FileStore(profile=shop.profile))
    for width in (5, 12, 40):
        for height in (0, 1, 4):
            lines = draw_preview(preview, DARK, width, height)
            assert len(lines) <= height
            assert all(line.cell_len <= max(width, 11) for line in lines)


@pytest.mark.parametrize("height", [4, 12, 30])
def test_a_preview_shows_what_matches_however_small_it_is(shop: Shop, height: int) -> None:
    long = "\n\n".join([*(f"point {number}" for number in range(20)), "the needle", "the end"])
    for path in (shop.session("hello", long), shop.session("a needle", long, "more", "and more")):
        words = ("needle",)
        preview = load_preview(path, FileStore(profile=shop.profile), words=words)
        lines = draw_preview(preview, DARK, 60, height, words)
        assert any("needle" in line.plain for line in lines)
        assert len(lines) <= height


def test_a_glance_shows_the_newest_of_the_scope_without_reading_all(shop: Shop) -> None:
    shop.session("here", title="Here", age_s=5)
    shop.session("there", title="There", cwd=shop.other_project, age_s=1)
    shelf = SessionShelf(Scope(shop.project, shop.profile))
    assert [info.title for info in shelf.glance("project")] == ["Here"]
    assert [info.title for info in shelf.glance("all")] == ["There", "Here"]


def test_renaming_and_removing_leave_this_terminals_session_alone(shop: Shop) -> None:
    path = shop.session("a", title="A")
    crumbs = sorted(Path(shop.profile.agent_dir).glob("terminal-sessions/*"))
    before = [crumb.read_bytes() for crumb in crumbs]
    shelf = SessionShelf(Scope(shop.project, shop.profile))
    (info,) = shelf.load("project")
    undo = shelf.rename(info, "B")
    assert [one.title for one in shelf.load("project")] == ["B"]
    assert undo.run() == "The name is A again"
    undo = shelf.remove(info)
    assert not Path(path).exists()
    assert undo.run() == "Restored from the trash"
    assert [one.title for one in shelf.load("project")] == ["A"]
    assert [crumb.read_bytes() for crumb in crumbs] == before


# -- the user's own commands ---------------------------------------------------------------------


async def run(command: str, folder: str, artifacts: str | None = None) -> Any:
    return await ShellRun(command, folder, artifacts, lambda _: None).run()


async def test_a_command_gives_both_streams_and_its_code(shop: Shop) -> None:
    ended = await run("echo out; echo err >&2; exit 4", shop.project)
    assert (ended.output, ended.exit_code, ended.is_cancelled) == ("out\nerr", 4, False)


async def test_a_command_that_is_cancelled_keeps_what_it_printed(shop: Shop) -> None:
    seen = asyncio.Event()
    shell = ShellRun("echo begun; sleep 60", shop.project, None, lambda _: seen.set())
    task = asyncio.ensure_future(shell.run())
    await seen.wait()
    task.cancel()
    ended = await task
    assert (ended.output, ended.is_cancelled) == ("begun", True)


async def test_a_folder_that_is_gone_fails_the_command_only(shop: Shop) -> None:
    ended = await run("true", str(shop.root / "gone"))
    assert ended.exit_code == 127
    assert ended.output


async def test_long_output_is_whole_in_a_private_file(shop: Shop) -> None:
    folder = shop.root / "artifacts"
    ended = await run("seq 1 20000", shop.project, str(folder))
    assert ended.full_output_path is not None
    assert read(ended.full_output_path).splitlines()[-1] == "20000"
    assert mode(ended.full_output_path) == 0o600
    assert "characters left out" in ended.output


async def test_long_output_without_a_place_for_it_is_only_cut(shop: Shop) -> None:
    blocked = shop.root / "file"
    make_file(blocked)
    for place in (None, str(blocked)):
        ended = await run("seq 1 20000", shop.project, place)
        assert ended.full_output_path is None
        assert "characters left out" in ended.output


def read(path: str) -> str:
    return Path(path).read_text()


def mode(path: str) -> int:
    return Path(path).stat().st_mode & 0o777


def make_file(path: Path) -> None:
    path.write_text("")


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_the_preview_of_a_large_session_reads_its_end(
    home: Path, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    filler = "x" * 5_000
    if agent == "codex":
        said = [("user", f"one {n} {filler}") for n in range(450)]
        path = put_codex(home, "22222222-0000-4000-8000-000000000001", ("user", "kiwi"), *said)
    else:
        prompts = [claude_prompt(f"one {n} {filler}", n) for n in range(2, 452)]
        path = put_claude(home, "s", claude_prompt("kiwi", 1), *prompts)
    assert path.stat().st_size > 2_000_000
    store = FileStore()
    monkeypatch.setattr("sessiontree.tui.pickers.session_preview._END_BYTES", 1 << 40)
    whole = load_preview(str(path), store, agent=agent)
    early = load_preview(str(path), store, agent=agent, words=("kiwi",))
    monkeypatch.undo()
    assert load_preview(str(path), store, agent=agent).entries == whole.entries
    assert load_preview(str(path), store, agent=agent, words=("one 449",)).entries == whole.entries
    found = load_preview(str(path), store, agent=agent, words=("kiwi",))
    assert found == early, "what was said before is found, too"
    assert found.found is not None
    assert found.found.text == "kiwi"

    def refuse(*_: object) -> None:
        raise AssertionError("all of it was read")

    monkeypatch.setattr("sessiontree.tui.pickers.session_preview.read_foreign", refuse)
    assert load_preview(str(path), store, agent=agent).entries == whole.entries
