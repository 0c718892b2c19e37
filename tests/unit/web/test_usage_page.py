"""The page of usage, on session files with known truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.samples import assistant, chain, header, user, write

from sessiontree.web.usage_page import spell_count, spell_money

from .asking import enter
from .test_app import session_file


def used(tokens: int, cost: float) -> dict[str, Any]:
    return {"input": tokens, "output": 10, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": cost}}


async def test_sums_by_model_project_and_agent(home: Path) -> None:
    write(session_file(home), header(), *chain(
        user("a"), assistant("b", usage=used(1_000, 1.5)),
        user("c"), assistant("d", usage=used(3_000, 2.25), model="other"),
    ))  # fmt: skip
    asker = await enter()
    page = (await asker.ask("/usage?days=")).text
    assert "<dd>$3.75</dd>" in page
    assert "<dd>4,000</dd>" in page  # tokens read
    for told in ("anthropic/other</a>", "$2.25", "$1.50", "/work/pi</a>", "sessiontree</a>"):
        assert told in page
    assert page.index("anthropic/other") < page.index("anthropic/claude-sonnet-4-5")
    assert "4,020 tokens" in (await asker.ask("/usage?days=&show=tokens")).text


async def test_without_usage_the_page_says_so(home: Path) -> None:
    assert "No usage was recorded" in (await (await enter()).ask("/usage")).text


async def test_odd_wishes_are_the_usual_one(home: Path) -> None:
    write(session_file(home), header(), *chain(user("a"), assistant("b", usage=used(1, 1.0))))
    asker = await enter()
    assert (await asker.ask("/usage?days=-5&show=nonsense")).status == 200
    assert (await asker.ask("/usage?days=99999999999")).status == 200


@pytest.mark.parametrize(
    ("value", "spelled"),
    [(0, "0"), (999, "999"), (9_999, "9,999"), (12_345, "12.3k"), (999_999, "1,000k"),
     (1_234_567, "1.2M"), (123_456_789, "123M"), (2.5e9, "2.5B")],
)  # fmt: skip
def test_large_numbers_are_short(value: float, spelled: str) -> None:
    assert spell_count(value) == spelled


def test_money() -> None:
    assert [spell_money(value) for value in (0, 0.005, 12.3, 12_345.6)] == [
        "$0.00", "$0.01", "$12.30", "$12,346",
    ]  # fmt: skip
