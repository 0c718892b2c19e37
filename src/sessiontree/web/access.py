"""Access to the viewer: visitors, and the proofs of who they are.

Three ways in, each an ``Access``:

- **A link** (``LinkAccess``), on this machine only: the address that the command prints holds a
  secret, which the first answer exchanges for a cookie.
- **A password** (``PasswordAccess``), where others can reach the server.
- **A proxy** (``ProxyAccess``) that has logged somebody in and says in a header who it is. A second
  header has a secret that only the proxy knows: without it anybody could claim a name.

Cookies of a loopback address go to every port of it, also to servers of other people on this
machine. So all pages of a viewer lie below a random path, and its cookie is only sent there.

Other logins (OpenID Connect, say) are classes with the methods of ``Access``.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Container, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, Protocol

from sessiontree.serving.guard import header_of, is_same

LEAST_PASSWORD = 8
_MOST_FAILURES, _FAILURES_S = 10, 60.0

Scope = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who may look, and perhaps change something. ``form_token`` goes into forms."""

    name: str
    can_write: bool
    form_token: str


class Access(Protocol):
    """Decides who a request comes from."""

    root: str
    """The path below which all pages lie: empty, or ``/`` and a name."""
    hosts: Container[str]
    """The allowed values of ``Host`` and ``Origin``, in lower case."""
    wants: str
    """The way in that a stranger's page explains: ``"link"``, ``"password"`` or ``"proxy"``."""

    def identify(self, scope: Scope) -> Visitor | None:
        """The visitor, if the request proves who it is."""

    def admit(self, proof: str) -> str | None:
        """A ``Set-Cookie`` for the right secret or password; None for a wrong one."""


class _CookieAccess:
    """A cookie that says that its browser had the secret."""

    wants = "link"

    def __init__(self, hosts: Container[str], root: str, name: str, *, can_write: bool) -> None:
        self.root = root
        self.hosts = hosts
        self._name = name
        self._cookie = secrets.token_urlsafe(32)
        form_token = hmac.digest(self._cookie.encode(), b"form", "sha256").hex()
        self._visitor = Visitor("", can_write, form_token)

    def identify(self, scope: Scope) -> Visitor | None:
        """The visitor with the cookie."""
        found = [is_same(value, self._cookie) for value in _cookies_of(scope, self._name)]
        return self._visitor if any(found) else None

    def _set_cookie(self) -> str:
        path = self.root or "/"
        return f"{self._name}={self._cookie}; Path={path}; HttpOnly; SameSite=Strict"


class LinkAccess(_CookieAccess):
    """Visitors with the link. Pages lie below a random path."""

    def __init__(self, hosts: Container[str], *, can_write: bool = True) -> None:
        root = f"/{secrets.token_urlsafe(9)}"
        super().__init__(hosts, root, "sessiontree", can_write=can_write)
        self.token = secrets.token_urlsafe(32)

    def admit(self, proof: str) -> str | None:
        """The cookie for the link's token."""
        return self._set_cookie() if is_same(proof, self.token) else None


class PasswordAccess(_CookieAccess):
    """Visitors who know the password.

    Ten wrong ones within a minute close the door for a while.
    """

    wants = "password"

    def __init__(self, hosts: Container[str], password: str, *, can_write: bool = True) -> None:
        super().__init__(hosts, "", "sessiontree", can_write=can_write)
        self._digest = _stretch(password)
        self._failures: deque[float] = deque(maxlen=_MOST_FAILURES)

    def admit(self, proof: str) -> str | None:
        """The cookie for the password; nothing while there were too many wrong ones."""
        now = time.monotonic()
        full = len(self._failures) == _MOST_FAILURES
        if full and now - self._failures[0] < _FAILURES_S:
            return None
        if hmac.compare_digest(_stretch(proof), self._digest):
            return self._set_cookie()
        self._failures.append(now)
        return None


class ProxyAccess:
    """Visitors that a reverse proxy has logged in. It must remove both headers of others.

    ``writers`` are the names that may change something; None lets everybody.
    """

    wants = "proxy"
    SECRET = b"x-sessiontree-secret"

    def __init__(
        self,
        hosts: Container[str],
        header: str,
        secret: str,
        *,
        writers: Container[str] | None = None,
        can_write: bool = True,
    ) -> None:
        self.root = ""
        self.hosts = hosts
        self._header = header.lower().encode("latin-1")
        self._secret = secret
        self._writers = writers
        self._can_write = can_write
        self._key = secrets.token_bytes(32)

    def identify(self, scope: Scope) -> Visitor | None:
        """The visitor that the proxy names."""
        name = header_of(scope, self._header)
        if not name or not is_same(header_of(scope, self.SECRET), self._secret):
            return None
        can_write = self._can_write and (self._writers is None or name in self._writers)
        form_token = hmac.digest(self._key, name.encode("utf-8", "replace"), "sha256").hex()
        return Visitor(name, can_write, form_token)

    def admit(self, proof: str) -> str | None:
        """None: the proxy logs in."""
        del proof
        return None


def _stretch(password: str) -> bytes:
    """Derive a key, so that guessing costs 20 ms a password."""
    return hashlib.pbkdf2_hmac(
        "sha256", password.encode("utf-8", "replace"), b"sessiontree", 60_000
    )


def _cookies_of(scope: Scope, name: str) -> Iterator[str]:
    """All cookies of this name: servers on other ports of this machine can add some of theirs."""
    for key, value in scope.get("headers", ()):
        if key == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                found, _, content = pair.strip().partition("=")
                if found == name:
                    yield content
