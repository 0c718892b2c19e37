"""Whatever parents entries claim, the tree is sound."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import Entry
from sessiontree.core.tree import SessionTree, SessionTreeNode, plant

IDS = st.sampled_from(["", *"abcdefghij"])
CLAIMS = st.lists(
    st.tuples(IDS, st.none() | IDS | st.sampled_from(["x", "y"]), st.integers(0, 3)), max_size=25
)
GAPS = st.lists(st.integers(0, 25), max_size=3).map(sorted)


def grow(claims: list[tuple[str, str | None, int]], gaps: list[int]) -> SessionTree:
    entries = [
        Entry.from_wire(
            {
                "type": "custom",
                "id": entry_id,
                "parentId": parent,
                "timestamp": f"2026-01-01T00:00:0{second}.000Z",
            }
        )
        for entry_id, parent, second in claims
    ]
    tree, _ = plant(entries, [gap for gap in gaps if gap <= len(entries)])
    return tree


def flatten(nodes: list[SessionTreeNode]) -> list[str]:
    found, stack = [], list(nodes)
    while stack:
        node = stack.pop()
        found.append(node.entry.id)
        stack += node.children
    return found


@given(CLAIMS, GAPS)
@settings(max_examples=120, deadline=None)
def test_every_entry_stands_exactly_once_in_the_tree(
    claims: list[tuple[str, str | None, int]], gaps: list[int]
) -> None:
    tree = grow(claims, gaps)
    ids = [found.id for found in tree.entries]
    assert len(ids) == len(claims) == len(set(ids)) == len(tree.by_id)
    assert "" not in ids
    assert sorted(flatten(tree.nodes())) == sorted(ids)


@given(CLAIMS, GAPS)
@settings(max_examples=120, deadline=None)
def test_every_path_ends_at_its_entry_and_begins_at_a_root(
    claims: list[tuple[str, str | None, int]], gaps: list[int]
) -> None:
    tree = grow(claims, gaps)
    roots = {node.entry.id for node in tree.nodes()}
    assert roots == {found.id for found in tree.children(None)}
    for found in tree.entries:
        path = [step.id for step in tree.path(found.id)]
        assert path[-1] == found.id
        assert path[0] in roots
        assert len(path) == len(set(path))
        for parent, child in pairwise(path):
            assert child in {step.id for step in tree.children(parent)}


@given(CLAIMS, GAPS)
@settings(max_examples=100, deadline=None)
def test_nodes_and_children_agree_and_nodes_are_by_age(
    claims: list[tuple[str, str | None, int]], gaps: list[int]
) -> None:
    tree = grow(claims, gaps)
    stack = tree.nodes()
    assert [node.entry.id for node in stack] == [root.id for root in tree.children(None)]
    while stack:
        node = stack.pop()
        by_age = sorted(tree.children(node.entry.id), key=lambda found: found.timestamp)
        assert [child.entry.id for child in node.children] == [found.id for found in by_age]
        stack += node.children


@given(CLAIMS, GAPS)
@settings(max_examples=100, deadline=None)
def test_parents_that_were_sound_are_kept(
    claims: list[tuple[str, str | None, int]], gaps: list[int]
) -> None:
    tree = grow(claims, gaps)
    first_at: dict[str, int] = {}
    for at, (entry_id, _, _) in enumerate(claims):
        first_at.setdefault(entry_id, at)
    for at, (entry_id, parent, _) in enumerate(claims):
        found = tree.entries[at]
        if entry_id and first_at[entry_id] == at:
            assert found.id == entry_id
        if parent and first_at.get(parent, at) < at:
            assert found.parent_id == parent


@given(CLAIMS, GAPS)
@settings(max_examples=100, deadline=None)
def test_every_reader_grows_the_same_tree(
    claims: list[tuple[str, str | None, int]], gaps: list[int]
) -> None:
    one, two = grow(claims, gaps), grow(claims, gaps)
    assert [(found.id, found.parent_id) for found in one.entries] == [
        (found.id, found.parent_id) for found in two.entries
    ]
