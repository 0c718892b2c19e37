"""Pictures of the screens, compared with those that were looked at and found good.

After a wanted change run the tests with ``SESSIONTREE_UPDATE_SNAPSHOTS=1``, and look at the files
in ``snapshots/`` before they are committed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from textual.app import App

from sessiontree.agents.tools.base import Confirmation
from sessiontree.runtime.agent_base import ToolOutput
from sessiontree.scope import Scope
from sessiontree.testing.scripted_agent import Reply
from sessiontree.tui.chat.confirm import ToolDialog
from sessiontree.tui.palette import DARK, LIGHT, Palette
from sessiontree.tui.pickers.preview_pane import PreviewPane
from sessiontree.tui.pickers.session_actions import SessionShelf
from sessiontree.tui.pickers.session_picker import PickerApp, SessionPicker
from sessiontree.tui.pickers.tree_picker import TreePicker

from .support import (
    NOW,
    Shop,
    assistant,
    call,
    result,
    running_chat,
    screen_text,
    type_text,
    until,
    user,
)

FOLDER = Path(__file__).with_name("snapshots")


def check(app: App[Any], name: str, tmp_path: Path) -> None:
    """The screen looks as in the stored picture."""
    picture = app.export_screenshot(title="sessiontree", simplify=True)
    stored = FOLDER / f"{name}.svg"
    if os.environ.get("SESSIONTREE_UPDATE_SNAPSHOTS"):
        FOLDER.mkdir(exist_ok=True)
        stored.write_text(picture, encoding="utf-8")
        return
    if picture != stored.read_text(encoding="utf-8"):
        actual = tmp_path / f"{name}.svg"
        actual.write_text(picture, encoding="utf-8")
        pytest.fail(f"the screen looks different: compare {stored} with {actual}")


@pytest.fixture
def home_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop below home, so that no picture shows a path of this machine."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return Shop(tmp_path)


# -- session picker ------------------------------------------------------------------------------


def stock(shop: Shop) -> None:
    """Sessions whose ids, ages and texts are always the same."""
    talks = [
        ("Fix the login form", 30, "The form loses its values", "The handler resets them: fixed."),
        ("Add dark mode", 7_300, "Please add a dark mode", "Done, it follows the system."),
        ("", 90_000, "Why is the build so slow?", "The tokenizer is compiled twice."),
        ("日本語のテスト", 300_000, "テストを書いて", "書きました。"),
        ("Rename the billing module and all of its callers", 9e5, "Rename it", "Renamed."),
    ]
    folder = Path(shop.profile.sessions_dir) / "--project--"
    folder.mkdir(parents=True)
    for number, (title, age_s, prompt, answer) in enumerate(talks):
        header = {
            "type": "session",
            "version": 3,
            "id": f"01a1e39{number}aa7c",
            "timestamp": "2026-02-01T10:00:00.000Z",
            "cwd": shop.project if number % 2 == 0 else shop.other_project,
            "title": title,
        }
        path = folder / f"2026-02-01T10-00-0{number}-000Z_{header['id']}.jsonl"
        records: list[dict[str, Any]] = [header]
        moment = NOW.timestamp() - age_s
        for n, message in enumerate((user(prompt), assistant(answer))):
            message["timestamp"] = round(moment * 1000)
            base = {"type": "message", "id": f"e{n}", "parentId": f"e{n - 1}" if n else None}
            records.append({**base, "timestamp": header["timestamp"], "message": message})
        path.write_text("\n".join(map(json.dumps, records)) + "\n", encoding="utf-8")
        os.utime(path, (moment, moment))


async def picture_picker(
    shop: Shop, tmp_path: Path, name: str, size: tuple[int, int], palette: Palette, query: str
) -> None:
    stock(shop)
    shelf = SessionShelf(Scope(shop.project, shop.profile))
    app = PickerApp(lambda: SessionPicker(shelf, clock=lambda: NOW))
    app.theme = palette.name
    async with app.run_test(size=size) as pilot:
        await until(lambda: isinstance(app.screen, SessionPicker), pilot)
        picker = app.screen
        assert isinstance(picker, SessionPicker)
        # The files lie in a folder of no project, so the list of all projects opens by itself.
        await until(lambda: "all projects" in screen_text(app), pilot)
        await type_text(pilot, query)
        await until(lambda: not picker.is_busy, pilot)
        await until(lambda: picker.query_one(PreviewPane).is_ready, pilot)
        check(app, name, tmp_path)


async def test_the_session_picker_in_a_small_dark_terminal(home_shop: Shop, tmp_path: Path) -> None:
    await picture_picker(home_shop, tmp_path, "sessions-80x24-dark", (80, 24), DARK, "")


async def test_a_search_in_a_wide_light_terminal(home_shop: Shop, tmp_path: Path) -> None:
    await picture_picker(home_shop, tmp_path, "search-140x30-light", (140, 30), LIGHT, "tokenizer")


# -- tree picker ---------------------------------------------------------------------------------


def branched(shop: Shop) -> Any:
    manager = shop.create()
    manager.append_message(user("Why does the parser fail on empty input?"))
    manager.append_message(assistant(content=[call("1", "read", path="src/parser.py")]))
    manager.append_message(result("1", "read", "def parse(): ..."))
    fork = manager.append_message(assistant("It returns early. There are two ways to fix it."))
    manager.append_message(user("Try the first way"))
    manager.append_message(assistant("Two tests fail now."))
    manager.branch(fork)
    manager.append_message(user("Try the second way"))
    manager.append_message(assistant("Done in three lines; all tests pass."))
    manager.set_session_name("Parser")
    return manager


async def test_the_tree_in_a_small_dark_terminal(home_shop: Shop, tmp_path: Path) -> None:
    # Ages and entry ids differ from run to run; the pane that shows them is left out.
    async with running_chat(branched(home_shop), size=(80, 24)) as rig:
        await rig.send("/tree")
        await rig.until_screen(TreePicker)
        await rig.press("ctrl+t", "up", "up", "up")
        check(rig.app, "tree-80x24-dark", tmp_path)


# -- chat ----------------------------------------------------------------------------------------

ANSWER = """I looked at **two** files. The problem is in `tokenize()`:

