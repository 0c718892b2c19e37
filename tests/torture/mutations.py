"""Damage of every kind to bytes: what disks, other programs and ill will do to a file.

Blind changes (bits, cuts, copies) and informed ones (values of a JSON line replaced by what breaks
programs: types, depths, sizes, cycles, paths, references, escape sequences; values and lines that
change places; keys that stand twice). ``mutate_rows`` does the like to a database.
"""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

DEEP = 1_200
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
    lambda rng: _nested(rng.choice([50, 400, 900])),
    *[lambda rng: f"@raw{rng.randrange(len(_RAW))}@"] * 2,
    lambda rng: {"type": "image", "data": "blob:sha256:" + "0" * 64, "mimeType": 5},
    lambda rng: {"type": "toolCall", "id": [], "name": {}, "arguments": "no"},
    lambda rng: {"content": "x\ny", "lineCount": 10**30},
    lambda rng: {f"k{index}": index for index in range(300)},
    lambda rng: {"type": rng.choice(["text", "thinking", "toolCall", "image", []]), "text": [5]},
    lambda rng: {"role": rng.choice(["user", "assistant", "toolResult", {}]), "content": {"a": 1}},
    lambda rng: [rng.choice([None, 5, [], {}, "x", True])] * rng.choice([1, 3]),
    lambda rng: {rng.choice(["", "\x00", "\ud83d", "__proto__", "type", "id"]): [{}]},
    lambda rng: rng.choice(
        ["/x\x00y", "/\ud83d/z", "/" + "y" * 300, "/a/" + "b/" * 3000, "//", "~"]
    ),
    lambda rng: ["user", "assistant", "toolResult", "custom", "x"][rng.randrange(5)],
    lambda rng: rng.choice(["message", "compaction", "label", "title", "session", "custom", "x"]),
    lambda rng: rng.choice(["2026-02-16T10:20:30.000Z", "yesterday", "9999999-01-01", "-1"]),
    lambda rng: rng.choice(
        ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-02-16"]
    ),
]
# What json.dumps cannot write; it goes in where a mark stands.
_RAW: list[bytes] = [
    b"1e999",
    b"-1e999",
    b"-0.0",
    b"9" * 5_000,
    b"[" * 1_200 + b"]" * 1_200,
    b"[" * 1_800 + b"1e999" + b"]" * 1_800,
    b"[" * 3_500 + b"]" * 3_500,
    b'{"a":' * 1_200 + b'"x"' + b"}" * 1_200,
    b'{"phases":[' * 600 + b"]}" * 600,
    b'{"role":"user","role":[],"type":"text","type":{}}',
    b'"\\ud83d\\ude00\\ud83d"',
    b'"\\u0000"',
]


def mutate(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """The bytes after one to several changes; ``others`` are files to take pieces from."""
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        change = rng.choice(_INFORMED if rng.random() < 0.65 else _BLIND)
        data = change(data, rng, others)
    return data[: 1 << 20]


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


def _multiply(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """Some lines stand there hundreds of times: whoever takes the square of them is found out."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    run = b"\n".join(lines[at : at + rng.choice([1, 2, 5])]) + b"\n"
    times = min(3_000, 400_000 // max(1, len(run)))
    return data + run * rng.randint(1, max(1, times))


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
    places = _places(record)
    if not places:
        return data
    holder, key = rng.choice(places)
    if isinstance(holder, dict) and rng.random() < 0.2:
        del holder[key]
    else:
        holder[key] = rng.choice(VALUES)(rng)
    lines[at] = _dump(record, rng)
    return b"\n".join(lines)


def _swap_values(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """A value of one line stands where one of another line did, whatever either means."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    source = rng.choice(others if rng.random() < 0.3 else [data]).split(b"\n")
    try:
        record, giver = json.loads(lines[at]), json.loads(rng.choice(source))
    except (ValueError, RecursionError):
        return _copy_line(data, rng, others)
    places, gifts = _places(record), _places(giver)
    if not places or not gifts:
        return data
    holder, key = rng.choice(places)
    giving, name = rng.choice(gifts)
    holder[key] = giving[name]
    lines[at] = _dump(record, rng)
    return b"\n".join(lines)


def _respell(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """All values of one key become another: not one line is of the expected kind."""
    keys = ["role", "type", "content", "timestamp", "message", "id", "parentId", "payload", "usage"]
    key = rng.choice(keys)
    value = rng.choice(VALUES)(rng)
    lines = data.split(b"\n")
    for at, line in enumerate(lines[:200]):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        for holder, name in _places(record):
            if name == key and rng.random() < 0.7:
                holder[name] = value
        lines[at] = _dump(record, rng)
    return b"\n".join(lines)


def _repeat_key(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """A key stands twice, the second time with another value."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    if _is_record(lines[at]) and (record := json.loads(lines[at])):
        again = {rng.choice([*record]): rng.choice(VALUES)(rng)}
        lines[at] = lines[at].rstrip()[:-1] + b"," + _dump(again, rng)[1:]
    return b"\n".join(lines)


def _copy_line(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """A line of this or another file stands here too: the same id, a second header."""
    lines = data.split(b"\n")
    source = rng.choice([data, data, *others]).split(b"\n")
    lines.insert(rng.randint(0, len(lines)), rng.choice(source))
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


_INFORMED = [
    *[_change_value] * 6,
    *[_swap_values] * 3,
    _respell,
    _repeat_key,
    _copy_line,
    _tangle,
    _tangle,
    _multiply,
    _shuffle_lines,
    _glue_lines,
]


# -- databases ---------------------------------------------------------------------------------


def mutate_rows(path: Path, rng: random.Random) -> None:
    """Change cells, rows and tables of a database, which stays sound as such."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA writable_schema = ON")
        database.create_function("roll", 0, lambda: rng.randrange(3))
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
        for _ in range(rng.choice([1, 1, 3])):
            table = rng.choice(tables)
            # SQLite itself refuses some of it: virtual tables, constraints
            with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                _mutate_table(database, table, rng)
        database.commit()


def _mutate_table(database: sqlite3.Connection, table: str, rng: random.Random) -> None:
    roll = rng.random()
    if roll < 0.1:
        database.execute(f'DROP TABLE "{table}"')
    elif roll < 0.15:
        database.execute(f'DELETE FROM "{table}"')
    elif roll < 0.2:
        database.execute(f"PRAGMA user_version = {rng.randrange(4)}")
    else:
        columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
        column = rng.choice(columns or ["data"])
        if roll < 0.25:
            database.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO other')
            return
        database.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE roll() = 0', (_cell(rng),))


def _cell(rng: random.Random) -> Any:
    return rng.choice(
        [
            *(None, 0, -1, 1 << 62, -(1 << 63), 0.5, 1e308, float("inf"), "", "text", "a\x00b"),
            *(
                b"",
                b"\xff\xfe",
                rng.randbytes(rng.choice([4, 50])),
                b"[1,2]",
                "\u202e",
                "x" * 9_000,
            ),
        ]
    )


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


def _dump(record: Any, rng: random.Random) -> bytes:
    try:
        text = json.dumps(record, ensure_ascii=rng.random() < 0.5)
    except RecursionError:  # one deep value in another
        return rng.choice(_RAW)
    line = text.encode("utf-8", "surrogatepass")
    for number, raw in enumerate(_RAW):
        line = line.replace(b'"@raw%d@"' % number, raw)
    return line


def _nested(depth: int) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value]
    return value
