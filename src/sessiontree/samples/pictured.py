"""The sample with pictures: drawn here, stored beside the session by the hash of their content."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

from sessiontree.samples.speaking import SampleSession, answer, ask

_SKY, _GRASS, _LEAF, _WOOD = (176, 214, 240), (96, 160, 72), (44, 110, 56), (110, 78, 48)
_NIGHT = (28, 36, 66)
Colour = tuple[int, int, int]


def tell(manager: SampleSession) -> None:
    """Fill the session."""
    ask(manager, "What is on this picture?", _image(_SKY))
    answer(
        manager,
        "A tree on a meadow: a round crown, a straight trunk, a clear sky. It was drawn with "
        "about thirty lines of Python.",
    )
    ask(manager, "And here?", _image(_NIGHT))
    answer(
        manager,
        "The same tree at night.\n\nBoth pictures lie in the `blobs` folder under the hash of "
        "their content; the session file only names them, so it stays small.",
    )


def _image(sky: Colour) -> dict[str, Any]:
    data = base64.b64encode(draw_tree(sky)).decode("ascii")
    return {"type": "image", "data": data, "mimeType": "image/png"}


def draw_tree(sky: Colour, size: int = 128) -> bytes:
    """A picture of a tree as a PNG file."""
    rows = bytearray()
    for y in range(size):
        rows.append(0)  # no filter
        for x in range(size):
            red, green, blue = _colour_at(x / size, y / size, sky)
            grain = (
                x * 7 + y * 13 + (x * y) % 11
            ) % 9  # a little texture, so that it has some size
            rows += bytes((max(0, red - grain), max(0, green - grain), max(0, blue - grain)))
    head = struct.pack(">2I5B", size, size, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(rows), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in chunks)


def _colour_at(x: float, y: float, sky: Colour) -> Colour:
    if (x - 0.5) ** 2 + (y - 0.38) ** 2 < 0.07:
        return _LEAF
    if abs(x - 0.5) < 0.05 and 0.5 < y < 0.85:
        return _WOOD
    return _GRASS if y > 0.8 else sky


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
