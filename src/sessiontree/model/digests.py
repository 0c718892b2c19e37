"""The one digest that names things: blobs, and ids that follow from content.

``hashlib`` brings OpenSSL with it, 3.6 MB and some milliseconds that a session without blobs never
needs, so it is imported on first use.
"""

from __future__ import annotations


def sha256_hex(data: bytes) -> str:
    """The SHA-256 of some bytes, in hex digits."""
    import hashlib

    return hashlib.sha256(data).hexdigest()
