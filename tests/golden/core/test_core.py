"""Golden files written by hand from the documents, and what every one of them must give.

The files are data: nothing here writes to them, each test works on a copy.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.samples import texts

from sessiontree import SessionContext, SessionManager, convert_to_llm

HERE = Path(__file__).parent
FILES = sorted(path.name for path in HERE.glob("*.jsonl"))
SOUND = [name for name in FILES if name not in ("version-1.jsonl", "version-2.jsonl")]
Opener = Callable[[str], SessionManager]


@pytest.fixture
def open_copy(tmp_path: Path) -> Opener:
    def work(name: str) -> SessionManager:
        shutil.copy(HERE / name, tmp_path / name)
        return SessionManager.open(tmp_path / name)

    return work


def facts(context: SessionContext) -> dict[str, Any]:
    return {
        "said": texts(context.messages),
        "roles": [message["role"] for message in context.messages],
        "thinking": context.thinking_level,
        "models": context.models,
        "rules": context.injected_ttsr_rules,
        "mode": (context.mode, context.mode_data),
    }


def test_version_1(open_copy: Opener) -> None:
    session = open_copy("version-1.jsonl")
    assert facts(session.build_session_context()) == {
        "said": ["Files were listed.", "And now?", "lint is clean", "Nothing has changed."],
        "roles": ["compactionSummary", "user", "custom", "assistant"],
        "thinking": "high",
        "models": {"default": "openai/gpt-4o"},
        "rules": [],
        "mode": ("none", None),
    }
    assert len(session.get_branch()) == len(session.get_entries()) == 10
    assert session.get_entries()[6].data["firstKeptEntryId"] == session.get_entries()[5].id


def test_version_2(open_copy: Opener, tmp_path: Path) -> None:
    session = open_copy("version-2.jsonl")
    assert facts(session.build_session_context()) == {
        "said": ["Which parser?", "The second one.", "20 ms", "Take it."],
        "roles": ["user", "assistant", "custom", "user"],
        "thinking": "off",
        "models": {"default": "anthropic/claude-sonnet-4-5"},
        "rules": [],
        "mode": ("none", None),
    }
    assert [found.id for found in session.get_children("a0000001")] == ["a0000002", "b0000002"]
    old = (HERE / "version-2.jsonl").read_bytes().splitlines()
    new = (tmp_path / "version-2.jsonl").read_bytes().splitlines()
    assert [at for at, line in enumerate(new) if line != old[at]] == [0, 4]


def test_version_3(open_copy: Opener) -> None:
    session = open_copy("version-3.jsonl")
    assert facts(session.build_session_context()) == {
        "said": ["Start", "Done.", "Summary of abandoned path", "Injected context"],
        "roles": ["user", "assistant", "branchSummary", "custom"],
        "thinking": "off",
        "models": {"default": "anthropic/claude-sonnet-4-5"},
        "rules": ["ruleA", "ruleB"],
        "mode": ("plan", {"planFile": "/tmp/plan.md"}),
    }
    assert session.session_name == "optional session title"
    assert session.get_label("a1b2c3d4") == "checkpoint"
    session.branch("d1e2f3a4")
    assert facts(session.build_session_context()) == {
        "said": ["Conversation summary", "Done."],
        "roles": ["compactionSummary", "assistant"],
        "thinking": "high",
        "models": {"default": "openai/gpt-4o"},
        "rules": [],
        "mode": ("none", None),
    }


def test_pi(open_copy: Opener) -> None:
    session = open_copy("pi.jsonl")
    assert facts(session.build_session_context()) == {
        "said": ["Hello", "Branch explored approach A...", "Injected context..."],
        "roles": ["user", "branchSummary", "custom"],
        "thinking": "off",
        "models": {},
        "rules": [],
        "mode": ("none", None),
    }
    assert session.session_name == "Refactor auth module"
    assert session.get_label("a1b2c3d4") == "checkpoint-1"
    session.branch("f6a7b8c9")
    assert facts(session.build_session_context()) == {
        "said": ["User discussed X, Y, Z...", "output"],
        "roles": ["compactionSummary", "toolResult"],
        "thinking": "high",
        "models": {"default": "openai/gpt-4o"},
        "rules": [],
        "mode": ("none", None),
    }


@pytest.mark.parametrize(
    ("name", "title"), [("omp.jsonl", "Older title"), ("omp-title-slot.jsonl", "Fix the build")]
)
def test_omp_with_and_without_its_title_slot(open_copy: Opener, name: str, title: str) -> None:
    session = open_copy(name)
    assert session.session_name == title
    assert facts(session.build_session_context()) == {
        "said": ["Plan first", "After the reset", "Here it is."],
        "roles": ["custom", "user", "assistant"],
        "thinking": "off",
        "models": {"default": "anthropic/claude-sonnet-4-5"},
        "rules": [],
        "mode": ("none", None),
    }
    session.branch("10000007")
    assert texts(session.build_session_context().messages) == ["Before the reset", "Noted."]


def test_xcsh(open_copy: Opener) -> None:
    session = open_copy("xcsh.jsonl")
    context = session.build_session_context()
    assert facts(context) == {
        "said": ["None", "Push it — vorsichtig, bitte 🙂", "Pushed."],
        "roles": ["bashExecution", "user", "assistant"],
        "thinking": "off",
        "models": {"default": "anthropic/claude-sonnet-4-5"},
        "rules": ["no-force-push", "be-brief", "say-why"],
        "mode": ("none", None),
    }
    assert texts(convert_to_llm(context.messages))[0] == "Ran `git status`\n```\nclean\n```"


@pytest.mark.parametrize("name", FILES)
def test_every_golden_file_is_sound(open_copy: Opener, name: str) -> None:
    session = open_copy(name)
    assert session.warnings == []
    records = [json.loads(line) for line in (HERE / name).read_bytes().splitlines()]
    heads = [record for record in records if record["type"] in ("session", "title")]
    assert len(session.get_entries()) == len(records) - len(heads)
    assert session.header["cwd"] == heads[-1]["cwd"]


@pytest.mark.parametrize("name", SOUND)
def test_a_rewrite_gives_every_byte_back(open_copy: Opener, tmp_path: Path, name: str) -> None:
    session = open_copy(name)
    session.build_session_context()
    session.get_tree()
    session.rewrite_entries()
    assert (tmp_path / name).read_bytes() == (HERE / name).read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_a_fork_says_the_same(open_copy: Opener, tmp_path: Path, name: str) -> None:
    session = open_copy(name)
    forked = SessionManager.fork_from(HERE / name, "/elsewhere", tmp_path / "forks")
    assert forked.build_session_context() == session.build_session_context()
    assert len(forked.get_entries()) == len(session.get_entries())


@pytest.mark.parametrize("name", FILES)
def test_each_goes_on_in_its_own_dialect(open_copy: Opener, tmp_path: Path, name: str) -> None:
    with open_copy(name) as session:
        session.append_model_change("x/y")
        last = json.loads((tmp_path / name).read_bytes().splitlines()[-1])
    expected = {"modelId"} if name in ("pi.jsonl", "version-1.jsonl") else {"model"}
    assert expected <= set(last)
