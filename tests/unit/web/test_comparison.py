"""Two branches side by side: which there are, and where they part."""

from __future__ import annotations

from typing import Any

from sessiontree.web.comparison import Branch, cut_into_turns, find_branches, split

from .test_picture import rows


def branched() -> list[list[Any]]:
    """0 and 1 are common; then 2, 3 and 4, 5, 6."""
    return rows((-1, "user"), (0, "assistant"), (1, "user"), (2, "assistant"), (1, "user"),
                (4, "assistant"), (5, "user"))  # fmt: skip


def test_the_active_branch_comes_first() -> None:
    assert [branch.end for branch in find_branches(branched(), 3)] == [3, 6]
    assert [branch.end for branch in find_branches(branched(), 6)] == [6, 3]


def test_a_beginning_is_no_branch_of_its_own() -> None:
    made = branched()
    made.append(["m-7", 1, 8, "label", "", 0, 0, "", 0])  # a setting without an article
    assert [branch.end for branch in find_branches(made, 6)] == [6, 3]
    assert [branch.end for branch in find_branches(made, 7)] == [1, 6, 3]  # one stands there now


def test_they_part_after_what_they_have_in_common() -> None:
    one, other = find_branches(branched(), 6)
    assert split(branched(), one, other) == ([0, 1], [4, 5, 6], [2, 3])
    alone = Branch(0, [0])
    assert split(branched(), alone, one) == ([0], [], [1, 4, 5, 6])


def test_turns_begin_with_prompts() -> None:
    assert cut_into_turns(branched(), [1, 4, 5, 6]) == [[1], [4, 5], [6]]
    assert cut_into_turns(branched(), []) == []


def test_a_summary_before_the_first_prompt_is_in_its_turn() -> None:
    """So first prompts stand side by side, although one branch begins with a summary."""
    made = rows((-1, "user"), (0, "summary"), (1, "user"), (2, "assistant"), (3, "user"))
    assert cut_into_turns(made, [1, 2, 3, 4]) == [[1, 2, 3], [4]]
    assert cut_into_turns(made, [2, 3, 4]) == [[2, 3], [4]]


def test_an_empty_session_has_no_branches() -> None:
    assert find_branches([], -1) == []
