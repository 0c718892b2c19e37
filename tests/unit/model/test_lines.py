"""Lenient reading of JSONL: what can be had from a line is had, the rest is reported."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from typing import Any

import pytest
from tests.samples import dump, entry, lines, message

from sessiontree import parse_jsonl_lenient
from sessiontree.model.lines import SkippedText, read_line, scan_entries

ONE, TWO, THREE = message("aaaaaaa1", None), message("bbbbbbb2", "aaaaaaa1"), message("c", "b")


class Payloads:
    """Payloads from one byte string, as a file would give them."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read_line(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]

    def restore(self, data: dict[str, Any], line: bytes) -> dict[str, Any]:
        return data

    def is_plain(self, block: bytes) -> bool:
        return True

    def fetch_blob(self, ref: str) -> bytes | None:
        return None


def parse(data: bytes) -> tuple[list[dict[str, Any]], list[int]]:
    """The records of a text, and the numbers of the lines that were not wholly read."""
    skipped: list[int] = []
    records = parse_jsonl_lenient(data, lambda line, reason: skipped.append(line))
    return records, skipped


def scan_in_chunks(data: bytes, size: int) -> Any:
    payloads = Payloads(data)
    return scan_entries(payloads.read_line, payloads, len(data), chunk_bytes=size)


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + lines(ONE, TWO),
        lines(ONE, TWO).replace(b"\n", b"\r\n"),
        b"\n\n" + lines(ONE) + b"   \t\r\n" + lines(TWO) + b"\n",
        lines(ONE, TWO)[:-1],
        lines(ONE) + b"\x00" * 4096 + lines(TWO),
        lines(ONE) + b"\x00" * 4096 + b"\n" + lines(TWO),
        dump(ONE) + b"\x00" * 7 + b"\n" + dump(TWO) + b"\x00" * 7,
        dump(ONE) + dump(TWO),
        dump(ONE) + b" \x00\x00 " + dump(TWO) + b"\n",
    ],
    ids=[
        "bom",
        "crlf",
        "blank",
        "no-final-newline",
        "nul",
        "nul-line",
        "nul-behind",
        "glued",
        "glued-with-nul",
    ],
)
def test_harmless_damage_costs_nothing_and_needs_no_report(data: bytes) -> None:
    assert parse(data) == ([ONE, TWO], [])


@pytest.mark.parametrize(
    ("data", "lost"),
    [
        (lines(ONE, TWO) + dump(THREE)[:-20], 3),
        (lines(ONE) + dump(THREE)[:-1] + b"\n" + lines(TWO), 2),
        (lines(ONE) + b"null\n" + lines(TWO), 2),
        (lines(ONE) + b"17\n" + lines(TWO), 2),
        (lines(ONE) + b'["a"]\n' + lines(TWO), 2),
        (lines(ONE) + b'"text"\n' + lines(TWO), 2),
        (lines(ONE) + b"<<<<<<< HEAD\n" + lines(TWO), 2),
        (lines(ONE) + b"\xff\xfe\xfd\n" + lines(TWO), 2),
        (lines(ONE) + dump(THREE)[:40] + dump(TWO) + b"\n", 2),
        (lines(ONE) + b"garbage" + dump(TWO) + b"\n", 2),
        (lines(ONE) + dump(TWO) + b"garbage\n", 2),
    ],
    ids=[
        "torn-last",
        "torn-middle",
        "null",
        "number",
        "array",
        "string",
        "conflict",
        "binary",
        "torn+glued",
        "before",
        "behind",
    ],
)
def test_a_damaged_line_is_skipped_and_reported_with_its_number(data: bytes, lost: int) -> None:
    assert parse(data) == ([ONE, TWO], [lost])


def test_text_is_torn_inside_every_part_of_an_entry_and_the_glued_one_is_still_found() -> None:
    victim = dump(
        message("deadbeef", "a", {"role": "user", "content": [{"type": "text", "text": 'x{"'}]})
    )
    for cut in range(1, len(victim)):
        records, skipped = parse(victim[:cut] + dump(TWO) + b"\n")
        assert records == [TWO], victim[:cut]
        assert skipped == [1]


def test_three_glued_objects_are_all_had() -> None:
    assert parse(dump(ONE) + dump(TWO) + dump(THREE)) == ([ONE, TWO, THREE], [])


def test_a_part_of_a_broken_record_is_not_taken_for_a_record() -> None:
    broken = b'{"type":"message","id":"x","message":{"content":[{"type":"text","text":"hi"}]'
    assert parse(broken + b"\n" + lines(ONE)) == ([ONE], [1])


def test_every_skip_has_a_reason_that_a_person_can_read() -> None:
    reasons: list[tuple[int, str]] = []
    parse_jsonl_lenient(
        b'null\n{"torn":\nplain words\n', lambda line, why: reasons.append((line, why))
    )
    assert [line for line, _ in reasons] == [1, 2, 3]
    assert all(reason and reason.isprintable() for _, reason in reasons)


def test_text_may_be_given_as_a_string() -> None:
    assert parse_jsonl_lenient('{"a":"é"}\nnull\n{"b":1}') == [{"a": "é"}, {"b": 1}]


def test_nothing_holds_nothing() -> None:
    assert parse(b"") == parse(b"\n\x00\r\n") == ([], [])
    assert parse(b"\xef\xbb\xbf") == ([], [])


def test_skipped_bytes_are_told_exactly() -> None:
    line = b"\x00\x00" + dump(THREE)[:30] + dump(ONE) + b" tail"
    found = read_line(line, 100, 7)
    debris = [item for item in found if isinstance(item, SkippedText)]
    assert [line[d.offset - 100 : d.offset - 100 + d.length].strip() for d in debris] == [
        dump(THREE)[:30],
        b"tail",
    ]


