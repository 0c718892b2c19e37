"""Which sessions are related."""

from __future__ import annotations

from sessiontree.discovery.families import Families, Kin, id_of, kin_of_header


def related(*kin: Kin) -> list[list[str]]:
    return sorted([each.id for each in group] for group in Families(kin).groups(kin).values())


def test_parents_relate_however_long_the_line() -> None:
    line = [Kin("a"), Kin("b", ("a",)), Kin("c", ("b",)), Kin("d")]
    assert related(*line) == [["a", "b", "c"], ["d"]]
    assert [Families(line).is_alone(kin) for kin in line] == [False, False, False, True]


def test_a_parent_that_is_gone_relates_its_children() -> None:
    assert related(Kin("b", ("gone",)), Kin("c", ("gone",))) == [["b", "c"]]


def test_a_short_id_of_the_first_message_proves_nothing_by_itself() -> None:
    alike = "0000001 2026-01-01"
    assert related(Kin("a", first=alike), Kin("b", first=alike)) == [["a"], ["b"]]
    assert related(Kin("a", first=alike), Kin("b", ("gone",), alike)) == [["a", "b"]]
    unique = [Kin("a", first="u1", has_unique_first=True), Kin("b", (), "u1", True)]
    assert related(*unique) == [["a", "b"]]


def test_circles_end() -> None:
    assert related(Kin("a", ("b",)), Kin("b", ("a",)), Kin("c", ("c",))) == [["a", "b"], ["c"]]


def test_a_parent_is_named_by_id_or_by_file() -> None:
    assert id_of("0199a3f2c0de1234") == "0199a3f2c0de1234"
    file = "2026-02-16T10-20-30-000Z_0199a3f2c0de1234.jsonl"
    assert id_of(f"/x/{file}") == id_of(f"C:\\x\\{file}") == "0199a3f2c0de1234"


def test_a_hostile_header_has_no_relations() -> None:
    header = {"id": "a", "parentSession": [1], "importedFrom": {"sessionId": {}}}
    assert kin_of_header(header, None) == Kin("a")
    told = {"id": "a", "parentSession": "p", "convertedFrom": {"sessionId": "q"}}
    assert kin_of_header(told, "x") == Kin("a", ("p", "q"), "x")
