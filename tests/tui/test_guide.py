"""The guide to the program names every command, every key and every order there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree.tui.chat.command_list import COMMANDS, KEYS
from sessiontree.tui.pickers.session_picker import KEYS as PICKER_KEYS
from sessiontree.tui.pickers.session_rows import SORTS
from sessiontree.tui.pickers.tree_picker import _FILTER_WORDS
from sessiontree.tui.pickers.tree_picker import KEYS as TREE_KEYS

GUIDE = (Path(__file__).parents[2] / "docs" / "program.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_is_in_the_guide(command: object) -> None:
    name, argument = command.name, command.argument  # type: ignore[attr-defined]
    assert f"`/{name} {argument}`".replace(" `", "`") in GUIDE


@pytest.mark.parametrize("key", [key for key, _ in KEYS])
def test_every_key_is_in_the_guide(key: str) -> None:
    for one in key.split(", "):
        assert one in GUIDE


@pytest.mark.parametrize("key", [key for key, _ in (*PICKER_KEYS, *TREE_KEYS)])
def test_every_key_of_the_pickers_is_in_the_guide(key: str) -> None:
    for one in key.replace(": ", ":, ").split(", "):
        assert one in GUIDE


def test_every_order_and_filter_is_in_the_guide() -> None:
    for word in (*SORTS, *_FILTER_WORDS.values()):
        assert word in GUIDE
