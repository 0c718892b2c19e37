"""Tests on a real PostgreSQL: one server for the whole run, a database for each worker."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest
from tests.postgres_server import Server, shared_server

from sessiontree.stores.postgres.store import PostgresStore

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server() -> Server:
    """The server of this run."""
    return shared_server(os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid())))


@pytest.fixture(scope="session")
def database(server: Server) -> str:
    """This worker's database, with the tables in it."""
    name = f"worker_{os.getpid()}"
    server.execute(f"CREATE DATABASE {name} TEMPLATE st_template")
    return name


@pytest.fixture
def url(server: Server, database: str) -> str:
    """A store that nothing else uses: a tenant of its own."""
    return f"{server.url(database)}?tenant=t{next(_numbers)}"


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    """The same, open."""
    made = PostgresStore(url)
    yield made
    made.close()
