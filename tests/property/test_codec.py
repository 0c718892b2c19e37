"""Any JSON value goes out and comes back; any bytes at all are read or refused."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import parse_jsonl_lenient
from sessiontree.model import codec

# Hypothesis leaves surrogates out of text unless it is told otherwise.
TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES = st.recursive(
    SCALARS, lambda inside: st.lists(inside, max_size=4) | st.dictionaries(TEXT, inside, max_size=4)
)
SMALL = st.dictionaries(TEXT, SCALARS | st.lists(SCALARS, max_size=3), max_size=3)


def is_joinable(value: Any) -> bool:
    """Whether two halves of a surrogate pair stand side by side: JSON can not keep them apart."""
    text = json.dumps(value)
    return bool(json.loads(text) != value)


@given(VALUES)
@settings(max_examples=150, deadline=None)
def test_any_value_comes_back(value: Any) -> None:
    line = codec.encode(value)
    assert b"\n" not in line
    assert b"\r" not in line
    if not is_joinable(value):
        assert codec.decode(line) == value
    assert codec.encode(codec.decode(line)) == line


@given(VALUES)
@settings(max_examples=80, deadline=None)
def test_what_is_written_every_parser_reads(value: Any) -> None:
    if not is_joinable(value):
        assert json.loads(codec.encode(value)) == value


@given(VALUES, st.booleans(), st.sampled_from([None, 1, "\t"]))
@settings(max_examples=80, deadline=None)
def test_what_others_write_is_read(value: Any, is_ascii: bool, indent: int | str | None) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    data = text.encode("utf-8", "surrogatepass")
    decoded = codec.decode(data)
    if is_ascii or text.encode("utf-8", "ignore") == data:
        assert decoded == json.loads(text)


@given(st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        value = codec.decode(data)
    except ValueError:
        return
    codec.encode(value)


@given(st.binary(max_size=400) | st.text(max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_text_is_read_leniently(data: bytes | str) -> None:
    skipped: list[int] = []
    records = parse_jsonl_lenient(data, lambda line, reason: skipped.append(line))
    assert all(isinstance(record, dict) for record in records)
    assert skipped == sorted(skipped)


@given(
    st.lists(
        SMALL | st.binary(max_size=30).map(lambda raw: b"#" + raw.replace(b"\n", b"")), max_size=8
    )
)
@settings(max_examples=80, deadline=None)
def test_whole_lines_are_had_whatever_stands_between_them(items: list[Any]) -> None:
    data = b"".join(
        (item if isinstance(item, bytes) else codec.encode(item)) + b"\n" for item in items
    )
    expected = [codec.decode(codec.encode(item)) for item in items if isinstance(item, dict)]
    found = parse_jsonl_lenient(data)
    at = 0
    for record in found:
        if at < len(expected) and record == expected[at]:
            at += 1
    assert at == len(expected)


@given(st.lists(SMALL, min_size=1, max_size=5), st.sampled_from([b"", b" ", b"\x00\x00", b"\t"]))
@settings(max_examples=80, deadline=None)
def test_glued_objects_are_all_had(objects: list[Any], glue: bytes) -> None:
    lines = [codec.encode(item) for item in objects]
    assert parse_jsonl_lenient(glue.join(lines)) == [codec.decode(line) for line in lines]


@given(st.dictionaries(TEXT, VALUES, max_size=5), st.dictionaries(TEXT, VALUES, max_size=3))
@settings(max_examples=150, deadline=None)
def test_fields_are_replaced_and_no_other_changes(
    value: dict[str, Any], fields: dict[str, Any]
) -> None:
    gone = sorted(value)[:1]
    line = codec.replace_fields(codec.encode(value), fields, gone=gone)
    kept = {key: item for key, item in value.items() if key not in gone}
    if not is_joinable([*value.items()]) and not is_joinable([*fields.items()]):
        assert codec.decode(line) == kept | fields
    assert b"\n" not in line
