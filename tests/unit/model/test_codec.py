"""JSON that JavaScript agents write, disks damage and the fast parser refuses."""

from __future__ import annotations

import json
import math
import sys
import threading
from typing import Any

import pytest

from sessiontree.model import codec


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def depth_of(value: Any) -> int:
    depth = 0
    while isinstance(value, list):
        depth += 1
        value = value[0] if value else None
    return depth


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'{"a":[1,2.5,null,true,"x"]}', {"a": [1, 2.5, None, True, "x"]}),
        (rb'"\ud83d"', "\ud83d"),
        (rb'"\ude00 alone"', "\ude00 alone"),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'{"\ud800":1}', {"\ud800": 1}),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"-99999999999999999999", -99999999999999999999),
        (b"18446744073709551616", 2**64),
        (b'"\xff\xfe"', "\ufffd\ufffd"),
        (b'"ab\xe2\x82"', "ab\ufffd"),
        (b"1e999", math.inf),
        (b' {"a":1}\r', {"a": 1}),
    ],
)
def test_text_that_agents_and_disks_make_is_read(text: bytes, value: object) -> None:
    assert codec.decode(text) == value


@pytest.mark.parametrize("depth", [1, 500, 999, 1_000])
@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_up_to_a_thousand_is_read(depth: int, brackets: tuple[bytes, bytes]) -> None:
    before = sys.getrecursionlimit()
    inside = b"1" if brackets[0] != b"[" else b""
    value = codec.decode(brackets[0] * depth + inside + brackets[1] * depth)
    found = 0
    while isinstance(value, (list, dict)):
        found += 1
        value = (value["a"] if isinstance(value, dict) else value[0]) if value else None
    assert found == depth
    assert sys.getrecursionlimit() == before


def test_a_thousand_levels_are_read_from_deep_inside_a_program() -> None:
    def descend(levels: int) -> Any:
        return codec.decode(b"[" * 1_000 + b"]" * 1_000) if levels == 0 else descend(levels - 1)

    assert depth_of(descend(700)) == 1_000


def test_a_thousand_levels_are_read_in_several_threads_at_once() -> None:
    found: list[int] = []

    def read() -> None:
        line = codec.encode(nested(1_000))
        found.extend(depth_of(codec.decode(line)) for _ in range(20))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1_000] * 80


def test_absurd_nesting_is_refused_and_the_process_lives() -> None:
    with pytest.raises(ValueError, match="nested"):
        codec.decode(b"[" * 200_000 + b"]" * 200_000)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b'{"a":1',
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"{'a':1}",
        b'{"a":1}{"b":2}',
        b"\x00",
        b'"tab\there"',
        b"[1,]",
        b"nul",
        b"\xff",
    ],
)
def test_what_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        codec.decode(text)


@pytest.mark.parametrize(
    "value",
    ["\ud83d", {"\udfff": ["\ud800"]}, 2**64, -(2**200), "\U0001f600 é \x00 \u2028", 0.1, [{}, []]],
)
def test_what_is_written_is_read_back_the_same(value: object) -> None:
    line = codec.encode(value)
    assert b"\n" not in line
    assert codec.decode(line) == value


def test_deep_values_with_everything_unusual_are_written_and_read_back() -> None:
    value = {"deep": nested(990), "lone": "\ud83d", "big": 2**70}
    back = codec.decode(codec.encode(value))
    assert (depth_of(back["deep"]), back["lone"], back["big"]) == (990, "\ud83d", 2**70)
    assert depth_of(codec.decode(codec.encode(nested(1_000)))) == 1_000


def test_written_text_is_json_for_everybody() -> None:
    value = {"lone": "\ud83d", "big": 2**70, "text": "é\U0001f600", "control": "\x00\x1f\x7f"}
    assert json.loads(codec.encode(value)) == value


def test_numbers_that_json_has_not_become_null() -> None:
    value = {"a": [math.nan, math.inf, -math.inf], "lone": "\ud83d", "n": math.nan}
    assert json.loads(codec.encode(value)) == {"a": [None] * 3, "lone": "\ud83d", "n": None}


@pytest.mark.parametrize("value", [object(), 1j, {"a": lambda: None}])
def test_what_json_can_not_say_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        codec.encode(value)


def test_a_copy_shares_nothing() -> None:
    value = {"a": [{"b": "\ud83d"}]}
    copied = codec.copy(value)
    copied["a"][0]["b"] = "changed"
    assert value == {"a": [{"b": "\ud83d"}]}


ODD = b'{"a":1e400,"b":1.10,"id":"x","c":{"d": 1.0,"e":"\\u00e9"},"f":123456789012345678901234.5}'


def test_replacing_a_field_keeps_the_spelling_of_the_others() -> None:
    assert codec.replace_fields(ODD, {"id": "y"}) == ODD.replace(b'"x"', b'"y"')
    assert codec.replace_fields(ODD, {"new": None}, gone=["b"]) == (
        ODD.replace(b'"b":1.10,', b"")[:-1] + b',"new":null}'
    )


def test_half_a_character_in_a_replaced_field_can_be_written() -> None:
    assert codec.decode(codec.replace_fields(b'{"id":"x","b":1}', {"id": "\ud83d"})) == {
        "id": "\ud83d",
        "b": 1,
    }
