"""A framework's own object, kept exactly, beside the message that everybody can read.

An adapter appends ``message`` entries, which the program shows and searches, and in each of them
``native``: {harness: the packed object}. Most of an object is text that the message has as well. So
packing replaces each such text by a pointer to it (RFC 6901, within the message), and a session is
hardly longer than the conversation:

    {"message": {"role": "user", "content": "Where is the key?"},
     "native": {"some-framework": {"kind": "prompt", "text": {"$": "/content"}}}}

Packed objects also survive what a session file does not keep apart. An object whose only key is
``$`` stands for something else:

=============================== ===================================================================
``{"$": "/content/0/text"}``    the value at this place of the message
``{"$": "NaN"}``                a number that JSON lacks: NaN, Infinity, -Infinity
``{"$": {"int": "12…"}}``       an integer of more than 64 bits
``{"$": {"text": [a, b]}}``     a text that would be taken for a reference to a blob, in two halves
``{"$": {"after": [a, "/…"]}}`` a text that ends with one of the message, as a picture's URI does
``{"$": [[key, value], …]}``    an object with a key that files give a meaning, or ``$`` itself
=============================== ===================================================================

Knows nothing of frameworks or stores. Unknown fields pass through, since nothing here knows fields.
"""

from __future__ import annotations

import math
from typing import Any

from sessiontree.core.trimming import REF_PREFIX
from sessiontree.model import codec

NATIVE = "native"
"""The field of an entry that holds packed objects, by harness."""

MARK = "$"
_ODD_KEYS = frozenset((MARK, "partialJson", "jsonlEvents", "lineCount"))
_DATA = "data:"
_UNSURE = (_DATA, REF_PREFIX)
"""How a text begins that may not stay as it is."""
_POINTER_COST = len('{"$":""}')
_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_MAX_INT = 2**63
_WITH_ITEMS = frozenset((dict, list))
_BASES: tuple[type[Any], ...] = (int, float, dict, list)


class UnpackError(ValueError):
    """A packed object that cannot be read: damaged, or of a version to come."""


def pack(value: Any, message: Any = None) -> Any:
    """A JSON value with what ``message`` has of it replaced by pointers.

    ``message`` is a wire message, or a list of those that stand for the object together. Raises
    TypeError for what is not a JSON value, ValueError for one nested too deeply.
    """
    try:
        return _pack(value, _texts(message), _objects(message))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def unpack(packed: Any, message: Any = None) -> Any:
    """The value that was packed. Raises UnpackError."""
    try:
        return _unpack(packed, message)
    except RecursionError:
        raise UnpackError("nested too deeply") from None


def plain(value: Any) -> Any:
    """A copy of a JSON value that a message may hold: without the keys that files drop."""
    match value:
        case dict():
            return {str(k): plain(v) for k, v in value.items() if k not in _ODD_KEYS}
        case list() | tuple():
            return [plain(item) for item in value]
        case float() if not math.isfinite(value):
            return None
        case None | str() | bool() | int() | float():
            return value
        case _:
            return str(value)


# -- packing -----------------------------------------------------------------------------------


def _pack(value: Any, texts: dict[str, str], objects: list[tuple[dict[str, Any], str]]) -> Any:
    kind = type(value)
    if kind is str:
        pointer = texts.get(value)
        if pointer is not None:
            return {MARK: pointer}
        if value.startswith(_DATA):
            head, comma, data = value.partition(",")
            if comma and data in texts:
                return {MARK: {"after": [head + comma, texts[data]]}}
        if value.startswith(REF_PREFIX):
            half = len(REF_PREFIX) // 2
            return {MARK: {"text": [value[:half], value[half:]]}}
        return value
    if value is None or kind is bool:
        return value
    if kind is dict:
        for other, pointer in objects:
            if value == other and codec.encode(value) == codec.encode(other):
                return {MARK: pointer}
        if not _ODD_KEYS.isdisjoint(value):
            return {MARK: [[_key(k), _pack(v, texts, objects)] for k, v in value.items()]}
        return {
            # most are texts that stay as they are, and a call for each is what packing costs
            key if type(key) is str else _key(key): item
            if type(item) is str and item not in texts and not item.startswith(_UNSURE)
            else _pack(item, texts, objects)
            for key, item in value.items()
        }
    if kind is list or kind is tuple:
        return [_pack(item, texts, objects) for item in value]
    if kind is int:
        return value if -_MAX_INT <= value < _MAX_INT else {MARK: {"int": str(value)}}
    if kind is float:
        if math.isfinite(value):
            return value
        return {MARK: "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}
    if isinstance(value, str):  # a subclass, such as an enum, whose str() is its name
        return _pack(str.__str__(value), texts, objects)
    for base in _BASES:
        if isinstance(value, base):
            return _pack(base(value), texts, objects)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"A key of a JSON object is a string, not {type(key).__name__}")
    return key


