"""An image in one line: its kind, its size in pixels and bytes. Pure.

A terminal shows no picture; the line says which one it is. Reads only the first bytes of the data.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from typing import Any

_HEAD_CHARACTERS = 64 * 1024
_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def describe_image(block: Mapping[str, Any]) -> str:
    """``image · png · 640×480 · 34 KB``, as far as it is known."""
    mime = block.get("mimeType")
    kind = mime.removeprefix("image/") if isinstance(mime, str) and mime else "unknown kind"
    name = block.get("fileName") or block.get("name")
    parts = [name if isinstance(name, str) and name else "image", kind]
    data = block.get("data")
    if not isinstance(data, str) or data.startswith("blob:"):
        return " · ".join([*parts, "its data is missing"])
    size = image_size(data)
    if size is not None:
        parts.append(f"{size[0]}×{size[1]}")
    parts.append(_amount(len(data.rstrip("=")) * 3 // 4))
    return " · ".join(parts)


def image_size(data: str) -> tuple[int, int] | None:
    """Width and height of base64 image data, read off its head; None if it can't be told."""
    try:
        head = base64.b64decode(data[:_HEAD_CHARACTERS] + "===", validate=False)
    except (binascii.Error, ValueError):
        return None
    try:
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            return struct.unpack(">II", head[16:24])
        if head[:6] in (b"GIF87a", b"GIF89a"):
            return struct.unpack("<HH", head[6:10])
        if head.startswith(b"\xff\xd8"):
            return _jpeg_size(head)
    except struct.error:
        return None
    return None


def _jpeg_size(head: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(head):
        if head[at] != 0xFF:
            return None
        marker = head[at + 1]
        if marker in _JPEG_SIZES:
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        (length,) = struct.unpack(">H", head[at + 2 : at + 4])
        at += 2 + max(2, length)
    return None


def _amount(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    return f"{size / 1024:.0f} KB" if size < 1024 * 1024 else f"{size / 1024 / 1024:.1f} MB"
