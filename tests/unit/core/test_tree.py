"""The tree of a session: sound whatever the file held, linear at any shape."""

from __future__ import annotations

from typing import Any

import pytest
from tests.samples import entry, message

from sessiontree import Entry, EntryNotFoundError, SessionTreeNode
from sessiontree.core.tree import SessionTree, graft, plant
from sessiontree.model.lines import SessionWarning

MANY = 200_000
FEWER = 50_000


def grow(*wires: dict[str, Any], gaps: tuple[int, ...] = ()) -> SessionTree:
    tree, _ = plant([Entry.from_wire(wire) for wire in wires], gaps)
    return tree


def mend(
    *wires: dict[str, Any], gaps: tuple[int, ...] = ()
) -> tuple[SessionTree, list[SessionWarning]]:
    return plant([Entry.from_wire(wire) for wire in wires], gaps)


def bare(entry_id: object, parent_id: object) -> dict[str, Any]:
    """The least an entry is: many are made here."""
    parent = None if parent_id is None else str(parent_id)
    return {"type": "custom", "id": str(entry_id), "parentId": parent, "timestamp": "t"}


def ids(entries: list[Entry]) -> list[str]:
    return [found.id for found in entries]


def shape(nodes: list[SessionTreeNode]) -> list[Any]:
    return [(node.entry.id, shape(node.children)) for node in nodes]


def at(wire: dict[str, Any], timestamp: str) -> dict[str, Any]:
    return {**wire, "timestamp": timestamp}


# -- sound trees ------------------------------------------------------------------------------


def test_a_new_tree_stands_at_its_last_entry() -> None:
    tree = grow(message("a", None), message("b", "a"), message("c", "a"))
    assert tree.leaf_id == "c"
    assert ids(tree.entries) == ["a", "b", "c"]


def test_an_empty_tree_has_no_leaf() -> None:
    tree = grow()
    assert tree.leaf_id is None
    assert tree.nodes() == []
    assert tree.path(None) == []


def test_a_path_goes_from_the_root_to_its_entry() -> None:
    tree = grow(message("a", None), message("b", "a"), message("c", "b"), message("d", "a"))
    assert ids(tree.path("c")) == ["a", "b", "c"]
    assert ids(tree.path("d")) == ["a", "d"]
    with pytest.raises(EntryNotFoundError, match=r"^Entry nope not found$"):
        tree.path("nope")


def test_children_are_in_file_order_and_roots_are_the_children_of_none() -> None:
    tree = grow(message("a", None), message("b", "a"), message("r", None), message("c", "a"))
    assert ids(tree.children("a")) == ["b", "c"]
    assert ids(tree.children(None)) == ["a", "r"]
    assert tree.children("c") == tree.children("nope") == []


def test_children_follow_what_is_added() -> None:
    tree = grow(message("a", None))
    assert tree.children("a") == []
    tree.add(Entry.from_wire(message("b", "a")))
    assert ids(tree.children("a")) == ["b"]
    assert tree.leaf_id == "a"


def test_nodes_nest_with_the_oldest_child_first() -> None:
    tree = grow(
        message("a", None),
        at(message("late", "a"), "2026-02-16T10:00:09.000Z"),
        at(message("early", "a"), "2026-02-16T10:00:01.000Z"),
        at(message("same", "a"), "2026-02-16T10:00:01.000Z"),
        message("r", None),
    )
    assert shape(tree.nodes()) == [("a", [("early", []), ("same", []), ("late", [])]), ("r", [])]


def test_age_is_a_matter_of_time_not_of_spelling() -> None:
    tree = grow(
        message("a", None),
        at(message("4", "a"), "2026-02-16T10:00:00.500Z"),
        at(message("3", "a"), "2026-02-16T10:00:00Z"),
        at(message("2", "a"), "2026-02-16T11:59:59.000+02:00"),
        at(message("5", "a"), "2026-02-16T09:00:01.000-01:00"),
    )
    assert shape(tree.nodes()) == [("a", [("2", []), ("3", []), ("4", []), ("5", [])])]


