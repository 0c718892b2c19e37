"""What the attacks share: a time budget, a seed, and a report of what they did."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.torture import record


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "share(n): takes n times the usual share of the time")


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> Iterator[int]:
    """What all random choices of this run follow from; the report names it."""
    made = int(os.environ.get("TORTURE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
    began = time.monotonic()
    yield made
    failures = _failures(request.config)
    ended = {"seconds": time.monotonic() - began, "failed": request.session.testsfailed}
    record.note("run", {"seed": made, **ended, "failures": failures})


def _failures(config: pytest.Config) -> list[str]:
    """The names of the tests that failed so far, wherever they are."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    assert reporter is not None
    found = [*reporter.stats.get("failed", ()), *reporter.stats.get("error", ())]
    return sorted({report.nodeid.rpartition("/")[2] for report in found})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.torture)
            item.add_marker(pytest.mark.timeout(0))


class Budget:
    """A share of the time that TORTURE_SECONDS gives to the whole suite."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def is_left(self) -> bool:
        return time.monotonic() < self._end


@pytest.fixture
def budget(request: pytest.FixtureRequest) -> Budget:
    """This test's part of the time: each attack has its share, divided among its cases."""
    total = float(os.environ.get("TORTURE_SECONDS", "600"))
    attacks = [
        item
        for item in request.session.items
        if isinstance(item, pytest.Function) and "budget" in item.fixturenames
    ]
    shares = {_attack_of(item): _share_of(item) for item in attacks}
    cases = sum(_attack_of(item) == _attack_of(request.node) for item in attacks)
    return Budget(total * _share_of(request.node) / sum(shares.values()) / cases)


def _attack_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _share_of(item: pytest.Item) -> float:
    marker = item.get_closest_marker("share")
    return float(marker.args[0]) if marker is not None else 1.0


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is such a thing, so that syncing costs nothing."""
    memory = Path("/dev/shm")
    root = memory if os.access(memory, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=root, prefix="sessiontree-torture-") as folder:
        yield Path(folder)


@pytest.fixture
def rng(seed: int) -> random.Random:
    print(f"TORTURE_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def figures(request: pytest.FixtureRequest, seed: int) -> Iterator[Callable[[str, float], None]]:
    """Count what was done; the sums go to a file beside the benchmarks."""
    counted: dict[str, float] = {}

    def count(name: str, amount: float = 1) -> None:
        counted[name] = counted.get(name, 0) + amount

    yield count
    print(json.dumps(counted))
    record.note(request.node.name, counted)
