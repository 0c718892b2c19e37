"""Large blobs in an S3-compatible store: ``SESSIONTREE_BLOBS=s3://bucket/prefix?endpoint=…``.

A database is a dear place for megabytes. With a store of objects, a blob above ``MOST_BYTES`` goes
there, and its row says where. Each upload has a name of its own, ``prefix/tenant/hash-random``, and
no object is ever written twice: so removing one that a row stopped naming can take no other's. A
row is believed only if the name in it is one that this tenant's blob can have.

Who may read the objects is the business of the credentials: they come from where boto3 looks for
them (AWS_ACCESS_KEY_ID and its like, a profile, a role of the machine), never from the URL.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from sessiontree.errors import PersistenceError, StoreError
from sessiontree.text.escaping import one_line

VARIABLE = "SESSIONTREE_BLOBS"
MOST_BYTES = 1 << 20
"""The size up to which a blob is kept in the database."""

_CONNECT_TIMEOUT_S = 10
_READ_TIMEOUT_S = 60
_ATTEMPTS = 5
_MISSING = frozenset(("404", "NoSuchKey", "NotFound"))


@dataclass(frozen=True, slots=True)
class Bucket:
    """A place for objects: an S3 bucket, the beginning of their names, and the server."""

    name: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None

    @property
    def shown(self) -> str:
        """Its URL, without the parameters."""
        return f"s3://{self.name}/{self.prefix}".rstrip("/")


def parse_bucket(url: str) -> Bucket:
    """Read an ``s3://`` URL. Raises StoreError, which repeats nothing before an @."""
    shown = url.rpartition("@")[2][:80]
    try:
        parts = urlsplit(url)
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        raise StoreError(f"{VARIABLE}: {shown} is not a URL") from None
    unknown = sorted(given.keys() - {"endpoint", "region"})
    if parts.scheme != "s3" or not parts.netloc or "@" in parts.netloc or unknown or parts.fragment:
        raise StoreError(f"{VARIABLE}: use s3://bucket/prefix?endpoint=…&region=…, not {shown}")
    prefix = parts.path.strip("/")
    return Bucket(parts.netloc, prefix, given.get("endpoint") or None, given.get("region") or None)


def find_objects() -> ObjectStore | None:
    """The store of objects that the environment names, if it does. Raises StoreError."""
    url = os.environ.get(VARIABLE)
    return ObjectStore(parse_bucket(url)) if url else None


class ObjectStore:
    """Objects in one bucket. Any number of threads may use it."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self._lock = threading.Lock()
        self._made: Any = None

    def new_place(self, tenant: str, digest: str) -> str:
        """A place for a blob that no other upload has."""
        own = f"{_folder(tenant)}/{digest}-{secrets.token_hex(8)}"
        return f"{self.bucket.shown}/{own}"

    def put(self, place: str, data: bytes) -> None:
        """Write an object. Raises PersistenceError."""
        name, key = _split(place)
        self._call("put_object", Bucket=name, Key=key, Body=data)

    def get(self, place: str) -> bytes | None:
        """Read an object; None if there is none. Raises PersistenceError."""
        name, key = _split(place)
        found = self._call("get_object", Bucket=name, Key=key)
        return bytes(found["Body"].read()) if found is not None else None

    def size(self, place: str) -> int | None:
        """The size of an object in bytes; None if there is none. Raises PersistenceError."""
        name, key = _split(place)
        found = self._call("head_object", Bucket=name, Key=key)
        return int(found["ContentLength"]) if found is not None else None

    def delete(self, place: str) -> None:
        """Remove an object, if it is there. Raises PersistenceError."""
        name, key = _split(place)
        self._call("delete_object", Bucket=name, Key=key)

    def _call(self, method: str, **options: Any) -> Any:
        """Call the server; None if it has no such object."""
        client = self._client()
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(client, method)(**options)
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code in _MISSING:
                return None
            raise PersistenceError(self.bucket.shown, one_line(str(error))) from error
        except (BotoCoreError, OSError) as error:
            raise PersistenceError(self.bucket.shown, one_line(str(error))) from error

    def _client(self) -> Any:
        with self._lock:
            if self._made is None:
                self._made = self._connect()
            return self._made

    def _connect(self) -> Any:
        try:
            import boto3
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError
        except ModuleNotFoundError:
            raise StoreError(
                f"{self.bucket.shown} needs S3's client: pip install 'sessiontree[s3]'"
            ) from None
        style = {"addressing_style": "path"} if self.bucket.endpoint else {}
        config = Config(
            connect_timeout=_CONNECT_TIMEOUT_S,
            read_timeout=_READ_TIMEOUT_S,
            retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
            s3=style,
        )
        try:
            return boto3.session.Session().client(
                "s3",
                endpoint_url=self.bucket.endpoint,
                region_name=self.bucket.region,
                config=config,
            )
        except (BotoCoreError, ValueError) as error:
            raise StoreError(f"{self.bucket.shown}: {one_line(str(error))}") from error


def is_own(place: str, tenant: str, digest: str) -> bool:
    """Whether a blob of a tenant may be at this place."""
    own = re.escape(f"/{_folder(tenant)}/{digest}-")
    return re.fullmatch(rf"s3://[^/]+(/.*)?{own}[0-9a-f]{{16}}", place) is not None


def _folder(tenant: str) -> str:
    return quote(tenant, safe="") or "-"


def _split(place: str) -> tuple[str, str]:
    name, _, key = place.removeprefix("s3://").partition("/")
    return name, key