def test_the_last_label_of_the_file_counts_and_an_empty_one_clears() -> None:
    def label(entry_id: str, target: str, **fields: Any) -> dict[str, Any]:
        return entry("label", entry_id, "a", targetId=target, **fields)

    tree = grow(
        message("a", None),
        message("b", "a"),
        label("l1", "a", label="first"),
        at(label("l2", "a", label="second"), "2026-02-16T10:00:07.000Z"),
        label("l3", "b", label="gone"),
        label("l4", "b"),
        label("l5", "nowhere", label="x"),
        label("l6", "a", label=None) | {"targetId": 5},
    )
    root = tree.nodes()[0]
    assert (root.label, root.label_timestamp) == ("second", "2026-02-16T10:00:07.000Z")
    assert [node.label for node in root.children] == [None] * 7
    tree.add(Entry.from_wire(label("l7", "a", label="")))
    assert tree.nodes()[0].label is None


# -- what files bring -------------------------------------------------------------------------


def test_the_later_of_two_entries_with_one_id_gets_a_fresh_one() -> None:
    twice = message("b", "a")
    tree, warnings = mend(message("a", None), twice, dict(twice), message("c", "b"))
    assert len(tree.entries) == len(tree.by_id) == 4
    fresh = tree.entries[2]
    assert fresh.id not in ("a", "b", "c")
    assert fresh.parent_id == "a"
    assert fresh.data["id"] == fresh.id
    assert [str(warning) for warning in warnings if "b" in str(warning)]
    assert ids(tree.path("c")) == ["a", "b", "c"]


def test_fresh_ids_are_the_same_for_every_reader() -> None:
    wires = [message("a", None), message("a", None), message("a", "a")]
    assert ids(grow(*wires).entries) == ids(grow(*wires).entries)


def test_an_entry_without_an_id_gets_one() -> None:
    tree, warnings = mend(message("a", None), message("", "a"), message("", "a"))
    assert len(tree.by_id) == 3
    assert "" not in tree.by_id
    assert len(warnings) == 2


def test_a_missing_parent_makes_a_root_and_is_told() -> None:
    tree, warnings = mend(message("a", None), message("b", "lost"), message("c", "b"))
    assert ids(tree.path("c")) == ["b", "c"]
    assert shape(tree.nodes()) == [("a", []), ("b", [("c", [])])]
    assert ids(tree.children(None)) == ["a", "b"]
    assert any("lost" in str(warning) for warning in warnings)


def test_a_parent_lost_in_skipped_text_is_bridged_and_told() -> None:
    wires = [message("a", None), message("b", "a"), message("d", "c"), message("e", "d")]
    tree, warnings = mend(*wires, gaps=(2,))
    assert ids(tree.path("e")) == ["a", "b", "d", "e"]
    assert any("c" in str(warning) and "d" in str(warning) for warning in warnings)


def test_the_nearest_gap_before_the_entry_is_the_bridge() -> None:
    wires = [message("a", None), message("b", "a"), message("d", "c"), message("f", "e")]
    tree = grow(*wires, gaps=(1, 3, 4))
    assert ids(tree.path("d")) == ["a", "d"]
    assert ids(tree.path("f")) == ["a", "d", "f"]


def test_a_gap_behind_the_entry_is_no_bridge() -> None:
    tree = grow(message("a", None), message("c", "b"), message("d", "a"), gaps=(2,))
    assert ids(tree.path("c")) == ["c"]


def test_a_gap_before_the_first_entry_makes_a_root() -> None:
    tree = grow(message("b", "a"), message("c", "b"), gaps=(0,))
    assert ids(tree.path("c")) == ["b", "c"]


def test_a_parent_may_stand_behind_its_child() -> None:
    tree, warnings = mend(message("b", "a"), message("a", None))
    assert ids(tree.path("b")) == ["a", "b"]
    assert warnings == []


