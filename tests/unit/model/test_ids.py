"""Ids and times, with time and randomness passed in."""

from __future__ import annotations

import re
import uuid

import pytest
from tests.samples import TIME, TIME_MS

from sessiontree.model.ids import (
    derived_entry_id,
    format_timestamp,
    new_entry_id,
    new_session_id,
    new_uuid7,
    parse_timestamp,
)


def test_an_entry_id_is_eight_hex_digits_that_nobody_has() -> None:
    numbers = iter([b"\x00\x00\x00\x01", b"\x00\x00\x00\x01", b"\xab\xcd\xef\x01"])
    assert new_entry_id({"00000001"}, lambda n: next(numbers)) == "abcdef01"


def test_a_derived_id_follows_from_its_parts_and_avoids_taken_ones() -> None:
    first = derived_entry_id(set(), "session", 1)
    assert re.fullmatch("[0-9a-f]{8}", first)
    assert derived_entry_id(set(), "session", 1) == first
    assert derived_entry_id(set(), "session", 2) != first
    assert derived_entry_id({first}, "session", 1) != first
    assert re.fullmatch("[0-9a-f]{8}", derived_entry_id(set(), "\ud800", None))


def test_a_session_id_is_sixteen_hex_digits_ordered_by_time() -> None:
    ids = [new_session_id(TIME_MS + step, lambda n: b"\xff" * n) for step in range(3)]
    assert all(re.fullmatch("[0-9a-f]{16}", made) for made in ids)
    assert ids == sorted(ids)
    assert len(set(ids)) == 3


def test_pi_ids_are_uuids_of_version_seven() -> None:
    made = uuid.UUID(new_uuid7(TIME_MS, lambda n: b"\xff" * n))
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == TIME_MS
    assert str(made) == new_uuid7(TIME_MS, lambda n: b"\xff" * n)


def test_times_are_written_as_javascript_writes_them() -> None:
    assert format_timestamp(TIME_MS) == TIME
    assert format_timestamp(TIME_MS + 7) == "2026-02-16T10:20:30.007Z"
    assert format_timestamp(0) == "1970-01-01T00:00:00.000Z"


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        (TIME, TIME_MS),
        ("2026-02-16T10:20:30Z", TIME_MS),
        ("2026-02-16T12:20:30.000+02:00", TIME_MS),
        ("2026-02-16T10:20:30.123Z", TIME_MS + 123),
        ("", None),
        ("yesterday", None),
        (TIME_MS, None),
        (None, None),
    ],
)
def test_times_are_read_or_are_none(text: object, time_ms: int | None) -> None:
    assert parse_timestamp(text) == time_ms
