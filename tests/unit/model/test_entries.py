"""Entries: four fields at once, the rest on demand, and their own bytes back."""

from __future__ import annotations

from typing import Any

import pytest
from tests.samples import TIME, dump, entry, message

from sessiontree import Entry


class CountingPayloads:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads = 0

    def read_line(self, offset: int, length: int) -> bytes:
        self.reads += 1
        return self.data[offset : offset + length]

    def restore(self, data: dict[str, Any], line: bytes) -> dict[str, Any]:
        return data

    def is_plain(self, block: bytes) -> bool:
        return True

    def fetch_blob(self, ref: str) -> bytes | None:
        return None


def read_entry(line: bytes) -> tuple[Entry, CountingPayloads]:
    payloads = CountingPayloads(b"##" + line)
    found = Entry("message", "a", None, TIME)
    found.attach(payloads, 2, len(line))
    return found, payloads


def test_an_entry_has_the_fields_of_its_wire_object() -> None:
    wire = message("a1b2c3d4", "00000000")
    made = Entry.from_wire(wire)
    assert (made.type, made.id, made.parent_id, made.timestamp) == (
        "message",
        "a1b2c3d4",
        "00000000",
        TIME,
    )
    assert made.data is wire


@pytest.mark.parametrize("field", ["type", "id", "parentId", "timestamp"])
@pytest.mark.parametrize("value", [None, 5, ["x"], {"x": 1}])
def test_fields_of_the_wrong_kind_do_no_harm(field: str, value: object) -> None:
    wire = {**message("a", "b"), field: value}
    made = Entry.from_wire(wire)
    assert all(isinstance(text, str) for text in (made.type, made.id, made.timestamp))
    assert made.parent_id is None or isinstance(made.parent_id, str)
    assert made.data == wire


def test_data_is_decoded_once_and_only_when_asked_for() -> None:
    found, payloads = read_entry(dump(message("a", None)))
    assert payloads.reads == 0
    assert found.data == message("a", None)
    assert found.data is found.data
    assert payloads.reads == 1


def test_decoding_afresh_keeps_nothing() -> None:
    found, _ = read_entry(dump(message("a", None)))
    found.decode()["message"] = "changed"
    assert found.data == message("a", None)


def test_released_data_is_read_again() -> None:
    found, payloads = read_entry(dump(message("a", None)))
    first = found.data
    found.release()
    assert found.data == first
    assert payloads.reads == 2


def test_what_was_made_in_memory_is_never_released() -> None:
    made = Entry.from_wire(message("a", None))
    made.release()
    assert made.data == message("a", None)


def test_an_untouched_entry_gives_its_own_bytes_back() -> None:
    line = b'{ "id":"a","n":1.0e2 ,"type":"message","parentId":null,"timestamp":"t", "n":"\\u00e9"}'
    found, _ = read_entry(line)
    assert found.line() == found.raw() == line
    assert found.data["n"] == "é"
    assert found.line() == line


def test_a_replaced_entry_is_spelled_with_its_new_place() -> None:
    found, _ = read_entry(dump(entry("custom", "a", None, customType="x", data={"n": 1})))
    found.place("b", "root")
    expected = entry("custom", "b", "root", customType="x", data={"n": 1})
    assert found.data == expected
    assert found.decode() == expected
    assert found.line() == dump(expected)
    assert found.raw() == dump(entry("custom", "a", None, customType="x", data={"n": 1}))


def test_a_place_changed_after_decoding_shows_in_the_data() -> None:
    found, _ = read_entry(dump(message("a", None)))
    assert found.data["id"] == "a"
    found.place("b", None)
    assert found.data["id"] == "b"
