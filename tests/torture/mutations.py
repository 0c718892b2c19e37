"""Damage of every kind to bytes: what disks, other programs and ill will do to a file.

Blind changes (bits, cuts, copies) and informed ones (values of a JSON line replaced by what breaks
programs: types, depths, sizes, cycles, paths, references, escape sequences).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

DEEP = 1_500
TOKENS = [
    b"\x00" * 40,
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\n\n\n",
    b'"\\ud83d"',
    b"\\u0000",
    b"\x1b]0;owned\x07",
    b"\xe2\x80\xae",
    b"1e999",
    b"-0",
    b"9" * 400,
    b"[" * DEEP,
    b'{"a":' * DEEP,
    b"NaN",
    b"Infinity",
    b"null",
    b"{}",
    b'{"type":"session","version":3,"id":"x","timestamp":"","cwd":"/"}\n',
    b'{"type":"title","v":1,"title":"t"}\n',
    b"../../../../outside/secret",
    b"blob:sha256:" + b"0" * 64,
    b"blob:sha256:../../../outside/secret",
    b"PK\x05\x06",
    b"SQLite format 3\x00",
    b"[[models]]\n",
]
VALUES: list[Callable[[random.Random], Any]] = [
    lambda rng: None,
    lambda rng: True,
    lambda rng: rng.choice([0, -1, 1 << 31, 1 << 63, 1 << 70, -(1 << 64), 10**400]),
    lambda rng: rng.choice([0.5, 1e308, -1e-300]),
    lambda rng: "",
    lambda rng: rng.choice(["\ud83d", "a\x00b", "\x1b[2J\x1b]0;x\x07", "\u202egnp", "\x9b31m"]),
    lambda rng: rng.choice(["../../../outside/secret", "/etc/passwd", "~root", "a/b\\c", "."]),
    lambda rng: "blob:sha256:" + rng.choice(["0" * 64, "../" * 20 + "0", "F" * 64, "0" * 65]),
    lambda rng: "x" * rng.choice([100, 5_000, 600_000]),
    lambda rng: "漢" * rng.choice([10, 300]),
    lambda rng: [],
    lambda rng: {},
    lambda rng: [[[{"a": [None]}]]] * 3,
    lambda rng: _nested(rng.choice([50, 900, DEEP])),
    lambda rng: {"type": "image", "data": "blob:sha256:" + "0" * 64, "mimeType": 5},
    lambda rng: {"type": "toolCall", "id": [], "name": {}, "arguments": "no"},
    lambda rng: {"content": "x\ny", "lineCount": 10**30},
    lambda rng: {f"k{index}": index for index in range(300)},
    lambda rng: ["user", "assistant", "toolResult", "custom", "x"][rng.randrange(5)],
    lambda rng: rng.choice(["message", "compaction", "label", "title", "session", "custom", "x"]),
    lambda rng: rng.choice(["2026-02-16T10:20:30.000Z", "yesterday", "9999999-01-01", "-1"]),
]


def mutate(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """The bytes after one to several changes; ``others`` are files to take pieces from."""
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        change = rng.choice(_INFORMED if rng.random() < 0.5 else _BLIND)
        data = change(data, rng, others)
    return data[: 4 << 20]


# -- blind -------------------------------------------------------------------------------------


def _flip(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 4, 30])):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut_off(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    return data[: rng.randint(0, len(data))]


def _cut_out(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    start = rng.randint(0, len(data))
    return data[:start] + data[start + rng.choice([1, 10, 200]) :]


def _insert(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + rng.choice(TOKENS) + data[at:]


def _repeat(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    start = rng.randint(0, len(data))
    piece = data[start : start + rng.choice([1, 30, 500])]
    return data[:start] + piece * rng.choice([2, 20]) + data[start:]


def _splice(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    other = rng.choice(others)
    return data[: rng.randint(0, len(data))] + other[rng.randint(0, len(other)) :]


def _overwrite(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    at, length = rng.randint(0, len(data)), rng.choice([1, 8, 100, 4096])
    filling = rng.choice([bytes(length), rng.randbytes(length), b"\xff" * length])
    return data[:at] + filling + data[at + length :]


_BLIND = [_flip, _cut_off, _cut_out, _insert, _repeat, _splice, _overwrite]


# -- informed ----------------------------------------------------------------------------------


def _change_value(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """One value somewhere in one line's object becomes another."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    try:
        record = json.loads(lines[at])
    except (ValueError, RecursionError):
        return _insert(data, rng, others)
    places = list(_places(record))
    if not places:
        return data
    holder, key = rng.choice(places)
    if isinstance(holder, dict) and rng.random() < 0.2:
        del holder[key]
    else:
        holder[key] = rng.choice(VALUES)(rng)
    lines[at] = json.dumps(record, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    return b"\n".join(lines)


def _tangle(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """Ids and parents are mixed up: cycles, doubles, orphans."""
    lines = data.split(b"\n")
    ids = [json.loads(line).get("id") for line in lines if _is_record(line)]
    for _ in range(rng.choice([1, 5])):
        at = rng.randrange(len(lines))
        if not _is_record(lines[at]):
            continue
        record = json.loads(lines[at])
        record[rng.choice(["id", "parentId", "targetId", "firstKeptEntryId"])] = rng.choice(
            [*ids, record.get("id"), None, "nowhere"]
        )
        lines[at] = json.dumps(record).encode()
    return b"\n".join(lines)


def _shuffle_lines(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    lines = data.split(b"\n")
    if rng.random() < 0.5:
        first = lines.pop(0)
        rng.shuffle(lines)
        lines.insert(0, first)
    else:
        rng.shuffle(lines)
    return b"\n".join(lines)


def _glue_lines(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    return b"\n".join([*lines[:at], b"".join(lines[at : at + 2]), *lines[at + 2 :]])


_INFORMED = [_change_value, _change_value, _tangle, _shuffle_lines, _glue_lines]


def _is_record(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value where another could stand."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting and len(found) < 5_000:
        here = waiting.pop()
        if isinstance(here, dict):
            found += [(here, key) for key in here]
            waiting += here.values()
        elif isinstance(here, list):
            found += [(here, index) for index in range(len(here))]
            waiting += here
    return found


def _nested(depth: int) -> Any:
    value: Any = "deep"
    for _ in range(min(depth, 900)):
        value = [value]
    return value