def test_a_self_parent_is_cut_and_told() -> None:
    tree, warnings = mend(message("a", None), message("b", "b"), message("c", "b"))
    assert ids(tree.path("c")) == ["b", "c"]
    assert any("b" in str(warning) for warning in warnings)


@pytest.mark.parametrize("size", [2, 3, 10])
def test_a_cycle_is_cut_and_told_and_nothing_is_dropped(size: int) -> None:
    wires = [message("root", None)]
    wires += [message(f"c{at}", f"c{(at + 1) % size}") for at in range(size)]
    wires += [message("tail", "c0")]
    tree, warnings = mend(*wires)
    assert len(warnings) == 1
    assert "cycle" in str(warnings[0])
    path = ids(tree.path("tail"))
    assert path[-2:] == ["c0", "tail"]
    assert len(path) == len(set(path)) <= size + 1
    assert len(flat(tree.nodes())) == size + 2


def test_a_cycle_that_only_a_bridge_closes_is_cut_at_the_bridge() -> None:
    tree = grow(bare("b", "a"), bare("a", "lost"), gaps=(1,))
    assert [(each.id, each.parent_id) for each in tree.entries] == [("b", "a"), ("a", None)]


def test_an_orphan_hangs_on_its_parent_as_soon_as_that_comes() -> None:
    tree = grow(bare("a", None), bare("c", "b"))
    assert ids(tree.children(None)) == ["a", "c"]
    graft(tree, [Entry.from_wire(bare("b", "a"))], (), [])
    assert ids(tree.path("c")) == ["a", "b", "c"]
    assert ids(tree.children("b")) == ["c"]


def test_two_cycles_and_a_tail_into_each_are_cut() -> None:
    tree, warnings = mend(
        *[message("a", "b"), message("b", "a"), message("x", "y"), message("y", "x")],
        *[message("ta", "a"), message("tx", "x")],
    )
    assert len(flat(tree.nodes())) == 6
    assert len(warnings) == 2


def flat(nodes: list[SessionTreeNode]) -> list[str]:
    found, stack = [], list(nodes)
    while stack:
        node = stack.pop()
        found.append(node.entry.id)
        stack += node.children
    return found


def test_entries_that_come_later_are_mended_as_if_they_had_been_there() -> None:
    first = [message("a", None), message("b", "a")]
    more = [message("b", "a"), message("s", "s"), message("d", "b")]
    tree = grow(*first)
    graft(tree, [Entry.from_wire(wire) for wire in more], (), [])
    whole = grow(*first, *more)
    assert [(e.id, e.parent_id) for e in tree.entries] == [
        (e.id, e.parent_id) for e in whole.entries
    ]
    assert tree.leaf_id == "b"


# -- shapes -----------------------------------------------------------------------------------


def test_a_tree_of_200_000_levels() -> None:
    tree = grow(*(bare(at, at - 1 if at else None) for at in range(MANY)))
    assert len(tree.path(str(MANY - 1))) == MANY
    node = tree.nodes()[0]
    depth = 1
    while node.children:
        (node,) = node.children
        depth += 1
    assert depth == MANY


def test_a_tree_of_200_000_children() -> None:
    tree = grow(bare("root", None), *(bare(at, "root") for at in range(MANY)))
    assert len(tree.children("root")) == MANY
    (root,) = tree.nodes()
    assert len(root.children) == MANY
    assert ids(tree.path("7")) == ["root", "7"]


def test_a_cycle_of_very_many_entries() -> None:
    tree, warnings = mend(*(bare(at, (at + 1) % FEWER) for at in range(FEWER)))
    assert len(tree.path("1")) == FEWER
    assert len(warnings) == 1


def test_very_many_orphans_behind_one_gap() -> None:
    tree = grow(bare("a", None), *(bare(at, f"x{at}") for at in range(FEWER)), gaps=(1,))
    assert len(tree.children("a")) == FEWER


def test_very_many_entries_of_one_id() -> None:
    assert len(grow(*(bare("same", None) for _ in range(FEWER))).by_id) == FEWER
