"""The sample with branches: one question, two ways to answer it, and a summary of the one left."""

from __future__ import annotations

from sessiontree.samples.speaking import SampleSession, answer, ask, result

_FAILURE = """\
    def test_total_of_an_empty_basket():
>       assert total([]) == 0
E       TypeError: reduce() of empty iterable with no initial value

test_basket.py:4: TypeError
1 failed, 7 passed in 0.03s"""


def tell(manager: SampleSession) -> None:
    """Fill the session."""
    ask(manager, "One test of the basket fails. Why?")
    answer(
        manager,
        "I run the tests to see.",
        thinking="The name says basket; probably test_basket.py. Run it before guessing.",
        call=("call_1", "bash", {"command": "pytest -q test_basket.py"}),
    )
    result(manager, "call_1", "bash", _FAILURE, failed=True)
    found = answer(
        manager,
        "`total` adds with `functools.reduce` and has no start value, so an **empty basket** "
        "raises instead of costing nothing.\n\nWe can give `reduce` a start value, or use `sum`.",
    )
    manager.append_label_change(found, "cause found")

    ask(manager, "Give reduce a start value.")
    left = answer(
        manager,
        "```python\nreturn reduce(add, prices, 0)\n```\n\nIt works, but the next reader has to "
        "know `reduce`.",
    )
    manager.append_label_change(left, "works, not pretty")

    manager.branch_with_summary(
        found,
        "Tried `reduce(add, prices, 0)`: the test passes. Left, because `sum` says the same in "
        "one word.",
    )
    ask(manager, "Then do it with sum.")
    answer(
        manager,
        "I change one line.",
        call=(
            "call_2",
            "edit",
            {
                "path": "basket.py",
                "oldText": "return reduce(add, prices)",
                "newText": "return sum(prices)",
            },
        ),
    )
    result(manager, "call_2", "edit", "basket.py: 1 replacement")
    answer(
        manager,
        "All 8 tests pass with `sum(prices)`.\n\nThis session has two branches: "
        "`sessiontree tree` shows both, and in the program Esc Esc goes to the other one.",
    )
