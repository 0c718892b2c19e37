"""Modes are entered and left; a change that is refused is undone."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from sessiontree.runtime.modes import CurrentMode, Mode, ModeRegistry, ModeState


class Diary:
    """Modes that note when they begin and end."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def mode(self, name: str) -> Mode:
        async def enter(data: Any) -> None:
            self.lines.append(f"enter {name} {data}")

        return Mode(name, enter=enter, leave=lambda: self.lines.append(f"leave {name}"))


def test_a_program_knows_three_modes_from_the_start() -> None:
    assert ModeRegistry().names == ("none", "plan", "plan_paused")


async def test_the_old_mode_is_left_before_the_new_one_is_entered() -> None:
    diary = Diary()
    current = CurrentMode(ModeRegistry([diary.mode("plan"), diary.mode("review")]))
    await current.change("plan", {"file": "a"})
    await current.change("review")
    await current.change("none")
    assert diary.lines == [
        "enter plan {'file': 'a'}",
        "leave plan",
        "enter review None",
        "leave review",
    ]
    assert current.state == ModeState("none")


async def test_the_same_mode_is_entered_anew_only_with_other_data() -> None:
    diary = Diary()
    current = CurrentMode(ModeRegistry([diary.mode("plan")]))
    await current.change("plan", 1)
    await current.change("plan", 1)
    await current.change("plan", 2)
    assert diary.lines == ["enter plan 1", "leave plan", "enter plan 2"]


async def test_data_nested_deeper_than_python_compares_is_other_data() -> None:
    def deep() -> list[Any]:
        value: list[Any] = []
        for _ in range(1_000_000):
            value = [value]
        return value

    entered: list[Any] = []
    current = CurrentMode(ModeRegistry([Mode("plan", enter=entered.append)]))
    await current.change("plan", deep())
    await current.change("plan", deep())
    assert len(entered) == 2


async def test_a_mode_that_refuses_leaves_the_old_one_in_force() -> None:
    diary = Diary()

    def refuse(data: Any) -> None:
        raise RuntimeError("not today")

    current = CurrentMode(ModeRegistry([diary.mode("plan"), Mode("review", enter=refuse)]))
    await current.change("plan", 1)
    with pytest.raises(RuntimeError, match="not today"):
        await current.change("review")
    assert current.state == ModeState("plan", 1)
    assert diary.lines == ["enter plan 1", "leave plan", "enter plan 1"]


async def test_a_mode_can_not_refuse_to_be_left(caplog: pytest.LogCaptureFixture) -> None:
    def cling() -> None:
        raise RuntimeError("stay")

    current = CurrentMode(ModeRegistry([Mode("plan", leave=cling)]))
    await current.change("plan")
    with caplog.at_level(logging.ERROR):
        await current.change("none")
    assert current.state == ModeState("none")
    assert "cling" in caplog.text


async def test_an_unknown_mode_is_kept_and_shown_as_unavailable() -> None:
    current = CurrentMode(ModeRegistry())
    await current.change("hypnosis", {"depth": 3})
    assert current.state == ModeState("hypnosis", {"depth": 3}, available=False)
    await current.change("none")
    assert current.state.available


async def test_undoing_goes_back_only_if_something_changed() -> None:
    diary = Diary()
    current = CurrentMode(ModeRegistry([diary.mode("plan")]))
    await current.change("plan")
    before = current.state
    await current.undo(before)
    assert diary.lines == ["enter plan None"]
    await current.change("none")
    await current.undo(before)
    assert diary.lines == ["enter plan None", "leave plan", "enter plan None"]
    assert current.state == before
