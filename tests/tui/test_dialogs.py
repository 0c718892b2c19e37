"""What dialogs show can be longer than they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.screen import ModalScreen

from sessiontree.agents.tools.base import Confirmation
from sessiontree.tui.chat.confirm import ToolDialog
from sessiontree.tui.pickers.dialogs import ConfirmDialog, ReadingPane

from .support import Shop, running_chat

LINES = "\n".join(f"line {number}" for number in range(100))
DIALOGS: dict[str, Callable[[], ModalScreen[Any]]] = {
    "facts": lambda: ReadingPane("Facts", [(f"name {n}", f"line {n}") for n in range(100)]),
    "question": lambda: ConfirmDialog("Sure?", LINES),
    "tool": lambda: ToolDialog(
        Confirmation("call-1", "bash", effect="run", title="Run?", preview=LINES)
    ),
}


@pytest.mark.parametrize("kind", DIALOGS)
async def test_keys_that_come_faster_than_the_screen_is_drawn_add_up(shop: Shop, kind: str) -> None:
    async with running_chat(shop.create(), size=(80, 24)) as rig:
        dialog = DIALOGS[kind]()
        rig.app.push_screen(dialog)
        await rig.until_screen(type(dialog))
        await rig.until(lambda: "line 3" in rig.text)
        for _ in range(3):
            await dialog.run_action("scroll(8)")  # as the keys do, with no drawing in between
        await rig.until(lambda: "line 25" in rig.text)
        assert dialog.query_one(".dialog-body").scroll_offset.y == 24
        if isinstance(dialog, ToolDialog):
            await rig.until_asked()
        await rig.press("escape")
        await rig.until(lambda: rig.app.screen is rig.chat)
