"""Put untrusted text into HTML: the only place where text becomes markup. Pure.

Session text was written by models, users and whatever a tool read, so all of it is hostile. Three
walls stand between it and the reader's browser; each holds alone:

1. Text becomes markup only through ``text`` and ``attribute``, which escape it. Nothing of a
   session is ever passed through as HTML, and no name of an element or attribute comes from one.
2. Links come from ``safe_url``: ``http``, ``https`` and ``mailto``. Images are shown from their own
   bytes if these are base64 of a raster format, never from an address.
3. The page carries a content security policy that allows one script and one style sheet, by the
   hash of their text, and no network at all (``policy``).

Control characters, bidirectional overrides and half surrogates come out as visible escapes, as they
do on a terminal (``text/escaping.py``).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from urllib.parse import urlsplit

from sessiontree.text.escaping import block, strip_terminal

_SCHEMES = frozenset(("http", "https", "mailto"))
_RASTER = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*={0,2}\s*")
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")


def clean(value: str) -> str:
    """Remove terminal sequences and make what could mislead a reader visible; not markup yet."""
    if "\x1b" in value or "\x9b" in value:
        value = strip_terminal(value)
    if "\r" in value:
        value = value.replace("\r\n", "\n")
    # Whatever is hazardous is not printable, which is quicker to ask of megabytes of output.
    if value.replace("\n", "").replace("\t", "").isprintable():
        return value
    return block(value)


def text(value: str) -> str:
    """The text as the content of an element."""
    return escape(clean(value))


def attribute(value: str) -> str:
    """The text as an attribute's value, between double quotes."""
    return escape(clean(value)).replace('"', "&quot;").replace("'", "&#39;")


def escape(value: str) -> str:
    """Escape text that is clean already."""
    if "&" in value:
        value = value.replace("&", "&amp;")
    if "<" in value:
        value = value.replace("<", "&lt;")
    return value.replace(">", "&gt;") if ">" in value else value


def safe_url(url: str) -> str | None:
    """The address if a reader may follow it; None for every other scheme, and for paths."""
    cleaned = clean(url)
    if cleaned != url or not url.isprintable() or "\\" in url:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme.lower() not in _SCHEMES:
        return None
    return url if parts.netloc or parts.scheme.lower() == "mailto" else None


def image_url(data: str, mime_type: str) -> str | None:
    """A ``data:`` address of an image; None for anything but a raster image in base64."""
    if mime_type.lower() not in _RASTER or not _BASE64.fullmatch(data):
        return None
    bare = "".join(data.split()).rstrip("=")
    padded = bare + "=" * (-len(bare) % 4)
    try:
        base64.b64decode(padded[:64], validate=True)
    except (binascii.Error, ValueError):
        return None
    return f"data:{mime_type.lower()};base64,{padded}"


def anchor(entry_id: str, number: int) -> str:
    """The id of an entry's element: of its own id where that is one, else of its number.

    The prefix keeps it apart from every name that a script or the browser could look up.
    """
    return f"m-{entry_id}" if _PLAIN_ID.fullmatch(entry_id) else f"m.{number}"


def json_block(value: object) -> str:
    """JSON as the content of a ``<script>`` for data: nothing in it ends the element."""
    spelled = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return spelled.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def policy(script: str, style: str) -> str:
    """The content security policy of a page in one file: this script, this style, no network."""
    return (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types sessiontree"
    )


def digest(source: str) -> str:
    """A script's or style sheet's hash, as a content security policy names it."""
    made = hashlib.sha256(source.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(made).decode('ascii')}"
