"""Migrations v1 → v2 → v3 on plain values."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from tests.samples import TIME, assistant, header, message, user

from sessiontree import migrate_entries

Wire = dict[str, Any]


def old(content: Wire) -> Wire:
    return {"type": "message", "timestamp": TIME, "message": content}


def version_one() -> list[Wire]:
    return [
        header(version=None),
        old(user("one")),
        old(assistant("two")),
        {
            "type": "compaction",
            "timestamp": TIME,
            "summary": "S",
            "firstKeptEntryIndex": 2,
            "tokensBefore": 7,
        },
        old({"role": "hookMessage", "customType": "h", "content": "four", "display": True}),
    ]


def test_version_one_becomes_a_linear_chain() -> None:
    records = version_one()
    assert migrate_entries(records) is True
    entries = records[1:]
    ids = [record["id"] for record in entries]
    assert all(re.fullmatch("[0-9a-f]{8}", entry_id) for entry_id in ids)
    assert len(set(ids)) == 4
    assert [record["parentId"] for record in entries] == [None, *ids[:-1]]
    assert records[0]["version"] == 3


def test_a_null_parent_in_version_one_is_one_not_given() -> None:
    records = version_one()
    for number, record in enumerate(records[1:]):
        record |= {"id": f"a000000{number}", "parentId": None}
    migrate_entries(records)
    assert [record["parentId"] for record in records[1:]] == [
        None,
        "a0000000",
        "a0000001",
        "a0000002",
    ]


def test_the_index_of_a_compaction_counts_the_header() -> None:
    records = version_one()
    migrate_entries(records)
    compaction = records[3]
    assert compaction["firstKeptEntryId"] == records[2]["id"]
    assert "firstKeptEntryIndex" not in compaction


def test_the_index_of_a_compaction_may_be_spelled_as_any_number() -> None:
    records = version_one()
    records[3]["firstKeptEntryIndex"] = 2.0
    migrate_entries(records)
    assert records[3]["firstKeptEntryId"] == records[2]["id"]


@pytest.mark.parametrize("index", [0, -1, 99, "2", None, 2.5])
def test_an_index_that_names_no_entry_is_dropped(index: object) -> None:
    records = version_one()
    records[3]["firstKeptEntryIndex"] = index
    migrate_entries(records)
    assert "firstKeptEntryIndex" not in records[3]
    assert "firstKeptEntryId" not in records[3]


def test_hook_messages_become_custom_in_versions_one_and_two() -> None:
    for version in (None, 1, 2):
        records = [
            header(version=version),
            message("a", None, {"role": "hookMessage", "content": "x"}),
            message("b", "a", user("hookMessage")),
        ]
        assert migrate_entries(records) is True
        assert [record["message"]["role"] for record in records[1:]] == ["custom", "user"]
        assert records[0]["version"] == 3


def test_version_two_keeps_its_tree() -> None:
    records = [header(version=2), message("a", None), message("b", "a"), message("c", "a")]
    expected = copy.deepcopy(records)
    expected[0]["version"] = 3
    assert migrate_entries(records) is True
    assert records == expected


@pytest.mark.parametrize("version", [3, 4, 99])
def test_today_and_the_future_are_left_alone(version: int) -> None:
    records = [
        header(version=version),
        message("a", None, {"role": "hookMessage"}),
        {"type": "message"},
    ]
    expected = copy.deepcopy(records)
    assert migrate_entries(records) is False
    assert records == expected


def test_everything_else_in_an_old_entry_stays() -> None:
    records = [header(version=None), {"type": "odd", "timestamp": TIME, "x": [1, {"y": "z"}]}]
    migrate_entries(records)
    assert {key: records[1][key] for key in ("type", "timestamp", "x")} == {
        "type": "odd",
        "timestamp": TIME,
        "x": [1, {"y": "z"}],
    }


def test_two_readers_give_the_same_ids() -> None:
    one, two = version_one(), version_one()
    migrate_entries(one)
    migrate_entries(two)
    assert one == two


def test_no_entries_need_no_migration() -> None:
    assert migrate_entries([]) is False
    assert migrate_entries([header(version=None)]) is True


@pytest.mark.parametrize("broken", [None, 5, "x", [], {}])
def test_messages_that_are_none_do_not_stop_a_migration(broken: object) -> None:
    records = [header(version=None), {"type": "message", "message": broken}]
    assert migrate_entries(records) is True
    assert records[1]["message"] == broken
