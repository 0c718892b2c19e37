"""Near misses: how many slips are between two words."""

from __future__ import annotations

import pytest

from sessiontree.discovery.search.near_misses import count_slips


@pytest.mark.parametrize(
    ("one", "other", "slips"),
    [
        ("token", "token", 0),
        ("tokne", "token", 1),
        ("tken", "token", 1),
        ("tokken", "token", 1),
        ("taken", "token", 1),
        ("refersh", "refresh", 1),
        ("conection", "connections", 2),
        ("kettle", "battle", 2),
    ],
)
def test_slips_are_counted(one: str, other: str, slips: int) -> None:
    assert count_slips(one, other, 2) == slips
    assert count_slips(other, one, 2) == slips
    assert count_slips(one, other, 1) == (slips if slips <= 1 else None)


def test_words_far_apart() -> None:
    assert count_slips("login", "parser", 2) is None
    assert count_slips("a", "abcd", 2) is None
