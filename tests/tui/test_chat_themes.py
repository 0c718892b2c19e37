"""``/theme``: colours with a preview, kept in ``config.toml``."""

from __future__ import annotations

from typing import Any

import pytest
from rich.color import Color

from sessiontree.config import Config, load_config
from sessiontree.tui.pickers.dialogs import ChoiceDialog

from .support import Shop, running_chat


def grounds(rig: Any) -> set[str]:
    """The background colours that are on the screen."""
    strips = rig.app.screen._compositor.render_strips()
    found = (segment.style for strip in strips for segment in strip if segment.style)
    colours = {style.bgcolor for style in found if style.bgcolor is not None}
    return {colour.get_truecolor().hex for colour in colours if isinstance(colour, Color)}


async def test_a_theme_is_seen_at_once_and_kept(shop: Shop) -> None:
    config = load_config({})
    async with running_chat(shop.create(), "The **answer**.", config=config) as rig:
        await rig.ask("hello")
        assert "#2e3440" not in grounds(rig)
        await rig.send("/theme nord")
        await rig.until_said("Theme: nord")
        await rig.until(lambda: "#2e3440" in grounds(rig))
        assert not {"#16181d", "#1e2128"} & grounds(rig)
    assert load_config({}).text("theme") == "nord"


async def test_moving_in_the_list_previews_and_esc_takes_it_back(shop: Shop) -> None:
    config = load_config({})
    async with running_chat(shop.create(), config=config) as rig:
        await rig.send("/theme")
        await rig.until_screen(ChoiceDialog)
        await rig.press("ctrl+n", "ctrl+n")
        await rig.until(lambda: rig.app.palette.name == "sessiontree-light")
        await rig.press("ctrl+p", "ctrl+p")
        await rig.until(lambda: rig.app.palette.name == "sessiontree-dark")
        await rig.press("down", "down", "down", "down", "down")
        await rig.until(lambda: rig.app.palette.name == "nord")
        await rig.press("escape")
        await rig.until(lambda: rig.app.palette.name == "sessiontree-dark")
    assert load_config({}).text("theme") is None


async def test_an_unknown_theme_is_one_line(shop: Shop) -> None:
    async with running_chat(shop.create()) as rig:
        await rig.send("/theme puce")
        await rig.until_said("Unknown theme puce. Choose from: auto, dark, light, ")


async def test_at_the_start_an_unknown_theme_is_told(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONTREE_THEME", "puce")
    async with running_chat(shop.create()) as rig:
        await rig.until_said("Unknown theme puce: /theme lists them")


async def test_what_is_wrong_in_the_settings_is_in_the_conversation(shop: Shop) -> None:
    config = Config("", warnings=('config.toml: unknown setting "colour"',))
    async with running_chat(shop.create(), config=config) as rig:
        assert 'unknown setting "colour"' in rig.text
