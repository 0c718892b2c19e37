"""Choose the colours in the chat, with a preview, and keep the choice in ``config.toml``."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from sessiontree.config import save_setting
from sessiontree.tui.pickers.dialogs import ChoiceDialog, Option
from sessiontree.tui.pickers.session_rows import short_path
from sessiontree.tui.theme import ThemedApp, find_palette, theme_names

if TYPE_CHECKING:
    from sessiontree.tui.chat.screen import ChatScreen

_HINTS = {"auto": "dark or light, as the terminal says", "dark": "ours", "light": "ours"}


async def choose(chat: ChatScreen, wanted: str) -> None:
    """Use the theme of this name, or one that the user picks, from now on."""
    name = wanted.casefold() or await _pick(chat)
    if name is None:
        return
    if not _use(chat, name):
        raise ValueError(f"Unknown theme {wanted}. Choose from: {', '.join(theme_names())}")
    path = chat.setup.config.path
    if path:
        await asyncio.to_thread(save_setting, path, "theme", name)
    if isinstance(chat.app, ThemedApp):
        chat.app.theme_wish = name
    kept = f" · saved in {short_path(path)}" if path else ""
    if "SESSIONTREE_THEME" in chat.setup.config.environ:
        kept += ", but SESSIONTREE_THEME is set and wins at the next start"
    chat.say(f"Theme: {name}{kept}")


async def _pick(chat: ChatScreen) -> str | None:
    current = chat.app.theme_wish if isinstance(chat.app, ThemedApp) else None
    options = [Option(name, name, _HINTS.get(name, "")) for name in theme_names()]
    dialog = ChoiceDialog("Which colours?", options, current, preview=lambda name: _use(chat, name))
    chosen = await chat.app.push_screen_wait(dialog)
    if chosen is None and current is not None:
        _use(chat, current)
    return chosen


def _use(chat: ChatScreen, name: str) -> bool:
    """Draw in the colours of this theme; False if there is none of that name."""
    palette = find_palette(name, os.environ)
    if palette is None or not isinstance(chat.app, ThemedApp):
        return False
    chat.app.use_palette(palette)
    return True
