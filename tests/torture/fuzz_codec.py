"""Any bytes as JSON: what the standard parser reads we read alike, and write so that it stays."""

from __future__ import annotations

import json
import math
from typing import Any

import atheris

with atheris.instrument_imports(include=["sessiontree"]):
    from sessiontree.model import codec
    from sessiontree.model.lines import parse_jsonl_lenient

from tests.torture.fuzzing import fuzz

SEEDS = [
    b'{"a":[1,2.5,-0.0,1e400,null,true],"b":"\\ud83d\\ude00 \\ud83d"}',
    b'{"type":"message","id":"a","parentId":null}\n{"type":"x"}{"type":"y"}\n\x00\x00{"a":1}\r\n',
    b"[" * 50 + b"]" * 50,
    b'"' + "漢字 é".encode() + b'\xff"',
    b"123456789012345678901234567890",
]


def try_one(data: bytes) -> None:
    parse_jsonl_lenient(data)
    try:
        value = codec.decode(data)
    except ValueError:
        assert not _is_plain_json(data), "the standard parser reads it"
        return
    text = codec.encode(value)
    assert b"\n" not in text
    again = codec.decode(text)
    assert codec.encode(again) == text, "what was written reads otherwise"
    if _is_plain_json(data):
        assert _is_same(value, json.loads(data)), "the standard parser reads something else"


def _is_plain_json(data: bytes) -> bool:
    """Whether this is JSON about whose meaning there is no doubt."""
    try:
        json.loads(data.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return len(data) < 4_000 and not data.startswith(b"\xef\xbb\xbf")


def _refuse(name: str) -> None:
    raise ValueError(name)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isinf(one) and math.isinf(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)


if __name__ == "__main__":
    fuzz(try_one, SEEDS)
