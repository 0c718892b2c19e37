"""The picture of a tree: what is in it, and which lane each branch takes."""

from __future__ import annotations

import random
from typing import Any

from sessiontree.export.html.outline import HAS_ARTICLE, KINDS
from sessiontree.web import picture
from sessiontree.web.picture import lay_out


def rows(*entries: tuple[int, str]) -> list[list[Any]]:
    """Rows of an outline: each entry's parent and kind."""
    return [
        [f"m-{at}", parent, KINDS.index(kind), kind, f"text {at}", HAS_ARTICLE, 60, "", 0]
        for at, (parent, kind) in enumerate(entries)
    ]


def lanes(made: list[list[Any]], leaf: int) -> dict[int, int]:
    return {number: node.lane for number, node in lay_out(made, leaf).items()}


def test_the_active_branch_has_the_first_lane() -> None:
    made = rows((-1, "user"), (0, "assistant"), (1, "user"), (2, "assistant"), (1, "user"))
    assert lanes(made, 3) == {0: 0, 1: 0, 2: 0, 3: 0, 4: 1}
    assert lanes(made, 4) == {0: 0, 1: 0, 2: 1, 3: 1, 4: 0}


def test_a_lane_is_taken_again_once_its_branch_has_ended() -> None:
    made = rows((-1, "user"), (0, "assistant"), (0, "assistant"), (1, "user"), (3, "assistant"),
                (3, "assistant"))  # fmt: skip
    assert lanes(made, 4) == {0: 0, 1: 0, 3: 0, 4: 0, 2: 1, 5: 1}


def test_tool_calls_are_left_out_and_their_branches_stay_joined() -> None:
    made = rows((-1, "user"), (0, "calls"), (1, "tool"), (2, "assistant"), (2, "user"))
    nodes = lay_out(made, 3)
    assert {number: node.parent for number, node in nodes.items()} == {0: -1, 3: 0, 4: 0}


def test_of_a_very_long_session_prompts_forks_and_ends_are_left() -> None:
    entries: list[tuple[int, str]] = [(-1, "user")]
    entries += [(at, "assistant") for at in range(picture.MOST_NODES + 100)]
    entries.append((5, "assistant"))
    nodes = lay_out(rows(*entries), len(entries) - 2)
    assert set(nodes) == {0, 5, 6, len(entries) - 2, len(entries) - 1}


def test_any_tree_is_drawn_without_two_messages_in_one_place() -> None:
    chance = random.Random(7)
    for _ in range(200):
        size = chance.randint(1, 60)
        made = rows(
            *((chance.randint(-1, at - 1), chance.choice(("user", "assistant", "tool")))
              for at in range(size))
        )  # fmt: skip
        nodes = lay_out(made, chance.randrange(size))
        assert len({node.line for node in nodes.values()}) == len(nodes)
        for node in nodes.values():
            parent = nodes.get(node.parent)
            assert parent is None or parent.line < node.line
            runs = [other for other in nodes.values()
                    if other.lane == node.lane and other is not node]  # fmt: skip
            # Between a message and its child in the same lane stands no other one.
            if parent is not None and parent.lane == node.lane:
                assert not any(parent.line < other.line < node.line for other in runs)
        drawn = picture.draw_picture(made, 0, "/s/key", "x")
        assert drawn.count("<a ") == len(nodes)


def test_nothing_of_a_session_is_markup() -> None:
    made = rows((-1, "user"))
    made[0][3] = made[0][4] = made[0][7] = made[0][0] = '"><script>x</script>'
    drawn = picture.draw_picture(made, 0, "/s/key", '"><script>')
    assert "<script" not in drawn
    assert drawn.count("&lt;script&gt;") >= 4
