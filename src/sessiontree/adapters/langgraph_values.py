"""LangGraph's serialized values as JSON, and back without a difference.

A serializer gives a type and bytes. LangGraph's own writes msgpack, and most of that is text. So it
is kept as JSON that people, search for secrets and exports can read:

================================== ================================================================
``{"msgpack": value}``             msgpack that comes back byte for byte
``{"bytes": [type, base64]}``      anything else: other types, encrypted values
================================== ================================================================

What JSON lacks is an object whose only key is ``@``:

================================== ================================================================
``{"@": {"ext": [code, value]}}``  an extension (LangGraph's objects), with msgpack in it
``{"@": {"bytes": base64}}``       bytes
``{"@": {"raw": [code, base64]}}`` an extension with anything else in it
``{"@": {"map": [[key, value]]}}`` an object with keys that are not strings, or ``@`` itself
``{"@": {"float": hex}}``          NaN with its payload, or an infinity: the eight bytes of it
================================== ================================================================

Nothing here makes an object of what it reads: that is the serializer's, with its rules of which
types are allowed. Knows nothing of sessions.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

import ormsgpack

from sessiontree.adapters.verbatim import UnpackError

Typed: TypeAlias = tuple[str, bytes]
"""What ``SerializerProtocol.dumps_typed`` gives."""

MSGPACK = "msgpack"
BYTES = "bytes"
MARK = "@"
_OPTION = ormsgpack.OPT_NON_STR_KEYS
_PLAIN = frozenset((str, int, float, bool, type(None)))


class _Ext:
    """An extension whose content is still packed."""

    __slots__ = ("code", "data")

    def __init__(self, code: int, data: bytes) -> None:
        self.code = code
        self.data = data


def spell(typed: Typed) -> dict[str, Any]:
    """A serialized value as JSON, which ``unspell`` makes the same value of."""
    kind, data = typed
    if kind == MSGPACK:
        try:
            value = _to_json(_unpack(data))
            if _pack(value) == data:
                return {MSGPACK: value}
        except (ValueError, TypeError, RecursionError):
            pass  # msgpack of another writer, or nested deeper than this can follow
    return {BYTES: [kind, _encode(data)]}


def unspell(spelled: Any) -> Typed:
    """The serialized value. Raises UnpackError."""
    match spelled:
        case {"msgpack": value} if len(spelled) == 1:
            try:
                return MSGPACK, _pack(value)
            except (ValueError, TypeError, RecursionError) as error:
                raise UnpackError(str(error)) from None
        case {"bytes": [str(kind), str(text)]}:
            return kind, _decode(text)
    raise UnpackError(f"{str(spelled)[:40]!r} is not a value that this version knows")


def is_spelled(value: object) -> bool:
    """Whether this is a spelled value rather than something that refers to one."""
    return isinstance(value, dict) and len(value) == 1 and (MSGPACK in value or BYTES in value)


def join(values: Sequence[bytes]) -> bytes:
    """The msgpack array of these values, each of them msgpack."""
    count = len(values)
    if count < 16:
        head = bytes((0x90 | count,))
    elif count < 1 << 16:
        head = b"\xdc" + count.to_bytes(2, "big")
    else:
        head = b"\xdd" + count.to_bytes(4, "big")
    return head + b"".join(values)


# -- msgpack and JSON --------------------------------------------------------------------------


def _unpack(data: bytes) -> Any:
    return ormsgpack.unpackb(data, ext_hook=_Ext, option=_OPTION)


def _pack(value: Any) -> bytes:
    return ormsgpack.packb(_from_json(value), option=_OPTION)


def _to_json(value: Any) -> Any:
    kind = type(value)
    if kind is float and not math.isfinite(value):
        return {MARK: {"float": struct.pack(">d", value).hex()}}
    if kind in _PLAIN:
        return value
    if kind is dict:
        if all(type(key) is str for key in value) and MARK not in value:
            return {key: _to_json(item) for key, item in value.items()}
        return {MARK: {"map": [[_to_json(k), _to_json(v)] for k, v in value.items()]}}
    if kind is list:
        return [_to_json(item) for item in value]
    if kind is bytes:
        return {MARK: {"bytes": _encode(value)}}
    if kind is tuple:  # an array that is a key
        raise TypeError("an array is a key")
    return {MARK: _ext_to_json(value.code, value.data)}


def _ext_to_json(code: int, data: bytes) -> dict[str, Any]:
    try:
        value = _to_json(_unpack(data))
        if _pack(value) == data:
            return {"ext": [code, value]}
    except (ValueError, TypeError):
        pass  # not msgpack
    return {"raw": [code, _encode(data)]}


def _from_json(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        if MARK in value:
            return _marked(value)
        return {key: _from_json(item) for key, item in value.items()}
    if kind is list:
        return [_from_json(item) for item in value]
    return value


def _marked(value: dict[str, Any]) -> Any:
    match value:
        case {"@": {"ext": [int(code), inner]}} if len(value) == 1:
            return ormsgpack.Ext(code, _pack(inner))
        case {"@": {"raw": [int(code), str(text)]}} if len(value) == 1:
            return ormsgpack.Ext(code, _decode(text))
        case {"@": {"bytes": str(text)}} if len(value) == 1:
            return _decode(text)
        case {"@": {"float": str(text)}} if len(value) == 1 and len(text) == 16:
            return struct.unpack(">d", bytes.fromhex(text))[0]
        case {"@": {"map": list(pairs)}} if len(value) == 1:
            return {_from_json(key): _from_json(item) for key, item in pairs}
    raise UnpackError(f'an object with "{MARK}" that this version does not know')


def _encode(data: bytes | bytearray) -> str:
    return base64.b64encode(data).decode("ascii")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UnpackError(f"{text[:20]!r} is not base64") from None