def _texts(message: Any) -> dict[str, str]:
    """The texts of a message for which a pointer is shorter, each with its pointer."""
    found: dict[str, str] = {}
    _walk(message, "", found)
    return found


def _walk(value: Any, pointer: str, found: dict[str, str]) -> None:
    if type(value) is str:
        if len(value) > len(pointer) + _POINTER_COST and pointer and _may_be_shared(value):
            found.setdefault(value, pointer)
    elif type(value) is dict:
        for key, item in value.items():
            if "/" not in key and "~" not in key:
                _walk(item, f"{pointer}/{key}", found)
    elif type(value) is list:
        for at, item in enumerate(value):
            _walk(item, f"{pointer}/{at}", found)


def _may_be_shared(text: str) -> bool:
    """Whether a message gives a text back as it is: not if it is taken for a blob's reference."""
    return not text.startswith(REF_PREFIX)


def _objects(message: Any) -> list[tuple[dict[str, Any], str]]:
    """The arguments of tool calls in a message, which are objects of any size."""
    found = []
    messages = message if isinstance(message, list) else [message]
    for number, each in enumerate(messages):
        content = each.get("content") if isinstance(each, dict) else None
        above = f"/{number}" if isinstance(message, list) else ""
        for at, block in enumerate(content if isinstance(content, list) else ()):
            arguments = block.get("arguments") if isinstance(block, dict) else None
            if isinstance(arguments, dict) and arguments:
                found.append((arguments, f"{above}/content/{at}/arguments"))
    return found


# -- unpacking ---------------------------------------------------------------------------------


def _unpack(packed: Any, message: Any) -> Any:
    kind = type(packed)
    if kind is dict:
        if MARK in packed:
            if len(packed) != 1:
                raise UnpackError(f'an object with "{MARK}" and other keys')
            return _marked(packed[MARK], message)
        return {
            key: _unpack(item, message) if type(item) in _WITH_ITEMS else item
            for key, item in packed.items()
        }
    if kind is list:
        return [_unpack(item, message) if type(item) in _WITH_ITEMS else item for item in packed]
    return packed


def _marked(said: Any, message: Any) -> Any:
    match said:
        case str() if said.startswith("/"):
            value = _at(message, said)
            return value if isinstance(value, str) else codec.copy(value)
        case str() if said in _NUMBERS:
            return _NUMBERS[said]
        case {"int": str(digits)}:
            try:
                return int(digits)
            except ValueError:
                raise UnpackError(f"{digits[:20]!r} is not an integer") from None
        case {"text": [str(one), str(two)]}:
            return one + two
        case {"after": [str(head), str(pointer)]} if pointer.startswith("/"):
            tail = _at(message, pointer)
            if isinstance(tail, str):
                return head + tail
        case list():
            pairs = [pair for pair in said if isinstance(pair, list) and len(pair) == 2]
            if len(pairs) == len(said) and all(isinstance(key, str) for key, _ in pairs):
                return {key: _unpack(item, message) for key, item in pairs}
    raise UnpackError(f"{str(said)[:40]!r} is nothing that this version knows")


def _at(message: Any, pointer: str) -> Any:
    value = message
    for step in pointer[1:].split("/"):
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (KeyError, IndexError, TypeError, ValueError):
            raise UnpackError(f"the message has nothing at {pointer}") from None
    return value
