"""Headers and omp's title slot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.samples import TIME, header, slot

from sessiontree.model.header import (
    TitleSlot,
    find_header,
    get_version,
    is_header,
    make_header,
    read_title_slot,
)
from sessiontree.model.lines import Record


def test_a_new_header_is_version_three() -> None:
    assert make_header("id", TIME, "/work") == {
        "type": "session",
        "version": 3,
        "id": "id",
        "timestamp": TIME,
        "cwd": "/work",
    }


def test_a_parent_is_named_only_if_there_is_one() -> None:
    assert "parentSession" not in make_header("id", TIME, "/work")
    assert make_header("id", TIME, "/w", parent_session="p").get("parentSession") == "p"


@pytest.mark.parametrize(
    ("record", "valid"),
    [
        (header(), True),
        ({"type": "session", "id": "x"}, True),
        ({"type": "session", "id": ""}, True),
        ({"type": "session"}, False),
        ({"type": "session", "id": 5}, False),
        ({"type": "message", "id": "x"}, False),
        ({"id": "x"}, False),
        (None, False),
        ([], False),
        ("session", False),
    ],
)
def test_a_header_is_a_session_record_with_a_string_id(record: object, valid: bool) -> None:
    assert is_header(record) is valid


@pytest.mark.parametrize(
    ("fields", "version"),
    [({"version": None}, 1), ({}, 3), ({"version": 2}, 2), ({"version": 9}, 9)],
)
def test_no_version_means_one(fields: dict[str, object], version: int) -> None:
    assert get_version(header(**fields)) == version  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spelled", "version"), [(3.0, 3), (2.0, 2), (4.0, 4), (float("inf"), 1), (True, 1), ("3", 1)]
)
def test_a_version_may_be_spelled_as_any_number(spelled: object, version: int) -> None:
    assert get_version(header(version=spelled)) == version  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "title", ["", "x", "Refactor auth", "é" * 30, '"\\' * 20, "\U0001f600" * 20]
)
def test_a_slot_is_256_bytes_and_says_what_it_was_told(title: str) -> None:
    line = TitleSlot(title, "user", TIME).encode()
    assert len(line) == 256
    assert line.endswith(b"\n")
    record = json.loads(line)
    assert list(record) == ["type", "v", "title", "source", "updatedAt", "pad"]
    assert (record["type"], record["v"], record["title"]) == ("title", 1, title)
    assert record["pad"].strip(" ") == ""


@pytest.mark.parametrize("title", ["x" * 1_000, "\U0001f600" * 500, '"' * 500, "é" * 300])
def test_a_title_too_long_for_its_slot_is_cut_between_characters(title: str) -> None:
    line = TitleSlot(title, None, TIME).encode()
    kept = json.loads(line)["title"]
    assert len(line) == 256
    assert title.startswith(kept)
    assert len(kept) > 20
    assert "source" not in json.loads(line)


def test_a_slot_is_read_as_omp_writes_it() -> None:
    line = slot("Fix the build", "user")
    found = read_title_slot(json.loads(line), line)
    assert found is not None
    assert (found.title, found.source, found.updated_at) == ("Fix the build", "user", TIME)
    assert found.is_in_place
    assert found.encode() == line


@pytest.mark.parametrize(
    "record", [header(), {"type": "title"}, {"type": "title", "title": 5}, None]
)
def test_nothing_else_is_a_slot(record: object) -> None:
    assert read_title_slot(record) is None


def test_what_else_a_slot_says_stays_as_long_as_there_is_room() -> None:
    record = {**json.loads(slot("Old")), "future": "kept"}
    found = read_title_slot(record)
    assert found is not None
    line = msgspec.structs.replace(found, title="x" * 300).encode()
    assert len(line) == 256
    assert json.loads(line)["future"] == "kept"
    crowded = read_title_slot({**record, "future": "y" * 300})
    assert crowded is not None
    assert json.loads(crowded.encode())["title"] == "Old"
    assert len(crowded.encode()) == 256


# -- finding the header --------------------------------------------------------------------------


def _records(*values: dict[str, Any]) -> Iterator[Record]:
    return (Record(value, 10 * at, 9, at + 1) for at, value in enumerate(values))


SESSION = {"type": "session", "id": "0b3a"}
SLOT = {"type": "title", "title": "Login", "updatedAt": ""}
ENTRY = {"type": "message", "id": "1a2b3c4d"}


def test_the_header_is_the_first_record_and_the_rest_is_left_to_the_caller() -> None:
    records = _records(SESSION, ENTRY)
    found = find_header(records)
    assert found.header == SESSION
    assert found.slot is None
    assert [record.value for record in records] == [ENTRY]


def test_the_header_may_follow_one_title_slot() -> None:
    found = find_header(_records(SLOT, SESSION))
    assert found.slot is not None
    assert found.slot.title == "Login"
    assert found.header == SESSION
    assert found.first is not None
    assert found.first.offset == 10


@pytest.mark.parametrize("values", [(ENTRY, SESSION), (SLOT, SLOT, SESSION)])
def test_another_first_record_means_no_header(values: tuple[dict[str, Any], ...]) -> None:
    found = find_header(_records(*values))
    assert found.first is not None
    assert found.header is None


def test_a_beginning_without_records_tells_nothing_yet() -> None:
    found = find_header(_records(SLOT))
    assert found.first is None
    assert found.header is None
