"""The tree as lines: what is shown, where it stands, what choosing it will do."""

from __future__ import annotations

import time
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiontree.core.tree_entries import Kind, TreeEntry
from sessiontree.tui.fuzzy import Query
from sessiontree.tui.pickers.tree_rows import FILTERS, Filter, Label, TreeModel, plan_choice


def entry(entry_id: str, parent: str | None, kind: Kind = "assistant", text: str = "") -> TreeEntry:
    return TreeEntry(entry_id, parent, "", kind, kind, text or entry_id, is_prompt=kind == "user")


def tree(*entries: TreeEntry, leaf: str | None = None, **labels: str) -> TreeModel:
    marks = {key: Label(text, "") for key, text in labels.items()}
    return TreeModel(entries, leaf, marks)


def lines(
    model: TreeModel, shown: Filter = "all", query: str = "", folded: object = ()
) -> list[str]:
    rows = model.rows(shown, Query(query), set(folded))  # type: ignore[call-overload]
    return [row.guides + row.entry.id for row in rows]


BRANCHED = tree(
    entry("a", None, "user"),
    entry("b", "a"),
    entry("c", "b", "user"),
    entry("d", "c"),
    entry("e", "b", "user"),
    entry("f", "e"),
    entry("g", "f", "user"),
    entry("h", "f", "user"),
    leaf="h",
)


def test_lines_move_to_the_right_only_where_branches_part() -> None:
    assert lines(BRANCHED) == [
        "a",
        "b",
        "├─ c",
        "│  d",
        "└─ e",
        "   f",
        "   ├─ g",
        "   └─ h",
    ]


def test_a_conversation_that_never_parts_stays_at_the_left_edge() -> None:
    chain = [entry(f"e{n}", f"e{n - 1}" if n else None) for n in range(1_000)]
    assert {row.guides for row in tree(*chain).rows("all")} == {""}


def test_the_path_to_where_we_are_is_marked_and_its_end_says_so() -> None:
    rows = BRANCHED.rows("all")
    assert [row.entry.id for row in rows if row.is_active] == ["a", "b", "e", "f", "h"]
    assert [row.entry.id for row in rows if row.is_here] == ["h"]


def test_where_we_are_is_the_last_message_with_settings_behind_it() -> None:
    model = tree(entry("a", None, "user"), entry("b", "a"), entry("m", "b", "state"), leaf="m")
    assert marks(model) == [("b", "here")]
    assert marks(model, "all") == [("m", "here")]


def marks(
    model: TreeModel, shown: Filter = "default", query: str = "", folded: Collection[str] = ()
) -> list[tuple[str, str]]:
    """The rows that say where we are, and whether they are it or above it."""
    rows = model.rows(shown, Query(query), folded)
    assert not any(row.is_here and row.is_above_here for row in rows)
    here = [(row.entry.id, "here") for row in rows if row.is_here]
    return here + [(row.entry.id, "above") for row in rows if row.is_above_here]


def test_an_ancestor_of_where_we_are_is_marked_as_above_it() -> None:
    model = tree(
        entry("a", None, "user", "find it"),
        entry("b", "a"),
        entry("c", "b", "user"),
        entry("d", "c"),
        leaf="d",
        b="good",
    )
    assert marks(model, "user-only") == [("c", "above")]
    assert marks(model, "labeled-only") == [("b", "above")]
    assert marks(model, query="find") == [("a", "above")]
    assert marks(model, folded={"b"}) == [("b", "above")]
    assert marks(model) == [("d", "here")]
    asked = tree(*model.entries[:3], leaf="c")
    assert marks(asked, "user-only") == [("c", "here")]


def test_an_answer_that_only_calls_tools_is_a_place_below_its_prompt() -> None:
    model = tree(entry("a", None, "user"), entry("b", "a", "calls"), leaf="b")
    assert marks(model) == [("a", "above")]
    assert marks(model, "all") == [("b", "here")]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("default", ["u", "a", "t", "c", "n", "k", "s", "x"]),
        ("no-tools", ["u", "a", "c", "n", "k", "s", "x"]),
        ("user-only", ["u"]),
        ("labeled-only", ["x"]),
        ("all", ["m", "u", "a", "w", "t", "c", "n", "k", "s", "x"]),
    ],
)
def test_what_each_filter_shows(shown: Filter, expected: list[str]) -> None:
    kinds: list[tuple[str, Kind]] = [
        ("m", "state"),
        ("u", "user"),
        ("a", "assistant"),
        ("w", "calls"),
        ("t", "tool"),
        ("c", "command"),
        ("n", "note"),
        ("k", "compaction"),
        ("s", "summary"),
        ("x", "state"),
    ]
    ids = [None, *(one for one, _ in kinds)]
    entries = [entry(one, ids[n], kind) for n, (one, kind) in enumerate(kinds)]
    model = tree(*entries, leaf="x", x="kept")
    assert [row.entry.id for row in model.rows(shown)] == expected


def test_what_is_between_shown_entries_is_passed_over_and_the_branches_stay() -> None:
    assert lines(BRANCHED, "user-only") == ["a", "├─ c", "└─ e", "   ├─ g", "   └─ h"]


