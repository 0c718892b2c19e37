"""Which agent is picked, and what it takes for a provider to be set up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sessiontree.agents import create_agent
from sessiontree.agents.clients import api_name, make_client
from sessiontree.agents.failures import ModelCallError
from sessiontree.agents.offline import OfflineAgent
from sessiontree.agents.providers import (
    how_to_set_up,
    is_set_up,
    own_variable,
    without_keys,
)
from sessiontree.agents.pydantic_ai import PydanticAIAgent
from sessiontree.agents.tools.base import Confirmation
from sessiontree.runtime.models import Model, ModelNotFoundError, ModelRegistry


async def test_without_any_key_it_is_the_offline_agent_and_says_why(project: Path) -> None:
    choice = create_agent(None, project, environ={})
    assert isinstance(choice.agent, OfflineAgent)
    assert choice.is_offline
    assert choice.model.ref == "offline/offline"
    assert choice.reason.startswith("No API key found: set ANTHROPIC_API_KEY")


async def test_a_key_picks_a_model_of_that_provider(project: Path) -> None:
    registry = ModelRegistry.load()
    for provider, variable in (("openai", "OPENAI_API_KEY"), ("google", "GEMINI_API_KEY")):
        choice = create_agent(None, project, environ={variable: "k"}, registry=registry)
        assert isinstance(choice.agent, PydanticAIAgent)
        assert not choice.is_offline
        assert choice.model.provider == provider
        assert choice.agent.model == choice.model
        assert choice.reason == f"{provider} is set up"


async def test_the_default_model_is_preferred_if_it_can_be_used(project: Path) -> None:
    registry = ModelRegistry([Model("openai", "a"), Model("anthropic", "b")], default="anthropic/b")
    both = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    assert create_agent(None, project, environ=both, registry=registry).model.ref == "anthropic/b"
    one = {"OPENAI_API_KEY": "k"}
    assert create_agent(None, project, environ=one, registry=registry).model.ref == "openai/a"


async def test_a_model_whose_provider_is_not_set_up_gives_the_offline_agent(
    project: Path,
) -> None:
    choice = create_agent("anthropic/claude-x", project, environ={"OPENAI_API_KEY": "k"})
    assert choice.is_offline
    assert choice.reason == '"anthropic" is not set up: set ANTHROPIC_API_KEY'


async def test_the_users_own_table_of_models_counts(project: Path, home: Path) -> None:
    table = home / ".sessiontree" / "agent" / "models.toml"
    table.parent.mkdir(parents=True)
    table.write_text('default = "mine/m"\n[[models]]\nprovider = "mine"\nid = "m"\nimages = true\n')
    choice = create_agent(None, project, environ={"MINE_BASE_URL": "http://x", "GROQ_API_KEY": "k"})
    assert choice.model.ref == "mine/m"
    assert choice.model.images


async def test_any_reference_is_taken_at_its_word(project: Path) -> None:
    environ = {"MY_GATEWAY_BASE_URL": "http://127.0.0.1:9/v1"}
    choice = create_agent("my-gateway/org/model:free", project, environ=environ)
    assert choice.model == Model("my-gateway", "org/model:free")
    assert isinstance(choice.agent, PydanticAIAgent)
    with pytest.raises(ModelNotFoundError):
        create_agent("no-such-model-anywhere", project, environ=environ)


async def test_the_offline_agent_can_be_asked_for(project: Path) -> None:
    for name in ("offline", "offline/offline"):
        choice = create_agent(name, project, environ={"ANTHROPIC_API_KEY": "k"})
        assert choice.is_offline
        assert choice.reason == "The offline agent was asked for"


async def test_commands_do_not_see_the_keys_of_providers(project: Path) -> None:
    async def yes(_: Confirmation) -> bool:
        return True

    async def silent(_: str) -> None:
        return None

    environ = {
        "PATH": "/usr/bin:/bin",
        "ANTHROPIC_API_KEY": "secret-1",
        "MY_GATEWAY_API_KEY": "secret-2",
        "MY_GATEWAY_BASE_URL": "http://127.0.0.1:9/v1",
        "OTHER": "visible",
    }
    block = {"id": "1", "name": "bash", "arguments": {"command": "env"}}
    choice = create_agent("my-gateway/m", project, environ=environ, confirm=yes)
    result = await choice.agent.toolbox.run(block, report=silent)
    shown = result["content"][0]["text"]
    assert "OTHER=visible" in shown
    assert "secret" not in shown
    open_handed = create_agent(
        "my-gateway/m", project, environ=environ, confirm=yes, hide_keys=False
    )
    assert open_handed.agent.toolbox is not choice.agent.toolbox


async def test_the_projects_own_instructions_are_part_of_the_system_prompt(
    project: Path, secret: Path
) -> None:
    environ = {"ANTHROPIC_API_KEY": "k"}
    plain = create_agent(None, project, environ=environ).agent.system_prompt or ""
    assert str(project) in plain
    (project / "AGENTS.md").write_text("Use tabs.\n")
    prompt = create_agent(None, project, environ=environ).agent.system_prompt or ""
    assert prompt.endswith("Use tabs.")
    (project / "AGENTS.md").unlink()
    (project / "AGENTS.md").symlink_to(secret)
    assert create_agent(None, project, environ=environ).agent.system_prompt == plain


def test_providers_are_told_from_the_environment() -> None:
    environ = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "", "OLLAMA_BASE_URL": "http://x"}
    assert is_set_up("anthropic", environ)
    assert is_set_up("ollama", environ)
    assert not is_set_up("openai", environ)
    assert is_set_up("openai-chat", {"OPENAI_API_KEY": "k"})
    assert not is_set_up("openai", {})
    assert is_set_up("my.own-gateway", {"MY_OWN_GATEWAY_BASE_URL": "http://x"})
    assert own_variable("a--b", "_API_KEY") == "A_B_API_KEY"
    assert how_to_set_up("google") == '"google" is not set up: set GOOGLE_API_KEY or GEMINI_API_KEY'


def test_hiding_keys_hides_nothing_else() -> None:
    environ = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "u", "AWS_PROFILE": "p", "HOME": "/h"}
    assert without_keys(environ) == {"OPENAI_BASE_URL": "u", "AWS_PROFILE": "p", "HOME": "/h"}


@pytest.mark.parametrize(
    ("model", "environ", "kind", "api"),
    [
        (
            "anthropic/claude-test-5",
            {"ANTHROPIC_API_KEY": "k"},
            "AnthropicModel",
            "anthropic-messages",
        ),
        ("openai/gpt-5", {"OPENAI_API_KEY": "k"}, "OpenAIResponsesModel", "openai-responses"),
        ("openai-chat/gpt-5", {"OPENAI_API_KEY": "k"}, "OpenAIChatModel", "openai-completions"),
        (
            "openai/llama",
            {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
            "OpenAIChatModel",
            "openai-completions",
        ),
        ("google/gemini-3-pro", {"GOOGLE_API_KEY": "k"}, "GoogleModel", "google-generative-ai"),
        ("groq/openai/gpt-oss-20b", {"GROQ_API_KEY": "k"}, "OpenAIChatModel", "openai-completions"),
        (
            "mine/x",
            {"MINE_BASE_URL": "http://127.0.0.1:9"},
            "OpenAIChatModel",
            "openai-completions",
        ),
    ],
)
def test_each_provider_is_spoken_to_in_its_language(
    monkeypatch: pytest.MonkeyPatch, model: str, environ: dict[str, str], kind: str, api: str
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    provider, _, model_id = model.partition("/")
    client = make_client(Model(provider, model_id), environ)
    assert type(client).__name__ == kind
    assert client.model_name == model_id
    assert api_name(client) == api


def test_a_client_without_its_key_is_refused_with_what_to_do() -> None:
    with pytest.raises(ModelCallError, match="set XAI_API_KEY"):
        make_client(Model("xai", "grok"), {})


def test_importing_the_package_loads_neither_agent() -> None:
    code = (
        "import sys, sessiontree.agents, sessiontree.agents.tools.grep_worker\n"
        "print([m for m in ('pydantic_ai', 'asyncio', 'openai', 'msgspec') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_offline_agent_needs_no_optional_package(project: Path) -> None:
    code = (
        "import sys; sys.modules['pydantic_ai'] = None\n"
        "from sessiontree.agents import create_agent\n"
        "choice = create_agent(None, sys.argv[1], environ={'ANTHROPIC_API_KEY': 'k'})\n"
        "print(choice.is_offline, choice.reason)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(project)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == (
        'True pydantic-ai is not installed: pip install "sessiontree[agent]"'
    )


@pytest.mark.parametrize("module", ["pydantic_ai", "messages"])
def test_what_needs_the_extra_says_how_to_get_it_when_it_is_imported(module: str) -> None:
    code = f"import sys; sys.modules['pydantic_ai'] = None\nimport sessiontree.agents.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        'ModuleNotFoundError: pydantic-ai is not installed: pip install "sessiontree[agent]"'
    )
