"""The URL of a store in PostgreSQL: parsed for libpq, and without its password for display.

``postgresql://user@host/db?tenant=t&listen=…`` is libpq's own URL with parameters of ours:

=========== ========================================================================================
``tenant``  whose sessions: a name. A role that is bound to a tenant needs none.
``listen``  how followers hear of appends: ``on`` (the default: LISTEN on a connection of their own,
            and a look now and then), ``off`` (looks only), or another URL for LISTEN, for where
            this one leads through a pooler.
``pool``    how many connections this process keeps at most (16).
=========== ========================================================================================

A password in the URL works and is shown nowhere; a passfile or ``PGPASSWORD`` is the better place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from sessiontree.errors import StoreError

SCHEMES = ("postgresql", "postgres")
_OURS = ("tenant", "listen", "pool")
_SECRET = ("password", "sslpassword")
_DEFAULT_POOL = 16
_LONGEST_TENANT = 200
_PASSWORD = re.compile(r"(://[^/@\s:]*):\S*@|(password=)[^&\s]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Address:
    """The place of a database, and the user's name there."""

    conninfo: str
    shown: str
    tenant: str | None = None
    listen: str | None = None
    pool: int = _DEFAULT_POOL


def parse_address(url: str) -> Address:
    """Read a URL. Raises StoreError, which repeats no password."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        given = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        raise StoreError(f"{hide_password(url)} is not the URL of a database") from None
    shown = hide_password(url).partition("#")[0]
    if parts.scheme not in SCHEMES or parts.fragment:
        raise StoreError(f"{shown}: use postgresql://user@host/database")
    if "@" in parts.path or any("@" in key for key, _ in given):
        raise StoreError(f"{shown}: in a password write / as %2F, ? as %3F, # as %23 and @ as %40")
    ours = {key: value for key, value in given if key in _OURS}
    rest = [(key, value) for key, value in given if key not in _OURS]
    user = parts.netloc.rpartition("@")[0].partition(":")[0]
    netloc = f"{user}@{host}" if user else host
    kept = [(key, value) for key, value in rest if key.lower() not in _SECRET]
    shown_query = kept + [(key, hide_password(value)) for key, value in ours.items()]
    return Address(
        conninfo=urlunsplit(("postgresql", parts.netloc, parts.path, _query(rest), "")),
        shown=urlunsplit(("postgresql", netloc, parts.path, _query(shown_query), "")),
        tenant=_read_tenant(ours.get("tenant")),
        listen=_read_listen(ours.get("listen")),
        pool=_read_pool(ours.get("pool")),
    )


def hide_password(text: str) -> str:
    """A text in which no URL says its password."""
    return _PASSWORD.sub(lambda found: f"{found[1]}@" if found[1] else f"{found[2]}***", text)


def spell_ref(session_id: str, scope: str | None) -> str:
    """Spell a session's name in its store: its id, behind its scope if it has one."""
    own = quote(session_id, safe="", errors="surrogatepass")
    return own if scope is None else f"{quote(scope, safe='', errors='surrogatepass')}/{own}"


def read_ref(ref: str) -> tuple[str, str | None]:
    """The id and the scope of a ref, or of the store's URL with ``#`` and one."""
    own = ref.rpartition("#")[2]
    scope, has_scope, session_id = own.rpartition("/")
    return (
        unquote(session_id, errors="surrogatepass"),
        unquote(scope, errors="surrogatepass") if has_scope else None,
    )


def _query(items: list[tuple[str, str]]) -> str:
    return urlencode(items, quote_via=quote)


def _read_tenant(text: str | None) -> str | None:
    if text is not None and (not text or len(text) > _LONGEST_TENANT or not text.isprintable()):
        raise StoreError(f"tenant= takes a name of 1 to {_LONGEST_TENANT} printable characters")
    return text


def _read_listen(text: str | None) -> str | None:
    if text in (None, "on", "off"):
        return None if text == "on" else text
    if urlsplit(text or "").scheme not in SCHEMES:
        raise StoreError("listen= takes on, off, or a postgresql:// URL with its % signs escaped")
    return text


def _read_pool(text: str | None) -> int:
    if text is None:
        return _DEFAULT_POOL
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1000:
        raise StoreError("pool= takes a number of connections from 1 to 1000")
    return int(text)