def test_a_search_shows_what_matches_by_text_label_or_id() -> None:
    model = tree(
        entry("a", None, text="the parser"),
        entry("b", "a", text="nothing"),
        entry("c", "b", text="more"),
        leaf="c",
        c="parser works",
    )
    assert lines(model, query="parser") == ["a", "c"]
    assert lines(model, query="b") == ["b"]


def test_folding_hides_all_below_and_says_how_many() -> None:
    rows = BRANCHED.rows("all", None, {"e"})
    assert [row.guides + row.entry.id for row in rows] == ["a", "b", "├─ c", "│  d", "└─ e"]
    assert rows[-1].folded == 3


def test_folding_the_end_of_a_branch_does_nothing() -> None:
    rows = BRANCHED.rows("all", None, {"h"})
    assert rows[-1].folded == 0
    assert len(rows) == 8


def test_labels_come_with_their_entries() -> None:
    assert tree(entry("a", None), leaf="a", a="good").rows("all")[0].label == Label("good", "")


def test_deep_trees_are_laid_out_in_time_and_keep_only_the_nearest_guides() -> None:
    entries = [entry("e0", None)]
    for n in range(1, 30_000):
        entries += [entry(f"e{n}", f"e{n - 1}"), entry(f"s{n}", f"e{n - 1}")]
    started = time.process_time()
    rows = tree(*entries, leaf="e29999").rows("all")
    assert time.process_time() - started < 20
    assert len(rows) == 59_999
    assert max(row.depth for row in rows) == 29_999
    assert max(len(row.guides) for row in rows) <= 36


@pytest.mark.parametrize("patience", [0, 1, 5, 9, 10])
def test_told_to_stop_it_goes_no_further_and_gives_no_half_answer(patience: int) -> None:
    model = tree(*(entry(f"e{n}", f"e{n - 1}" if n else None) for n in range(1_000)))
    answers = iter([False] * patience + [True])
    assert model.rows("all", Query("e"), should_stop=answers.__next__) == []
    assert list(answers) == []


@given(st.lists(st.integers(-1, 30), max_size=30), st.sampled_from(FILTERS))
def test_every_shown_entry_of_any_tree_has_one_line_after_its_parents(
    parents: list[int], shown: Filter
) -> None:
    kinds: list[Kind] = ["user", "assistant", "tool", "state", "calls"]
    entries = [
        entry(f"e{n}", f"e{parent}" if 0 <= parent < n else None, kinds[n % 5])
        for n, parent in enumerate(parents)
    ]
    model = tree(*entries, leaf=entries[-1].id if entries else None, e0="mark")
    ids = [row.entry.id for row in model.rows(shown)]
    assert len(ids) == len(set(ids))
    place = {one: n for n, one in enumerate(ids)}
    for one in entries:
        if one.id in place and one.parent_id in place:
            assert place[one.parent_id] < place[one.id]
    if shown == "all":
        assert set(ids) == {one.id for one in entries}


def test_a_parent_that_is_not_there_and_a_cycle_end_the_walk() -> None:
    model = tree(entry("a", "missing"), entry("b", "b"), leaf="b")
    assert "a" in lines(model)
    assert model.path == ["b"]


# -- what a choice does --------------------------------------------------------------------------


def test_choosing_a_prompt_goes_back_to_before_it_with_its_text() -> None:
    choice = plan_choice(BRANCHED, "c")
    assert choice.leaf_id == "b"
    assert choice.leaves == 3
    assert choice.sentence == ("Edit and resend this prompt · 3 messages stay on the old branch")


def test_a_narrow_screen_says_less_of_a_choice_rather_than_cutting_it() -> None:
    choice = plan_choice(BRANCHED, "c")
    assert choice.sentence_for(100) == choice.sentence
    assert choice.sentence_for(55) == "Edit and resend this prompt · 3 messages stay behind"
    assert choice.sentence_for(45) == "Edit and resend · 3 messages stay behind"


def test_choosing_the_first_prompt_goes_back_to_the_start() -> None:
    choice = plan_choice(BRANCHED, "a")
    assert choice.leaf_id is None
    assert choice.sentence.startswith("Edit and resend this prompt")


def test_choosing_an_answer_goes_on_from_it() -> None:
    choice = plan_choice(BRANCHED, "d")
    assert (choice.leaf_id, choice.leaves) == ("d", 3)
    assert choice.sentence == "Continue from here · 3 messages stay on the old branch"


def test_choosing_where_we_are_changes_nothing_even_with_settings_behind_it() -> None:
    model = tree(entry("a", None, "user"), entry("b", "a"), entry("m", "b", "state"), leaf="m")
    choice = plan_choice(model, "b")
    assert not choice.is_move
    assert choice.sentence == "You are already here"


def test_going_deeper_leaves_nothing_behind() -> None:
    model = tree(entry("a", None, "user"), entry("b", "a"), entry("c", "b"), leaf="b")
    choice = plan_choice(model, "c")
    assert (choice.is_move, choice.leaves) == (True, 0)
    assert choice.sentence == "Continue from here"


def test_one_message_left_behind_is_counted_as_one() -> None:
    model = tree(entry("a", None, "user"), entry("b", "a"), leaf="b")
    model = tree(*model.entries, entry("c", "b", "user"), leaf="c")
    assert "1 message stays" in plan_choice(model, "c").sentence
