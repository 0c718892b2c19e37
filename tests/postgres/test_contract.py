"""``PostgresStore`` keeps the contract of stores."""

from __future__ import annotations

from sessiontree.testing import StoreContract


class TestPostgresStore(StoreContract):
    """With the fixture ``store`` of this folder: a tenant of one database."""