def test_unusual_values_are_read() -> None:
    data = (
        b'{"type":"custom","id":"a","parentId":null,"timestamp":"t","data":"\\ud83d"}\n'
        b'{"type":"custom","id":"b","parentId":"a","timestamp":"t","data":99999999999999999999}\n'
        b'{"type":"custom","id":"c","parentId":"b","timestamp":"t","data":"\xff"}\n'
        b'{"type":"custom","id":"d","parentId":"c","timestamp":"t","data":'
        + b"[" * 999
        + b"]" * 999
        + b"}\n"
    )
    records, skipped = parse(data)
    assert [record["id"] for record in records] == ["a", "b", "c", "d"]
    assert skipped == []
    assert [record["data"] for record in records[:3]] == ["\ud83d", 99999999999999999999, "\ufffd"]


def test_a_line_of_many_megabytes_is_read() -> None:
    big = message("big", None, {"role": "user", "content": "x" * 30_000_000})
    records, skipped = parse(lines(ONE, big, TWO))
    assert [record["id"] for record in records] == [ONE["id"], "big", TWO["id"]]
    assert len(records[1]["message"]["content"]) == 30_000_000
    assert skipped == []


def test_any_number_of_glued_objects_are_all_had() -> None:
    many = [message(f"{number:08x}", None) for number in range(2_500)]
    assert parse_jsonl_lenient(b"".join(map(dump, many))) == many


def test_a_record_behind_torn_text_is_found_however_it_is_spaced() -> None:
    whole = message("a1", None)
    torn = b'{"type": "message", "id": "zz", "par'
    assert parse_jsonl_lenient(torn + json.dumps(whole).encode()) == [whole]


def test_a_hostile_line_of_beginnings_ends_in_good_time() -> None:
    records, skipped = parse(b'{"type":"' * 300_000 + b"\n" + lines(ONE))
    assert records == [ONE]
    assert skipped == [1]


@pytest.mark.parametrize("size", [1, 7, 64, 1000, 1 << 20])
def test_entries_are_the_same_however_the_file_is_cut_into_chunks(size: int) -> None:
    data = lines(
        ONE,
        b"null\n",
        TWO,
        dump(THREE)[:25] + dump(entry("label", "l", "c", targetId="c")) + b"\n",
        entry("custom", "d", "l", customType="x", data="é\n"),
        dump(THREE)[:-3],
    )
    scan = scan_in_chunks(data, size)
    assert [found.id for found in scan.entries] == [ONE["id"], TWO["id"], "l", "d"]
    assert [found.data for found in scan.entries][:2] == [ONE, TWO]
    assert [(text.line, scan.gaps[at]) for at, text in enumerate(scan.skipped)] == [
        (2, 1),
        (4, 2),
        (6, 4),
    ]
    assert not scan.has_final_newline
    assert scan.end == len(data)


def test_each_entry_knows_its_own_bytes() -> None:
    spaced = b'{"timestamp":"t" , "parentId": null,"id":"z", "type":"custom", "n":1.50e1}'
    data = lines(ONE, spaced + b"\r\n", b"  " + dump(TWO) + b"\n", dump(THREE) + dump(ONE))
    scan = scan_in_chunks(data, 1 << 20)
    assert [found.raw() for found in scan.entries] == [
        dump(ONE),
        spaced,
        dump(TWO),
        dump(THREE),
        dump(ONE),
    ]


def test_keys_of_our_own_in_a_line_are_only_data() -> None:
    hostile = {
        **ONE,
        "source": {"x": 1},
        "offset": 5,
        "sessiontree:offset": 9_999,
        "sessiontree:length": 3,
        "sessiontree:is_changed": True,
        "sessiontree:message": {"role": "user", "content": "not this"},
        "cached": 1,
    }
    data = lines(hostile, TWO)
    scan = scan_in_chunks(data, 1 << 20)
    assert [found.data for found in scan.entries] == [hostile, TWO]
    assert scan.entries[0].line() == dump(hostile)


def test_no_line_can_know_what_our_own_fields_are_called() -> None:
    program = (
        "import msgspec; from sessiontree.model.entries import Entry;"
        "print([field.encode_name for field in msgspec.structs.fields(Entry)])"
    )
    names = [
        set(ast.literal_eval(subprocess.check_output([sys.executable, "-c", program], text=True)))
        for _ in range(2)
    ]
    assert names[0] & names[1] == {"type", "id", "parentId", "timestamp"}


def test_a_second_header_is_no_entry_and_is_reported() -> None:
    data = lines(ONE, {"type": "session", "version": 3, "id": "x", "timestamp": "t"}, TWO)
    scan = scan_in_chunks(data, 1 << 20)
    assert [found.id for found in scan.entries] == [ONE["id"], TWO["id"]]
    assert [text.line for text in scan.skipped] == [2]


@pytest.mark.parametrize(
    "odd",
    [
        {"type": 5, "id": "x", "parentId": None, "timestamp": "t"},
        {"type": "custom", "id": 5, "parentId": None, "timestamp": "t"},
        {"type": "custom", "id": "x", "parentId": 7, "timestamp": "t"},
        {"type": "custom", "id": "x", "parentId": None, "timestamp": 12},
        {"type": "custom", "id": "x", "parentId": None},
        {},
    ],
)
def test_an_object_with_odd_fields_is_kept_as_data(odd: dict[str, Any]) -> None:
    scan = scan_in_chunks(lines(ONE, odd, TWO), 1 << 20)
    assert len(scan.entries) == 3
    assert json.loads(scan.entries[1].raw() or b"") == odd