```python
def tokenize(text: str) -> list[Token]:
    if not text:
        return []  # the end marker is missing
    return [*scan(text), END]
```

1. Emit the marker always
2. Add a test

| case | before | after |
|------|--------|-------|
| `""` | crash  | ok    |
"""


async def test_a_conversation_with_everything_in_it(home_shop: Shop, tmp_path: Path) -> None:
    async def read(arguments: Any, progress: Any) -> ToolOutput:
        return ToolOutput("one\ntwo\nthree")

    async def bash(arguments: Any, progress: Any) -> ToolOutput:
        return ToolOutput("1 failed in 0.1s", is_error=True, details={"exitCode": 1})

    manager = home_shop.create()
    manager.append_model_change("anthropic/claude-opus-5-5")
    manager.set_session_name("Parser")
    replies = (
        Reply(
            "Let me look.",
            thinking="The user wants the parser fixed.",
            tool_calls=[("read", {"path": "src/parser.py"}), ("bash", {"command": "pytest -q"})],
        ),
        ANSWER,
    )
    tools = {"read": read, "bash": bash}
    async with running_chat(manager, *replies, tools=tools, size=(100, 40)) as rig:
        await rig.send("Fix the parser: it fails on empty input")
        await rig.until(lambda: "marker always" in rig.text and rig.is_idle)
        rig.chat.editor.put("Now the docs\nand a changelog entry")
        await rig.pilot.pause()
        check(rig.app, "chat-100x40-dark", tmp_path)


async def test_commands_in_a_small_light_terminal(home_shop: Shop, tmp_path: Path) -> None:
    manager = branched(home_shop)
    manager.append_model_change("anthropic/claude-opus-5-5")
    async with running_chat(manager, size=(80, 24), palette=LIGHT) as rig:
        await rig.type("/re")
        check(rig.app, "commands-80x24-light", tmp_path)


async def test_the_question_before_a_tool_runs(home_shop: Shop, tmp_path: Path) -> None:
    manager = branched(home_shop)
    async with running_chat(manager, size=(80, 24)) as rig:
        diff = (
            "--- src/parser.py\n+++ src/parser.py\n@@ line 3 @@\n-    return []\n+    return [END]"
        )
        question = Confirmation("1", "edit", "write", "Edit src/parser.py", diff, "diff")
        rig.app.push_screen(ToolDialog(question))
        await rig.until_asked()
        check(rig.app, "question-80x24-dark", tmp_path)
