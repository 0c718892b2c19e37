"""Errors as values: each can be imported by its name, copied, and sent to another process."""

from __future__ import annotations

import copy
import importlib
import multiprocessing
import pickle
import pkgutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from tests.samples import assistant, user

import sessiontree
from sessiontree import SessionManager, errors, resolve_session
from sessiontree.agents.failures import BrokenOffError, ModelCallError
from sessiontree.agents.response_limits import ResponseTooLargeError
from sessiontree.agents.tools.base import ToolError
from sessiontree.agents.tools.confinement import ConfinementError
from sessiontree.cli.output import Failed
from sessiontree.config import ConfigError
from sessiontree.core import compaction
from sessiontree.discovery.adapters import UnknownAgentError
from sessiontree.discovery.native_agent import NoNativeCommandError
from sessiontree.errors import SessionTreeError
from sessiontree.export.bundle_archive import BundleError
from sessiontree.maintenance.kept_restoring import RestoreRefusedError
from sessiontree.maintenance.schedules import ScheduleError
from sessiontree.profiles import UnknownProfileError
from sessiontree.runtime.agent import AgentBusyError
from sessiontree.runtime.models import AmbiguousModelError, ModelNotFoundError
from sessiontree.runtime.navigation import NotAPromptError
from sessiontree.runtime.operations import OperationInProgressError
from sessiontree.runtime.sessions import NothingToForkError
from sessiontree.serving.filtered_search import FilterError
from sessiontree.serving.listener import PortError
from sessiontree.session.worker import SessionClosedError
from sessiontree.tui.text_editor import EditorError
from sessiontree.user_hooks import HooksError
from sessiontree.web.changes import NotOursError

EXAMPLES = [
    SessionTreeError("of no special kind"),
    errors.NotASessionError("/x/y", "a picture"),
    errors.EntryNotFoundError("abc"),
    errors.EntryExistsError("abc"),
    errors.ConflictError("/x/y", "abc", "1"),
    errors.SessionExistsError("abc", "/x/y"),
    errors.InvalidIdError("a/b"),
    errors.StoreError("no such store"),
    errors.MissingSchemaError("no tables"),
    errors.SessionNotFoundError("abc", "No session at all."),
    errors.AmbiguousSessionError("abc", ["one", "two"]),
    errors.SessionBusyError("/x/y", 2.5),
    errors.PersistenceError("/x/y", "the disk is full"),
    UnknownProfileError("emacs"),
    UnknownAgentError("emacs"),
    NoNativeCommandError("Codex is not installed: no codex in PATH"),
    compaction.CompactionError("no"),
    compaction.AlreadyCompactedError(),
    compaction.NothingToCompactError(),
    compaction.CompactionCancelledError(),
    BundleError("/x/y.zip", "no manifest"),
    RestoreRefusedError("something else is there"),
    ScheduleError("no cron"),
    NotOursError("claude-code"),
    NothingToForkError(),
    NotAPromptError("abc"),
    OperationInProgressError("fork", "prompt"),
    SessionClosedError(),
    AgentBusyError("later"),
    ModelNotFoundError("a/b"),
    AmbiguousModelError("b", iter(["a/b", "c/b"])),
    ModelCallError("no credit"),
    ResponseTooLargeError("too much"),
    BrokenOffError(),
    errors.ClockError(253_402_300_800_000),
    ConfinementError("../x", "outside of the project"),
    PortError("port 80 is taken"),
    FilterError('Unknown filter "x:"'),
    ConfigError("unknown setting"),
    EditorError("vi ended with exit code 1"),
    HooksError("hooks.py: can't be read"),
    ToolError("exit code 1", {"exitCode": 1}),
    Failed("nothing found", 3),
]


def name_of(error: object) -> str:
    return type(error).__name__


def defined_errors(base: type[SessionTreeError] = SessionTreeError) -> Iterator[type]:
    """A class of error and all that the package derives from it."""
    yield base
    for kind in base.__subclasses__():
        if kind.__module__.startswith("sessiontree."):
            yield from defined_errors(kind)


def import_everything() -> None:
    for module in pkgutil.walk_packages(sessiontree.__path__, "sessiontree."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)


def assert_same(found: BaseException, error: BaseException) -> None:
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert found.args == error.args
    assert vars(found) == vars(error)


def test_there_is_an_example_of_every_error() -> None:
    import_everything()
    assert set(defined_errors()) == {type(error) for error in EXAMPLES}


INNER = (
    *("sessiontree.agents.", "sessiontree.cli.", "sessiontree.serving.", "sessiontree.web."),
    *("sessiontree.config", "sessiontree.tui.", "sessiontree.user_hooks"),
)
"""What tells a model that a tool failed, ends an agent's answer, a command or a server, or belongs
to the program alone."""


def test_every_other_error_can_be_imported_from_the_package() -> None:
    import_everything()
    for kind in defined_errors():
        if not kind.__module__.startswith(INNER):
            assert kind.__name__ in sessiontree.__all__
            assert getattr(sessiontree, kind.__name__) is kind


def test_every_error_is_told_of_in_the_guide() -> None:
    guide = (Path(__file__).parents[2] / "docs/building.md").read_text(encoding="utf-8")
    for name in sessiontree.__all__:
        assert not name.endswith("Error") or f"`{name}`" in guide, name


@pytest.mark.parametrize("error", EXAMPLES, ids=name_of)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_is_the_same_after_pickling(error: SessionTreeError, protocol: int) -> None:
    assert_same(pickle.loads(pickle.dumps(error, protocol)), error)


@pytest.mark.parametrize("error", EXAMPLES, ids=name_of)
def test_an_error_can_be_copied(error: SessionTreeError) -> None:
    for copied in (copy.copy(error), copy.deepcopy(error)):
        assert copied is not error
        assert_same(copied, error)


def test_notes_on_an_error_come_along() -> None:
    error = errors.PersistenceError("/x/y", "the disk is full")
    error.add_note("while saving the summary")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["while saving the summary"]


def test_an_ambiguous_name_comes_along_with_its_candidates(tmp_path: Path) -> None:
    for number in (1, 2):
        with SessionManager.create(tmp_path, tmp_path / "s") as session:
            session.append_message(user(str(number)))
            session.append_message(assistant("yes"))
            session.set_session_name("twice")
    with pytest.raises(errors.AmbiguousSessionError) as caught:
        resolve_session("twice", tmp_path, session_dir=tmp_path / "s")
    assert len(caught.value.candidates) == 2
    assert_same(pickle.loads(pickle.dumps(caught.value)), caught.value)


def test_an_error_comes_back_from_another_process(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        with pytest.raises(errors.PersistenceError) as caught:
            pool.submit(SessionManager.open, tmp_path).result()
        with pytest.raises(errors.NotASessionError, match="was not modified"):
            pool.submit(SessionManager.open, __file__).result()
    assert caught.value.path == str(tmp_path)
